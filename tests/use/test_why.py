"""Reasons against networkx and against a full pass over the graph with the links really deleted."""

import networkx as nx
import pytest
import torch

from bandana.errors import UserError
from bandana.graph import Graph
from bandana.method import GraphSpec, Method
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.parts.encoders import EncoderConfig
from bandana.use.why import explain_link


def model(graph: Graph) -> Method:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Bandana(BandanaConfig(encoder=EncoderConfig(width=8)), GraphSpec.of(graph)).eval()


def drawn(graph: Graph) -> nx.DiGraph:
    result = nx.DiGraph()
    result.add_nodes_from(range(graph.num_nodes))
    result.add_edges_from(graph.edge_index.T.tolist())
    return result


@torch.no_grad()
def score_without(method: Method, graph: Graph, a: int, b: int, gone: set[tuple[int, int]]) -> float:
    left = [edge for edge in graph.edge_index.T.tolist() if tuple(edge) not in gone]
    cut = Graph.from_edges(torch.tensor(left).T, num_nodes=graph.num_nodes, x=graph.x, directed=True)
    z = method.embed(cut)
    return float(z[a] @ z[b])


def both_ways(edges: set[tuple[int, int]], graph: Graph) -> set[tuple[int, int]]:
    return edges if graph.directed else edges | {(b, a) for a, b in edges}


@pytest.mark.parametrize("directed", [False, True])
def test_deletions_are_real_and_paths_complete(random_graph, directed: bool) -> None:
    graph = random_graph(14, 45, directed=directed)
    method, net = model(graph), drawn(graph)
    for a, b in [(0, 1), (2, 9), (13, 5)]:
        reasons = explain_link(method, graph, a, b, most=1000)
        full = score_without(method, graph, a, b, set())
        assert reasons.score == pytest.approx(full, abs=1e-5)
        expected = set(net.successors(a)) & set(net.predecessors(b))
        assert {neighbour.node for neighbour in reasons.shared} == expected
        assert reasons.num_shared == len(expected)
        for neighbour in reasons.shared:
            gone = both_ways({(a, neighbour.node), (neighbour.node, b)}, graph)
            assert neighbour.effect == pytest.approx(full - score_without(method, graph, a, b, gone), abs=1e-5)
        effects = [neighbour.effect for neighbour in reasons.shared]
        assert effects == sorted(effects, reverse=True)
        if expected:
            gone = both_ways({(a, node) for node in expected} | {(node, b) for node in expected}, graph)
            assert reasons.score_without_shared == pytest.approx(score_without(method, graph, a, b, gone), abs=1e-5)
        assert reasons.linked == net.has_edge(a, b)
        assert reasons.linked_back == (directed and net.has_edge(b, a))
        if reasons.linked:
            without = score_without(method, graph, a, b, both_ways({(a, b)}, graph))
            assert reasons.score_without_link == pytest.approx(without, abs=1e-5)
        paths = {tuple(path) for path in nx.all_simple_paths(net, a, b, cutoff=3) if len(path) == 4}
        assert set(reasons.paths) == paths
        assert reasons.num_paths == len(reasons.paths) == len(paths)
        assert reasons.distance == nx.shortest_path_length(net, a, b)


def test_only_the_most_telling_are_listed_but_all_are_counted() -> None:
    # 0 and 1 share 2 to 6; of these 6 is the busiest.
    edges = [(0, n) for n in range(2, 7)] + [(1, n) for n in range(2, 7)] + [(6, n) for n in range(7, 12)]
    graph = Graph.from_edges(torch.tensor(edges).T, num_nodes=12, x=torch.eye(12)[:, :3] + 0.1)
    reasons = explain_link(model(graph), graph, 0, 1, most=4)
    assert {neighbour.node for neighbour in reasons.shared} == {2, 3, 4, 5}
    assert reasons.num_shared == 5
    assert reasons.distance == 2
    assert all(neighbour.degree == 2 for neighbour in reasons.shared)


def test_strangers_have_nothing_between_them(hand_graph) -> None:
    graph = hand_graph()
    reasons = explain_link(model(graph), graph, 0, 4)
    assert reasons.distance is None
    assert reasons.shared == reasons.paths == ()
    assert reasons.score_without_shared is None


def test_a_link_the_other_way_is_told_and_is_no_link(hand_graph) -> None:
    graph = hand_graph(directed=True)
    reasons = explain_link(model(graph), graph, 3, 2)
    assert (reasons.linked, reasons.linked_back, reasons.score_without_link) == (False, True, None)
    assert not explain_link(model(graph), graph, 2, 3).linked_back


@pytest.mark.parametrize(("a", "b"), [(1, 1), (0, 5), (-1, 0)])
def test_two_nodes_of_the_graph_are_needed(hand_graph, a: int, b: int) -> None:
    graph = hand_graph()
    with pytest.raises(UserError, match="two different nodes"):
        explain_link(model(graph), graph, a, b)
