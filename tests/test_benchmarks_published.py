"""The benchmark over all methods: what is compared, in what order it is run, and what a failure does to the rest."""

import csv
import math
import operator
import os
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandana.paper.published import Figure, published_figures
from bandana.registry import all_methods
from bandana.training import checkpoint as checkpoints

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
figures, compare, workers, published, methods = map(
    import_module, ("figures", "compare", "bandana.workers", "published", "methods")
)
sys.path.pop(0)

MICRO = figures.Table("node", "clean", "micro_f1")


def row(method: str, dataset: str, seed: int, task: str = "node", protocol: str = "clean", **more: object) -> dict:
    run = {"method": method, "dataset": dataset, "task": task, "protocol": protocol, "seed": str(seed)}
    return run | {name: str(value) for name, value in more.items()}


def paper(**means: float | None) -> dict:
    """Published micro-F1 on Cora by method; None for a method that ran out of memory."""
    return {
        (name, "cora", "micro_f1"): Figure(None, None, "OOM", "") if mean is None else Figure(mean, 0.1, "", "")
        for name, mean in means.items()
    }


def test_ranks_are_shared_by_ties_and_absent_methods_are_left_out() -> None:
    values = {
        "a": {"cora": 90.0, "cs": 80.0},
        "b": {"cora": 90.0},
        "c": {"cora": 85.0, "cs": 70.0},
        "d": {"cora": 95.0, "cs": 90.0},
    }
    assert figures.average_ranks(values) == {"a": (2.25, 2), "b": (2.5, 1), "c": (3.5, 2), "d": (1.0, 2)}
    assert figures.average_ranks({}) == {}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_ranks_of_a_column_add_up(column: list[int]) -> None:
    ranks = figures.average_ranks({str(place): {"cora": float(value)} for place, value in enumerate(column)})
    assert sum(rank for rank, _ in ranks.values()) == len(column) * (len(column) + 1) / 2


def test_means_and_deviations_are_percentages_over_seeds() -> None:
    rows = [row("a", "cora", seed, micro_f1=value) for seed, value in enumerate((0.80, 0.82, 0.84))]
    rows.append(row("b", "cora", 0, micro_f1=0.5))
    a, b = figures.compare(rows, paper(a=81.0))
    assert (a.ours.mean, a.ours.sd, a.ours.seeds) == (pytest.approx(82), pytest.approx(2), 3)
    assert a.text == "82.00 ± 2.00"
    assert (b.text, b.ours.sd, b.published, b.difference, b.apart) == ("50.00", None, None, None, False)


@pytest.mark.parametrize(
    ("ours", "printed", "apart"),
    [
        ((0.80, 0.80), 81.4, False),  # under 1.5 points
        ((0.80, 0.80), 81.6, True),
        ((0.80, 0.80), 78.4, True),
        ((0.80,), 81.6, True),  # a single seed has no deviation to excuse it
        ((0.79, 0.81), 84.2, False),  # a deviation of 1.41: three of them are 4.24
        ((0.79, 0.81), 84.3, True),
        ((0.80, 0.80), None, False),
    ],
)
def test_a_cell_is_apart_beyond_both_limits(ours: tuple[float, ...], printed: float | None, apart: bool) -> None:
    rows = [row("a", "cora", seed, micro_f1=value) for seed, value in enumerate(ours)]
    (cell,) = figures.compare(rows, paper(a=printed))
    assert cell.apart is apart


def test_both_scorings_of_links_stand_beside_the_same_published_figure() -> None:
    scores = {"auc": 0.9, "ap": 0.8, "auc_sigmoid32": 0.7, "ap_sigmoid32": 0.6, "tied_share": 0.25}
    cells = figures.compare([row("gae", "cora", 0, "link", **scores)], published_figures())
    printed = {name: published_figures()["gae", "cora", name] for name in ("auc", "ap")}
    assert {cell.table.metric: (cell.text, cell.published) for cell in cells} == {
        "auc": ("90.00", printed["auc"]),
        "ap": ("80.00", printed["ap"]),
        "auc_sigmoid32": ("70.00", printed["auc"]),
        "ap_sigmoid32": ("60.00", printed["ap"]),
        "tied_share": ("25.00", None),
    }


def test_a_failed_run_gives_way_to_a_later_success_and_never_replaces_one() -> None:
    failed, first, second = row("a", "cora", 0, failed="x"), row("a", "cora", 0, auc=1), row("a", "cora", 0, auc=2)
    assert figures.latest([failed, first]) == [first]
    assert figures.latest([first, failed]) == [first]
    assert figures.latest([first, second]) == [second]
    assert figures.latest([failed, first, row("a", "cora", 1)]) == [first, row("a", "cora", 1)]


