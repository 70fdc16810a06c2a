"""What a reader must know of a table beside its figures: marks, numbers of seeds, protocols, published deviations."""

from collections.abc import Iterable

from bandana.paper.artifact import PRODUCTS, Sheet
from bandana.paper.names import called
from bandana.paper.sentences import sentence
from bandana.reporting.marks import CELL_MARKS, Mark, shows_seeds


def meanings(sheet: Sheet) -> list[tuple[Mark, str]]:
    """The marks that a table has, with what each of them means there."""
    present = {cell.state for cell in sheet.cells}
    return [(mark, sheet.meanings.get(mark.word, mark.meaning)) for mark in CELL_MARKS if mark.word in present]


def provenance(sheet: Sheet) -> list[str]:
    """Sentences that say how the figures of both sides came about."""
    return [*_protocols(sheet), *_published_deviations(sheet)]


def seed_counts(sheet: Sheet) -> list[str]:
    """A sentence with the number of seeds, or of what else is counted, row by row; none where it does not belong."""
    found: dict[str, list[int]] = {}
    for cell in sheet.cells if shows_seeds(sheet) else ():
        if cell.ours:
            found.setdefault(cell.row, []).append(cell.ours.seeds)
    rows = _by_value((_span(counts), row) for row, counts in found.items())
    whole = len(rows) == 1
    words = ", ".join(
        number if whole else f"{number} ({', '.join(map(called, names))})" for number, names in rows.items()
    )
    return [f"{sheet.counted.capitalize()} behind each of our figures: {words}."] if words else []


def _protocols(sheet: Sheet) -> list[str]:
    """A sentence for each protocol of our figures, with the rows or columns that it holds for unless it holds for all.

    The precision of products, which may change from row to row, has a sentence of its own.
    """
    done = [cell for cell in sheet.cells if cell.ours] or sheet.cells
    parts = [(*cell.protocol.partition(PRODUCTS)[::2], cell.row, cell.column) for cell in done if cell.protocol]
    rows, columns = (_by_value((part[0], part[axis]) for part in parts) for axis in (2, 3))
    named = rows if len({tuple(names) for names in rows.values()}) > 1 else columns
    said = [f"protocol of {', '.join(map(called, names))}: {words}" for words, names in named.items()]
    reduced = _by_value((precision, row) for _, precision, row, _ in parts if precision)
    precisions = "; ".join(f"in {precision}: {', '.join(map(called, names))}" for precision, names in reduced.items())
    return [
        *map(sentence, said if len(rows) > 1 else [f"protocol: {words}" for words in rows]),
        *([f"Products of matrices {precisions}."] if precisions else []),
    ]


def _published_deviations(sheet: Sheet) -> list[str]:
    found = [(cell.published, cell.published_over) for cell in sheet.cells if cell.published and cell.published_over]
    words = dict.fromkeys(f"{score.seeds} {over}" for score, over in found if score.sd is not None)
    return [f"The published ± is over {' or '.join(words)}."] if words else []


def _by_value(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that go with each value, every one once."""
    found: dict[str, list[str]] = {}
    for value, name in pairs:
        if name not in found.setdefault(value, []):
            found[value].append(name)
    return found


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"
