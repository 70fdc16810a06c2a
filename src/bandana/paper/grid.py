"""From results to a table: every piece falls into a cell, and every cell gets a mean over seeds and a verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeAlias

from bandana.errors import WANT_OF_MEMORY
from bandana.paper.artifact import Cell, Piece, Result, Score, Sheet, State
from bandana.paper.published import Printed
from bandana.reporting.compare import Over, chance_note, judge, out_of_memory

Results: TypeAlias = Sequence[tuple[Piece, Result]]
Place: TypeAlias = tuple[str, str]
"""Row and column."""
Published: TypeAlias = Mapping[Place, Printed]

ENDED_FOR_MEMORY = (*WANT_OF_MEMORY, "MemoryError", "ended with code -9")
"""How torch, Python, and a system that ends processes say that memory did not suffice."""


class Reading(NamedTuple):
    """How a table reads results.

    Attributes:
        place: Row and column that a piece belongs to; None if it is of no concern here.
        value: The figure in a result's values; None if it has none.
        protocol: How the figures come about, in words.
        over: What the published deviations run over; None for figures that nothing is random about.
    """

    place: Callable[[Piece], Place | None]
    value: Callable[[Mapping[str, Any]], float | None]
    protocol: str
    over: Over | None


def make_sheet(
    title: str,
    results: Results,
    reading: Reading,
    published: Published,
    *,
    notes: Sequence[str] = (),
    highest_is_best: bool | None = True,
) -> Sheet:
    """A table with the rows and columns in the order in which the pieces name them."""
    members: dict[Place, list[tuple[Piece, Result]]] = {}
    for piece, result in results:
        if (place := reading.place(piece)) is not None:
            members.setdefault(place, []).append((piece, result))
    cells = [make_cell(place, group, reading, published.get(place)) for place, group in members.items()]
    if reading.over is not None and any(cell.published for cell in cells):
        notes = [*notes, chance_note(cells, published_over=reading.over)]
    return Sheet(
        title=title,
        rows=tuple(dict.fromkeys(row for row, _ in members)),
        columns=tuple(dict.fromkeys(column for _, column in members)),
        cells=tuple(cells),
        notes=tuple(notes),
        highest_is_best=highest_is_best,
    )


def metric_sheet(
    title: str,
    results: Results,
    dataset: str,
    columns: Mapping[str, Sequence[str]],
    protocol: str,
    published: Published,
) -> Sheet:
    """A table of one data set: methods against metrics.

    Args:
        title: Of the table.
        results: Of trainings.
        dataset: Whose trainings count.
        columns: For each column, the nested names below which a training's values hold the share.
        protocol: How the figures come about.
        published: Printed cells.
    """

    def place_in(column: str) -> Callable[[Piece], Place | None]:
        method = of_training(lambda table: table["method"] if table["dataset"] == dataset else None)
        return lambda piece: None if (place := method(piece)) is None else (place[0], column)

    readings = [Reading(place_in(column), percent(*names), protocol, "probes") for column, names in columns.items()]
    return beside([make_sheet(title, results, reading, published) for reading in readings])


def beside(sheets: Sequence[Sheet]) -> Sheet:
    """Tables of the same rows as one, with the title of the first and every note once."""
    return replace(
        sheets[0],
        columns=tuple(dict.fromkeys(column for sheet in sheets for column in sheet.columns)),
        cells=tuple(cell for sheet in sheets for cell in sheet.cells),
        notes=tuple(dict.fromkeys(note for sheet in sheets for note in sheet.notes)),
    )


def make_cell(place: Place, members: Results, reading: Reading, printed: Printed | None) -> Cell:
    """One cell over all of its seeds; seeds that failed are named beside those that did not."""
    published = None if printed is None else printed.score
    figures = [reading.value(result.values) for _, result in members if result.values is not None]
    ours = score_of([figure for figure in figures if figure is not None])
    failures = [result.failure for _, result in members if result.values is None]
    if ours is None:
        failure = failures[0] if failures else "not run: the method gives no such figure"
        state, note = state_of(failure), failure
    else:
        over = reading.over
        state, note = by_digits(ours, published) if over is None else judge(ours, published, published_over=over)
        if failures:
            note += f" {len(failures)} of {len(members)} seeds have no result ({failures[0]})."
    if printed is not None:
        note = " ".join(filter(None, [note, printed.text and f"The paper prints {printed.text}.", printed.note]))
    return Cell(
        row=place[0],
        column=place[1],
        ours=ours,
        published=published,
        state=state,
        note=note,
        protocol=reading.protocol + _precision(members),
        origins=tuple(dict.fromkeys(result.origin for _, result in members if result.origin)),
    )


def _precision(members: Results) -> str:
    """Words for products of matrices that were not computed in full."""
    found = {result.values.get("precision", "float32") for _, result in members if result.values is not None}
    reduced = sorted(found - {"float32"})
    return f"; products of matrices in {' and '.join(reduced)}" if reduced else ""


def score_of(figures: Sequence[float]) -> Score | None:
    """Mean and deviation over seeds; None without any."""
    if not figures:
        return None
    return Score(fmean(figures), stdev(figures) if len(figures) > 1 else None, len(figures))


def state_of(failure: str) -> State:
    """The state of a cell that has no figure."""
    if failure.startswith("not run"):
        return "not run"
    wanted_memory = out_of_memory(failure) or any(words in failure for words in ENDED_FOR_MEMORY)
    return "out of memory" if wanted_memory else "failed"


def by_digits(ours: Score, published: Score | None) -> tuple[State, str]:
    """The verdict on figures without chance: the same if they agree in every printed digit."""
    if published is None:
        return "no published figure", "The paper has no figure here."
    last_digit = min(int(Decimal(repr(published.mean)).normalize().as_tuple().exponent), 0)
    difference = ours.mean - published.mean
    if abs(difference) <= 0.5 * 10.0**last_digit * (1 + 1e-9):
        return "same", "Agrees in every printed digit; nothing in it is random."
    return "higher" if difference > 0 else "lower", f"Differs by {difference:+,.4g}; nothing in it is random."


def of_training(row: Callable[[Mapping[str, Any]], str | None] | None = None) -> Callable[[Piece], Place | None]:
    """Places trainings: the method, or what `row` makes of the experiment, against the data set."""

    def place(piece: Piece) -> Place | None:
        table = piece.arguments.get("experiment")
        if table is None:
            return None
        name = table["method"] if row is None else row(table)
        return None if name is None else (name, table["dataset"])

    return place


def percent(*names: str) -> Callable[[Mapping[str, Any]], float | None]:
    """Reads a share below nested names as a percentage."""

    def value(values: Mapping[str, Any]) -> float | None:
        found: Any = values
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
        return None if found is None else 100 * float(found)

    return value
