"""Negative pairs are as many as asked for, none of them an edge, and each as likely as any other."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bandana.engine.negatives import sample_negatives
from bandana.errors import UserError
from bandana.graph import Graph


def draw(graph: Graph, count: int, seed: int = 0) -> list[tuple[int, int]]:
    generator = torch.Generator().manual_seed(seed)
    pairs = sample_negatives(graph.edge_keys, graph.num_nodes, count, generator)
    assert pairs.shape == (2, count)
    return [tuple(pair) for pair in pairs.T.tolist()]


def non_edges(graph: Graph) -> set[tuple[int, int]]:
    """Ordered (receiver, sender) pairs that the graph leaves free, found one by one."""
    edges = set(zip(graph.structure.row.tolist(), graph.structure.col.tolist(), strict=True))
    nodes = range(graph.num_nodes)
    return {(u, v) for u in nodes for v in nodes if u != v and (u, v) not in edges}


@given(
    num_nodes=st.integers(2, 9),
    edges=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=60),
    directed=st.booleans(),
    count=st.integers(0, 200),
)
def test_exact_count_and_never_an_edge(
    num_nodes: int, edges: list[tuple[int, int]], directed: bool, count: int
) -> None:
    inside = [edge for edge in edges if max(edge) < num_nodes]
    edge_index = torch.tensor(inside, dtype=torch.long).reshape(-1, 2).T
    graph = Graph.from_edges(edge_index, num_nodes=num_nodes, directed=directed)
    free = non_edges(graph)
    if free or not count:
        assert set(draw(graph, count)) <= free
    else:
        with pytest.raises(UserError, match="no negative pair"):
            draw(graph, count)


def ring(num_nodes: int, directed: bool) -> Graph:
    nodes = torch.arange(num_nodes)
    return Graph.from_edges(torch.stack([nodes, (nodes + 1) % num_nodes]), num_nodes=num_nodes, directed=directed)


def nearly_complete(num_nodes: int, missing: int) -> Graph:
    return Graph.from_edges(torch.combinations(torch.arange(num_nodes)).T[:, missing:], num_nodes=num_nodes)


@pytest.mark.parametrize(
    "graph",
    [ring(6, directed=False), ring(6, directed=True), nearly_complete(7, missing=5)],
    ids=["undirected", "directed", "nearly complete"],
)
def test_every_free_pair_is_equally_likely(graph: Graph) -> None:
    free = sorted(non_edges(graph))
    drawn = draw(graph, 500 * len(free))
    counts = [drawn.count(pair) for pair in free]
    assert sum(counts) == len(drawn)
    assert stats.chisquare(counts).pvalue > 0.01


@pytest.mark.timeout(10)
def test_a_nearly_complete_graph_takes_no_longer_than_its_edges() -> None:
    graph = nearly_complete(150, missing=1)
    drawn = draw(graph, graph.num_edges)
    assert set(drawn) == {(0, 1), (1, 0)}
    assert abs(drawn.count((0, 1)) - len(drawn) / 2) < 5 * len(drawn) ** 0.5 / 2


def test_a_complete_graph_has_none() -> None:
    graph = nearly_complete(5, missing=0)
    assert draw(graph, 0) == []
    with pytest.raises(UserError, match="5 nodes"):
        draw(graph, 1)


def test_a_graph_without_edges_leaves_all_pairs_free() -> None:
    graph = Graph.from_edges(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    assert set(draw(graph, 200)) == non_edges(graph)


def test_same_generator_same_pairs(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph()
    assert draw(graph, 100, seed=1) == draw(graph, 100, seed=1)
    assert draw(graph, 100, seed=1) != draw(graph, 100, seed=2)


def test_pairs_are_sorted_for_the_gathers_that_follow(random_graph: Callable[..., Graph]) -> None:
    drawn = draw(random_graph(), 500)
    assert drawn == sorted(drawn)


@given(
    num_nodes=st.integers(2, 9),
    edges=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=60),
    directed=st.booleans(),
)
def test_numbers_and_free_pairs_are_matched_one_to_one_in_order(
    num_nodes: int, edges: list[tuple[int, int]], directed: bool
) -> None:
    """Drawing every number once, instead of at random, must give every free pair once, in ascending order."""
    inside = [edge for edge in edges if max(edge) < num_nodes]
    edge_index = torch.tensor(inside, dtype=torch.long).reshape(-1, 2).T
    graph = Graph.from_edges(edge_index, num_nodes=num_nodes, directed=directed)
    free = sorted(non_edges(graph))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch, "randint", lambda high, shape, **_: torch.arange(high)[: shape[0]])
        assert draw(graph, len(free)) == free


def test_the_pairs_of_billions_of_nodes_are_numbered_without_overflow() -> None:
    num_nodes = 3_000_000_000
    edge_keys = torch.tensor([1, num_nodes, num_nodes * (num_nodes - 1) + num_nodes - 2])
    first, second = sample_negatives(edge_keys, num_nodes, 1000, torch.Generator().manual_seed(0))
    assert 0 <= int(first.min()) <= int(first.max()) < num_nodes
    assert 0 <= int(second.min()) <= int(second.max()) < num_nodes
    assert not bool((first == second).any())
    assert int(first.max()) - int(first.min()) > 0.9 * num_nodes
