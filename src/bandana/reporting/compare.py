"""Our figures against the published ones: verdicts by a test that asks only what the paper's deviations can answer.

``docs/protocols.md``, section "Verdicts", says why there are two tests, and what neither of them can tell.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from math import sqrt
from statistics import fmean
from typing import Literal, NamedTuple

from scipy.special import stdtr, stdtrit
from scipy.stats import rankdata

from bandana.paper.artifact import Cell, Score, Sheet, State

LEVEL = 0.05
FEW = 5
"""Seeds below which a test has so few degrees of freedom that hardly any outlasts a correction for hundreds."""
NORMAL = 1.96
"""Deviations beyond which one of twenty normal numbers lies."""
APART = 1.5
"""Points from which on a difference that cannot be told from chance is none that can be ruled out either."""

Over = Literal["probes", "seeds"]
Values = Mapping[str, Mapping[str, float]]
"""Figures by row and column, such as method and data set."""
_ROUNDING = 1e-9
"""Differences up to here are of sums in floating point."""


class Comparison(NamedTuple):
    """A two-sided test of our mean against the published one.

    Attributes:
        difference: Ours less the published mean.
        reach: The largest difference that still counts as chance.
        p: How often chance alone would bring a difference at least as large.
        question: What was asked, in words.
    """

    difference: float
    reach: float
    p: float
    question: str

    @property
    def state(self) -> State:
        """The verdict at the 5 % level."""
        if self.p >= LEVEL:
            return "same"
        return "higher" if self.difference > 0 else "lower"

    def __str__(self) -> str:
        side, apart = "above" if self.difference > 0 else "below", abs(self.difference)
        where = f"{apart:.4g} {side} the published mean" if apart > _ROUNDING else "on the published mean"
        return f"{self.question} Ours lies {where}; up to {self.reach:.3g} is chance (95 %, p = {self.p:.2g})."


def judge(ours: Score | None, published: Score | None, *, published_over: Over) -> tuple[State, str]:
    """The verdict on a cell, and the test behind it in words.

    Args:
        ours: Mean and deviation over pre-training seeds; None where nothing was run.
        published: As printed; None where the paper has no figure.
        published_over: What the paper's deviation runs over. Probes of one encoder say nothing about other
            pre-trainings, so that the printed mean is a single draw; seeds make a mean of several.
    """
    if ours is None:
        return "not run", "Nothing was run."
    if published is None:
        return "no published figure", "The paper has no figure here."
    found = compare_means(ours, published, published_over=published_over)
    if found is None:
        return (
            "not tested",
            "One seed of ours has no deviation, and the paper's holds less than what varies between seeds.",
        )
    note = str(found)
    one_draw = _as_one_draw(ours, published, rounding_variance(published), "")
    if published_over == "seeds" and found.state != "same" and one_draw.state == "same":
        note += " Were all its runs on one lucky or unlucky split, the published mean could still be a draw from ours."
    if found.state == "same" and abs(found.difference) > APART:
        return (
            "undecided",
            f"{note} That is more than {APART} points: {_what_would_tell(found, ours, published, published_over)}.",
        )
    return found.state, note


def _what_would_tell(found: Comparison, ours: Score, published: Score, published_over: Over) -> str:
    """Whether seeds could decide. Where the paper's mean is one draw, our spread stays however well it is known."""
    assert ours.sd is not None
    one_draw = published_over == "probes" or published.sd is None or published.seeds < 2
    if one_draw and abs(found.difference) <= NORMAL * ours.sd:
        return "seeds of ours differ so widely that more of them would hardly tell"
    return "more seeds would tell"


def compare_means(ours: Score, published: Score, *, published_over: Over) -> Comparison | None:
    """The test of one cell, or None where ours is a single seed.

    Without a printed deviation the published mean is taken as one draw: it may vary as much as ours, and no less.
    """
    if ours.sd is None or ours.seeds < 2:
        return None
    rounding = rounding_variance(published)
    if published.sd is None or published.seeds < 2:
        question = f"The paper prints no deviation: could its mean be one draw from our {ours.seeds} seeds?"
        return _as_one_draw(ours, published, rounding, question)
    if published_over == "probes":
        question = f"Could the paper's one pre-training be a draw from ours ({ours.seeds} seeds, prediction interval)?"
        return _as_one_draw(ours, published, published.sd**2 / published.seeds + rounding, question)
    question = f"Do {ours.seeds} seeds of ours and {published.seeds} of the paper have one mean (Welch's t-test)?"
    more = published.sd**2 / published.seeds + rounding
    return _welch(ours, published, ours.sd**2 / ours.seeds + more, question)


def rounding_variance(printed: Score) -> float:
    """By how much a figure may have changed when it was rounded to the digits that are printed."""
    return 10.0 ** (2 * last_digit(printed)) / 12


def last_digit(printed: Score) -> int:
    """The last digit that is printed, as a power of ten.

    Where a figure does not say, it is that of the mean or of its deviation, whichever is finer. A zero at the end of
    both is not seen then, which makes a verdict more careful.
    """
    if printed.last_digit is not None:
        return printed.last_digit
    figures = [printed.mean] if printed.sd is None else [printed.mean, printed.sd]
    exponents = [int(Decimal(repr(figure)).normalize().as_tuple().exponent) for figure in figures]
    return min([0, *exponents])


