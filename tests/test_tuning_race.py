"""Many searches at once: whose turn it is, what one training serves, who wins, and how a race goes on."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import count
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bandana.config import read_toml, to_table
from bandana.data.datasets import Dataset, load
from bandana.data.splits import split_nodes
from bandana.errors import UserError
from bandana.paper.cookbook import load_recipe, recipe
from bandana.tuning import race as racing
from bandana.tuning.folder import RECIPE, SEARCH, SearchFolder, read_trials
from bandana.tuning.race import FIRST_FRESH_SEED, Rules, Runner, Work, next_work, race
from bandana.tuning.space import Interval, OneOf, Space, space_for, without
from bandana.tuning.trials import Trial, winner_of
from bandana.tuning.tune import Search
from bandana.tuning.validation import climbed, read_off, readable, validation_scores
from bandana.workers import Outcome

pytest.importorskip("optuna", reason="tuning needs the extra 'tune'")
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
tune_all = import_module("tune_all")
sys.path.pop(0)

CPU = torch.device("cpu")
SHORT = {
    "model.encoder.width": 8,
    "probe.repeats": 2,
    "probe.epochs": 5,
    "split.nodes": [0.3, 0.3, 0.4],
    "split.valid_edges": 0.0,
    "split.test_edges": 0.0,
    "monitor": "none",
}
SPACE: Space = {
    "model.mask.temperature": Interval(0.1, 2.0),
    "training.epochs": OneOf((2, 4, 8)),
    "probe.weight_decay": OneOf((1e-4, 0.1)),
    "probe.normalize": OneOf((True, False)),
}


def karate_search(seeds: range = range(1000, 1002)) -> Search:
    return Search(experiment=recipe("bandana", "karate", "node", SHORT), space=SPACE, changes=SHORT, seeds=seeds)


@pytest.fixture(scope="module")
def karate() -> Dataset:
    return load("karate")


def trial(number: int, score: float = 0.5, *fresh: float, seconds: float = 1.0) -> Trial:
    return Trial(number=number, values=karate_search().first, scores=(score,), seconds=seconds, fresh=fresh)


def runner(weight: float = 1.0, trials: Sequence[Trial] = (), path: Path = Path("nowhere")) -> Runner:
    search = karate_search()
    return Runner(
        search, SearchFolder(path, search.to_table("cpu")), weight, trials={made.number: made for made in trials}
    )


def test_fresh_seeds_choose_the_winner_by_what_all_finalists_have() -> None:
    assert winner_of([trial(0, 0.5), trial(1, 0.9), trial(2, 0.7)]).number == 1
    assert winner_of([trial(0, 0.5), trial(1, 0.9, 0.6), trial(2, 0.7, 0.65)]).number == 2
    # The second seed was kind to trial 1, but trial 2 has not had it yet.
    assert winner_of([trial(1, 0.9, 0.6, 0.9), trial(2, 0.7, 0.65)]).number == 2


def test_one_training_serves_all_lengths_and_probes(karate: Dataset) -> None:
    what = karate_search()
    seeds = list(what.seeds)
    choices = readable(what.experiment, SPACE)
    assert choices.keys() == SPACE.keys() - {"model.mask.temperature"}
    best, scores = read_off(what.experiment, karate, seeds, CPU, choices)
    assert scores == validation_scores(what.with_values(best), karate, seeds, CPU)
    lengths = [
        fmean(validation_scores(what.with_values({"training.epochs": length}), karate, seeds, CPU))
        for length in choices["training.epochs"]
    ]
    assert fmean(scores) >= max(lengths)
    assert choices["training.epochs"][lengths.index(max(lengths))] == best["training.epochs"]


def test_choices_are_made_until_no_single_change_helps() -> None:
    """The skip pays only with little decay, and that decay only with the skip: no path of single gains leads there."""
    gains = {(0.0, 1e-3): 0.5, (0.0, 1e-5): 0.4, (1.0, 1e-3): 0.3, (1.0, 1e-5): 0.9}
    asked = []

    def scores(values: dict[str, Any]) -> list[float]:
        asked.append(tuple(values.values()))
        return [gains[values["readout.skip"], values["probe.weight_decay"]] + (values["training.epochs"] == 20) / 100]

    start = {"training.epochs": 10, "readout.skip": 0.0, "probe.weight_decay": 1e-3}
    choices = {"training.epochs": [10, 20], "readout.skip": [0.0, 1.0], "probe.weight_decay": [1e-3, 1e-5]}
    best, found = climbed(start, choices, scores)
    assert best == {"training.epochs": 20, "readout.skip": 1.0, "probe.weight_decay": 1e-5}
    assert found == [pytest.approx(0.91)]
    assert len(asked) == len(set(asked))
    del choices["readout.skip"]
    assert climbed(start, choices, scores)[0] == {**start, "training.epochs": 20}


def test_what_is_read_off_does_not_depend_on_test_labels(karate: Dataset) -> None:
    what, labels = karate_search(range(1)), karate.graph.y
    assert labels is not None
    choices = readable(what.experiment, SPACE)
    before = read_off(what.experiment, karate, [0], CPU, choices)
    nodes = split_nodes(labels, (0.3, 0.3, 0.4), seed=0)
    for part, same in (("test", True), ("valid", False)):
        other = labels.clone()
        other[getattr(nodes, part)] = 3 - other[getattr(nodes, part)]
        changed = replace(karate, graph=replace(karate.graph, y=other))
        assert (read_off(what.experiment, changed, [0], CPU, choices) == before) is same


@pytest.mark.parametrize(
    "changes", [{"training.schedule": "cosine"}, {"monitor": "decoder", "split.valid_edges": 0.1}, {"task": "link"}]
)
def test_nothing_is_read_off_where_a_shorter_training_is_another_one(changes: dict[str, Any]) -> None:
    held_out = (
        {"split.valid_edges": 0.1, "split.test_edges": 0.1, "monitor": "dot_product"} if "task" in changes else {}
    )
    assert readable(recipe("bandana", "karate", "node", {**SHORT, **held_out, **changes}), SPACE) == {}


def test_a_free_process_works_for_the_search_that_is_furthest_behind() -> None:
    rules = Rules(jobs=2, seconds=100, second_leg=0.4, finalists=2, rounds=2)
    runners = {
        name: runner(weight, [trial(0, seconds=seconds)])
        for name, weight, seconds in (("slow", 1, 9.0), ("quick", 1, 4.0), ("large", 3, 9.0))
    }
    order = []
    for _ in range(6):
        chosen, work = next_work(list(runners.values()), rules, elapsed=59.0) or pytest.fail("there is work")
        assert (work.trial, work.seeds) == (None, chosen.search.seeds)
        chosen.under_way.add(work.number)
        order.append((next(name for name, known in runners.items() if known is chosen), work.number))
    # Large begins at 9 / 3 and a piece under way adds 3, quick at 4 with 4, slow at 9 with 9.
    assert order == [("large", 1), ("quick", 1), ("large", 2), ("quick", 2), ("slow", 1), ("large", 3)]
    for each in runners.values():
        each.trials = {number: replace(trial(number), scores=(), failure="broken") for number in range(5)}
    assert next_work(list(runners.values()), rules, elapsed=0.0) is None


def test_the_second_leg_repeats_the_best_trials_in_rounds() -> None:
    rules = Rules(jobs=2, seconds=100, second_leg=0.4, finalists=2, rounds=2)
    one = runner(trials=[trial(0, 0.1), trial(1, 0.9), trial(2, 0.8), trial(3, 0.7)])
    repeated = []
    while (chosen := next_work([one], rules, elapsed=60.0)) is not None:
        work = chosen[1]
        assert work.trial is not None
        repeated.append((work.number, work.seeds))
        fresh = (*work.trial.fresh, *[0.5] * len(work.seeds))
        one.trials[work.number] = replace(work.trial, fresh=fresh)
    first, second = (range(FIRST_FRESH_SEED + start, FIRST_FRESH_SEED + start + 2) for start in (0, 2))
    assert repeated == [(1, first), (2, first), (1, second), (2, second)]


def test_no_search_gets_a_second_round_before_all_have_had_their_first() -> None:
    rules = Rules(jobs=2, seconds=100, second_leg=0.4, finalists=1, rounds=2)
    quick, slow = runner(trials=[trial(0, 0.5, 0.6, 0.6)]), runner(trials=[trial(0, 0.5, seconds=99)])
    assert (next_work([quick, slow], rules, elapsed=60.0) or pytest.fail("there is work"))[0] is slow
    slow.under_way.add(0)
    assert (next_work([quick, slow], rules, elapsed=60.0) or pytest.fail("there is work"))[0] is quick


class Here:
    """A team without processes."""

    def __init__(self, work: Callable[..., Any], jobs: int) -> None:
        self.work = work

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def carry_out(self, pieces: Iterator[tuple[Any, ...] | None], **_: float) -> Iterator[Outcome]:
        while (piece := next(pieces)) is not None:
            try:
                yield Outcome(piece, self.work(*piece), "")
            except RuntimeError as problem:
                yield Outcome(piece, None, f"RuntimeError: {str(problem).splitlines()[0]}")


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A race in this process, by a clock that moves on by one second with every piece of work."""
    seconds = count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), perf_counter=time.perf_counter)
    monkeypatch.setattr(racing, "time", clock)
    monkeypatch.setattr(racing, "Team", Here)


