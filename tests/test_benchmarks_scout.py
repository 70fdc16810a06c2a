"""What a scouting draws, and who goes on."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import pytest
import torch
from decide import experiment_of
from scout import FINALISTS, READINGS, SPACES, drawn, finalists, splits_that_choose

from bandana.data.splits import NodeSplit


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_a_number_always_draws_the_same_settings_and_others_draw_others(space: dict[str, tuple[object, ...]]) -> None:
    assert drawn(3, space) == drawn(3, space)
    assert len({tuple(drawn(number, space).values()) for number in range(50)}) > 45
    assert all(value in space[option] for option, value in drawn(7, space).items())
    assert experiment_of("citeseer", {**drawn(7, space), **READINGS[-1]}).model.agreement is not None


def test_validation_nodes_choose_on_several_splits_of_the_nodes_that_may() -> None:
    labels = torch.arange(60) % 3
    official = NodeSplit(torch.arange(9), torch.arange(9, 30), torch.arange(50, 60))
    first, *others = splits_that_choose("validation", official, labels)
    assert first is official
    assert len({tuple(split.train.tolist()) for split in others}) == len(others) > 1
    for split in others:
        assert sorted([*split.train.tolist(), *split.valid.tolist()]) == list(range(30))
    (everyone,) = splits_that_choose("all", official, labels)
    assert everyone.valid.tolist() == list(range(9, 50))


def test_the_best_settings_go_on_once_each_in_their_best_reading_beside_the_tuned_recipe() -> None:
    scored = [
        (number / 100 + place / 1000, {**drawn(number, SPACES["everything"]), **reading})
        for number in range(10)
        for place, reading in enumerate(READINGS)
    ]
    tuned, *others = finalists(scored)
    assert tuned is None
    assert others == [
        {**drawn(number, SPACES["everything"]), **READINGS[-1], "copies": 3} for number in range(9, 9 - FINALISTS, -1)
    ]
