"""Tables of the paper as LaTeX, which fit the pages of a plain ``article``.

A document needs the packages ``booktabs``, ``longtable`` and ``pdflscape`` for them. A table that fits a page is a
float, shrunk a little if it is too wide. Another one is a ``longtable``, which breaks over pages between its rows; its
notes follow it, and its pages lie on their side if upright ones would need letters too small to read. Which of them a
table becomes is decided by an estimate of its size. A ``longtable`` needs a document of one column.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from bandana.paper.artifact import Sheet
from bandana.paper.names import called
from bandana.reporting.latex_text import escaped
from bandana.reporting.legends import meanings, provenance, seed_counts
from bandana.reporting.marks import best_places, mark_of, number_texts

Side: TypeAlias = Literal["ours", "published"]
Line: TypeAlias = tuple[str, ...]


class Layout(NamedTuple):
    """How a table may be set: the points across that there are for it, its letters, and the points beside a column."""

    across: float
    letters: str
    gap: int


_PACKAGES = r"% needs \usepackage{booktabs,longtable,pdflscape}"
_WIDE = 5
_LONG = 24
"""Signs of a row's name from which on LaTeX breaks it into lines."""
_BROKEN, _FILLED = 20, 16
"""Signs for which a line of such a name has room, and that words fill."""
_ACROSS, _DOWN = 345.0, 550.0
"""Points of text across and down a page of letter paper; A4 is as wide and longer."""
_SHRUNK = 0.85
"""The smallest letters of a float may shrink by as much."""
_AFLOAT = (
    Layout(_ACROSS, r"\normalsize", 6),
    Layout(_ACROSS, r"\footnotesize", 3),
    Layout(_ACROSS, r"\scriptsize", 3),
    Layout(_ACROSS / _SHRUNK, r"\scriptsize", 3),
)
_OVER_PAGES = (
    Layout(_ACROSS, r"\footnotesize", 3),
    Layout(_ACROSS, r"\scriptsize", 2),
    Layout(_DOWN, r"\footnotesize", 3),
    Layout(_DOWN, r"\scriptsize", 3),
    Layout(_DOWN, r"\tiny", 2),
)
"""Of both, the first into which a table fits is taken."""
_POINTS = {
    r"\normalsize": (5.3, 14.0),
    r"\footnotesize": (4.35, 11.5),
    r"\scriptsize": (4.0, 10.0),
    r"\tiny": (3.5, 8.0),
}
"""Across a sign and down a row of letters: measured in our tables, rounded up."""
_STACKED = 9.0
"""Points down each further line of a cell."""
_SIGN = re.compile(r"\\([a-zA-Z]+|.)")
_SILENT = re.compile(r"\\(shortstack|raggedright|textbf|textit|underline|scriptsize|footnotesize|par)\b ?|(?<!\\)[{}$]")
_PUBLISHED = r"\quad\textit{published}"
_SHRINK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"
_LATEX_SIGNS = {"▲": r"$\uparrow$", "▼": r"$\downarrow$", "≈": r"$\approx$", "?": "?", "=": "", "‖": "", "·": ""}
"""Of cells that have a figure of ours; others have a word."""


def to_latex(sheet: Sheet) -> str:
    """A table: means over deviations, best bold, second underlined, the published below, a legend under all.

    A sheet with another one `below` it is followed by a table of both.
    """
    figure = _latex_figures(sheet)

    def text(side: Side, row: str, column: str) -> str:
        mean, sd = figure(side, row, column)
        return rf"\shortstack{{{mean}\\{{\scriptsize $\pm$ {sd}}}}}" if sd else mean

    alone = _latex_table(sheet, text, [_legend(sheet), *map(escaped, _told(sheet))])
    both = "" if sheet.below is None else f"\n{to_latex_of_two(sheet, sheet.below)}"
    return f"{_PACKAGES}\n{alone}{both}"


