"""The benchmark against other packages: same splits for everybody, no held-out link in anybody's hands, true tables."""

import csv
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from bandana.data.datasets import Dataset, load
from bandana.data.splits import split_nodes
from bandana.graph import Graph
from bandana.workers import Outcome

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
peer_methods, peer_tables, peers = map(import_module, ("peer_methods", "peer_tables", "peers"))
sys.path.pop(0)


@pytest.fixture(scope="module")
def karate() -> Dataset:
    return load("karate")


def row(method: str, dataset: str, seed: int = 0, task: str = "link", **more: object) -> dict[str, str]:
    run = {"method": method, "dataset": dataset, "task": task, "seed": str(seed)}
    return run | {name: str(value) for name, value in more.items()}


def test_a_peer_never_sees_a_held_out_link(karate: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Graph] = []

    def spy(graph: Graph, seed: int) -> torch.Tensor:
        seen.append(graph)
        return torch.eye(graph.num_nodes)

    monkeypatch.setitem(peers.PEERS, "spy", peer_methods.PEERS["raw features"]._replace(embed=spy))
    for task in ("link", "node"):
        peers.measure(peers.Run("spy", "karate", task, 3), None, 1, "cpu")
    split = peers.link_split(karate, 3)
    held_out = torch.cat([split.valid.positive, split.test.positive], 1).T.tolist()
    links = {frozenset(link) for link in seen[0].edge_index.T.tolist()}
    assert links.isdisjoint(map(frozenset, held_out))
    assert len(links) + len(held_out) == karate.graph.links.numel()
    assert seen[1].num_edges == karate.graph.num_edges


