"""What a search may vary, what it proposes, and how it goes on: without any training."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandana.errors import UserError
from bandana.paper.cookbook import recipe
from bandana.parts.floor import Floor
from bandana.registry import all_methods
from bandana.tuning.sampling import importance, propose
from bandana.tuning.space import Interval, OneOf, Space, default_space, parse_space, spoken, without
from bandana.tuning.trials import Trial, best_of, search
from bandana.tuning.tune import Search, tuned_recipe

pytest.importorskip("optuna", reason="tuning needs the extra 'tune'")

MIXED: Space = {
    "depth": Interval(1, 4, whole=True),
    "share": Interval(0.0, 0.8),
    "rate": Interval(1e-4, 1e-1, log=True),
    "widths": OneOf(([16, 8], [32, 16], [64])),
}


def test_a_space_has_four_kinds_of_entries_and_a_purpose_adds_to_every() -> None:
    table = {
        "every": {"training.lr": {"log": [1e-4, 1]}, "model": {"encoder": {"num_layers": {"int": [1, 4]}}}},
        "node": {"model.encoder.dropout": {"float": [0, 0.5]}},
        "link": {"model.readout": {"choice": ["last", "concat"]}, "training.lr": {"log": [0.1, 1.0]}},
    }
    space = parse_space(table, "link", "mine.toml")
    assert space == {
        "training.lr": Interval(0.1, 1.0, log=True),
        "model.encoder.num_layers": Interval(1, 4, whole=True),
        "model.readout": OneOf(("last", "concat")),
    }
    described = {"link": {option: spoken(dimension) for option, dimension in space.items()}}
    assert parse_space(described, "link", "again") == space


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"links": {}}, r"\[links\] is no section.*Did you mean 'link'"),
        ({"every": 3}, "every must be a section"),
        ({}, "no option to search"),
        (
            {"every": {"training.lr": {"logarithm": [1, 2]}}},
            r"training\.lr\.logarithm: write .*int, float, log, choice",
        ),
        ({"every": {"training.lr": 0.1}}, r"training\.lr: write"),
        ({"every": {"training.lr": {"log": [0, 1]}}}, r"training\.lr: log needs two positive numbers.*\[0, 1\]"),
        ({"every": {"training.lr": {"float": [2, 1]}}}, "the smaller first"),
        ({"every": {"training.lr": {"float": [0, float("nan")]}}}, "two numbers"),
        ({"every": {"training.epochs": {"int": [1.5, 3]}}}, "two whole numbers"),
        ({"every": {"training.epochs": {"int": [1, 2, 3]}}}, "two whole numbers"),
        ({"every": {"training.epochs": {"choice": [1]}}}, "two values or more"),
        ({"every": {"training.lr": {"log": [1, 2], "int": [1, 2]}}}, "write"),
        ({"every": {"split.valid_edges": {"float": [0.1, 0.2]}}}, r"split\.valid_edges would change what trials"),
        ({"link": {"monitor": {"choice": ["decoder", "none"]}}}, "monitor would change what trials"),
    ],
)
def test_a_wrong_space_is_refused_with_its_place(table: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as refused:
        parse_space(table, "link", "mine.toml")
    assert str(refused.value).startswith("mine.toml: ")


@pytest.mark.parametrize("name", [name for name, method in all_methods().items() if not issubclass(method, Floor)])
def test_every_method_that_learns_has_a_space_whose_options_it_has(name: str) -> None:
    for task in all_methods()[name].facts.tasks:
        assert Search(experiment=recipe(name, "cora", task), space=default_space(name, task)).first
    assert default_space(name, "own")


def test_a_floor_has_nothing_to_tune() -> None:
    for purpose, advice in (("node", r"give a space with --space\."), ("own", r"leave out --tune\.")):
        with pytest.raises(UserError, match=f"raw_features: has nothing to tune.* Or {advice}"):
            default_space("raw_features", purpose)


def test_a_search_names_a_wrong_option_before_it_starts() -> None:
    base = recipe("bandana", "karate", "link")
    with pytest.raises(UserError, match=r"model\.encoder\.widht.*Did you mean 'width'"):
        Search(experiment=base, space={"model.encoder.widht": Interval(1, 2, whole=True)})
    with pytest.raises(UserError, match=r"model\.encoder\.dropout.*1\.5"):
        Search(experiment=base, space={"model.encoder.dropout": Interval(0.0, 1.5)})


def test_what_is_set_by_hand_is_not_searched() -> None:
    assert without(MIXED, {"share", "other"}).keys() == MIXED.keys() - {"share"}
    with pytest.raises(UserError, match="set by hand"):
        without(MIXED, list(MIXED))


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(0, 1))
def test_rounding_never_leaves_the_interval(one: float, other: float, share: float) -> None:
    low, high = sorted((one, other))
    value = low + share * (high - low)
    rounded = Interval(low, high).rounded(value)
    assert low <= rounded <= high
    assert rounded == pytest.approx(value, rel=0.005)


def test_proposals_lie_in_the_space_and_depend_only_on_seed_and_trials() -> None:
    trials: list[Trial] = []
    for number in range(14):
        values = propose(MIXED, trials, seed=3)
        assert all(dimension.holds(values[option]) for option, dimension in MIXED.items())
        assert values == propose(MIXED, list(trials), seed=3) != propose(MIXED, trials, seed=4)
        trials.append(Trial(number=number, values=values, scores=(values["share"],)))
    assert len({json.dumps(trial.values) for trial in trials}) == 14


def peak(values: Mapping[str, Any]) -> list[float]:
    """Highest at a share of 0.6 and a rate of 0.01; whatever is deep fails."""
    if values["depth"] == 4:
        raise UserError("too deep")
    return [1 - abs(values["share"] - 0.6), 1 - abs(values["rate"] - 0.01)]


START = {"depth": 2, "share": 0.1, "rate": 0.5, "widths": [16, 8]}  # the rate lies outside of the space


def propose_mixed(trials: Sequence[Trial]) -> dict[str, Any]:
    return propose(MIXED, trials, seed=0)


def test_an_interrupted_search_goes_on_as_if_it_had_not_been() -> None:
    def made(trials: int, done: Sequence[Trial] = ()) -> list[Trial]:
        found = search(START, propose_mixed, peak, trials=trials, done=done)
        return [replace(trial, seconds=0.0) for trial in found]

    whole = made(20)
    assert made(20, made(7)) == whole
    assert whole[0].values == START
    assert [trial.number for trial in whole] == list(range(20))


def test_a_search_learns_from_its_trials() -> None:
    found = search(START, propose_mixed, peak, trials=40)
    early, late = ([trial.score or 0 for trial in part] for part in (found[1:11], found[-10:]))
    assert sum(late) / 10 > sum(early) / 10
    assert best_of(found).score == max(trial.score for trial in found if trial.score is not None)
    shares = importance(MIXED, found)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["share"] > shares["widths"]
    assert importance(MIXED, found[:6]) == {}


def test_failures_are_kept_except_the_first_which_is_not_the_fault_of_the_search() -> None:
    found = search(START, propose_mixed, peak, trials=25)
    failed = [trial for trial in found if trial.failure]
    assert failed
    assert all(trial.values["depth"] == 4 and trial.score is None and trial.failure == "too deep" for trial in failed)
    assert best_of(found) not in failed
    with pytest.raises(UserError, match="too deep"):
        search({**START, "depth": 4}, propose_mixed, peak, trials=2)


@pytest.mark.parametrize(
    "problem", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 EB")]
)
def test_want_of_memory_is_a_failure_of_the_trial_on_a_cpu_too(problem: Exception) -> None:
    def greedy(values: Mapping[str, Any]) -> list[float]:
        if values != START:
            raise problem
        return [0.5]

    found = search(START, propose_mixed, greedy, trials=3)
    assert [trial.failure for trial in found] == ["", *["it does not fit into the memory of the device."] * 2]


def test_a_fault_of_the_program_ends_the_search() -> None:
    def broken(values: Mapping[str, Any]) -> list[float]:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        search(START, propose_mixed, broken, trials=1)


def test_no_trial_begins_after_the_time_is_spent() -> None:
    done = [Trial(number=n, values=START, scores=(0.5,), seconds=3.0) for n in range(4)]
    assert search(START, propose_mixed, peak, trials=50, seconds=12, done=done) == done
    assert len(search(START, propose_mixed, peak, trials=5, seconds=12.5, done=done)) == 5


def test_a_recipe_names_as_set_by_hand_only_what_its_winner_did_not_choose() -> None:
    by_hand = {"training.epochs": 8, "training.precision": "tf32"}
    space: Space = {"training.lr": Interval(1e-4, 1e-2, log=True)}
    what = Search(experiment=recipe("bandana", "karate", "node", by_hand), space=space, changes=by_hand)
    trial = Trial(number=0, values={"training.lr": 0.01, "training.epochs": 4}, scores=(0.5,))
    text = tuned_recipe(what, [trial])
    assert "set by hand: training.precision = tf32; bandana" in text
    assert '"training.epochs" = [4, ' in text
