"""What notes say: remarks as sentences, and what is missing, once for each reason."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from bandana.paper.artifact import Piece, Result

NOT_RUN, NOT_YET, NO_DATA = "not run", "not run yet", "not run: data set missing"
TO_RUN = "; to run it: "
"""Stands between `NOT_YET` and the command."""


def sentence(text: str) -> str:
    """The text with a capital at its beginning and a full stop at its end, unless it has them; nothing for nothing."""
    end = "" if text.endswith((".", "?", "!")) else "."
    return f"{text[0].upper()}{text[1:]}{end}" if text else ""


def without_result(missing: int, wanted: int, failure: str, where: str = "") -> str:
    """Words for seeds that have no result, where others have one."""
    reason = failure.replace(NOT_YET + TO_RUN, "to run them: ")
    return f"{missing} of {wanted} seeds {'has' if missing == 1 else 'have'} no result{where} ({reason})"


def failure_notes(
    results: Iterable[tuple[Piece, Result]],
    name: Callable[[Piece], str],
    point: Callable[[Piece], Hashable] = lambda piece: (),
) -> list[str]:
    """Every reason why pieces have no values once, after the names of those pieces.

    Where others of a name have values, the reason comes with the number of seeds that it holds for.

    Args:
        results: Of all pieces.
        name: What a piece belongs to, in words.
        point: What a piece is a seed of, where several points stand under one name.
    """
    groups: dict[str, list[tuple[Piece, Result]]] = {}
    for piece, result in results:
        groups.setdefault(name(piece), []).append((piece, result))
    members: dict[str, list[str]] = {}
    for group, own in groups.items():
        seeds = [(point(piece), _failure(result)) for piece, result in own]
        for reason in _reasons(seeds):
            members.setdefault(reason, []).append(group)
    return [f"{'; '.join(names)}: {reason}." for reason, names in members.items()]


def _reasons(seeds: Sequence[tuple[Hashable, str]]) -> list[str]:
    """Why seeds, each of a point and with its failure or none, have no values."""
    failures = list(dict.fromkeys(failure for _, failure in seeds if failure))
    if all(failure for _, failure in seeds):
        return failures
    return [_partly(seeds, failure) for failure in failures]


def _partly(seeds: Sequence[tuple[Hashable, str]], failure: str) -> str:
    """A failure with the number of seeds that it holds for at each point; points that are alike are counted."""
    wanted = Counter(point for point, _ in seeds)
    missing = Counter(point for point, found in seeds if found == failure)
    alike = Counter((count, wanted[point]) for point, count in missing.items())
    (first, points), *others = alike.most_common()
    if len(wanted) == 1:
        return without_result(*first, failure)
    more = "".join(f", {count} of {of} at {number}" for (count, of), number in others)
    return without_result(*first, failure, f" at {points} of {len(wanted)} points{more}")


def _failure(result: Result) -> str:
    return "" if result.values is not None else result.failure or NOT_RUN
