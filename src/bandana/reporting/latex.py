"""Tables of the paper as LaTeX, for ``booktabs``."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from bandana.paper.artifact import Sheet
from bandana.reporting.legends import meanings, provenance, seed_counts
from bandana.reporting.marks import best_places, mark_of, number_texts

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
_LATEX_SIGNS = {"▲": r"$\uparrow$", "▼": r"$\downarrow$", "≈": r"$\approx$", "?": "?", "=": "", "·": ""}
"""Of cells that have a figure of ours; others have a word."""


def to_latex(sheet: Sheet) -> str:
    """A floating table: means over deviations, best bold, second underlined, the published below, a legend under all.

    A sheet with another one `below` it is followed by a table of both.
    """
    figure = _latex_figures(sheet)

    def text(side: Side, row: str, column: str) -> str:
        mean, sd = figure(side, row, column)
        return rf"\shortstack{{{mean}\\{{\scriptsize $\pm$ {sd}}}}}" if sd else mean

    alone = _latex_float(sheet, text, [_legend(sheet), *map(_latex, _told(sheet))])
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

    shared = [note for note in _told(upper) if note in _told(lower)]
    apart = [
        f"{line} line: {note}"
        for line, sheet in (("First", upper), ("Second", lower))
        for note in _told(sheet)
        if note not in shared
    ]
    title = f"{upper.title}; in the second line of a cell: {lower.title}"
    legend = _legend(replace(upper, cells=(*upper.cells, *lower.cells)))
    return _latex_float(replace(upper, title=title), text, [legend, *map(_latex, [*shared, *apart])], r"\scriptsize")


def _told(sheet: Sheet) -> list[str]:
    """What is said below a table, but for its marks."""
    return [*seed_counts(sheet), *provenance(sheet), *sheet.notes]


def _legend(sheet: Sheet) -> str:
    """What letters and marks mean, in LaTeX."""
    signs = [(_LATEX_SIGNS[mark.sign], _latex(words)) for mark, words in meanings(sheet) if mark.sign in _LATEX_SIGNS]
    marks = [f"{sign} {words}" for sign, words in signs if sign]
    unmarked = ", or ".join(words for sign, words in signs if not sign)
    best = "Of ours, the best of a column is bold and the second best underlined." if best_places(sheet) else ""
    legend = "; ".join([*marks, *([f"none: {unmarked}"] if unmarked else [])])
    return " ".join(filter(None, ["Below ours stand the published figures.", best, legend and f"Marks: {legend}."]))


def _latex_float(
    sheet: Sheet, text: Callable[[Side, str, str], str], notes: Sequence[str], size: str = r"\footnotesize"
) -> str:
    """A table of texts for our figures and the published ones by row and column.

    Args:
        sheet: Its title, rows and columns.
        text: Of a side, row and column.
        notes: What is said below it, in LaTeX.
        size: Of the letters, if it is wide.
    """
    wide = len(sheet.columns) > _WIDE
    kind = "table*" if wide else "table"
    names = "p{9em}" if max(map(len, sheet.rows), default=0) > _LONG else "l"
    head = " & ".join(["", *map(_latex, sheet.columns)])
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
            rf"\par\smallskip{{\footnotesize {' '.join(notes)}\par}}",
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
