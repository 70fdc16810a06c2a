"""Negatives of a group of parts are those of the whole graph, once all groups have had their turn."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import torch

from bandana.engine.negatives import sample_negatives
from bandana.graph import Graph, Origin
from bandana.parts.negatives import draw_negatives

GraphFactory = Callable[..., Graph]
PARTS, SIZE, TOGETHER = 6, 5, 3


def group_of(whole: Graph, parts: tuple[int, ...]) -> Graph:
    """The nodes of some parts with the edges between them."""
    rows = torch.cat([torch.arange(part * SIZE, (part + 1) * SIZE) for part in parts])
    place = torch.full((whole.num_nodes,), -1)
    place[rows] = torch.arange(rows.numel())
    ends = place[whole.edge_index]
    group = Graph.from_edges(ends[:, (ends >= 0).all(0)], num_nodes=rows.numel())
    starts = torch.arange(TOGETHER + 1) * SIZE
    return replace(group, origin=Origin(rows, whole.num_nodes, None, starts, (TOGETHER - 1) / (PARTS - 1)))


def test_over_all_groups_every_pair_of_the_whole_graph_is_as_likely_as_any(random_graph: GraphFactory) -> None:
    whole = random_graph(PARTS * SIZE, 60)
    edges = set(zip(*whole.edge_index.tolist(), strict=True))
    draw, times = torch.Generator().manual_seed(0), Counter[tuple[int, int]]()
    for parts in combinations(range(PARTS), TOGETHER):
        group = group_of(whole, parts)
        assert group.origin is not None
        # As many as its share of the pairs: a step draws in proportion to its links, which these groups differ in.
        free = group.num_nodes * (group.num_nodes - 1) - group.num_edges
        linked_inside = sum(a // SIZE == b // SIZE and a // SIZE in parts for a, b in edges)
        inside = TOGETHER * SIZE * (SIZE - 1) - linked_inside
        expected = free - inside + inside * group.origin.meeting
        pairs = draw_negatives(group, round(100 * expected), draw)
        assert pairs.shape == (2, round(100 * expected))
        times.update(zip(*group.origin.rows[pairs].tolist(), strict=True))
    possible = {(a, b) for a in range(30) for b in range(30) if a != b} - edges
    assert set(times) == possible
    counts = torch.tensor([float(times[pair]) for pair in sorted(possible)])
    same = torch.tensor([a // SIZE == b // SIZE for a, b in sorted(possible)])
    torch.testing.assert_close(counts[same].mean(), counts[~same].mean(), rtol=0.02, atol=0)
    # Counts of equally likely pairs scatter as the root of their mean.
    assert 0.8 < float(counts.var() / counts.mean()) < 1.3


def test_first_nodes_are_drawn_from_everywhere(random_graph: GraphFactory) -> None:
    group = group_of(random_graph(PARTS * SIZE, 60), (0, 1, 2))
    first = draw_negatives(group, 30_000, torch.Generator().manual_seed(1))[0]
    share = torch.bincount(first, minlength=group.num_nodes) / 30_000
    assert float(share.min()) > 0.04
    assert float(share.max()) < 0.09


def test_a_whole_graph_and_lonely_parts_are_drawn_from_as_they_are(random_graph: GraphFactory) -> None:
    whole = random_graph(30, 60)
    alone = replace(whole, origin=Origin(torch.arange(30), 30, None, torch.tensor([0, 30]), 0.0))
    everything = replace(whole, origin=Origin(torch.arange(30), 30, None, torch.arange(0, 31, 5), 1.0))
    expected = sample_negatives(whole.edge_keys, 30, 50, torch.Generator().manual_seed(2))
    for graph in (whole, alone, everything):
        assert torch.equal(draw_negatives(graph, 50, torch.Generator().manual_seed(2)), expected)
