"""Tables, figures and checks of the paper as Markdown, LaTeX and CSV."""

import csv
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any, Literal, TypeAlias

from bandana.paper.artifact import Cell, Claim, Exhibit, Picture, Sheet
from bandana.reporting.marks import (
    CELL_MARKS,
    best_places,
    mark_of,
    mark_of_claim,
    number_texts,
    published_text,
    shows_seeds,
)

CELL_FIELDS = (
    *("row", "column", "ours_mean", "ours_sd", "seeds", "protocol", "published_mean", "published_sd"),
    *("published_runs", "published_text", "difference", "verdict", "note", "origins"),
)
_WIDE = 5
_LONG = 24
"""Signs of a row's name from which on LaTeX breaks it into lines."""
Side: TypeAlias = Literal["ours", "published"]
_MATH = dict(
    zip(
        "<>|±×−στεαμ²³·≤≥≈→∞",
        (
            *("<", ">", "|", r"\pm", r"\times", "-", r"\sigma", r"\tau", r"\varepsilon", r"\alpha", r"\mu"),
            *("^2", "^3", r"\cdot", r"\le", r"\ge", r"\approx", r"\to", r"\infty"),
        ),
        strict=True,
    )
)
_TEXT = dict(
    zip(
        "\\~^–—…‰’‘“”",
        (
            *(r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", "--", "---", r"\ldots{}"),
            *("per~mille", "'", "`", "``", "''"),
        ),
        strict=True,
    )
)
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${math}$" for sign, math in _MATH.items()},
    **_TEXT,
    "\n": " ",
}
_LATEX_SIGNS = {"▲": r"$\uparrow$", "▼": r"$\downarrow$", "≈": r"$\approx$", "?": "?", "=": ""}


def to_markdown(exhibit: Exhibit) -> str:
    """A section of a page: the title, then the table, the numbers' names or the statement, then the notes."""
    if isinstance(exhibit, Sheet):
        parts = [f"### {exhibit.title}", _markdown_table(exhibit), _legend(exhibit)]
    elif isinstance(exhibit, Picture):
        numbers = f"{len(exhibit.rows)} rows of numbers: {', '.join(exhibit.columns)}."
        parts = [f"### {exhibit.title}", numbers]
    else:
        mark = mark_of_claim(exhibit)
        measured = "\n".join(f"- {name}: {value:.6g}" for name, value in exhibit.measured.items())
        parts = [f"### {exhibit.statement}", f"**{mark.sign} {mark.word}.** {exhibit.explanation}", measured]
    if not isinstance(exhibit, Claim):
        parts.append("\n".join(f"- {note}" for note in exhibit.notes))
    return "\n\n".join(filter(None, parts)) + "\n"


def to_latex(sheet: Sheet) -> str:
    """A floating table for ``booktabs``: means over deviations, best bold, second underlined, the published below.

    A sheet with another one `below` it is followed by a table of both.
    """
    figure = _latex_figures(sheet)

    def text(side: Side, row: str, column: str) -> str:
        mean, sd = figure(side, row, column)
        return rf"\shortstack{{{mean}\\{{\scriptsize $\pm$ {sd}}}}}" if sd else mean

    alone = _latex_float(sheet, text)
    return alone if sheet.below is None else f"{alone}\n{to_latex_of_two(sheet, sheet.below)}"


def to_latex_of_two(upper: Sheet, lower: Sheet) -> str:
    """A floating table whose cells have two lines, as in the paper: the figures of one sheet over those of another.

    Raises:
        ValueError: The sheets differ in their rows or columns.
    """
    if (upper.rows, upper.columns) != (lower.rows, lower.columns):
        raise ValueError(f"{upper.title!r} and {lower.title!r} must have the same rows and columns to share cells")
    figures = [_latex_figures(sheet) for sheet in (upper, lower)]

    def text(side: Side, row: str, column: str) -> str:
        first, second = (r" $\pm$ ".join(filter(None, figure(side, row, column))) for figure in figures)
        says_nothing = first == second and not any(map(str.isdigit, first))
        return first if says_nothing else rf"\shortstack{{{first or '--'}\\{second or '--'}}}"

    shared = [note for note in upper.notes if note in lower.notes]
    apart = [
        f"{line} line: {note}"
        for line, sheet in (("First", upper), ("Second", lower))
        for note in sheet.notes
        if note not in shared
    ]
    title = f"{upper.title}; in the second line of a cell: {lower.title}"
    return _latex_float(replace(upper, title=title, notes=(*shared, *apart)), text, r"\scriptsize")