def to_latex_of_two(upper: Sheet, lower: Sheet) -> str:
    """A table whose cells have two lines, as in the paper: the figures of one sheet over those of another.

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
    return _latex_table(replace(upper, title=title), text, [legend, *map(escaped, [*shared, *apart])])


def _told(sheet: Sheet) -> list[str]:
    """What is said below a table, but for its marks."""
    return [*seed_counts(sheet), *provenance(sheet), *sheet.notes]


def _legend(sheet: Sheet) -> str:
    """What letters and marks mean, in LaTeX."""
    signs = [(_LATEX_SIGNS[mark.sign], escaped(words)) for mark, words in meanings(sheet) if mark.sign in _LATEX_SIGNS]
    marks = [f"{sign} {words}" for sign, words in signs if sign]
    unmarked = ", or ".join(words for sign, words in signs if not sign)
    best = "Of ours, the best of a column is bold and the second best underlined." if best_places(sheet) else ""
    legend = "; ".join([*marks, *([f"none: {unmarked}"] if unmarked else [])])
    return " ".join(filter(None, ["Below ours stand the published figures.", best, legend and f"Marks: {legend}."]))


def _latex_table(sheet: Sheet, text: Callable[[Side, str, str], str], notes: Sequence[str]) -> str:
    """A table of texts for our figures and the published ones by row and column.

    Args:
        sheet: Its title, rows and columns.
        text: Of a side, row and column.
        notes: What is said below it, in LaTeX.
    """
    head = ("", *(escaped(called(column)) for column in sheet.columns))
    groups = [_lines_of(row, sheet.columns, text) for row in sheet.rows]
    lines = [head, *(line for group in groups for line in group)]
    # A star keeps the published figures on the page of ours.
    body = [
        " \\\\*[1pt]\n".join(map(" & ".join, group)) + (r" \\[2pt]" if len(group) > 1 else r" \\") for group in groups
    ]
    top = [r"\toprule", rf"{' & '.join(head)} \\", r"\midrule"]
    names = "p{10em}" if any(len(called(row)) > _LONG for row in sheet.rows) else "l"
    caption, columns = escaped(sheet.title), f"{names}{'c' * len(sheet.columns)}"
    below = rf"{{\footnotesize\sloppy\noindent {' '.join(notes)}\par}}"
    for layout in _AFLOAT:
        if _width(lines, layout) <= layout.across and _height(lines, layout, caption, below) <= _DOWN:
            return _afloat(caption, columns, [*top, *body], below, layout)
    layout = next((layout for layout in _OVER_PAGES if _width(lines, layout) <= layout.across), _OVER_PAGES[-1])
    return _over_pages(caption, columns, top, body, below, layout)


def _lines_of(row: str, columns: Sequence[str], text: Callable[[Side, str, str], str]) -> list[Line]:
    """The line of ours, and that of the published figures if there are any."""
    ours, published = (tuple(text(side, row, column) for column in columns) for side in ("ours", "published"))
    name = called(row)
    name = rf"\raggedright {escaped(name)}" if len(name) > _LONG else escaped(name)
    return [(name, *ours), *([(_PUBLISHED, *published)] if any(published) else [])]


def _letters(layout: Layout) -> str:
    return rf"{layout.letters}\setlength{{\tabcolsep}}{{{layout.gap}pt}}"


def _afloat(caption: str, columns: str, lines: Sequence[str], below: str, layout: Layout) -> str:
    """A table on one page, no wider than its text, and across both columns of a document of two if it has many."""
    kind = "table*" if columns.count("c") > _WIDE else "table"
    return "\n".join(
        [
            rf"\begin{{{kind}}}",
            r"\centering",
            rf"\caption{{{caption}}}",
            _letters(layout),
            rf"{_SHRINK}{{\begin{{tabular}}{{{columns}}}",
            *lines,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\par\smallskip{below}",
            rf"\end{{{kind}}}",
            "",
        ]
    )


def _over_pages(caption: str, columns: str, top: Sequence[str], body: Sequence[str], below: str, layout: Layout) -> str:
    """A table that breaks between its lines, with its head on every page and what is said below it after the last."""
    begin, end = (r"\begin{landscape}", r"\end{landscape}") if layout.across == _DOWN else ("", "")
    lines = [
        begin,
        rf"{{{_letters(layout)}\setlength{{\LTcapwidth}}{{\linewidth}}",
        rf"\begin{{longtable}}{{{columns}}}",
        rf"\caption{{{caption}}} \\",
        *top,
        r"\endfirsthead",
        rf"\multicolumn{{{columns.count('c') + 1}}}{{l}}{{\tablename\ \thetable, continued}} \\",
        *top,
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *body,
        r"\end{longtable}}",
        below,
        end,
    ]
    return "".join(f"{line}\n" for line in lines if line)


def _width(lines: Sequence[Line], layout: Layout) -> float:
    """About how many points across a table is, from the longest cell of every column."""
    across, _ = _POINTS[layout.letters]
    names, *columns = (
        max(len(line) for cell in column for line in _printed(cell)) for column in zip(*lines, strict=True)
    )
    return sum(signs * across + 2 * layout.gap for signs in (names if names <= _LONG else _BROKEN, *columns))


def _height(lines: Sequence[Line], layout: Layout, caption: str, below: str) -> float:
    """About how many points down a float is."""
    _, down = _POINTS[layout.letters]
    further = sum(max(_rows(line[0], _FILLED), *(len(_printed(cell)) for cell in line)) - 1 for line in lines)
    return len(lines) * down + further * _STACKED + 12 * _rows(caption, 65) + 9.5 * _rows(below, 88) + 30


def _rows(text: str, signs: int) -> int:
    """How many lines text takes that has room for so many signs in one."""
    return max(1, math.ceil(len(" ".join(_printed(text))) / signs))


def _printed(text: str) -> list[str]:
    """What paper shows of LaTeX, by line, with an x for each command that prints something."""
    return [_SIGN.sub("x", _SILENT.sub("", line.replace(r"\quad", "xx"))) for line in text.split(r"\\")]


def _latex_figures(sheet: Sheet) -> Callable[[Side, str, str], tuple[str, str]]:
    """Reads a figure by side, row and column: its mean with all marks, or a word, and its deviation or nothing."""
    cells = {(cell.row, cell.column): cell for cell in sheet.cells}
    texts, places = number_texts(sheet), best_places(sheet)

    def figure(side: Side, row: str, column: str) -> tuple[str, str]:
        cell = cells.get((row, column))
        if cell is None:
            return "", ""
        if side == "published":
            return texts(cell, cell.published) if cell.published else (escaped(cell.printed), "")
        mark = mark_of(cell, sheet.highest_is_best)
        if cell.ours is None:
            return escaped(mark.word), ""
        mean, sd = texts(cell, cell.ours)
        place = places.get((row, column))
        wrapped = rf"\textbf{{{mean}}}" if place == 1 else rf"\underline{{{mean}}}" if place == 2 else mean
        return f"{wrapped}{_LATEX_SIGNS.get(mark.sign, '')}", sd

    return figure
