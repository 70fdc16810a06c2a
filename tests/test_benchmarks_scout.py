"""What a scouting draws, and who goes on."""

import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import pytest
import scout
import torch
from decide import experiment_of
from scout import COLUMNS, FINALISTS, READINGS, SPACES, drawn, earlier, finalists, splits_that_choose

from bandana.data.splits import NodeSplit
from bandana.workers import Outcome


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
    assert finalists(scored, number=1, copies=2) == [
        None,
        {**drawn(9, SPACES["everything"]), **READINGS[-1], "copies": 2},
    ]


def written(path: Path, rows: list[tuple[str, str, float, dict[str, object]]]) -> Path:
    """Rows as a scouting writes them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for dataset, stage, score, settings in rows:
            writer.writerow(
                (dataset, stage, 5000, score, " ".join(f"{option}={value}" for option, value in settings.items()))
            )
    return path


def test_settings_that_were_drawn_and_written_are_read_as_they_were(tmp_path: Path) -> None:
    drawings = [{**drawn(number, SPACES["everything"]), **reading} for number in range(5) for reading in READINGS]
    rows = [("cora", "drawn", number / 100, settings) for number, settings in enumerate(drawings)]
    others = [("pubmed", "drawn", 0.9, drawings[0]), ("cora", "fresh", 0.9, drawings[0])]
    read = earlier(written(tmp_path / "scouted.csv", [*others, *rows]), "cora")
    assert read == [(score, settings) for _, _, score, settings in rows]
    assert [type(value) for _, settings in read for value in settings.values()] == [
        type(value) for settings in drawings for value in settings.values()
    ]


def test_an_earlier_scouting_goes_on_from_its_draws_to_test_nodes(tmp_path: Path, monkeypatch, capsys) -> None:
    drawings = [{**drawn(number, SPACES["everything"]), **READINGS[0]} for number in range(3)]
    path = written(tmp_path / "scouted.csv", [("cora", "drawn", 0.7 + 0.1 * n, d) for n, d in enumerate(drawings)])
    asked = []

    def judge(dataset, stage, settings, seed, *_):
        asked.append((stage, settings, seed))
        return [(0.9 if settings and settings["copies"] == 2 else 0.5, settings or {})]

    def here(_, pieces, **__):
        return [Outcome(piece, judge(*piece), "") for piece in pieces]

    monkeypatch.setattr(scout, "carry_out", here)
    command = ["scout.py", "cora", "--drawn", str(path), "--finalists", "1", "--copies", "2", "--seeds", "2"]
    command += ["--set", "training.precision=bf16", "training.lr=0.5"]
    monkeypatch.setattr(sys, "argv", [*command, "--csv", str(tmp_path / "decided.csv"), "--device", "cpu"])
    scout.main()
    best = {**drawings[2], "training.precision": "bf16", "training.lr": 0.5, "copies": 2}
    assert [entry for entry in asked if entry[0] == "fresh"] == [
        ("fresh", settings, seed) for seed in scout.FRESH_SEEDS for settings in (None, best)
    ]
    assert asked[-2:] == [("test", best, 0), ("test", best, 1)]
    assert "test nodes: 90.00" in capsys.readouterr().out
