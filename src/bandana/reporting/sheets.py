"""Tables, figures and checks of the paper as Markdown, LaTeX and CSV."""

import csv
import unicodedata
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from bandana.paper.artifact import Cell, Claim, Exhibit, Picture, Sheet
from bandana.reporting.marks import CELL_MARKS, best_places, mark_of, mark_of_claim, number_texts, shows_seeds

CELL_FIELDS = (
    *("row", "column", "ours_mean", "ours_sd", "seeds", "protocol", "published_mean", "published_sd"),
    *("published_runs", "difference", "verdict", "note", "origins"),
)
_WIDE = 5
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
_LATEX_SIGNS = {"▲": r"$\uparrow$", "▼": r"$\downarrow$", "?": "?", "=": ""}


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
    """A floating table for ``booktabs``: means over deviations, best bold, second underlined, the published below."""
    kind = "table*" if len(sheet.columns) > _WIDE else "table"
    head = " & ".join(["", *map(_latex, sheet.columns)])
    note = " ".join(map(_latex, sheet.notes))
    return "\n".join(
        [
            rf"\begin{{{kind}}}",
            r"\centering",
            rf"\caption{{{_latex(sheet.title)}}}",
            rf"\begin{{tabular}}{{l{'c' * len(sheet.columns)}}}",
            r"\toprule",
            rf"{head} \\",
            r"\midrule",
            *_latex_rows(sheet),
            r"\bottomrule",
            r"\end{tabular}",
            *([rf"\par\smallskip{{\footnotesize {note}\par}}"] if note else []),
            rf"\end{{{kind}}}",
            "",
        ]
    )


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
        if cell.published:
            lines.append(f"*{' ± '.join(filter(None, texts(cell, cell.published)))}*")
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
    seeds = ", seeds in brackets" if shows_seeds(sheet) else ""
    return f"Ours{seeds}, and the published figure in italics below; {'; '.join(signs)}." if signs else ""


def _latex_rows(sheet: Sheet) -> Iterable[str]:
    cells = {(cell.row, cell.column): cell for cell in sheet.cells}
    texts, places = number_texts(sheet), best_places(sheet)

    def ours(cell: Cell | None) -> str:
        if cell is None:
            return ""
        mark = mark_of(cell, sheet.highest_is_best)
        if cell.ours is None:
            return _latex(mark.word)
        mean, sd = texts(cell, cell.ours)
        place = places.get((cell.row, cell.column))
        wrapped = rf"\textbf{{{mean}}}" if place == 1 else rf"\underline{{{mean}}}" if place == 2 else mean
        return _stacked(f"{wrapped}{_LATEX_SIGNS.get(mark.sign, '')}", sd)

    def published(cell: Cell | None) -> str:
        return _stacked(*texts(cell, cell.published)) if cell and cell.published else ""

    for row in sheet.rows:
        line = [cells.get((row, column)) for column in sheet.columns]
        yield rf"{_latex(row)} & {' & '.join(map(ours, line))} \\"
        if any(map(published, line)):
            yield rf"\quad\textit{{published}} & {' & '.join(map(published, line))} \\[2pt]"


def _stacked(mean: str, sd: str) -> str:
    return rf"\shortstack{{{mean}\\{{\scriptsize $\pm$ {sd}}}}}" if sd else mean


def _latex(text: str) -> str:
    """Text without a character that LaTeX would read as a command or could not set."""
    return "".join(_LATEX.get(sign) or (sign if ord(sign) < 0x180 else _named(sign)) for sign in text)


def _named(sign: str) -> str:
    return f"[{unicodedata.name(sign, 'sign').lower()}]"
