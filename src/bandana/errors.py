"""The one exception a user may see: it names the place, the rule, the value and the next step."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something the user can mend. The command line prints the sentence and exits with code 2, never a traceback."""


WANT_OF_MEMORY = ("not enough memory", "allocate memory", "out of memory", "Storage size calculation overflowed")
"""How torch says that memory did not suffice, on a CPU, on a GPU, and for sizes that no memory has."""


def wants_memory(problem: BaseException) -> bool:
    """Whether something failed for want of memory."""
    return isinstance(problem, MemoryError) or any(words in str(problem) for words in WANT_OF_MEMORY)


def first_line(problem: object, most: int = 120) -> str:
    """What went wrong in a line, because some libraries explain themselves over a page."""
    return (str(problem).strip().splitlines() or [""])[0][:most]


def did_you_mean(value: str, choices: Iterable[str]) -> str:
    """A closing hint for a misspelt name: the nearest choice, or all of them."""
    known = sorted(choices)
    near = get_close_matches(value, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Choose from: {', '.join(known)}."
