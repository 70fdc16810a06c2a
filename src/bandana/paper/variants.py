"""Ablations: Bandana's recipe with a few options changed, told apart again by those options."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from bandana.config import nest
from bandana.paper.artifact import Piece, Scope
from bandana.paper.grid import Reading, Results
from bandana.paper.names import called
from bandana.paper.pieces import trainings

Variants = Mapping[str, Mapping[str, Any]]
"""Changes to a recipe, in dotted options, by name."""


def variant_pieces(scope: Scope, variants: Variants, datasets: Sequence[str]) -> list[Piece]:
    """Trainings of Bandana for node classification with the changes of every variant."""
    found = [trainings(scope, "node", ["bandana"], datasets, changes) for changes in variants.values()]
    return [piece for pieces in found for piece in pieces]


def variant_of(variants: Variants) -> Callable[[Mapping[str, Any]], str | None]:
    """Names the variant that an experiment is: the one with the most changes that all hold in it."""
    by_size = sorted(variants, key=lambda name: -len(variants[name]))
    wanted = {name: nest(variants[name]) for name in by_size}
    return lambda table: next((name for name, changes in wanted.items() if _holds(changes, table)), None)


def contrast_notes(reference: str, results: Results, reading: Reading) -> list[str]:
    """For every column, how far each row lies from the reference row over the seeds that both have."""
    from scipy.stats import ttest_rel

    figures = {
        (*place, int(piece.arguments["seed"])): value
        for piece, result in results
        if (place := reading.place(piece)) is not None
        and result.values is not None
        and (value := reading.value(result.values)) is not None
    }
    places = dict.fromkeys((column, row) for row, column, _ in figures if row != reference)
    notes = []
    for column, members in groupby(sorted(places, key=lambda place: place[0]), key=lambda place: place[0]):
        words = []
        for _, row in members:
            seeds = [seed for at, of, seed in figures if (at, of) == (row, column) and (reference, of, seed) in figures]
            other = [figures[row, column, seed] for seed in seeds]
            base = [figures[reference, column, seed] for seed in seeds]
            if len(seeds) > 1:
                difference = sum(other) / len(other) - sum(base) / len(base)
                words.append(f"{row} {difference:+.2f} (p = {ttest_rel(other, base).pvalue:.2g})")
        if words:
            notes.append(
                f"{called(column)}, against {reference}, paired by seed, two-sided t test: {'; '.join(words)}."
            )
    return notes


def file_notes(results: Results, reading: Reading) -> list[str]:
    """Which rows of a table come from which file, where there are several: their kernels may differ."""
    rows: dict[str, dict[str, None]] = {}
    for piece, result in results:
        if (place := reading.place(piece)) is not None and result.values is not None:
            rows.setdefault(result.file or "computed here", {})[place[0]] = None
    if len(rows) < 2:
        return []
    words = " ".join(f"{file}: {'; '.join(names)}." for file, names in rows.items())
    return [f"Equal seeds need not agree bit for bit across files, whose kernels may differ. {words}"]


def _holds(changes: Mapping[str, Any], table: Mapping[str, Any]) -> bool:
    return all(
        _holds(value, table[key]) if isinstance(value, Mapping) else table[key] == value
        for key, value in changes.items()
    )