@pytest.mark.usefixtures("one_thread")
def test_a_race_keeps_its_trials_goes_on_and_writes_the_winner(tmp_path: Path, karate: Dataset) -> None:
    rules = Rules(jobs=1, seconds=7, second_leg=0.5, finalists=2, rounds=1)
    what = karate_search()
    told: list[int] = []
    for made_before in (0, 3):
        folder = SearchFolder(tmp_path, what.to_table("cpu"))
        known = folder.trials()
        assert len(known) == made_before
        one = Runner(what, folder, trials={made.number: made for made in known})
        race([one], rules, device="cpu", on_trial=lambda _, made: told.append(made.number))
    trials = read_trials(tmp_path / SEARCH)
    assert [made.number for made in trials] == list(range(6))
    assert told[:3] == [0, 1, 2]
    assert set(told[3:5]) <= {0, 1, 2}
    assert told[5:8] == [3, 4, 5]
    assert trials[0].values["model.mask.temperature"] == what.experiment.model.mask.temperature
    winner = winner_of(trials)
    assert len(winner.fresh) == len(what.seeds)
    assert winner.fresh == tuple(
        validation_scores(what.with_values(winner.values), karate, range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + 2), CPU)
    )
    book = str(tmp_path / RECIPE)
    assert to_table(recipe("bandana", "karate", "node", book=book)) == to_table(what.with_values(winner.values))
    source = load_recipe("bandana", "karate", "node", book).sources["training.epochs"]
    assert source.startswith(f"tuned here on validation data: trial {winner.number} of {len(trials)}")
    assert f"{fmean(winner.fresh):.4f} over 2 fresh seeds" in source