def test_failed_cells_have_a_word_and_no_score() -> None:
    reasons = {"a": "OutOfMemoryError: CUDA out of memory.", "b": "ValueError: no", "c": "CUDA error: out of memory"}
    cells = figures.compare(
        [row(name, "cora", 0, failed=reason) for name, reason in reasons.items()], paper(a=80.0, b=None)
    )
    shown = {cell.method: cell.text for cell in cells if cell.table == MICRO}
    assert shown == {"a": "OOM", "b": "failed", "c": "OOM"}
    assert not any(cell.apart or cell.ours for cell in cells)


def test_ranks_compare_like_with_like() -> None:
    """Ours has b, which the paper could not run, and lacks c; only a and d are in both."""
    rows = [
        row(name, "cora", 0, micro_f1=value) for name, value in {"a": 0.9, "b": 0.95, "d": 0.7, "new": 0.99}.items()
    ]
    rows.append(row("c", "cora", 0, failed="OutOfMemoryError: "))
    printed = paper(a=80.0, b=None, c=85.0, d=90.0) | {("b", "cs", "micro_f1"): Figure(70.0, 0.1, "", "")}
    ranks = {rank.method: rank[2:] for rank in figures.rank(figures.compare(rows, printed), printed)}
    assert ranks == {
        "b": (1.0, 1, 1.0, 1, None, None, 0),
        "a": (2.0, 1, 3.0, 1, 1.0, 2.0, 1),
        "d": (3.0, 1, 1.0, 1, 2.0, 1.0, 1),
        "c": (None, 0, 2.0, 1, None, None, 0),
    }
    assert list(ranks) == ["b", "a", "d", "c"]


def test_the_published_table_has_bandana_first_in_links() -> None:
    """Over all printed cells, so it does not depend on what was run here."""
    rows = [row(name, "cora", 0, "link", auc=0.9) for name in ("bandana", "gae")]
    ranks = figures.rank(figures.compare(rows, published_figures()), published_figures())
    best = min(ranks, key=lambda rank: rank.published or math.inf)
    assert (best.method, best.published_cells) == ("bandana", 7)


