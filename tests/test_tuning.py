"""Tuning a method or an own graph, and the proof that no test link or label is ever looked at."""

import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from bandana import experiment as pipeline
from bandana.__main__ import main
from bandana.config import read_toml, to_table
from bandana.data.certificates import Pairs
from bandana.data.datasets import Dataset, load
from bandana.data.splits import official_edge_split, split_edges, split_nodes
from bandana.data.tables import OwnGraph
from bandana.errors import UserError
from bandana.estimator import learn
from bandana.experiment import run_seed
from bandana.own.automatic import choose
from bandana.own.tuning import tune_own
from bandana.paper.cookbook import RECIPES, load_recipe, recipe
from bandana.tuning.folder import RECIPE, SEARCH, TRIALS, merged, read_trials, recipe_text
from bandana.tuning.space import Interval, Space
from bandana.tuning.trials import Trial, best_of
from bandana.tuning.tune import Search, tune
from bandana.tuning.validation import validation_scores

pytest.importorskip("optuna", reason="tuning needs the extra 'tune'")

CPU = torch.device("cpu")
SHORT = {"training.epochs": 4, "training.evaluate_every": 2, "model.encoder.width": 8, "probe.repeats": 2}
TEMPERATURE_AND_RATE: Space = {
    "model.mask.temperature": Interval(0.1, 2.0),
    "training.lr": Interval(1e-4, 1e-2, log=True),
}


@pytest.fixture(scope="module")
def karate() -> Dataset:
    return load("karate")