@pytest.mark.parametrize("task", peers.TASKS)
def test_our_recipe_is_judged_on_the_split_of_the_others(
    karate: Dataset, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = []
    embed = import_module("bandana.methods.bandana").Bandana.embed
    monkeypatch.setattr(
        "bandana.methods.bandana.Bandana.embed", lambda self, graph: graphs.append(graph) or embed(self, graph)
    )
    whole = peers.recipe
    monkeypatch.setattr(peers, "recipe", lambda *asked: whole(*asked[:3], {**asked[3], "training.epochs": 2}))
    found = peers.measure(peers.Run(peers.OUR_RECIPE, "karate", task, 1), None, 1, "cpu")
    expected = peers.link_split(karate, 1).train if task == "link" else karate.graph
    assert graphs[-1].edge_index.tolist() == expected.edge_index.tolist()
    assert 0 <= found["auc" if task == "link" else "micro_f1"] <= 1


def test_our_default_is_the_plan_of_bandana_embed(karate: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    whole = peers.plan

    def brief(graph: Graph) -> object:
        asked.append(graph.num_edges)
        return whole(graph, epochs=2)

    monkeypatch.setattr(peers, "plan", brief)
    found = peers.measure(peers.Run(peers.OURS, "karate", "link", 0), None, 1, "cpu")
    assert asked == [peers.link_split(karate, 0).train.num_edges]
    assert found["width"] == peer_methods.WIDTH


@pytest.mark.parametrize("name", list(peer_methods.PEERS))
def test_every_peer_gives_a_row_per_node(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a node without links, which some packages are never told of."""
    peer = peer_methods.PEERS[name]
    if absence := peer.absence():
        pytest.skip(f"pip install {peer.package}: {absence}")
    trained = peer_methods._trained
    monkeypatch.setattr(peer_methods, "_trained", lambda *a, lr, epochs: trained(*a, lr=lr, epochs=2))
    monkeypatch.setattr(peer_methods, "WIDTH", 4)
    edges = torch.tensor([list(range(12)), [(a + 1) % 12 for a in range(12)]])
    graph = Graph.from_edges(torch.cat([edges, (edges * 5) % 12], 1), num_nodes=13, x=torch.rand(13, 6))
    z = peer.embed(graph, 0)
    assert z.shape[0] == 13
    assert bool(z.isfinite().all())
    assert not z.requires_grad


def test_rows_go_back_to_their_nodes() -> None:
    z = peer_methods.by_node(["2", "0"], np.array([[2.0, 2.5], [0.0, 0.5]]), 4)
    assert z.tolist() == [[0.0, 0.5], [0.0, 0.0], [2.0, 2.5], [0.0, 0.0]]


def test_the_scale_of_vectors_decides_nothing() -> None:
    draw = np.random.default_rng(0)
    labels = np.arange(90) % 3
    z = np.eye(3)[labels] + 0.3 * draw.normal(size=(90, 3))
    nodes = split_nodes(torch.from_numpy(labels), (0.3, 0.3, 0.4), seed=0)
    scores = [peers.classify(z * scale, labels, nodes) for scale in (1e-3, 1.0, 1e3)]
    assert scores[0]["micro_f1"] > 0.8
    assert all(score == pytest.approx(scores[0]) for score in scores)
    shuffled = peers.classify(z, draw.permutation(labels), nodes)
    assert shuffled["micro_f1"] < 0.6


def test_vectors_that_are_not_finite_are_a_failure(karate: Dataset) -> None:
    with pytest.raises(ValueError, match="NaN"):
        peers.score(peers.Run("spy", "karate", "link", 0), karate, torch.full((34, 2), float("nan")))


def test_a_package_that_is_missing_or_broken_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = peer_methods.PEERS["raw features"]
    assert peer.absence() == ""
    assert "no_such_package" in peer._replace(modules=("no_such_package",)).absence()
    (tmp_path / "broken_package.py").write_text("raise AttributeError('numpy has no bool8')")
    monkeypatch.syspath_prepend(tmp_path)
    assert peer._replace(modules=("broken_package",)).absence() == "AttributeError: numpy has no bool8"


def test_small_data_sets_and_first_seeds_come_first_and_nothing_is_done_twice() -> None:
    runs = peers.runs_of(["bandana", "pycleora"], ["photo", "cora"], ["link"], range(2))
    assert [(run.seed, run.dataset) for run in runs][::2] == [(0, "cora"), (0, "photo"), (1, "cora"), (1, "photo")]
    assert peers.missing(runs, [row("bandana", "cora"), row("pycleora", "photo", 1, failed="x")]) == runs[1:-1]
    assert (
        peers.missing(runs, [row("bandana", "cora"), row("pycleora", "photo", 1, failed="x")], retry=True) == runs[1:]
    )


def test_a_repeated_run_counts_once() -> None:
    rows = [
        row("bandana", "cora", auc=0.9),
        row("node2vec", "cora", failed="over 9 s"),
        row("node2vec", "cora", auc=0.8),
    ]
    assert "Without a figure" not in peer_tables.page(rows, "bandana")
    assert "Without a figure" in peer_tables.page(rows[:2], "bandana")


def test_the_page_says_who_wins_who_loses_and_what_failed() -> None:
    rows = [row("bandana", "cora", seed, auc=0.9, seconds=2, peak_mb=10, threads=1) for seed in range(2)]
    rows += [row("bandana", "cs", auc=0.8), row("node2vec", "cora", auc=0.7), row("node2vec", "cs", auc=0.85)]
    rows += [row("PyG DGI", "cs", failed="over 9 s")]
    text = peer_tables.page(rows, "bandana")
    assert "| bandana | **90.00 ± 0.00** | 80.00 |" in text
    assert "| node2vec ◦ | 70.00 | **85.00** |" in text
    assert "bandana has the best mean on 1 of 2 data sets; others are better on cs (node2vec by 5.00)." in text
    assert "- PyG DGI, cs, link, seed 0: over 9 s" in text
    assert "Node labels" not in text


def test_rows_are_written_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = lambda work, pieces, **limits: (Outcome(piece, work(*piece), "") for piece in pieces)  # noqa: E731
    monkeypatch.setattr(peers, "carry_out", here)
    monkeypatch.setattr(sys, "argv", ["peers.py", "--out", str(tmp_path), "--datasets", "karate", "--seeds", "1"])
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--methods", "raw features", "--tasks", "link", "--threads", "1"])
    peers.main()
    peers.main()
    rows = list(csv.DictReader((tmp_path / "peers-seeds.csv").open(encoding="utf-8")))
    assert [(line["method"], line["failed"]) for line in rows] == [("raw features", "")]
    assert "| raw features |" in (tmp_path / "peers.md").read_text(encoding="utf-8")