def chance_note(cells: Iterable[Cell], *, published_over: Over) -> str:
    """How many verdicts of a table chance alone would spoil, and how many outlast a correction for that."""
    pairs = [(cell.ours, cell.published) for cell in cells if cell.ours and cell.published]
    found = [(ours, compare_means(ours, published, published_over=published_over)) for ours, published in pairs]
    tested = [(ours.seeds, comparison.p) for ours, comparison in found if comparison is not None]
    if not tested:
        return "No cell could be tested: that takes at least two seeds and a published figure."
    values = [p for _, p in tested]
    different, lasting = sum(p < LEVEL for p in values), holm(values)
    are = "is" if different == 1 else "are"
    hardly = (
        " Most have so few seeds that this correction can hardly find anything: it does not say that all is the same."
    )
    few = 2 * sum(seeds < FEW for seeds, _ in tested) > len(tested) and different and not lasting
    return (
        f"{len(values)} cells were tested at the 5 % level. Were ours and the paper's the same everywhere, chance "
        f"would call about {LEVEL * len(values):.2g} of them different; {different} {are} called so, and "
        f"{lasting} after Holm's correction for the number of tests.{hardly if few else ''}"
    )


def holm(values: Sequence[float], level: float = LEVEL) -> int:
    """How many tests are significant together, so that a single false one among them is as rare as `level`."""
    for place, p in enumerate(sorted(values)):
        if p >= level / (len(values) - place):
            return place
    return len(values)


def out_of_memory(failure: str) -> bool:
    """Whether a run failed for want of memory."""
    return "outofmemory" in failure.lower().replace(" ", "")


def average_ranks(sheets: Sequence[Sheet], title: str = "Average rank") -> Sheet:
    """Mean rank of every row over the columns of all sheets, as the paper counts them: over both of its metrics.

    A row without a figure in a column is left out there, and those below it move up; a row of which the paper has no
    figure at all, such as a floor, is not ranked. The first column ranks by whatever each side has; the second by the
    cells that both have, so that its two ranks can be compared. What is counted is the cells behind a rank.
    """
    ours, theirs = _values(sheets, "ours"), _values(sheets, "published")
    if theirs:
        ours = {row: values for row, values in ours.items() if row in theirs}
    sides = {
        "all cells": (mean_ranks(ours), mean_ranks(theirs)),
        "cells of both": (mean_ranks(within(ours, theirs)), mean_ranks(within(theirs, ours))),
    }
    sides = {column: ranks for column, ranks in sides.items() if any(ranks)}
    rows = tuple(dict.fromkeys(row for sheet in sheets for row in sheet.rows if row in ours or row in theirs))
    cells = [
        _rank_cell(row, column, *(Score(rank[row][0], None, rank[row][1]) if row in rank else None for rank in ranks))
        for row in rows
        for column, ranks in sides.items()
    ]
    return Sheet(
        title=title,
        rows=rows,
        columns=tuple(sides),
        cells=tuple(cells),
        notes=("1 is best; equal figures share the mean of their places. Ranks are set side by side, not tested.",),
        highest_is_best=False,
        counted="cells",
    )


def mean_ranks(values: Values) -> dict[str, tuple[float, int]]:
    """Mean rank of every row over the columns where it has a value, and their number.

    The highest value has rank 1; equal ones share the mean of their places. Rows without a value in a column are left
    out there, so that the ranks of the others move up.
    """
    ranks = defaultdict(list)
    for column in sorted({column for row in values.values() for column in row}):
        present = {name: -row[column] for name, row in values.items() if column in row}
        for name, place in zip(present, rankdata(list(present.values())).tolist(), strict=True):
            ranks[name].append(place)
    return {name: (fmean(places), len(places)) for name, places in ranks.items()}


def within(values: Values, others: Values) -> dict[str, dict[str, float]]:
    """The values whose cells the others have too."""
    return {
        name: {column: value for column, value in row.items() if column in others.get(name, {})}
        for name, row in values.items()
    }


def _as_one_draw(ours: Score, published: Score, more: float, question: str) -> Comparison:
    """Whether the published mean lies where one more of our seeds would; `more` is variance on top."""
    assert ours.sd is not None
    error = sqrt(ours.sd**2 * (1 + 1 / ours.seeds) + more)
    return _t_test(ours.mean - published.mean, error, ours.seeds - 1, question)


def _welch(ours: Score, published: Score, variance: float, question: str) -> Comparison:
    """Welch's statistic against t with the degrees of freedom of the smaller side; `variance` is the difference's.

    His own, estimated degrees of freedom call 12 of 100 equal means different where one side has two seeds; with these,
    it is never more than 5.
    """
    return _t_test(ours.mean - published.mean, sqrt(variance), min(ours.seeds, published.seeds) - 1, question)


def _t_test(difference: float, error: float, freedom: float, question: str) -> Comparison:
    if error == 0:
        return Comparison(difference, 0.0, float(difference == 0), question)
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Comparison(difference, float(stdtrit(freedom, 1 - LEVEL / 2)) * error, p, question)


def _values(sheets: Sequence[Sheet], side: Literal["ours", "published"]) -> dict[str, dict[str, float]]:
    """Means by row and column, with the sign that puts the best of a column on top."""
    out: dict[str, dict[str, float]] = defaultdict(dict)
    for number, sheet in enumerate(sheets):
        sign = -1.0 if sheet.highest_is_best is False else 1.0
        for cell in sheet.cells:
            score = cell.ours if side == "ours" else cell.published
            if score is not None:
                out[cell.row][f"{number} {cell.column}"] = sign * score.mean
    return dict(out)


def _rank_cell(row: str, column: str, ours: Score | None, published: Score | None) -> Cell:
    state: State = "not run" if ours is None else "no published figure" if published is None else "side by side"
    note = "Ranks are set side by side." if state == "side by side" else ""
    return Cell(row=row, column=column, ours=ours, published=published, state=state, note=note)
