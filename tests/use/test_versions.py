"""Comparisons of versions: rotations mean nothing, movements do, and seeds say how much."""

import pytest
import torch
from torch import Tensor

from bandana.errors import UserError
from bandana.graph import Graph
from bandana.use.versions import Embedding, aligned_shift, compare, fitted, neighbour_turnover, same_graph


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotated(z: Tensor, seed: int = 5) -> Tensor:
    turn, _ = torch.linalg.qr(noise(z.shape[1], z.shape[1], seed=seed))
    return 3 * z @ turn + 7


def test_turned_scaled_and_shifted_vectors_have_not_moved() -> None:
    z = noise(40, 6)
    assert aligned_shift(z, rotated(z)).max() < 1e-12
    assert aligned_shift(z, torch.cat([rotated(z), torch.full((40, 2), 1.5)], dim=1)).max() < 1e-12
    assert neighbour_turnover(z, z.flip(1), torch.arange(40), 5).sum() == 0


def test_alignment_is_the_best_there_is() -> None:
    a, b = noise(30, 3), noise(30, 3, seed=1)
    rows = torch.arange(20)
    best = (fitted(b, a, rows) - a)[rows].square().sum()
    for seed in range(100):
        turn, _ = torch.linalg.qr(noise(3, 3, seed=seed))
        scale, shift = noise(1, seed=seed).abs(), 0.3 * noise(3, seed=seed + 1000)
        assert best <= (scale * b @ turn + shift - a)[rows].square().sum()


def test_few_that_went_far_do_not_move_the_others() -> None:
    z = noise(50, 4)
    far = rotated(z)
    far[:10] += 500
    shift = aligned_shift(z, far)
    assert shift[10:].max() < 1e-9
    assert shift[:10].min() > 1


def test_turnover_counts_lost_neighbours() -> None:
    angle = torch.tensor([0.0, 0.1, 0.3, 2.0, 2.1])
    moved = torch.tensor([0.0, 0.1, 2.05, 2.0, 2.2])
    a, b = (torch.stack([t.cos(), t.sin()], dim=1) for t in (angle, moved))
    # The two nearest of node 0 were 1 and 2 and are 1 and 3; of node 3 they were 4 and 2 and are 2 and 4.
    assert neighbour_turnover(a, b, torch.tensor([0, 3]), 2).tolist() == [0.5, 0.0]


def test_moved_nodes_stand_out_from_seed_noise() -> None:
    z = noise(400, 8)
    ids = [f"n{row}" for row in range(400)]
    other_seeds = [Embedding(ids, rotated(z + 0.05 * noise(400, 8, seed=s), seed=s)) for s in (11, 12, 13)]
    new = rotated(z + 0.05 * noise(400, 8, seed=20))
    new[[7, 99]] += 20
    # The second version has its nodes in another order, lost n0 and gained one.
    order = torch.randperm(399, generator=torch.Generator().manual_seed(1)) + 1
    after = Embedding([*(ids[row] for row in order), "new"], torch.cat([new[order], new[:1]]))
    found = compare(Embedding(ids, z), after, reseeded=other_seeds)
    assert found.only_before == ("n0",)
    assert found.only_after == ("new",)
    assert found.noise is not None
    assert found.moved is not None
    assert {found.ids[row] for row in found.moved[:2].tolist()} == {"n7", "n99"}
    assert found.moved.numel() <= 0.03 * 399  # 1 % by chance
    assert found.noise.turnover < 0.5
    assert found.shift.median() < 1.5 * found.noise.shift.median()


def test_large_versions_are_asked_at_a_sample() -> None:
    z = noise(60, 4)
    found = compare(Embedding(range(60), z), Embedding(range(60), z), most_queries=10)
    assert found.asked.numel() == found.turnover.numel() == 10
    assert found.shift.numel() == 60
    assert found.moved is None


def test_strangers_cannot_be_compared() -> None:
    z = noise(3, 2)
    with pytest.raises(UserError, match="share 0 node ids"):
        compare(Embedding(["a", "b", "c"], z), Embedding([1, 2, 3], z))
    with pytest.raises(UserError, match="'c' is missing from another seed"):
        compare(Embedding("abc", z), Embedding("abc", z), reseeded=[Embedding("ab", z[:2])])


def test_with_fewer_nodes_than_directions_only_what_moved_has_moved() -> None:
    before = torch.randn(20, 64, generator=torch.Generator().manual_seed(3))
    turn = torch.linalg.qr(torch.randn(64, 64, generator=torch.Generator().manual_seed(4))).Q
    after = before.clone()
    after[7] += 1
    shift = aligned_shift(before, after @ turn)
    assert shift.argmax() == 7
    assert shift[torch.arange(20) != 7].max() < shift[7] / 3


def test_vectors_of_one_model_are_compared_as_they_are() -> None:
    before = torch.randn(6, 3, generator=torch.Generator().manual_seed(5))
    after = before.clone()
    after[2] += torch.tensor([3.0, 0.0, 4.0])
    result = compare(Embedding(range(6), before), Embedding(range(6), after), same_directions=True)
    unit = float((before - before.mean(0)).square().sum(1).mean().sqrt())
    assert result.shift.tolist() == pytest.approx([0, 0, 5 / unit, 0, 0, 0], rel=1e-5)


def test_a_graph_is_the_same_in_any_order_of_its_nodes() -> None:
    def graph(ids: str, links: list[str], directed: bool = False) -> Graph:
        edges = torch.tensor([[ids.index(end) for end in link] for link in links]).T
        return Graph.from_edges(edges, num_nodes=len(ids), directed=directed, node_ids=list(ids))

    first = graph("abcd", ["ab", "bc"])
    assert same_graph(first, graph("dcba", ["cb", "ab"]))
    assert not same_graph(first, graph("abcd", ["ab", "bd"]))
    assert not same_graph(first, graph("abcd", ["ab", "bc", "cd"]))
    assert not same_graph(first, graph("abcx", ["ab", "bc"]))
    assert not same_graph(first, graph("abcde", ["ab", "bc"]))
    assert not same_graph(first, graph("abcd", ["ab", "ba", "bc", "cb"], directed=True))
    assert same_graph(graph("ab", ["ab"], directed=True), graph("ba", ["ab"], directed=True))
    assert not same_graph(graph("ab", ["ab"], directed=True), graph("ab", ["ba"], directed=True))
