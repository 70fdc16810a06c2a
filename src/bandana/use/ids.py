"""From the user's ids to rows and back."""

from collections.abc import Sequence
from typing import Any

from bandana.errors import UserError, did_you_mean


def ids_of(ids: Sequence[Any] | None, num_nodes: int) -> Sequence[Any]:
    """The ids as they are, or 0, 1, 2, … for a graph that came without."""
    return range(num_nodes) if ids is None else ids


def row_of(ids: Sequence[Any], wanted: object) -> int:
    """The row of a node; an id that is a number may be written as text, as a command line does.

    Raises:
        UserError: There is no such id.
    """
    asked = str(wanted)
    for row, known in enumerate(ids):
        if known == wanted or str(known) == asked:
            return row
    hint = did_you_mean(asked, map(str, ids)) if len(ids) <= 20_000 else "Ids are compared letter by letter."
    if len(ids) > 20 and hint.startswith("Choose"):
        hint = f"The ids begin with {', '.join(map(str, ids[:3]))}."
    raise UserError(f"There is no node with the id {asked!r} among {len(ids)}. {hint}")
