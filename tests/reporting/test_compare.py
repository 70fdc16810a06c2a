"""Verdicts against SciPy's tests and against draws whose truth is known; ranks against loops and the paper's own."""

from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from bandana.paper.artifact import Cell, Score, Sheet
from bandana.paper.published import published
from bandana.reporting.compare import (
    LEVEL,
    Comparison,
    average_ranks,
    chance_note,
    compare_means,
    holm,
    judge,
    mean_ranks,
    out_of_memory,
    rounding_variance,
)

Figures = st.floats(60, 99).map(lambda figure: figure + 0.1234567891)
"""With so many digits that none seem to be lost by rounding."""
Draws = st.lists(Figures, min_size=2, max_size=12)


def score(values: list[float]) -> Score:
    return Score(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def cell(row: str, column: str, ours: Score | None, theirs: Score | None, over: str = "probes") -> Cell:
    state, note = judge(ours, theirs, published_over=over)
    return Cell(row=row, column=column, ours=ours, published=theirs, state=state, note=note)


def sheet(cells: list[Cell], *, highest_is_best: bool = True) -> Sheet:
    rows, columns = (tuple(dict.fromkeys(getattr(cell, name) for cell in cells)) for name in ("row", "column"))
    return Sheet(title="t", rows=rows, columns=columns, cells=tuple(cells), highest_is_best=highest_is_best)


@pytest.mark.filterwarnings("ignore:Precision loss occurred")  # theirs may be all the same
@given(Draws, Draws)
def test_seeds_are_compared_by_welchs_statistic(ours: list[float], theirs: list[float]) -> None:
    """Never surer than Welch himself, whose degrees of freedom are too many for a few seeds."""
    assume(stdev(ours) > 1e-3)
    found = compare_means(score(ours), score(theirs), published_over="seeds")
    welch = stats.ttest_ind(ours, theirs, equal_var=False)
    assert found is not None
    assert found.p >= welch.pvalue - 1e-9
    assert found.p == pytest.approx(2 * stats.t.sf(abs(welch.statistic), min(len(ours), len(theirs)) - 1), abs=1e-9)
    assert (abs(found.difference) > found.reach) == (found.p < LEVEL)


@given(Draws, Figures)
def test_one_draw_is_compared_as_a_sample_of_one(ours: list[float], theirs: float) -> None:
    """Without a probe's part, a prediction interval is the t-test of a sample against another of a single value."""
    assume(stdev(ours) > 1e-3)
    found = compare_means(score(ours), Score(theirs, 0.0, 10), published_over="probes")
    assert found is not None
    assert found.p == pytest.approx(stats.ttest_ind(ours, [theirs]).pvalue, abs=1e-9)


@given(Draws, Figures, st.floats(0.01, 3))
def test_what_varies_between_probes_only_makes_a_verdict_more_careful(
    ours: list[float], theirs: float, spread: float
) -> None:
    without, with_probes = (
        compare_means(score(ours), Score(theirs, sd, 10), published_over="probes") for sd in (0.0, spread)
    )
    assert without is not None
    assert with_probes is not None
    assert with_probes.p >= without.p
    assert with_probes.reach >= without.reach


@pytest.mark.parametrize("seeds", [2, 3, 10])
@pytest.mark.parametrize("over", ["probes", "seeds"])
def test_five_in_a_hundred_verdicts_are_wrong_where_nothing_differs(seeds: int, over: str) -> None:
    """The paper's figure is drawn as the verdict assumes: one pre-training probed ten times, or ten runs."""
    random, wrong, times = np.random.default_rng(seeds), 0, 1500
    for _ in range(times):
        ours = random.normal(80, 1.0, seeds)
        probes = random.normal(random.normal(80, 1.0), 0.05, 10) if over == "probes" else random.normal(80, 0.5, 10)
        state, _ = judge(score(ours.tolist()), score(probes.tolist()), published_over=over)
        wrong += state in ("higher", "lower")
    error = (LEVEL * (1 - LEVEL) / times) ** 0.5
    assert wrong / times < LEVEL + 4 * error
    if over == "probes":  # exact but for the probes' small part; the other test is careful, and most so with two seeds
        assert wrong / times > LEVEL - 4 * error


@pytest.mark.parametrize(("seeds", "wrong"), [(2, 0.12), (3, 0.07)])
def test_welchs_own_degrees_of_freedom_are_too_many_for_a_few_seeds(seeds: int, wrong: float) -> None:
    """Why ours are those of the smaller side; ``docs/protocols.md`` has these figures."""
    random = np.random.default_rng(0)
    ours, theirs = random.normal(80, 1.0, (seeds, 100_000)), random.normal(80, 0.5, (10, 100_000))
    assert (stats.ttest_ind(ours, theirs, equal_var=False).pvalue < LEVEL).mean() == pytest.approx(wrong, abs=0.005)


def test_the_deviation_over_probes_does_not_make_one_pretraining_certain() -> None:
    """The same figures: ten runs tell the means apart, ten probes of one encoder do not."""
    ours, theirs = Score(83.0, 1.0, 5), Score(84.6, 0.1, 10)
    state, note = judge(ours, theirs, published_over="probes")
    assert state == "undecided"
    assert "more than 1.5 points" in note
    assert judge(Score(83.2, 1.0, 5), theirs, published_over="probes")[0] == "same"
    state, note = judge(ours, theirs, published_over="seeds")
    assert state == "lower"
    assert "Welch" in note
    assert "could still be a draw from ours" in note
    assert "could still be" not in judge(Score(83.0, 0.1, 5), theirs, published_over="seeds")[1]


@pytest.mark.parametrize("theirs", [Score(84.6, 0.1, 10), Score(84.6, None, 1)], ids=["over probes", "no deviation"])
def test_more_seeds_are_asked_for_only_where_they_could_decide(theirs: Score) -> None:
    """One pre-training of the paper stays a single draw, however many of ours there are."""
    near, far = Score(83.0, 1.0, 5), Score(82.5, 1.0, 5)
    assert judge(near, theirs, published_over="probes")[1].endswith("more of them would hardly tell.")
    assert judge(near._replace(seeds=10**6), theirs, published_over="probes")[0] == "undecided"
    assert judge(far, theirs, published_over="probes")[1].endswith("more seeds would tell.")
    assert judge(far._replace(seeds=10**6), theirs, published_over="probes")[0] == "lower"
    assert judge(near._replace(sd=2.0), Score(84.6, 0.1, 10), published_over="seeds")[1].endswith(
        "more seeds would tell."
    )


@pytest.mark.parametrize("over", ["probes", "seeds"])
def test_a_verdict_needs_two_figures_and_two_seeds(over: str) -> None:
    theirs = Score(84.6, 0.1, 10)
    assert judge(None, theirs, published_over=over)[0] == "not run"
    assert judge(Score(83.0, None, 1), None, published_over=over)[0] == "no published figure"
    state, note = judge(Score(20.0, None, 1), theirs, published_over=over)
    assert state == "not tested"
    assert "One seed" in note
    for far, expected in ((84.7, "same"), (99.0, "higher"), (20.0, "lower")):
        assert judge(Score(far, 0.5, 3), theirs, published_over=over)[0] == expected


def test_without_a_printed_deviation_the_mean_is_one_draw() -> None:
    state, note = judge(Score(95.0, 0.5, 10), Score(95.84, None, 10), published_over="seeds")
    assert state == "same"
    assert note.startswith("The paper prints no deviation")


def test_a_mean_that_is_off_by_rounding_alone_lies_on_the_published_one() -> None:
    assert "Ours lies on the published mean" in str(Comparison(1.4e-14, 1.0, 1.0, "?"))
    assert "Ours lies 0.01 below the published mean" in str(Comparison(-0.01, 1.0, 1.0, "?"))


def test_figures_that_never_vary_differ_if_they_are_not_equal() -> None:
    for mean, expected in ((80.25, "same"), (80.35, "higher")):
        assert judge(Score(mean, 0.0, 3), Score(80.25, 0.0, 10), published_over="seeds")[0] == expected


@pytest.mark.parametrize("sd", [None, 0.0])
def test_rounding_to_the_printed_digits_is_no_difference(sd: float | None) -> None:
    """Mask ratios hardly vary between seeds, and the paper prints four digits; the last one of Photo is a zero."""
    for mean, expected in ((0.70762, "same"), (0.70778, "same"), (0.7073, "lower"), (0.7081, "higher")):
        assert judge(Score(mean, 1e-5, 3), Score(0.7077, sd, 10), published_over="seeds")[0] == expected
    assert judge(Score(0.962922, 1.3e-5, 3), Score(0.9630, sd, 10), published_over="seeds")[0] == "same"


@pytest.mark.parametrize(
    ("printed", "unit"),
    [
        (Score(84.62, 0.37, 10), 0.01),
        (Score(84.6, 0.37, 10), 0.01),
        (Score(84.62, 0.4, 10), 0.01),
        (Score(84.6, 0.4, 10, last_digit=-2), 0.01),
        (Score(1250.0, None, 1, last_digit=1), 10.0),
        (Score(84.6, None, 10), 0.1),
        (Score(10556.0, None, 1), 1.0),
        (Score(0.7077, None, 1), 1e-4),
        (Score(1e-6, None, 1), 1e-6),
    ],
)
def test_rounding_varies_as_evenly_spread_figures_do(printed: Score, unit: float) -> None:
    assert rounding_variance(printed) == pytest.approx(stats.uniform(scale=unit).var())


def test_five_in_a_hundred_rounded_figures_are_called_different_at_most() -> None:
    """Where seeds hardly vary, so that nearly all of the difference is the rounding of the printed figure."""
    random, times = np.random.default_rng(0), 1000
    wrong = 0
    for _ in range(times):
        true = random.uniform(80, 81)
        printed = round(float(random.normal(true, 0.002)), 2)
        ours = score(random.normal(true, 0.002, 10).tolist())
        wrong += judge(ours, Score(printed, None, 1), published_over="probes")[0] != "same"
    assert wrong / times < LEVEL


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_counts_by_its_definition(values: list[float]) -> None:
    ordered = sorted(values)
    bars = [LEVEL / (len(values) - place) for place in range(len(values))]
    together = [all(p < bar for p, bar in zip(ordered[:count], bars, strict=False)) for count in range(len(values) + 1)]
    assert holm(values) == max(count for count, true in enumerate(together) if true)


def test_a_table_says_how_many_verdicts_chance_would_spoil() -> None:
    theirs = Score(84.6, 0.1, 10)
    cells = [cell("a", str(place), Score(84.6, 1.0, 10), theirs) for place in range(18)]
    cells += [cell("a", "far", Score(50.0, 1.0, 10), theirs), cell("a", "near", Score(87.5, 1.2, 10), theirs)]
    cells += [cell("a", "one seed", Score(1.0, None, 1), theirs), cell("a", "not run", None, theirs)]
    assert [c.state for c in cells].count("higher") == 1
    note = chance_note(cells, published_over="probes")
    assert note.startswith("20 cells were tested at the 5 % level.")
    assert "about 1 of them different; 2 are called so, and 1 after Holm's" in note
    assert chance_note(cells[-2:], published_over="probes").startswith("No cell could be tested")


def test_a_correction_that_can_hardly_find_anything_is_told() -> None:
    """Of three seeds that lie clearly apart, among a hundred others."""
    theirs = Score(84.0, 0.1, 10)
    for seeds, said in ((3, True), (10, False)):
        cells = [cell(str(number), "x", Score(84.0, 0.3, seeds), theirs) for number in range(100)]
        apart = cell("apart", "x", Score(81.5, 0.3, seeds), theirs)
        assert apart.state == "lower"
        note = chance_note([*cells, apart], published_over="probes")
        assert ("can hardly find anything" in note) == said == note.endswith("does not say that all is the same.")


@given(st.dictionaries(st.sampled_from("abcdef"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 4))))
def test_ranks_are_counted_by_loops(values: dict[str, dict[str, int]]) -> None:
    expected: dict[str, list[float]] = {}
    for column in "xyz":
        for name, row in values.items():
            if column in row:
                others = [other[column] for other in values.values() if column in other]
                above, equal = sum(x > row[column] for x in others), sum(x == row[column] for x in others)
                expected.setdefault(name, []).append(above + (equal + 1) / 2)
    found = mean_ranks(values)
    assert {name: count for name, (_, count) in found.items()} == {name: len(r) for name, r in expected.items()}
    assert all(rank == pytest.approx(fmean(expected[name])) for name, (rank, _) in found.items())


