"""How a verdict looks: a word, a sign and a tone, the same in Markdown, LaTeX, CSV and on the page."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from bandana.paper.artifact import Cell, Claim, Score, Sheet

Tone = Literal["good", "fair", "poor", "plain", "absent"]


class Mark(NamedTuple):
    """A verdict as it is shown; no one of the three parts is needed to tell it from the others.

    Attributes:
        word: For tables of numbers and for filters.
        sign: For narrow places.
        tone: For colours.
        meaning: For a legend.
    """

    word: str
    sign: str
    tone: Tone
    meaning: str


SAME = Mark("same", "=", "good", "no difference shown")
UNDECIDED = Mark("undecided", "≈", "fair", "no difference shown, but more than 1.5 apart: not decided")
HIGHER = Mark("higher", "▲", "fair", "higher than published")
LOWER = Mark("lower", "▼", "fair", "lower than published")
NOT_TESTED = Mark("not tested", "?", "plain", "no test is possible, for want of seeds")
SIDE_BY_SIDE = Mark("side by side", "‖", "plain", "beside the published figure, and nothing is tested")
UNPUBLISHED = Mark("no published figure", "·", "plain", "the paper has no figure here")
NOT_RUN = Mark("not run", "–", "absent", "not run")
OUT_OF_MEMORY = Mark("out of memory", "⊘", "absent", "ran out of memory")
FAILED = Mark("failed", "✕", "absent", "failed")
HOLDS = Mark("holds", "✓", "good", "the numbers bear the statement out")
FAILS = Mark("does not hold", "✗", "poor", "the numbers contradict the statement")
HOLDS_BEYOND = Mark(
    "holds beyond the paper", "✓", "plain", "a wider statement than the paper's, which the numbers bear out"
)
FAILS_BEYOND = Mark("does not extend", "✗", "plain", "a wider statement than the paper's, which the numbers contradict")
OPEN = Mark("open", "?", "plain", "the numbers cannot tell")

CLAIM_MARKS = (HOLDS, FAILS, HOLDS_BEYOND, FAILS_BEYOND, OPEN)
CELL_MARKS = (SAME, UNDECIDED, HIGHER, LOWER, NOT_TESTED, SIDE_BY_SIDE, UNPUBLISHED, NOT_RUN, OUT_OF_MEMORY, FAILED)
"""In the order of legends and filters."""
_OF_STATE = {mark.word: mark for mark in CELL_MARKS}
_MOST_DECIMALS = 4
"""Figures with more are written with a power of ten."""


def mark_of(cell: Cell, highest_is_best: bool | None) -> Mark:
    """The mark of a cell. A difference to the worse side is graver than one to the better."""
    mark = _OF_STATE[cell.state]
    worse = {True: LOWER, False: HIGHER, None: None}[highest_is_best]
    return mark._replace(tone="poor") if mark == worse else mark


def mark_of_claim(claim: Claim) -> Mark:
    """Whether a statement holds, and whose it is."""
    if claim.holds is None:
        return OPEN
    holds, fails = (HOLDS_BEYOND, FAILS_BEYOND) if claim.beyond else (HOLDS, FAILS)
    return holds if claim.holds else fails


def number_texts(sheet: Sheet) -> Callable[[Cell, Score], tuple[str, str]]:
    """A function from a score in a cell to the texts of its mean and its deviation, which is empty if unknown.

    What the paper prints keeps its digits. Of ours, counts have no decimals: they fill a whole column, or a whole row
    of a table of settings, where none is best. Other figures have two, or four digits where they are below one.
    """
    rows, columns = _all_whole(sheet, "row"), _all_whole(sheet, "column")

    def texts(cell: Cell, score: Score) -> tuple[str, str]:
        printed = printed_decimals(score)
        if printed is not None and printed <= _MOST_DECIMALS:
            return f"{score.mean:,.{printed}f}", "" if score.sd is None else f"{score.sd:,.{printed}f}"
        if columns[cell.column] or (rows[cell.row] and sheet.highest_is_best is None):
            return f"{score.mean:,.0f}", "" if score.sd is None else f"{score.sd:,.0f}"
        if score.sd is None:
            return _plain(score.mean), ""
        decimals = 0 if abs(score.mean) >= 1000 else 2 if abs(score.mean) >= 1 else 4
        return f"{score.mean:,.{decimals}f}", f"{score.sd:,.{decimals}f}"

    return texts


def printed_decimals(score: Score) -> int | None:
    """How many decimals the paper prints of a figure; None if it is not the paper's."""
    return None if score.last_digit is None else max(-score.last_digit, 0)


def published_text(cell: Cell, texts: Callable[[Cell, Score], tuple[str, str]]) -> str:
    """What the paper has in a cell: a figure with its deviation, or words such as OOM; empty if it has no such cell."""
    return " ± ".join(filter(None, texts(cell, cell.published))) if cell.published else cell.printed


def best_places(sheet: Sheet) -> dict[tuple[str, str], int]:
    """1 for our best figures of each column and 2 for the second best, as far as their printed digits tell."""
    if sheet.highest_is_best is None or not sheet.marks_best:
        return {}
    places: dict[tuple[str, str], int] = {}
    for column in sheet.columns:
        ours = {cell.row: _rounded(cell.ours.mean) for cell in sheet.cells if cell.column == column and cell.ours}
        ranking = sorted(set(ours.values()), reverse=sheet.highest_is_best)[:2] if len(ours) > 1 else []
        places |= {(row, column): ranking.index(value) + 1 for row, value in ours.items() if value in ranking}
    return places


def shows_seeds(sheet: Sheet) -> bool:
    """Whether the number of seeds belongs beside the figures: not if they are settings, or ranks."""
    return bool(sheet.highest_is_best) or any(cell.ours and cell.ours.sd is not None for cell in sheet.cells)


def _all_whole(sheet: Sheet, axis: Literal["row", "column"]) -> dict[str, bool]:
    whole: dict[str, bool] = {}
    for cell in sheet.cells:
        name = cell.row if axis == "row" else cell.column
        scores = [score for score in (cell.ours, cell.published) if score is not None]
        whole[name] = whole.get(name, True) and all(
            score.mean == round(score.mean) and not (score.sd or 0) % 1 for score in scores
        )
    return whole


def _rounded(value: float) -> float:
    return round(value, 2 if abs(value) >= 1 else 4)


def _plain(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.4g}"
