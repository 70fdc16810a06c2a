"""The one exception a user may see: it names the place, the rule, the value and the next step."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something the user can mend. The command line prints the sentence and exits with code 2, never a traceback."""


def did_you_mean(value: str, choices: Iterable[str]) -> str:
    """A closing hint for a misspelt name: the nearest choice, or all of them."""
    known = sorted(choices)
    near = get_close_matches(value, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Choose from: {', '.join(known)}."