@pytest.fixture
def no_test_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever scores test data fails when it is called."""

    def forbidden(*arguments: Any, **options: Any) -> None:
        raise AssertionError("test data were scored")

    for name in ("dot_product_probe", "linear_probe", "end_to_end", "heuristic_floors"):
        monkeypatch.setattr(pipeline, name, forbidden)


@pytest.mark.usefixtures("no_test_figures")
def test_test_links_change_nothing_in_a_search(karate: Dataset) -> None:
    split = split_edges(karate.graph, 0.05, 0.10, seed=0)
    shuffled = torch.arange(split.test.positive.shape[1]).flip(0)
    others = Pairs(split.test.negative[:, shuffled], split.test.positive[:, shuffled])  # links and non-links swapped
    experiment = recipe("bandana", "karate", "link", SHORT)
    scores = [
        validation_scores(
            experiment, replace(karate, edge_split=official_edge_split(split.train, split.valid, test)), [0, 1], CPU
        )
        for test in (split.test, others)
    ]
    assert scores[0] == scores[1]
    valid = Pairs(split.valid.negative, split.valid.positive)
    swapped = replace(karate, edge_split=official_edge_split(split.train, valid, split.test))
    assert validation_scores(experiment, swapped, [0, 1], CPU) != scores[0]


@pytest.mark.usefixtures("no_test_figures")
def test_test_labels_change_nothing_in_a_search(karate: Dataset) -> None:
    labels = karate.graph.y
    assert labels is not None
    experiment = recipe("bandana", "karate", "node", {**SHORT, "split.nodes": [0.3, 0.3, 0.4]})
    nodes = split_nodes(labels, (0.3, 0.3, 0.4), seed=0)
    before = validation_scores(experiment, karate, [0], CPU)
    for part, same in (("test", True), ("valid", False)):
        other = labels.clone()
        other[getattr(nodes, part)] = 3 - other[getattr(nodes, part)]
        changed = replace(karate, graph=replace(karate.graph, y=other))
        assert (validation_scores(experiment, changed, [0], CPU) == before) is same


@pytest.mark.parametrize("task", ["link", "node"])
def test_the_score_is_the_one_that_a_run_validates_by(karate: Dataset, task: Any) -> None:
    experiment = recipe("bandana", "karate", task, SHORT)
    record = run_seed(experiment, karate, 5, CPU, floors=False).record
    expected = record.metrics["valid_micro_f1"] if task == "node" else max(row["monitor"] for row in record.history)
    assert validation_scores(experiment, karate, [5, 6], CPU)[0] == pytest.approx(expected, abs=1e-12)


def test_without_validation_links_there_is_nothing_to_tune_by(karate: Dataset) -> None:
    with pytest.raises(UserError, match=r"monitor: .*nothing to tune by"):
        validation_scores(recipe("bandana", "karate", "link", {**SHORT, "monitor": "none"}), karate, [0], CPU)


def karate_search(**changes: Any) -> Search:
    given_changes = {**SHORT, **changes}
    experiment = recipe("bandana", "karate", "link", given_changes)
    return Search(experiment=experiment, space=TEMPERATURE_AND_RATE, changes=given_changes, seeds=range(1000, 1002))


def untimed(file: Path) -> list[Trial]:
    return [replace(trial, seconds=0.0) for trial in read_trials(file)]


def test_a_folder_keeps_every_trial_and_goes_on(tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    tuned = tune(karate_search(), whole, trials=5, device="cpu")
    calls = count()

    def stop(trials: Sequence[Trial]) -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(karate_search(), stopped, trials=5, device="cpu", on_trial=stop)
    assert len(read_trials(stopped / SEARCH)) == 3
    for trials in (5, 5):  # goes on; then there is nothing to do but to bring back what was deleted
        (stopped / RECIPE).unlink()
        tune(karate_search(), stopped, trials=trials, device="cpu")
    assert untimed(stopped / SEARCH) == untimed(whole / SEARCH)
    goes_on, at_once = (
        re.sub(r"seed 0, \d+ s;", "seed 0, as long as it took;", (folder / RECIPE).read_text())
        for folder in (stopped, whole)
    )
    assert goes_on == at_once
    assert "as long as it took" in at_once
    record = json.loads((whole / SEARCH).read_text())
    assert record["best"] == tuned.best.number
    assert record["budget"] == {"trials": 5, "seconds": None}
    assert record["search"]["space"]["training.lr"] == {"log": [1e-4, 1e-2]}
    rows = (whole / TRIALS).read_text().splitlines()
    assert rows[0].startswith("trial,place,score,score_0,score_1,seconds,failure,model.mask.temperature")
    assert len(rows) == 6
    with pytest.raises(UserError, match="another experiment"):
        tune(karate_search(**{"training.epochs": 5}), whole, trials=5, device="cpu")
    (whole / SEARCH).write_text('{"search": {')
    with pytest.raises(UserError, match="not a readable search"):
        tune(karate_search(), whole, trials=5, device="cpu")


def test_the_recipe_of_a_search_is_the_experiment_of_its_best_trial(tmp_path: Path) -> None:
    what = karate_search()
    tuned = tune(what, tmp_path, trials=3, device="cpu")
    book = str(tmp_path / RECIPE)
    assert to_table(recipe("bandana", "karate", "link", book=book)) == to_table(what.with_values(tuned.best.values))
    source = load_recipe("bandana", "karate", "link", book).sources["training.lr"]
    assert source.startswith("tuned here on validation data: trial")
    assert f"{tuned.best.score:.4f} over seeds 1000 to 1001" in source
    with pytest.raises(UserError, match=r"no node recipe for cora, only for: karate link.*bandana tune bandana cora"):
        recipe("bandana", "cora", "node", book=book)


def test_books_are_merged_and_checked(tmp_path: Path) -> None:
    files = [tmp_path / "a.toml", tmp_path / "b.toml"]
    files[0].write_text(recipe_text("link", "cora", {"training.lr": 0.5}, "found one"))
    files[1].write_text(recipe_text("node", "ogbn-arxiv", {"model.encoder.width": 32}, "found two"))
    both = tmp_path / "both.toml"
    both.write_text(merged(files))
    assert recipe("bandana", "cora", "link", book=str(both)).training.lr == 0.5
    assert load_recipe("bandana", "ogbn-arxiv", "node", str(both)).sources["model.encoder.width"] == "found two"
    both.write_text('[sources]\n[link.cora]\n"training.lr" = [0.5, "nowhere"]\n')
    with pytest.raises(UserError, match=r"\[link\.cora\] must have lines"):
        recipe("bandana", "cora", "link", book=str(both))
    with pytest.raises(UserError, match="grace has no book 'tuned'"):
        recipe("grace", "cora", "link", book="tuned")


def test_every_cell_of_the_tuned_book_says_how_it_was_found() -> None:
    table = read_toml(RECIPES / "bandana-tuned.toml")
    found = (
        "tuned here on validation data: trial ",
        "decided here on validation nodes by benchmarks/decide.py: ",
        "decided here on validation links by benchmarks/recipes.py: ",
    )
    assert all(source.startswith(found) for source in table["sources"].values())
    for task in table.keys() - {"sources"}:
        for dataset in table[task]:
            assert recipe("bandana", dataset, task, book="tuned").dataset == dataset


def test_the_command_searches_and_its_recipe_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("space.toml").write_text('[every]\n"training.lr" = { log = [1e-3, 1e-1] }\n')
    sets = [word for option, value in SHORT.items() for word in ("--set", f"{option}={value}")]
    words = ["tune", "bandana", "karate", "--task", "link", "--trials", "3", "--space", "space.toml", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["bandana", *words, *sets, "--out", "a [b] search"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    shown = capsys.readouterr().out
    assert "best of 3 trials by AUC of validation links" in shown
    run_it = shlex.split(next(line for line in shown.splitlines() if "Run it:" in line).partition(": ")[2])
    assert run_it[-2:] == ["--recipe", "a [b] search/recipe.toml"]
    monkeypatch.setattr(sys, "argv", [*run_it, "--device", "cpu", "--out", "run"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert (
        read_toml(Path("run/config.toml"))["training"]["lr"]
        == best_of(read_trials(Path("a [b] search") / SEARCH)).values["training.lr"]
    )


def test_without_optuna_the_user_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r"pip install 'bandana-graph\[tune\]'"):
        tune(karate_search(), tmp_path, trials=2, device="cpu")
    assert not list(tmp_path.iterdir())


def test_an_own_graph_is_tuned_by_its_validation_links(random_graph: Any) -> None:
    own = OwnGraph(random_graph(60, 300), (), None, None, ())
    choice = choose(own.graph, device="cpu", dimensions=16, epochs=6)
    told: list[tuple[int, float]] = []
    tuned = tune_own(
        own,
        choice,
        trials=4,
        seed=1,
        device="cpu",
        on_trial=lambda made, best: told.append((made, best)),
        fixed=["training.lr"],
    )
    assert [made for made, _ in told] == [1, 2, 3, 4]
    assert [best for _, best in told] == sorted(best for _, best in told)
    assert learn(own.graph, tuned, seed=1, device="cpu").state.progress.best_value == told[-1][1]
    assert learn(own.graph, choice, seed=1, device="cpu").state.progress.best_value == told[0][1]
    assert tuned.training.lr == choice.training.lr
    assert (tuned.model.encoder.width, tuned.training.epochs) == (choice.model.encoder.width, choice.training.epochs)
    assert tuned.reasons[:-1] == choice.reasons
    assert "tuned in 4 trials" in tuned.reasons[-1]
    with pytest.raises(UserError, match="--tune: the graph has too few links"):
        tune_own(own, replace(choice, held_out=0.0), trials=2, seed=0, device="cpu", on_trial=lambda made, best: None)
