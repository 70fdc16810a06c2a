"""Candidates are settings that can be run, every split counts the same, and the best becomes a recipe."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from bandana.data.splits import split_nodes
from bandana.paper.cookbook import recipe

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def decide(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import decide

    yield decide
    sys.modules.pop("decide")


def row(candidate: str, seed: int, official: float, redrawn: float, **how: Any) -> dict[str, Any]:
    plain = {"smoothing": 0, "skip": 0.0, "skip_smoothing": 0, "normalize": True, "weight_decay": 0.005}
    return {"candidate": candidate, "seed": seed, **plain, **how, "official": official, "redrawn": redrawn}


def test_all_candidates_can_be_run_without_held_out_links(decide: ModuleType) -> None:
    for dataset, candidates in decide.CANDIDATES.items():
        assert "tuned" in candidates
        for settings in candidates.values():
            experiment = decide.experiment_of(dataset, settings)
            assert experiment.monitor == "none"
            assert not experiment.split.valid_edges


def test_every_split_and_seed_counts_the_same_and_each_candidate_has_its_best_probe(decide: ModuleType) -> None:
    rows = [
        row("tuned", 1, 0.9, 0.5),  # (0.9 + 3 · 0.5) / 4 = 0.6
        row("recovery", 1, 0.5, 0.7),  # 0.65
        row("recovery", 2, 0.5, 0.5),  # 0.5
        row("recovery", 1, 0.7, 0.7, weight_decay=0.05),
        row("recovery", 2, 0.5, 0.7, weight_decay=0.05),  # 0.65
    ]
    first, second = decide.ranking(rows)
    assert (first.candidate, second.candidate) == ("recovery", "tuned")
    assert first.how[-1] == 0.05
    assert first.scores == pytest.approx([0.7, 0.65])
    assert second.score == pytest.approx(0.6)


def test_validation_nodes_of_several_splits_where_there_is_no_official_one(decide: ModuleType) -> None:
    experiment = decide.experiment_of("photo", None)
    labels = torch.arange(400) % 8
    data = SimpleNamespace(node_split=None, graph=SimpleNamespace(y=labels))
    splits = decide.splits_of(experiment, data, 7)
    assert len(splits) == 1 + decide.REDRAWN
    assert torch.equal(splits[0].valid, split_nodes(labels, experiment.split.nodes, seed=7).valid)
    assert len({tuple(split.valid.tolist()) for split in splits}) == len(splits)


def test_the_best_becomes_a_recipe_unless_it_is_in_the_book_already(decide: ModuleType, tmp_path: Path) -> None:
    rows = [row("tuned", 1, 0.6, 0.6), row("recovery", 1, 0.7, 0.7, smoothing=1)]
    file = tmp_path / "cora.toml"
    file.write_text(decide.cell("cora", decide.ranking(rows), 3000), encoding="utf-8")
    found = recipe("bandana", "cora", "node", book=str(file))
    assert found.model.recovery.weight == decide.CANDIDATES["cora"]["recovery"]["model.recovery.weight"]
    assert found.readout.smoothing == 1
    assert "0.7000" in file.read_text(encoding="utf-8")
    assert decide.cell("cora", decide.ranking([*rows, row("tuned", 1, 0.9, 0.9, normalize=False)]), 3000) == ""
