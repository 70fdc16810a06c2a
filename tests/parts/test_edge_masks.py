"""What each way of hiding edges promises: counts, directions, and what stays visible."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.graph import Graph
from bandana.method import Clock
from bandana.parts.edge_masks import (
    EdgeMask,
    hide_entries,
    hide_entries_by_count,
    hide_links_by_count,
    hide_walks,
    visible_weights,
)

GraphFactory = Callable[..., Graph]
Edge = tuple[int, int]
CPU = torch.device("cpu")

WAYS: dict[str, Callable[[Graph, float, torch.Generator], EdgeMask]] = {
    "entries": hide_entries,
    "entries by count": hide_entries_by_count,
    "links by count": hide_links_by_count,
    "walks from nodes": lambda graph, rate, generator: hide_walks(graph, rate, 3, "node", generator),
    "walks from edges": lambda graph, rate, generator: hide_walks(graph, rate, 2, "edge", generator),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def edges_where(graph: Graph, indicator: torch.Tensor) -> set[Edge]:
    return set(map(tuple, graph.edge_index[:, indicator.bool()].T.tolist()))


def reverse(edges: set[Edge]) -> set[Edge]:
    return {(receiver, sender) for sender, receiver in edges}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("directed", [False, True])
def test_masks_are_zeros_and_ones_for_every_entry(random_graph: GraphFactory, way: str, directed: bool) -> None:
    for num_edges in (90, 1, 0):
        graph = random_graph(30, num_edges, directed=directed, isolated=3)
        mask = WAYS[way](graph, 0.6, seeded())
        for indicator in mask:
            assert indicator.shape == (graph.num_edges,)
            assert indicator.dtype == torch.get_default_dtype()
            assert set(indicator.tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("way", WAYS)
def test_in_a_directed_graph_an_entry_is_either_hidden_or_visible(random_graph: GraphFactory, way: str) -> None:
    mask = WAYS[way](random_graph(directed=True), 0.6, seeded())
    assert mask.hidden.any()
    assert (mask.visible + mask.hidden).equal(torch.ones_like(mask.hidden))


@pytest.mark.parametrize("way", ["entries", "walks from nodes", "walks from edges"])
@given(seed=st.integers(0, 1000))
def test_a_link_is_visible_by_either_of_its_entries(random_graph: GraphFactory, way: str, seed: int) -> None:
    graph = random_graph()
    mask = WAYS[way](graph, 0.5, seeded(seed))
    shown = edges_where(graph, 1 - mask.hidden)
    assert edges_where(graph, mask.visible) == shown | reverse(shown)


def test_entries_are_hidden_with_the_rate_and_links_with_its_square(random_graph: GraphFactory) -> None:
    graph = random_graph(400, 40_000)
    mask = hide_entries(graph, 0.7, seeded())
    assert float(mask.hidden.mean()) == pytest.approx(0.7, abs=0.01)
    assert float(mask.visible.mean()) == pytest.approx(1 - 0.7**2, abs=0.01)
    assert float((mask.hidden * mask.visible).mean()) == pytest.approx(0.7 * 0.3, abs=0.01)


@given(rate=st.floats(0.01, 1.0), seed=st.integers(0, 1000), directed=st.booleans())
def test_counts_are_exact(random_graph: GraphFactory, rate: float, seed: int, directed: bool) -> None:
    graph = random_graph(directed=directed)
    entries = hide_entries_by_count(graph, rate, seeded(seed))
    assert int(entries.hidden.sum()) == int(rate * graph.num_edges)
    assert (entries.visible + entries.hidden).equal(torch.ones_like(entries.hidden))
    links = hide_links_by_count(graph, rate, seeded(seed))
    assert int(links.hidden.sum()) == int(rate * graph.links.numel())
    assert not bool((links.hidden * links.visible).any())


def test_counted_entries_leave_their_reverses_visible_and_counted_links_do_not(random_graph: GraphFactory) -> None:
    graph = random_graph()
    entries = hide_entries_by_count(graph, 0.5, seeded())
    assert reverse(edges_where(graph, entries.hidden)) & edges_where(graph, entries.visible)
    links = hide_links_by_count(graph, 0.5, seeded())
    hidden, visible = edges_where(graph, links.hidden), edges_where(graph, links.visible)
    assert visible == reverse(visible)
    assert not visible & (hidden | reverse(hidden))
    assert visible | hidden | reverse(hidden) == edges_where(graph, torch.ones(graph.num_edges))
    assert set(links.hidden.nonzero().squeeze(1).tolist()) <= set(graph.links.tolist())


@given(rate=st.floats(0.05, 1.0), length=st.integers(1, 4), seed=st.integers(0, 1000))
def test_walks_hide_no_more_than_they_can_pass(random_graph: GraphFactory, rate: float, length: int, seed: int) -> None:
    graph = random_graph(isolated=5)
    hidden = hide_walks(graph, rate, length, "node", seeded(seed)).hidden
    assert int(hidden.sum()) <= round(rate * graph.num_nodes) * length


def test_walks_hide_what_hangs_together() -> None:
    """On a one-way ring every walk is known: from each start, the next three edges."""
    ring = Graph.from_edges(torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9]), num_nodes=9, directed=True)
    hidden = edges_where(ring, hide_walks(ring, 1 / 9, 3, "node", seeded()).hidden)
    starts = {sender for sender, _ in hidden} - {receiver for _, receiver in hidden}
    assert len(hidden) == 3
    assert len(starts) == 1
    assert bool(hide_walks(ring, 1.0, 1, "node", seeded()).hidden.all())
    assert bool(hide_walks(ring, 1.0, 1, "edge", seeded()).hidden.all())


def test_walks_from_edges_start_at_a_node_in_proportion_to_its_edges() -> None:
    """A one-way star with a tail behind each leaf: the hub starts twenty walks, each leaf one."""
    hub, leaves, tails = torch.zeros(20, dtype=torch.long), torch.arange(1, 21), torch.arange(21, 41)
    edge_index = torch.stack([torch.cat([hub, leaves]), torch.cat([leaves, tails])])
    graph = Graph.from_edges(edge_index, num_nodes=41, directed=True)
    from_hub = graph.structure.col == 0
    hidden = torch.stack([hide_walks(graph, 0.5, 1, "edge", seeded(seed)).hidden for seed in range(400)])
    assert float(hidden[:, ~from_hub].mean()) == pytest.approx(0.5, abs=0.03)
    # Each of twenty walkers sets out with chance 1/2 and takes a given edge with chance 1/20.
    assert float(hidden[:, from_hub].mean()) == pytest.approx(1 - (1 - 0.5 / 20) ** 20, abs=0.03)


def test_visible_weights_are_the_graphs_own(random_graph: GraphFactory) -> None:
    graph = random_graph(weighted=True)
    mask = hide_entries(graph, 0.5, seeded())
    assert visible_weights(graph, mask).equal(mask.visible * graph.weight)
    assert visible_weights(random_graph(), mask) is mask.visible


def test_all_steps_of_an_epoch_share_a_stream() -> None:
    def draw(clock: Clock) -> float:
        return float(torch.rand(1, generator=clock.epoch_generator(CPU)))

    assert draw(Clock(1, epoch=2, step=5)) == draw(Clock(1, epoch=2, step=6))
    assert len({draw(Clock(seed, epoch=epoch)) for seed in range(3) for epoch in range(3)}) == 9