def test_files_hold_every_cell_and_the_page_is_made_of_tables(tmp_path: Path) -> None:
    rows = [row("bandana", "cora", seed, micro_f1=0.7, macro_f1=0.8) for seed in range(2)]
    rows += [row("gae", "cora", 0, micro_f1=0.8), row("gae", "karate", 0, micro_f1=0.5)]
    rows += [row("grace", "cora", 0, failed="ValueError: a | b")]
    compare.write(rows, tmp_path, "try")
    summary = list(csv.DictReader((tmp_path / "try-summary.csv").open(encoding="utf-8")))
    found = {(line["method"], line["dataset"], line["metric"]): line for line in summary}
    line = found["bandana", "cora", "micro_f1"]
    names = ("task", "protocol", "ours", "seeds", "published", "difference", "apart", "failed")
    expected = ("node", "clean", "70.00 ± 0.00", "2", "84.62 ± 0.37", "-14.62", "yes", "")
    assert tuple(line[name] for name in names) == expected
    assert found["grace", "cora", "micro_f1"]["ours"] == "failed"
    ranks = list(csv.DictReader((tmp_path / "try-ranks.csv").open(encoding="utf-8")))
    assert {line["method"]: line["ours"] for line in ranks if line["ours"]} == {"gae": "1.00", "bandana": "2.00"}
    page = (tmp_path / "try.md").read_text(encoding="utf-8")
    assert "| bandana | **70.00 ± 0.00** (2) |" in page
    assert "| grace | cora | node | clean | 0 | ValueError: a / b |" in page
    for table in page.split("\n\n"):
        lines = [line for line in table.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


def test_no_rows_make_a_page_without_tables(tmp_path: Path) -> None:
    assert compare.write([], tmp_path, "none") == []
    assert compare.read(tmp_path / "absent.csv") == []


def test_every_method_gets_its_first_seed_first_and_cheap_runs_come_first() -> None:
    runs = published.runs_of(all_methods(), figures.DATASETS, ("node", "link"), figures.PROTOCOLS, range(2))
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    work = [published.expected_work(run) for run in runs if run.seed == 0]
    assert work == sorted(work)
    assert {(run.method, run.task) for run in runs if run.seed == 0} == {
        (name, task) for name, method in all_methods().items() for task in method.facts.tasks
    }
    assert {run.method for run in runs if run.protocol == "paper"} == {"bandana"}
    assert len(set(runs)) == len(runs)


def test_a_second_call_repeats_nothing_unless_failures_are_to_be_retried() -> None:
    runs = published.runs_of(["gae"], ["cora"], ["link"], ["clean"], range(3))
    rows = [row("gae", "cora", 0, "link", auc=0.9, failed=""), row("gae", "cora", 1, "link", failed="x")]
    assert published.missing(runs, rows) == [runs[2]]
    assert published.missing(runs, rows, retry_failed=True) == [runs[1], runs[2]]


@pytest.mark.parametrize("task", ["node", "link"])
def test_a_run_gives_its_rows(task: str) -> None:
    run = published.Run("bandana", "karate", task, "clean", 0)
    rows = published.train(run, None, {"training.epochs": 2, "probe.epochs": 2})
    names = [(line["method"], line["protocol"]) for line in rows]
    assert names[0] == ("bandana", "clean")
    assert (("bandana", "paper") in names) is (task == "node")
    assert ("common neighbours", "clean") in names or task == "node"
    assert rows[0]["epochs"] == 2
    text = published.table_of(rows)
    assert len({line.count(",") for line in text.splitlines()}) == 1
    read = list(csv.DictReader(text.splitlines()))
    assert all(float(line[name]) >= 0 for line in read[:1] for name in figures.METRICS[task])


def test_a_run_that_was_cut_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, changes = published.Run("gae", "karate", "link", "clean", 0), {"training.epochs": 20}
    whole = published.train(run, None, changes)

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(published, "_facts", cut_off)
        with pytest.raises(KeyboardInterrupt):
            published.train(run, None, changes, tmp_path)
    (kept,) = tmp_path.iterdir()
    assert checkpoints.load(kept)[1]["epoch"] == 20
    went_on = published.train(run, None, changes, tmp_path)
    assert [line["auc"] for line in went_on] == [line["auc"] for line in whole]
    assert not list(tmp_path.iterdir())


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """New processes look for modules where this one does."""
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.mark.usefixtures("importable")
def test_work_that_fails_or_dies_stops_no_other() -> None:
    division = workers.carry_out(operator.truediv, [(1, 2), (1, 0), (3, 2)], jobs=2)
    found = {outcome.arguments: (outcome.result, outcome.failure) for outcome in division}
    assert found == {(1, 2): (0.5, ""), (1, 0): (None, "ZeroDivisionError: division by zero"), (3, 2): (1.5, "")}
    ended = list(workers.carry_out(os._exit, [(3,), (4,)]))
    assert [outcome.failure for outcome in ended] == ["the process ended with code 3", "the process ended with code 4"]


@pytest.mark.usefixtures("importable")
def test_work_that_takes_too_long_is_given_up_and_none_begins_after_the_budget() -> None:
    slept = list(workers.carry_out(time.sleep, [(60,), (0,)], limit=2))
    assert [(outcome.arguments, outcome.failure) for outcome in slept] == [((60,), "over 2 s"), ((0,), "")]
    assert list(workers.carry_out(time.sleep, [(0,)], budget=0)) == []


def test_a_pace_is_the_median_of_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 9.0, 10.0, *(10.0 + 2 * k for k in range(1, 5)), 99.0])
    monkeypatch.setattr(methods.time, "perf_counter", lambda: next(now))
    pace = methods.Pace(methods.torch.device("cpu"), warm_up=2, most=10, seconds=1000.0)
    for epoch in range(1, 12):
        pace(methods.TrainingState(epoch=epoch))
    with pytest.raises(methods.EnoughError):
        pace(methods.TrainingState(epoch=12))
    assert (pace.epoch_seconds, pace.timed_epochs) == (1.0, 10)


@pytest.mark.parametrize(("warm_up", "laps"), [(1, 1), (15, 5)])
def test_a_slow_method_is_judged_by_its_first_epochs(monkeypatch: pytest.MonkeyPatch, warm_up: int, laps: int) -> None:
    now = iter([0.0, 30.0, 33.0, 36.0, 39.0, 42.0])
    monkeypatch.setattr(methods.time, "perf_counter", lambda: next(now))
    pace = methods.Pace(methods.torch.device("cpu"), warm_up, most=10, seconds=20.0)
    for epoch in range(1, laps):
        pace(methods.TrainingState(epoch=epoch))
    with pytest.raises(methods.EnoughError):
        pace(methods.TrainingState(epoch=laps))
    assert (pace.epoch_seconds, pace.timed_epochs) == ({1: 30.0, 5: 3.0}[laps], laps)


def test_an_epoch_of_a_method_is_measured() -> None:
    threads = methods.torch.get_num_threads()
    measured = methods.measure("gae", "karate", "cpu", threads, epochs=3, seconds=60.0)
    assert (measured.method, measured.task, measured.steps, measured.timed_epochs) == ("gae", "node", 1, 3)
    assert measured.epoch_ms > 0
    failed = methods.row_of(workers.Outcome(("gae", "cora", "cpu", 1, 3, 60.0), None, "over 9 s"))
    assert (failed.note, failed.timed_epochs) == ("over 9 s", 0)
    assert "raw_features" not in methods.trained_methods()