def test_a_finalist_is_forgiven_one_broken_process_and_no_second() -> None:
    finalist = trial(3, 0.8, 0.7, seconds=5.0)
    one = runner(trials=[finalist])
    repeated = Work(one.search, 3, finalist.values, range(2000, 2002), finalist, begun=10.0)
    gone = "RuntimeError: the card is gone"
    first = one.bury(repeated, gone, now=12.0)
    assert first == replace(finalist, seconds=7.0)
    second = one.bury(repeated._replace(trial=first), gone, now=13.0)
    assert (second.score, second.fresh, second.seconds, second.failure) == (None, (), 10.0, gone)
    fresh = one.bury(Work(one.search, 4, finalist.values, range(1000, 1002), begun=10.0), gone, now=11.5)
    assert (fresh.score, fresh.seconds, fresh.failure) == (None, 1.5, gone)


@pytest.mark.usefixtures("one_thread")
def test_a_finalist_that_breaks_every_process_does_not_keep_the_others_from_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(work: Work, device: str, data_root: Path | None) -> Trial:
        if work.number == 1:
            raise RuntimeError("the card is gone")
        assert work.trial is not None
        return replace(work.trial, fresh=(*work.trial.fresh, *[0.5] * len(work.seeds)))

    monkeypatch.setattr(racing, "attempt", attempt)
    one = runner(trials=[trial(0, 0.1), trial(1, 0.9), trial(2, 0.8)], path=tmp_path)
    told: list[int] = []
    rules = Rules(jobs=1, seconds=1000, second_leg=1.0, finalists=2, rounds=2)
    race([one], rules, device="cpu", on_trial=lambda _, made: told.append(made.number))
    assert told.count(1) == 2
    assert [len(made.fresh) for made in one.made] == [4, 0, 4]


@pytest.mark.usefixtures("one_thread")
def test_whether_something_is_read_off_is_up_to_each_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = karate_search()
    search = replace(search, space={**SPACE, "training.schedule": OneOf(("constant", "cosine"))})
    asked: list[str] = []

    def named(name: str, result: Any) -> Callable[..., Any]:
        def judge(experiment: Any, *_: Any) -> Any:
            asked.append(f"{name} {experiment.training.schedule}")
            return result

        return judge

    monkeypatch.setattr(racing, "read_off", named("read", ({}, [0.5])))
    monkeypatch.setattr(racing, "validation_scores", named("trained", [0.5]))
    for schedule in ("constant", "cosine"):
        racing.attempt(Work(search, 1, {**search.first, "training.schedule": schedule}, range(1)), "cpu", None)
    assert asked == ["read constant", "trained cosine"]
    proposed: list[Space] = []
    monkeypatch.setattr(racing, "propose", lambda space, *_, **__: proposed.append(space) or {})
    folder = SearchFolder(tmp_path, search.to_table("cpu"))
    Runner(search, folder, trials={0: trial(0)}).try_next()
    assert proposed == [search.space], "a trial that is trained as it stands needs a length and a probe too"


def test_a_length_that_is_named_twice_is_one_length(karate: Dataset) -> None:
    what = karate_search(range(1))
    twice = {"training.epochs": [4, 2, 4, 8]}
    assert read_off(what.experiment, karate, [0], CPU, twice) == read_off(
        what.experiment, karate, [0], CPU, {"training.epochs": [2, 4, 8]}
    )


