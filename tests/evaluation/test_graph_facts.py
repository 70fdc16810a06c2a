"""Facts about graphs against networkx and against graphs whose facts are known."""

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.evaluation import graph_facts, shared_neighbours
from bandana.evaluation.graph_facts import components, degree_facts, describe_graph, is_bipartite, label_facts
from bandana.evaluation.shared_neighbours import contains, neighbour_counts
from bandana.graph import Graph


def random_graph(num_nodes: int, num_edges: int, seed: int, *, directed: bool = False) -> Graph:
    edges = torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))
    return Graph.from_edges(edges, num_nodes=num_nodes, directed=directed)


def as_networkx(graph: Graph) -> nx.Graph:
    result = nx.Graph()
    result.add_nodes_from(range(graph.num_nodes))
    result.add_edges_from(graph.edge_index.T.tolist())
    return result


graphs = st.builds(
    random_graph,
    num_nodes=st.integers(2, 14),
    num_edges=st.integers(0, 20),
    seed=st.integers(0, 1_000),
    directed=st.booleans(),
)


@given(graphs)
def test_components_sides_and_degrees_are_those_of_networkx(graph: Graph) -> None:
    reference = as_networkx(graph)
    facts = describe_graph(graph)
    parts = list(nx.connected_components(reference))
    assert facts.num_components == len(parts)
    assert facts.largest_component == pytest.approx(max(map(len, parts)) / graph.num_nodes)
    assert {frozenset((components(graph) == n).nonzero().flatten().tolist()) for n in range(len(parts))} == set(
        map(frozenset, parts)
    )
    assert is_bipartite(graph) == (graph.num_edges > 0 and nx.is_bipartite(reference))
    degree = [reference.degree(node) for node in range(graph.num_nodes)]
    assert neighbour_counts(graph).tolist() == degree
    assert facts.degrees.isolated == degree.count(0)
    assert facts.degrees.most == max(degree)
    assert facts.degrees.mean == pytest.approx(sum(degree) / len(degree))


@given(graphs)
def test_closed_links_and_reciprocity_by_loops(graph: Graph) -> None:
    edges = {tuple(edge) for edge in graph.edge_index.T.tolist()}
    facts = describe_graph(graph)
    if not edges:
        assert facts.closed is None
        assert facts.reciprocity is None
        return
    closed = [any((u, w) in edges and (w, v) in edges for w in range(graph.num_nodes)) for u, v in edges]
    assert facts.closed == pytest.approx(sum(closed) / len(closed))
    back = sum((v, u) in edges for u, v in edges) / len(edges)
    assert facts.reciprocity == (pytest.approx(back) if graph.directed else None)


def test_a_hub_costs_what_its_partner_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = torch.arange(1, 2_000)
    star = Graph.from_edges(torch.stack([torch.zeros_like(leaves), leaves]), num_nodes=2_000)
    looked_up = []

    def counting(ascending: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        looked_up.append(keys.numel())
        return contains(ascending, keys)

    monkeypatch.setattr(shared_neighbours, "contains", counting)
    pairs = torch.stack([torch.zeros(500, dtype=torch.long), torch.arange(1, 501)])
    shared = shared_neighbours.shared_neighbours(star, torch.cat([pairs, pairs.flip(0)], dim=1))
    assert not shared.number.any()
    assert sum(looked_up) == 500  # one neighbour of each leaf, and a pair named both ways is one pair


def test_degrees_are_counted_in_doubling_steps() -> None:
    facts = degree_facts(torch.tensor([0, 0, 1, 2, 3, 3, 4, 7, 8, 1024]))
    assert facts.counts == (2, 1, 3, 2, 1, 0, 0, 0, 0, 0, 0, 1)
    assert (facts.median, facts.ninetieth, facts.most, facts.isolated) == (3.0, 8.0, 1024, 2)


def test_homophily_counts_links_between_labelled_nodes() -> None:
    graph = Graph.from_edges(torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), num_nodes=6)
    facts = label_facts(graph, torch.tensor([0, 0, 1, 1, -1, 1]))
    assert (facts.labelled, facts.class_sizes) == (5, (2, 3))
    assert facts.homophily == pytest.approx(2 / 3)  # 0-1 and 2-3 agree, 1-2 does not, the others are unknown
    by_chance = (3 / 6) ** 2 + (3 / 6) ** 2
    assert facts.adjusted_homophily == pytest.approx((2 / 3 - by_chance) / (1 - by_chance))


def test_adjusted_homophily_is_nought_for_labels_at_random_and_one_for_pure_parts() -> None:
    graph = random_graph(2_000, 20_000, seed=1)
    labels = (torch.rand(2_000, generator=torch.Generator().manual_seed(2)) < 0.9).long()
    facts = label_facts(graph, labels)
    assert facts.homophily is not None
    assert facts.homophily > 0.75
    assert facts.adjusted_homophily == pytest.approx(0, abs=0.02)
    parts = label_facts(Graph.from_edges(torch.tensor([[0, 2], [1, 3]]), num_nodes=4), torch.tensor([0, 0, 1, 1]))
    assert (parts.homophily, parts.adjusted_homophily) == (1.0, 1.0)


def test_chance_agreement_counts_both_ends_of_directed_links() -> None:
    graph = Graph.from_edges(torch.tensor([[0, 1, 2], [3, 3, 3]]), num_nodes=4, directed=True)
    facts = label_facts(graph, torch.tensor([0, 0, 0, 1]))
    assert (facts.homophily, facts.adjusted_homophily) == (0, -1)  # half of the ends are of each class


def test_labels_that_say_nothing() -> None:
    graph = random_graph(10, 20, seed=1)
    nothing = label_facts(graph, torch.full((10,), -1))
    assert (nothing.labelled, nothing.class_sizes, nothing.homophily) == (0, (), None)
    assert label_facts(graph, torch.zeros(10, dtype=torch.long)).adjusted_homophily is None


def test_features_that_only_number_the_nodes_are_none() -> None:
    assert describe_graph(random_graph(6, 9, seed=1)).num_features is None
    assert describe_graph(Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=2, x=torch.ones(2, 3))).num_features == 3


def test_a_sample_of_links_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(300, 6_000, seed=3)
    whole = describe_graph(graph)
    monkeypatch.setattr(graph_facts, "LINKS_EXAMINED", 1_000)
    part = describe_graph(graph, seed=1)
    assert whole.closed is not None
    assert part.closed == pytest.approx(whole.closed, abs=0.05)
    assert "1,000 of" in part.notes[0]
    assert part == describe_graph(graph, seed=1)
