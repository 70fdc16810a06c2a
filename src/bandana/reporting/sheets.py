"""Tables, figures and checks of the paper as Markdown and CSV."""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from bandana.paper.artifact import ORIGINS, Cell, Claim, Exhibit, Picture, Score, Sheet
from bandana.paper.names import called
from bandana.reporting.legends import meanings, provenance
from bandana.reporting.marks import (
    best_places,
    mark_of,
    mark_of_claim,
    number_texts,
    printed_decimals,
    published_text,
    shows_seeds,
)

SEEDS = "seeds"
CELL_FIELDS = (
    *("row", "column", "ours_mean", "ours_sd", SEEDS, "protocol", "published_mean", "published_sd"),
    *("published_runs", "published_text", "difference", "verdict", "note", ORIGINS),
)
"""Columns of a table's CSV file. Where something else than seeds is counted, the column is called after that."""


def file_names(artifact: str, number: int, exhibit: Exhibit) -> list[str]:
    """The files that hold an exhibit of an artifact, the first one its numbers."""
    ending = {Sheet: [".tex"], Picture: [".svg"], Claim: []}[type(exhibit)]
    return [f"{artifact}-{number}{end}" for end in (".csv", *ending)]


def to_markdown(exhibit: Exhibit, files: Sequence[str]) -> str:
    """A section of a page: the title, then the table, the drawing or the statement, then the notes.

    Args:
        exhibit: What is shown.
        files: Its `file_names`, seen from the page.
    """
    links = " · ".join(f"[{name}]({name})" for name in files)
    if isinstance(exhibit, Sheet):
        parts = [f"### {exhibit.title}", _markdown_table(exhibit), _legend(exhibit), links]
    elif isinstance(exhibit, Picture):
        numbers = f"{len(exhibit.rows)} rows of numbers: {', '.join(exhibit.columns)}. {links}"
        parts = [f"### {exhibit.title}", f"![{exhibit.title}]({files[-1]})", numbers]
    else:
        mark = mark_of_claim(exhibit)
        measured = "\n".join(f"- {called(name)}: {value:.6g}" for name, value in exhibit.measured.items())
        parts = [f"### {exhibit.statement}", f"**{mark.sign} {mark.word}.** {exhibit.explanation}", measured, links]
    if not isinstance(exhibit, Claim):
        parts.append("\n".join(f"- {note}" for note in exhibit.notes))
    return "\n\n".join(filter(None, parts)) + "\n"


def to_csv(exhibit: Exhibit) -> str:
    """Every field of every cell of a table, the numbers in a figure, or those measured for a statement."""
    if isinstance(exhibit, Sheet):
        heads = [exhibit.counted if name == SEEDS else name for name in CELL_FIELDS]
        return _csv(heads, (_fields(cell, exhibit) for cell in exhibit.cells))
    if isinstance(exhibit, Picture):
        return _csv(exhibit.columns, exhibit.rows)
    verdict = mark_of_claim(exhibit).word
    return _csv(
        ("statement", "verdict", "name", "value", "explanation"),
        ((exhibit.statement, verdict, name, value, exhibit.explanation) for name, value in exhibit.measured.items()),
    )


def difference(cell: Cell) -> float | None:
    """Ours less the published mean, where both exist."""
    return cell.ours.mean - cell.published.mean if cell.ours and cell.published else None


def _fields(cell: Cell, sheet: Sheet) -> tuple[object, ...]:
    ours, published, apart = cell.ours, cell.published, difference(cell)
    runs = published.seeds if published and sheet.counted == SEEDS else ""
    return (
        *(cell.row, cell.column),
        *((_exact(ours.mean), _exact(ours.sd), ours.seeds) if ours else ("", "", 0)),
        cell.protocol,
        *(_as_printed(published) if published else ("", "")),
        *(runs, cell.printed),
        *(_exact(apart), mark_of(cell, sheet.highest_is_best).word, cell.note, " ".join(cell.origins)),
    )


def _as_printed(score: Score) -> tuple[str, str]:
    """Mean and deviation with the digits that the paper prints; all of them where it prints none."""
    decimals = printed_decimals(score)
    if decimals is None:
        return _exact(score.mean), _exact(score.sd)
    return f"{score.mean:.{decimals}f}", "" if score.sd is None else f"{score.sd:.{decimals}f}"


def _exact(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def _csv(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(heads)
    table.writerows(lines)
    return text.getvalue()


def _markdown_table(sheet: Sheet) -> str:
    cells = {(cell.row, cell.column): cell for cell in sheet.cells}
    texts, places, counted = number_texts(sheet), best_places(sheet), shows_seeds(sheet)

    def shown(cell: Cell | None) -> str:
        if cell is None:
            return ""
        mark = mark_of(cell, sheet.highest_is_best)
        lines = [mark.word]
        if cell.ours:
            figure = " ± ".join(filter(None, texts(cell, cell.ours)))
            figure = f"**{figure}**" if places.get((cell.row, cell.column)) == 1 else figure
            lines = [f"{figure} ({cell.ours.seeds}) {mark.sign}" if counted else f"{figure} {mark.sign}"]
        if published := published_text(cell, texts):
            lines.append(f"*{published}*")
        return "<br>".join(lines)

    lines = [[called(row), *(shown(cells.get((row, column))) for column in sheet.columns)] for row in sheet.rows]
    body = [f"| {' | '.join(_markdown(text) for text in line)} |" for line in lines]
    head = f"| {' | '.join(_markdown(text) for text in ['', *map(called, sheet.columns)])} |"
    return "\n".join([head, "|---" * (len(sheet.columns) + 1) + "|", *body])


def _markdown(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _legend(sheet: Sheet) -> str:
    signs = "; ".join(f"{mark.sign} {meaning}" for mark, meaning in meanings(sheet))
    seeds = f", {sheet.counted} in brackets" if shows_seeds(sheet) else ""
    figures = f"Ours{seeds}, and the published figure in italics below; {signs}."
    return " ".join([figures, *provenance(sheet)]) if signs else ""
