"""Walks on graphs small enough to list, and the chance of every step."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.engine.structure import build_structure
from bandana.engine.walks import STUCK, random_walks
from bandana.graph import Graph

GraphFactory = Callable[..., Graph]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20, unique=True),
    length=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_every_walk_is_a_chain_of_edges_that_ends_only_where_none_leaves(
    edges: list[tuple[int, int]], length: int, seed: int
) -> None:
    receiver, sender = (torch.tensor([edge[end] for edge in edges], dtype=torch.long) for end in (0, 1))
    structure, _ = build_structure(receiver, sender, 7, 7)
    starts = torch.arange(7).repeat(2)
    walked = random_walks(structure, starts, length, seeded(seed))
    assert walked.shape == (length, 14)
    leaves = set(structure.col.tolist())
    for start, walk in zip(starts.tolist(), walked.T.tolist(), strict=True):
        node = start
        for entry in walk:
            assert (entry == STUCK) == (node not in leaves)
            if entry != STUCK:
                assert int(structure.col[entry]) == node
                node = int(structure.row[entry])


def test_all_edges_of_a_node_are_equally_likely(random_graph: GraphFactory) -> None:
    graph = random_graph(12, 40, directed=True)
    walked = random_walks(graph.structure, graph.structure.col.repeat(2000), 1, seeded())
    counts = torch.bincount(walked[0], minlength=graph.num_edges)
    assert int(counts.sum()) == 2000 * graph.num_edges
    # As many walks set out from a node as 2000 times its edges, so each edge expects 2000.
    assert float((counts - 2000).abs().max()) < 5 * 2000**0.5


def test_two_steps_have_the_chances_of_the_squared_transition_matrix(random_graph: GraphFactory) -> None:
    graph = random_graph(8, 14)
    structure = graph.structure
    transition = torch.zeros(8, 8)
    transition[structure.col, structure.row] = 1.0
    transition /= transition.sum(1, keepdim=True).clamp(min=1)
    start = int(structure.col[0])
    walked = random_walks(structure, torch.full((20_000,), start), 2, seeded())
    ends = torch.bincount(structure.row[walked[1]], minlength=8) / 20_000
    torch.testing.assert_close(ends, (transition @ transition)[start], atol=0.015, rtol=0)


def test_the_seed_decides(random_graph: GraphFactory) -> None:
    structure = random_graph().structure
    first, again, other = (random_walks(structure, structure.col, 3, seeded(seed)) for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


@pytest.mark.parametrize("starts", [[], [0, 4]])
def test_nobody_walks_where_there_is_no_edge(starts: list[int]) -> None:
    empty = torch.empty(0, dtype=torch.long)
    structure, _ = build_structure(empty, empty, 5, 5)
    walked = random_walks(structure, torch.tensor(starts, dtype=torch.long), 2, seeded())
    assert walked.tolist() == [[STUCK] * len(starts)] * 2
