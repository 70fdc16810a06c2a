"""Negative lists: no link in them, near where they should be, drawn by resource allocation, the same for a seed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bandana.data.splits import EdgeSplit, split_edges
from bandana.evaluation import hard_negatives, link_quality
from bandana.evaluation.hard_negatives import negative_lists, random_walk
from bandana.evaluation.link_quality import balanced_average_precision, list_metrics
from bandana.evaluation.metrics import average_precision
from bandana.evaluation.shared_neighbours import shared_neighbours
from bandana.graph import Graph


def random_graph(num_nodes: int, num_edges: int, seed: int, *, directed: bool = False) -> Graph:
    edges = torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))
    return Graph.from_edges(edges, num_nodes=num_nodes, directed=directed)


def listed(pairs: Tensor) -> list[tuple[int, int]]:
    return [(u, v) for u, v in pairs.flatten(1).T.tolist()]


def share_at_distance_two(graph: Graph, pairs: Tensor) -> float:
    """Share of pairs with a node between them, whichever way links point."""
    around: list[set[int]] = [set() for _ in range(graph.num_nodes)]
    for u, v in listed(graph.edge_index):
        around[u].add(v)
        around[v].add(u)
    return sum(bool(around[u] & around[v]) for u, v in listed(pairs)) / pairs[0].numel()


@given(seed=st.integers(0, 500), directed=st.booleans(), steps=st.sampled_from([0, 2, 3]), edges=st.integers(40, 150))
def test_no_negative_is_a_link_or_a_loop(seed: int, directed: bool, steps: int, edges: int) -> None:
    graph = random_graph(20, edges, seed, directed=directed)
    split = split_edges(graph, 0.1, 0.2, seed=seed)
    lists = negative_lists(split, split.test.positive, 10, steps=steps, seed=seed)
    assert lists.pairs.shape == (2, split.test.positive.shape[1], 10)
    links = set(listed(graph.edge_index))  # both directions of an undirected graph
    assert not links & set(listed(lists.pairs))
    assert all(u != v for u, v in listed(lists.pairs))


def test_lists_keep_one_end_and_repeat_no_pair() -> None:
    graph = random_graph(200, 600, seed=1)
    split = split_edges(graph, seed=1)
    links = split.test.positive
    lists = negative_lists(split, links, 20, steps=2, seed=0).pairs
    for link in range(links.shape[1]):
        sender, receiver = links[:, link].tolist()
        assert lists[0, link, :10].eq(sender).all()
        assert lists[1, link, 10:].eq(receiver).all()
        assert lists[1, link, :10].unique().numel() == 10
        assert lists[0, link, 10:].unique().numel() == 10


@pytest.mark.parametrize("directed", [False, True])
def test_walks_come_first_and_their_share_is_told(directed: bool) -> None:
    graph = random_graph(150, 450, seed=2, directed=directed)
    split = split_edges(graph, seed=2)
    lists = negative_lists(split, split.test.positive, 10, steps=2, seed=0)
    near = share_at_distance_two(split.train, lists.pairs)
    uniform = negative_lists(split, split.test.positive, 10, steps=0, seed=0)
    by_chance = share_at_distance_two(split.train, uniform.pairs)
    assert 0.6 < lists.near <= near < 1
    assert by_chance < 0.4
    assert (uniform.near, uniform.far) == (0, 1)


def test_two_steps_arrive_in_proportion_to_resource_allocation() -> None:
    graph, start, walks = random_graph(12, 30, seed=3), 4, 200_000
    ends = random_walk(graph, torch.full((walks,), start), 2, torch.Generator().manual_seed(0))
    share = torch.bincount(ends, minlength=12).double() / walks
    others = torch.tensor([node for node in range(12) if node != start])
    expected = shared_neighbours(graph, torch.stack([torch.full_like(others, start), others])).allocation.double()
    torch.testing.assert_close(share[others], expected / graph.structure.row_sizes[start], rtol=0, atol=5e-3)


def test_a_walk_follows_links_both_ways_and_rests_where_there_are_none() -> None:
    path = Graph.from_edges(torch.tensor([[0, 1], [1, 2]]), num_nodes=4, directed=True)
    ends = random_walk(path, torch.tensor([1]).expand(400), 1, torch.Generator().manual_seed(0))
    assert 120 < int((ends == 0).sum()) < 280
    assert set(ends.tolist()) == {0, 2}
    assert random_walk(path, torch.tensor([[3, 3]]), 2, torch.Generator()).tolist() == [[3, 3]]
    empty = Graph.from_edges(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    assert random_walk(empty, torch.arange(3), 2, torch.Generator()).tolist() == [0, 1, 2]


def test_blocks_keep_the_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hard_negatives, "CANDIDATES_PER_BLOCK", 1)
    split = split_edges(random_graph(60, 200, seed=5), seed=5)
    lists = negative_lists(split, split.test.positive, 10, steps=2, seed=0)
    again = negative_lists(split, split.test.positive, 10, steps=2, seed=0)
    other = negative_lists(split, split.test.positive, 10, steps=2, seed=1)
    assert torch.equal(lists.pairs, again.pairs)
    assert not torch.equal(lists.pairs, other.pairs)
    assert lists.pairs.min() >= 0


def test_a_node_linked_to_everything_gets_the_splits_own_negatives() -> None:
    leaves = torch.arange(1, 40)
    star = torch.stack([torch.zeros_like(leaves), leaves])
    split = split_edges(Graph.from_edges(star, num_nodes=40), 0.1, 0.2, seed=0)
    lists = negative_lists(split, split.test.positive, 10, steps=2, seed=0)
    own = {frozenset(pair) for pair in listed(split.test.negative)}
    hub_first = split.test.positive[0] == 0
    kept = torch.where(hub_first[:, None], lists.pairs[:, :, :5], lists.pairs[:, :, 5:])
    assert {frozenset(pair) for pair in listed(kept)} <= own


def test_a_bipartite_graph_is_asked_at_three_steps() -> None:
    source = torch.Generator().manual_seed(0)
    people, things = torch.randint(60, (400,), generator=source), torch.randint(60, (400,), generator=source) + 60
    split = split_edges(Graph.from_edges(torch.stack([people, things]), num_nodes=120), seed=0)
    z = torch.randn(120, 8, generator=source)
    assert link_quality.link_quality(split, z).steps == 3
    walked = negative_lists(split, split.test.positive, 20, steps=3, seed=0)
    assert walked.near > 0.9
    across = sum((u < 60) != (v < 60) for u, v in listed(walked.pairs))
    assert across >= (1 - walked.far) * walked.pairs[0].numel() - 1e-6


def test_a_sparse_graph_is_walked_farther_before_chance_decides() -> None:
    ring = torch.stack([torch.arange(300), torch.arange(300).roll(-1)])
    split = split_edges(Graph.from_edges(ring, num_nodes=300), 0.02, 0.02, seed=0)
    lists = negative_lists(split, split.test.positive, 20, steps=2, seed=0)
    step = (lists.pairs[0] - lists.pairs[1]).abs()
    gap = torch.minimum(step, 300 - step)
    for share, distance in [(lists.near, 2), (1 - lists.far - lists.near, 4)]:
        assert (gap == distance).double().mean() >= share - 1e-9
        assert share > 0
    assert (gap > 4).double().mean() <= lists.far


def test_list_metrics_by_loops() -> None:
    source = torch.Generator().manual_seed(1)
    positive = torch.randint(6, (50,), generator=source).float()
    negative = torch.randint(6, (50, 9), generator=source).float()
    ranks = [
        1 + sum((n > p) + (n == p) / 2 for n in row)
        for p, row in zip(positive.tolist(), negative.tolist(), strict=True)
    ]
    metrics = list_metrics(positive, negative)
    assert metrics["mrr"] == pytest.approx(sum(1 / rank for rank in ranks) / 50)
    assert metrics["hits@1"] == pytest.approx(sum(rank <= 1 for rank in ranks) / 50)
    assert list_metrics(torch.zeros(5), torch.zeros(5, 100))["hits@10"] == 0


def test_balanced_precision_does_not_depend_on_how_many_negatives_there_are() -> None:
    source = torch.Generator().manual_seed(1)
    positive, negative = torch.randn(80, generator=source) + 1, torch.randn(80, generator=source).round(decimals=1)
    plain = average_precision(positive, negative)
    assert balanced_average_precision(positive, negative) == pytest.approx(plain)
    assert balanced_average_precision(positive, negative.repeat(7)) == pytest.approx(plain)


def planted(noise: float) -> tuple[EdgeSplit, Tensor]:
    """Four groups linked inside, and vectors that know the group as far as the noise allows."""
    source = torch.Generator().manual_seed(0)
    group = torch.arange(200) % 4
    pairs = torch.randint(200, (2, 12_000), generator=source)
    graph = Graph.from_edges(pairs[:, group[pairs[0]] == group[pairs[1]]][:, :1_200], num_nodes=200)
    z = torch.eye(4)[group] + noise * torch.randn(200, 4, generator=source)
    return split_edges(graph, seed=0), z


def test_vectors_that_know_groups_win_easily_and_lose_nearby() -> None:
    split, z = planted(noise=0.1)
    noise = {"noise": torch.randn(200, 4, generator=torch.Generator().manual_seed(3))}
    found = link_quality.link_quality(split, z, floors=noise, decoder=lambda pairs: pairs[0])
    ours, names = link_quality.VECTORS, set(found.easy)
    assert names == set(found.hard) == {ours, "noise", link_quality.DECODER, link_quality.RANDOM, *link_quality.COUNTED}
    assert found.easy[ours]["auc"] > 0.8
    assert found.easy[ours]["hits@10"] < 1
    assert found.hard[ours]["auc"] < found.easy[ours]["auc"] - 0.15
    assert found.easy[link_quality.RANDOM]["auc"] == pytest.approx(0.5, abs=0.1)
    assert found.steps == 2
    assert found == link_quality.link_quality(split, z, floors=noise, decoder=lambda pairs: pairs[0])


def test_samples_of_links_are_said_to_be_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    split, z = planted(noise=0.3)
    whole = link_quality.link_quality(split, z)
    assert whole.notes == ()
    monkeypatch.setattr(link_quality, "PAIRS_RANKED", 50)
    monkeypatch.setattr(link_quality, "LINKS_WITH_LISTS", 20)
    part = link_quality.link_quality(split, z)
    assert (part.num_links, part.num_lists) == (50, 20)
    assert len(part.notes) == 2
    assert part.easy[link_quality.VECTORS]["auc"] == pytest.approx(whole.easy[link_quality.VECTORS]["auc"], abs=0.15)