def to_csv(exhibit: Exhibit) -> str:
    """Every field of every cell of a table, the numbers in a figure, or those measured for a statement."""
    if isinstance(exhibit, Sheet):
        return _csv(CELL_FIELDS, (_fields(cell, exhibit) for cell in exhibit.cells))
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
    return (
        *(cell.row, cell.column),
        *((_exact(ours.mean), _exact(ours.sd), ours.seeds) if ours else ("", "", 0)),
        cell.protocol,
        *((_exact(published.mean), _exact(published.sd), published.seeds) if published else ("", "", "")),
        cell.printed,
        *(_exact(apart), mark_of(cell, sheet.highest_is_best).word, cell.note, " ".join(cell.origins)),
    )


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

    lines = [[row, *(shown(cells.get((row, column))) for column in sheet.columns)] for row in sheet.rows]
    body = [f"| {' | '.join(_markdown(text) for text in line)} |" for line in lines]
    head = f"| {' | '.join(_markdown(text) for text in ['', *sheet.columns])} |"
    return "\n".join([head, "|---" * (len(sheet.columns) + 1) + "|", *body])


def _markdown(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _legend(sheet: Sheet) -> str:
    present = {mark_of(cell, sheet.highest_is_best).word for cell in sheet.cells}
    signs = [f"{mark.sign} {mark.meaning}" for mark in CELL_MARKS if mark.word in present]
    seeds = f", {sheet.counted} in brackets" if shows_seeds(sheet) else ""
    return f"Ours{seeds}, and the published figure in italics below; {'; '.join(signs)}." if signs else ""


def _latex_float(sheet: Sheet, text: Callable[[Side, str, str], str], size: str = r"\footnotesize") -> str:
    """A table of texts for our figures and the published ones by row and column; a wide one in letters of that size."""
    wide = len(sheet.columns) > _WIDE
    kind = "table*" if wide else "table"
    names = "p{9em}" if max(map(len, sheet.rows), default=0) > _LONG else "l"
    head = " & ".join(["", *map(_latex, sheet.columns)])
    note = " ".join(map(_latex, sheet.notes))
    body = []
    for row in sheet.rows:
        ours, published = ([text(side, row, column) for column in sheet.columns] for side in ("ours", "published"))
        body.append(rf"{_latex(row)} & {' & '.join(ours)} \\")
        if any(published):
            body.append(rf"\quad\textit{{published}} & {' & '.join(published)} \\[2pt]")
    return "\n".join(
        [
            rf"\begin{{{kind}}}",
            r"\centering",
            *([rf"{size}\setlength{{\tabcolsep}}{{3pt}}"] if wide else []),
            rf"\caption{{{_latex(sheet.title)}}}",
            rf"\begin{{tabular}}{{{names}{'c' * len(sheet.columns)}}}",
            r"\toprule",
            rf"{head} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *([rf"\par\smallskip{{\footnotesize {note}\par}}"] if note else []),
            rf"\end{{{kind}}}",
            "",
        ]
    )


def _latex_figures(sheet: Sheet) -> Callable[[Side, str, str], tuple[str, str]]:
    """Reads a figure by side, row and column: its mean with all marks, or a word, and its deviation or nothing."""
    cells = {(cell.row, cell.column): cell for cell in sheet.cells}
    texts, places = number_texts(sheet), best_places(sheet)

    def figure(side: Side, row: str, column: str) -> tuple[str, str]:
        cell = cells.get((row, column))
        if cell is None:
            return "", ""
        if side == "published":
            return texts(cell, cell.published) if cell.published else (_latex(cell.printed), "")
        mark = mark_of(cell, sheet.highest_is_best)
        if cell.ours is None:
            return _latex(mark.word), ""
        mean, sd = texts(cell, cell.ours)
        place = places.get((row, column))
        wrapped = rf"\textbf{{{mean}}}" if place == 1 else rf"\underline{{{mean}}}" if place == 2 else mean
        return f"{wrapped}{_LATEX_SIGNS.get(mark.sign, '')}", sd

    return figure


def _latex(text: str) -> str:
    """Text without a character that LaTeX would read as a command or could not set; an option keeps both hyphens."""
    parts = text.split("--")
    return "-{}-".join("".join(_LATEX.get(sign) or _plain(sign) for sign in part) for part in parts)


def _plain(sign: str) -> str:
    return sign if ord(sign) < 0x180 else _named(sign)


def _named(sign: str) -> str:
    return f"[{unicodedata.name(sign, 'sign').lower()}]"
