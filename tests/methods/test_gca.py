"""GCA: adaptive chances from the training graph, in front of the contrast that GRACE's test checks by loops."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.gca import GCA, GCAConfig
from bandana.parts.views import DropOdds, two_views

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, step=7)


def build(graph: Graph, config: GCAConfig) -> GCA:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = GCA(config, GraphSpec.of(graph))
    method.prepare(graph)
    return method


@pytest.mark.usefixtures("float64")
def test_loss_is_the_contrast_of_views_with_the_papers_chances(random_graph: GraphFactory) -> None:
    graph = random_graph()
    assert isinstance(graph.x, torch.Tensor)
    graph = replace(graph, x=graph.x * (graph.x > 0))
    edges = graph.edge_index.T.tolist()
    degree = [sum(receiver == i for _, receiver in edges) for i in range(30)]

    def odds(importance: list[float]) -> torch.Tensor:
        score = [math.log(value) for value in importance]
        weight = [(max(score) - s) / (max(score) - sum(score) / len(score)) for s in score]
        return torch.tensor([w * len(weight) / sum(weight) for w in weight])

    into = odds([degree[receiver] for _, receiver in edges])
    columns = odds([sum(degree[i] for i in range(30) if graph.x[i, f] != 0) for f in range(6)])
    method = build(graph, GCAConfig())
    views = two_views(graph, method.config.views, CLOCK.generator(graph.device), DropOdds(into, columns))
    torch.testing.assert_close(method.loss(Batch(graph, graph.links), CLOCK), method.contrast(*views))


def test_the_graph_must_be_seen_first(random_graph: GraphFactory) -> None:
    graph = random_graph()
    with pytest.raises(AssertionError, match="prepare"):
        GCA(GCAConfig(), GraphSpec.of(graph)).loss(Batch(graph, graph.links), CLOCK)


def test_equal_centralities_make_a_uniform_drop() -> None:
    ring = torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12])
    graph = Graph.from_edges(ring, num_nodes=12, x=torch.eye(12))
    for centrality in ("degree", "pagerank", "eigenvector"):
        method = build(graph, GCAConfig(centrality=centrality))  # type: ignore[arg-type]
        assert method._odds is not None
        assert all(bool((odds == 1).all()) for odds in method._odds)
