"""Floors that need no training: raw features, dense or sparse, and what shared neighbours are worth."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bandana.data.splits import split_edges
from bandana.evaluation.heuristics import heuristic_floors
from bandana.evaluation.label_quality import label_quality
from bandana.evaluation.link_quality import ADAMIC_ADAR, ALLOCATION, SHARED, link_quality
from bandana.evaluation.quality import judge
from bandana.evaluation.sparse_vectors import sparse_pair_scores
from bandana.graph import Graph, SparseFeatures


def features(num_nodes: int = 120, width: int = 30) -> Tensor:
    """Counts, nearly all of them zero, whose columns go with four groups of nodes."""
    draw = torch.Generator().manual_seed(3)
    x = (torch.rand(num_nodes, width, generator=draw) < 0.02).float()
    x[torch.arange(num_nodes), torch.arange(num_nodes) % 4] += 2
    return x


def graph_of_groups() -> Graph:
    draw = torch.Generator().manual_seed(1)
    pairs = torch.combinations(torch.arange(120)).T
    odds = torch.where((pairs[0] - pairs[1]) % 4 == 0, 0.3, 0.02)
    return Graph.from_edges(
        pairs[:, torch.rand(odds.shape, generator=draw) < odds], num_nodes=120, y=torch.arange(120) % 4
    )


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_sparse_products_are_those_of_the_dense_matrix(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr("bandana.evaluation.sparse_vectors.PAIRS_PER_BLOCK", block)
    x = features()
    pairs = torch.randint(120, (2, 50), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sparse_pair_scores(SparseFeatures.of(x), pairs), (x[pairs[0]] * x[pairs[1]]).sum(1))


def test_sparse_floors_say_what_dense_ones_do_and_are_never_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x = graph_of_groups(), features()
    split, z = split_edges(graph, seed=0), torch.randn(120, 4, generator=torch.Generator().manual_seed(5))
    thin = SparseFeatures.of(x)
    monkeypatch.setattr(SparseFeatures, "dense", None)
    found = judge(graph, z, split, z, floors={"dense": x, "sparse": thin})
    assert found.links is not None
    assert found.links.easy["sparse"] == pytest.approx(found.links.easy["dense"])
    assert found.links.hard["sparse"] == pytest.approx(found.links.hard["dense"])
    assert found.links.easy["sparse"]["auc"] > 0.7
    assert found.labels is not None
    assert found.labels["sparse"]["accuracy"] == pytest.approx(found.labels["dense"]["accuracy"], abs=0.05)
    assert found.labels["sparse"]["accuracy"] > 0.9


def test_labels_of_sparse_features_alone() -> None:
    scores = label_quality(torch.arange(120) % 4, {"sparse": SparseFeatures.of(features())})
    assert scores is not None
    assert scores["sparse"]["accuracy"] > 0.9


def test_counts_of_shared_neighbours_are_the_heuristics() -> None:
    graph = graph_of_groups()
    split = split_edges(graph, seed=0)
    found = link_quality(split, torch.ones(120, 2)).easy
    expected = heuristic_floors(split.test_graph, split.test)
    for ours, theirs in ((SHARED, "common neighbours"), (ADAMIC_ADAR, "Adamic-Adar"), (ALLOCATION, ALLOCATION)):
        assert np.isclose(found[ours]["auc"], expected[theirs]["auc"])
