"""Embeddings on left-out nodes: every method is asked once, both columns are means over seeds, and a call goes on."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch

from bandana.data.datasets import Dataset
from bandana.data.splits import NodeSplit
from bandana.graph import Graph
from bandana.paper.cookbook import recipe

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def left_out_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(BENCHMARKS)
    before = set(sys.modules)
    import left_out_nodes

    yield left_out_nodes
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and BENCHMARKS in Path(sys.modules[name].__file__).parents:
            del sys.modules[name]


def row(dataset: str, method: str, seed: int, test: float, left_out: float) -> dict[str, Any]:
    scores = {"valid": 0.5, "test": test, "left_out": left_out, "pretrain_seconds": 1.0}
    return {"dataset": dataset, "method": method, "seed": seed, **scores}


def test_every_method_that_classifies_nodes_is_asked_once_per_seed(left_out_nodes: ModuleType) -> None:
    asked = list(left_out_nodes.runs(["gae", "sig_vae", "bandana-tuned"], ["cora"], 2))
    assert sorted(asked) == [("cora", name, seed) for name in ("bandana-tuned", "gae") for seed in (0, 1)]
    assert [seed for *_, seed in asked] == [0, 0, 1, 1]  # no second seed before all have had their first
    both = list(left_out_nodes.runs(["bandana", "bandana-tuned"], ["pubmed"], 1))
    assert sorted(both) == [("pubmed", "bandana", 0), ("pubmed", "bandana-tuned", 0)]


def test_a_table_has_means_over_seeds_and_the_best_on_left_out_nodes_first(left_out_nodes: ModuleType) -> None:
    rows = [row("cora", "gae", seed, 0.8, 0.7) for seed in range(2)]
    rows += [row("cora", "vgae", seed, 0.7, left) for seed, left in enumerate((0.74, 0.76))]
    rows += [row("cora", "arga", 0, 0.6, 0.6), row("pubmed", "gae", 0, 0.1, 0.1)]
    _, _, *lines, correlation = left_out_nodes.table(rows, "cora")
    assert lines[0] == "| vgae | 2 | 70.00 ± 0.00 | 75.00 ± 1.41 | +5.00 |"
    assert lines[1] == "| gae | 2 | 80.00 ± 0.00 | 70.00 ± 0.00 | -10.00 |"
    assert lines[2] == "| arga | 1 | 60.00 | 60.00 | +0.00 |"
    assert correlation.endswith(": 0.50")


def test_both_scores_come_from_one_training(left_out_nodes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are a feature, except of left-out nodes, where they are another's: one column is 1, the other 0."""
    labels = torch.arange(90) % 3
    told = labels.clone()
    told[60:] = (told[60:] + 1) % 3
    links = torch.stack([torch.arange(89), torch.arange(1, 90)])
    graph = Graph.from_edges(links, num_nodes=90, x=torch.eye(3)[told], y=labels)
    parts = NodeSplit(*torch.arange(60).split(20))
    monkeypatch.setattr(left_out_nodes, "load_once", lambda *_: Dataset("mine", graph, node_split=parts))
    quick = {"probe.epochs": 300, "probe.lr": 0.1}
    monkeypatch.setattr(left_out_nodes, "recipe", lambda *asked, book: recipe(*asked, quick))
    found = left_out_nodes.judge("cora", "raw_features", 0, torch.device("cpu"), None)
    assert (found["valid"], found["test"], found["left_out"]) == (1.0, 1.0, 0.0)


class Outcome(NamedTuple):
    arguments: tuple[Any, ...]
    result: dict[str, Any] | None
    failure: str = ""


def test_a_second_call_trains_only_what_has_no_row(
    left_out_nodes: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun: list[tuple[str, str, int]] = []

    def carry_out(work: object, pieces: list[tuple[Any, ...]], **_: object) -> Iterator[Outcome]:
        for piece in pieces:
            begun.append(piece[:3])
            fails = piece[1] == "vgae" and len(begun) < 3
            yield Outcome(piece, None if fails else row(*piece[:3], 0.8, 0.7), "no memory" if fails else "")

    monkeypatch.setattr(left_out_nodes, "carry_out", carry_out)
    asked = ["--methods", "gae", "vgae", "--datasets", "cora", "--seeds", "1", "--device", "cpu"]
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["left_out_nodes.py", "--csv", str(tmp_path / "rows.csv"), *asked])
        left_out_nodes.main()
    assert sorted(begun) == [("cora", "gae", 0), ("cora", "vgae", 0), ("cora", "vgae", 0)]
    shown = capsys.readouterr().out
    assert "vgae 0 no memory" in shown
    assert "| vgae | 1 | 80.00 | 70.00 | -10.00 |" in shown
    assert (tmp_path / "rows.csv").read_text(encoding="utf-8").count("dataset,method") == 1