@pytest.mark.usefixtures("one_thread")
def test_a_trial_that_no_memory_holds_has_failed_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: Any) -> Any:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: 9 EB")

    monkeypatch.setattr(racing, "read_off", greedy)
    what = karate_search()
    made = racing.attempt(Work(what, 1, what.first, range(1)), "cpu", None)
    assert made.failure == "it does not fit into the memory of the device."


def test_a_process_without_the_device_breaks_instead_of_failing_one_trial_after_the_other() -> None:
    with pytest.raises(UserError, match="--device"):
        racing.attempt(Work(karate_search(), 0, {}, range(1)), "a card that fell off", None)


@pytest.mark.usefixtures("one_thread")
def test_what_goes_wrong_in_a_process_is_kept_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = racing.read_off

    def fragile(experiment: Any, *arguments: Any) -> Any:
        if experiment.model.mask.temperature != 1.0:
            raise RuntimeError("the card fell off\nat line 3")
        return real(experiment, *arguments)

    monkeypatch.setattr(racing, "read_off", fragile)
    one = runner(path=tmp_path)
    race([one], Rules(jobs=1, seconds=5, second_leg=0.2, finalists=2, rounds=1), device="cpu")
    failures = [made.failure for made in read_trials(tmp_path / SEARCH)]
    assert failures[0] == ""
    assert set(failures[1:]) == {"RuntimeError: the card fell off"}


@pytest.mark.parametrize("task", ["node", "link"])
@pytest.mark.parametrize("dataset", tune_all.DATASETS)
def test_every_cell_of_the_paper_can_be_raced(dataset: str, task: str, tmp_path: Path) -> None:
    (one,) = tune_all.runners_of([f"{dataset}-{task}=2"], tmp_path, "bandana", {"training.precision": "tf32"}, "cpu")
    experiment, first = one.search.experiment, one.try_next()
    assert (one.weight, first.number, experiment.training.precision) == (2.0, 0, "tf32")
    assert to_table(one.search.with_values(first.values)) == to_table(experiment)
    later = replace(one, trials={0: Trial(number=0, values=first.values, scores=(0.5,))}).try_next()
    assert later.number == 1
    assert later.values == {**first.values, **one.also[0]} != first.values
    assert ("copies" in one.search.space) == (task == "node" or f"{dataset}-{task}" in tune_all.MORE)
    assert first.values.get("copies", 1) == 1
    if task == "node":
        assert experiment.split.valid_edges == experiment.split.test_edges == 0.0
        assert experiment.training.epochs == max(readable(experiment, one.search.space)["training.epochs"])
    else:
        assert experiment.monitor != "none"
        assert (experiment.split.valid_edges, experiment.split.test_edges) == (0.05, 0.10)


@pytest.mark.parametrize("cell", ["cora", "cora-nodes", "cora-node=0", "cora-node=-1", "cora-node=many"])
def test_a_wrong_cell_is_refused(cell: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--cells: write DATASET-TASK"):
        tune_all.runners_of([cell], tmp_path, "bandana", {}, "cpu")


@pytest.mark.slow
def test_the_benchmark_races_two_cells_in_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--out", str(tmp_path), "--cells", "karate-node", "karate-link=0.5", "--jobs", "2", "--device", "cpu"]
    words += ["--budget-seconds", "40", "--set", "model.encoder.width=8", "probe.repeats=2", "probe.epochs=20"]
    monkeypatch.setattr(sys, "argv", ["tune_all.py", *words])
    tune_all.main()
    (tmp_path / "summary.csv").unlink()
    monkeypatch.setattr(sys, "argv", ["tune_all.py", "--out", str(tmp_path), "--only-write"])
    tune_all.main()
    rows = (tmp_path / "summary.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["cell", "karate-link", "karate-node"]
    book = read_toml(tmp_path / "bandana-tuned.toml")
    assert book["node"]["karate"]["monitor"] == ["none", "node_karate"]
    assert recipe("bandana", "karate", "link", book=str(tmp_path / "bandana-tuned.toml")).training.epochs > 0


def test_features_are_not_searched_where_there_are_none() -> None:
    spaces = {name: space_for("bandana", name, "link") for name in ("karate", "cora")}
    assert spaces["cora"].keys() - spaces["karate"].keys() == {"readout.skip", "readout.skip_smoothing"}
    assert spaces["karate"].keys() < spaces["cora"].keys()


def test_what_is_set_for_all_cells_is_not_searched() -> None:
    search = tune_all.search_of("bandana", "cora", "node", {"model.encoder.num_layers": 2})
    assert "model.encoder.num_layers" not in search.space
    assert without(search.space, ["features"]).keys() == search.space.keys() - {"features"}
