"""From results to a table: every piece falls into a cell, and every cell gets a mean over seeds and a verdict."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeAlias

from bandana.errors import WANT_OF_MEMORY
from bandana.paper.artifact import PRODUCTS, Cell, Piece, Result, Score, Sheet, State
from bandana.paper.names import called
from bandana.paper.published import Printed, published
from bandana.paper.sentences import sentence, without_result
from bandana.reporting.compare import Over, chance_note, judge, last_digit, out_of_memory

Results: TypeAlias = Sequence[tuple[Piece, Result]]
Place: TypeAlias = tuple[str, str]
"""Row and column."""
Published: TypeAlias = Mapping[Place, Printed]

ENDED_FOR_MEMORY = (*WANT_OF_MEMORY, "MemoryError")
"""How torch and Python say that memory did not suffice."""

RUNS_OVER: Mapping[Over | None, str] = {"probes": "probes of one encoder", "seeds": "runs", None: ""}
"""What the published deviations run over, in words."""


class Reading(NamedTuple):
    """How a table reads results.

    Attributes:
        place: Row and column that a piece belongs to; None if it is of no concern here.
        value: The figure in a result's values; None if it has none.
        protocol: How the figures come about, in words.
        over: What the published deviations run over; None for figures that nothing is random about.
        without: Why a result may have values and not this figure.
    """

    place: Callable[[Piece], Place | None]
    value: Callable[[Mapping[str, Any]], float | None]
    protocol: str
    over: Over | None
    without: str = "the method gives no such figure"


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
    notes = [*notes, *absence_notes(cells)]
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
    published: Published,
    *,
    protocol: str,
    over: Over,
) -> Sheet:
    """A table of one data set: methods against metrics.

    Args:
        title: Of the table.
        results: Of trainings.
        dataset: Whose trainings count.
        columns: For each column, the nested names below which a training's values hold the share.
        published: Printed cells.
        protocol: How the figures come about.
        over: What the published deviations run over.
    """

    def place_in(column: str) -> Callable[[Piece], Place | None]:
        method = of_training(lambda table: table["method"] if table["dataset"] == dataset else None)
        return lambda piece: None if (place := method(piece)) is None else (place[0], column)

    readings = [Reading(place_in(column), percent(*names), protocol, over) for column, names in columns.items()]
    return beside([make_sheet(title, results, reading, published) for reading in readings])


def beside(sheets: Sequence[Sheet]) -> Sheet:
    """Tables as one, with the rows and columns of all, the title of the first, and every note once."""
    cells = tuple(cell for sheet in sheets for cell in sheet.cells)
    of_parts = {note for sheet in sheets for note in absence_notes(sheet.cells)}
    notes = [note for sheet in sheets for note in sheet.notes if note not in of_parts]
    return replace(
        sheets[0],
        rows=tuple(dict.fromkeys(row for sheet in sheets for row in sheet.rows)),
        columns=tuple(dict.fromkeys(column for sheet in sheets for column in sheet.columns)),
        cells=cells,
        notes=tuple(dict.fromkeys([*notes, *absence_notes(cells)])),
    )


def absence_notes(cells: Sequence[Cell]) -> list[str]:
    """Why figures are missing: every reason once, with the columns or rows that it holds for."""
    reasons: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.missing:
            memory = cell.state == "out of memory"
            reason = "out of memory, as the note of each cell says" if memory else " ".join(cell.missing.split())
            reasons.setdefault(reason, []).append(cell)
    return [f"{_whereabouts(absent, cells)}: {reason.rstrip('.')}." for reason, absent in reasons.items()]


def _whereabouts(absent: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """Names of the columns that some cells fill, or of the rows; else of the columns that they are in, with counts."""
    columns, all_columns = Counter(cell.column for cell in absent), Counter(cell.column for cell in cells)
    rows, all_rows = Counter(cell.row for cell in absent), Counter(cell.row for cell in cells)
    for parts, wholes in ((columns, all_columns), (rows, all_rows)):
        if all(number == wholes[name] for name, number in parts.items()):
            return ", ".join(map(called, parts))
    return ", ".join(
        called(name) if number == all_columns[name] else f"{called(name)} ({number} of {all_columns[name]} rows)"
        for name, number in columns.items()
    )


def with_printed_ranks(ranks: Sheet, task: str) -> Sheet:
    """Average ranks with a note on whether the published ones, recomputed from their cells, are those that are printed.

    Where they differ, both are named.
    """
    as_printed = {row: rank.mean for (row, column), rank in published("average-ranks").items() if column == task}
    recomputed = {
        cell.row: cell.published.mean
        for cell in ranks.cells
        if cell.column == "all cells" and cell.published and cell.row in as_printed
    }
    apart = [
        f"{called(row)} {as_printed[row]:.1f} and {rank:.2f}"
        for row, rank in recomputed.items()
        if abs(rank - as_printed[row]) > 0.05 + 1e-9
    ]
    found = f"As printed and recomputed: {', '.join(apart)}." if apart else "They are those that the paper prints."
    note = f"Published ranks are recomputed from the published figures. {found}"
    return replace(ranks, notes=(*ranks.notes, note)) if recomputed else ranks


def make_cell(place: Place, members: Results, reading: Reading, printed: Printed | None) -> Cell:
    """One cell over all of its seeds; seeds that failed are named beside those that did not."""
    published = None if printed is None else printed.score
    figures = [reading.value(result.values) for _, result in members if result.values is not None]
    ours = score_of([figure for figure in figures if figure is not None])
    missing = ""
    failures = [result.failure for _, result in members if result.values is None]
    if ours is None:
        failure = f"not run: {reading.without}" if figures else failures[0]
        state, note, missing = state_of(failure), failure, failure
    else:
        over = reading.over
        state, note = by_digits(ours, published) if over is None else judge(ours, published, published_over=over)
        if failures:
            note += f" {without_result(len(failures), len(members), failures[0])}."
    remarks = [] if printed is None else [printed.text and f"The paper prints {printed.text}.", printed.note]
    return Cell(
        row=place[0],
        column=place[1],
        ours=ours,
        published=published,
        state=state,
        note=" ".join(map(sentence, filter(None, [note, *remarks]))),
        protocol=reading.protocol + _precision(members),
        origins=tuple(
            dict.fromkeys(result.origin for _, result in members if result.origin and result.values is not None)
        ),
        missing=missing,
        printed="" if printed is None else printed.text,
        published_over=RUNS_OVER[reading.over],
    )


def _precision(members: Results) -> str:
    """Words for products of matrices that were not computed in full."""
    reduced = sorted(precisions_of(result for _, result in members) - {"float32"})
    return f"{PRODUCTS}{' and '.join(reduced)}" if reduced else ""


def precisions_of(results: Iterable[Result]) -> set[str]:
    """In what products of matrices were computed."""
    return {result.values.get("precision", "float32") for result in results if result.values is not None}


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
    difference = ours.mean - published.mean
    if abs(difference) <= 0.5 * 10.0 ** last_digit(published) * (1 + 1e-9):
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