def test_published_ranks_follow_from_the_published_figures() -> None:
    """The paper averages over data sets and both metrics, and leaves out what did not run."""
    sheets = [
        sheet([cell(row, column, theirs, theirs, "seeds") for (row, column), theirs in published(metric).items()])
        for metric in ("auc", "ap")
    ]
    ranks = {c.row: c.published.mean for c in average_ranks(sheets).cells if c.column == "all cells"}
    stated = {row: rank.mean for (row, task), rank in published("average-ranks").items() if task == "link prediction"}
    assert ranks.keys() == stated.keys()
    assert all(abs(ranks[row] - stated[row]) <= 0.05 + 1e-9 for row in stated)


def test_rank_sheets_compare_like_with_like() -> None:
    """Ours lacks c and has a floor; the paper lacks b on x."""
    p = Score(90.0, 0.1, 10)
    cells = [
        cell("a", "x", Score(80.0, None, 1), p),
        cell("b", "x", Score(85.0, None, 1), None),
        cell("b", "y", Score(70.0, None, 1), p._replace(mean=60.0)),
        cell("a", "y", Score(60.0, None, 1), p),
        cell("c", "x", None, p._replace(mean=95.0)),
        cell("floor", "x", Score(99.0, None, 1), None),
    ]
    found = {(c.row, c.column): (c.ours, c.published) for c in average_ranks([sheet(cells)]).cells}
    assert {row for row, _ in found} == {"a", "b", "c"}
    assert found["a", "all cells"] == (Score(2.0, None, 2), Score(1.5, None, 2))
    assert found["a", "cells of both"] == (Score(1.5, None, 2), Score(1.0, None, 2))
    assert found["c", "all cells"] == (None, Score(1.0, None, 1))
    turned = average_ranks([sheet(cells, highest_is_best=False)])
    assert next(c.ours for c in turned.cells if (c.row, c.column) == ("a", "all cells")) == Score(1.0, None, 2)


def test_want_of_memory_is_told_from_other_failures() -> None:
    assert out_of_memory("OutOfMemoryError: CUDA out of memory.")
    assert not out_of_memory("ValueError: no memory of it")
