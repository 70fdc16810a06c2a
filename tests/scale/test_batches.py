"""Batches from a store: plans cover every part, links are held out whole, and noise is that of the whole graph."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.data.certificates import certify
from bandana.errors import UserError
from bandana.graph import Graph, SparseFeatures, dense
from bandana.method import Clock
from bandana.parts.masks import MaskConfig, draw_mask
from bandana.scale.batches import (
    TEST,
    TRAIN,
    VALID,
    ShardConfig,
    ahead,
    evaluation_parts,
    group_batch,
    group_clock,
    link_roles,
    plan_epoch,
    read_excerpt,
    read_region,
    region_with_all_links,
    training_graph,
)
from bandana.scale.store import Store, write_store

CLOCK = Clock(seed=5, epoch=1, step=3)
HALF = ShardConfig(valid_links=0.2, test_links=0.3)
GraphFactory = Callable[..., Graph]


@pytest.fixture
def store(tmp_path: Path, random_graph: GraphFactory) -> Store:
    graph = random_graph(60, 300)
    return write_store(tmp_path / "store", graph, torch.arange(60) * 7 // 60)


def edges_of(graph: Graph) -> set[tuple[int, int]]:
    """(receiver, sender) as the whole graph numbers them."""
    assert graph.origin is not None
    rows = graph.origin.rows
    return set(zip(rows[graph.structure.row].tolist(), rows[graph.structure.col].tolist(), strict=True))


@given(parts=st.integers(1, 40), size=st.integers(1, 6), groups=st.integers(1, 6), epoch=st.integers(1, 5))
def test_a_plan_holds_every_part_and_repeats_as_few_as_it_must(parts: int, size: int, groups: int, epoch: int) -> None:
    config = ShardConfig(parts_per_group=size, groups_per_step=groups)
    if size * groups > parts:
        with pytest.raises(UserError, match="parts_per_group"):
            plan_epoch(parts, config, 0, epoch)
        return
    plan = plan_epoch(parts, config, 0, epoch)
    times = Counter(plan.flatten().tolist())
    assert set(times) == set(range(parts))
    assert plan.numel() - parts < size * groups
    assert max(times.values()) <= 2
    assert all(len(set(group)) == size for step in plan.tolist() for group in step)
    assert torch.equal(plan, plan_epoch(parts, config, 0, epoch))


def test_plans_differ_between_epochs_and_seeds() -> None:
    plans = {
        str(plan_epoch(32, ShardConfig(), seed, epoch).tolist()) for seed, epoch in ((0, 1), (0, 2), (1, 1), (1, 2))
    }
    assert len(plans) == 4


def test_links_are_held_out_in_the_asked_shares_and_both_directions_together() -> None:
    row, col = torch.randint(10_000, (2, 200_000), generator=torch.Generator().manual_seed(1))
    roles = link_roles(row, col, 10_000, False, HALF, seed=0)
    assert torch.equal(roles, link_roles(col, row, 10_000, False, HALF, seed=0))
    assert not torch.equal(roles, link_roles(col, row, 10_000, True, HALF, seed=0))
    assert not torch.equal(roles, link_roles(row, col, 10_000, False, HALF, seed=1))
    shares = torch.bincount(roles) / roles.numel()
    assert shares[[TRAIN, VALID, TEST]].tolist() == pytest.approx([0.5, 0.2, 0.3], abs=0.01)


@pytest.mark.parametrize("directed", [False, True])
def test_a_group_is_the_induced_subgraph_without_held_out_links(
    tmp_path: Path, random_graph: GraphFactory, directed: bool
) -> None:
    graph = random_graph(60, 300, directed=directed)
    store = write_store(tmp_path / "s", graph, torch.arange(60) * 7 // 60)  # in order, so that numbers stay
    parts = torch.tensor([5, 0, 3])
    batch = group_batch(store, parts, HALF, seed=9)
    chosen = {row for part in parts.tolist() for row in range(*store.part_starts[part : part + 2].tolist())}
    expected = set()
    for receiver, sender in zip(graph.structure.row.tolist(), graph.structure.col.tolist(), strict=True):
        role = link_roles(torch.tensor([receiver]), torch.tensor([sender]), 60, directed, HALF, 9)
        if receiver in chosen and sender in chosen and int(role) == TRAIN:
            expected.add((receiver, sender))
    assert expected
    assert edges_of(batch.graph) == expected
    assert torch.equal(batch.links, batch.graph.links)
    rows = torch.tensor(sorted(chosen))
    torch.testing.assert_close(dense(batch.graph.x), dense(graph.x)[rows])


def test_noise_and_shares_are_those_of_the_whole_graph(store: Store, random_graph: GraphFactory) -> None:
    """With the softmax over full neighbourhoods, an edge's bandwidth does not depend on the group at all."""
    config = ShardConfig(softmax="full", valid_links=0.1, test_links=0.1)
    everything = training_graph(store, read_excerpt(store, torch.arange(7), config, 0), config)
    for loop in ("outside", "inside"):
        mask = draw_mask(MaskConfig(self_loop=loop, temperature=0.7), everything, CLOCK, layer=1)
        whole = dict(zip(everything.noise_keys.tolist(), mask.values.tolist(), strict=True))
        group = group_batch(store, torch.tensor([1, 4, 6]), config, 0).graph
        part = draw_mask(MaskConfig(self_loop=loop, temperature=0.7), group, CLOCK, layer=1)
        for key, value in zip(group.noise_keys.tolist(), part.values.tolist(), strict=True):
            assert value == pytest.approx(whole[key], rel=1e-5)
        assert group.origin is not None
        torch.testing.assert_close(part.loop, mask.loop[group.origin.rows])


def test_within_a_batch_shares_sum_to_one(store: Store) -> None:
    graph = group_batch(store, torch.tensor([1, 4]), ShardConfig(), 0).graph
    mask = draw_mask(MaskConfig(), graph, CLOCK, 0)
    sums = torch.zeros(graph.num_nodes).index_add_(0, graph.structure.row, mask.values)
    heard = graph.structure.row_sizes > 0
    torch.testing.assert_close(sums[heard], torch.ones(int(heard.sum())))


def test_a_node_without_features_is_its_number_in_the_whole(tmp_path: Path, random_graph: GraphFactory) -> None:
    graph = random_graph(40, 120, num_features=0)
    store = write_store(tmp_path / "s", graph, torch.arange(40) // 10)
    batch = group_batch(store, torch.tensor([1, 3]), ShardConfig(), 0)
    assert isinstance(batch.graph.x, SparseFeatures)
    assert batch.graph.x.shape == (20, 40)
    assert batch.graph.x.structure.col.tolist() == [*range(10, 20), *range(30, 40)]


def test_groups_of_a_step_draw_apart_but_share_the_noise_of_edges() -> None:
    first, second = (group_clock(CLOCK, group) for group in (0, 1))
    assert (first.seed, first.step, first.epoch) == (CLOCK.seed, CLOCK.step, CLOCK.epoch)
    draws = [torch.rand(8, generator=clock.generator(torch.device("cpu"))) for clock in (first, second)]
    assert not torch.equal(*draws)


def test_a_region_scores_held_out_links_against_pairs_that_are_none(store: Store) -> None:
    region = read_region(store, torch.arange(7), HALF, 0)
    whole = region_with_all_links(store, torch.arange(7), HALF, 0)
    linked = set(zip(whole.structure.row.tolist(), whole.structure.col.tolist(), strict=True))
    learned = edges_of(region.graph)
    for pairs in (region.valid, region.test):
        positive = set(zip(pairs.positive[1].tolist(), pairs.positive[0].tolist(), strict=True))
        negative = set(zip(pairs.negative[1].tolist(), pairs.negative[0].tolist(), strict=True))
        assert positive <= linked - learned
        assert not negative & linked
        assert pairs.positive.shape == pairs.negative.shape
    total = region.graph.links.numel() + region.valid.positive.shape[1] + region.test.positive.shape[1]
    assert total == whole.links.numel()


@pytest.mark.parametrize("seed", range(5))
def test_pairs_of_a_region_have_a_whole_certificate(store: Store, seed: int) -> None:
    """With as many negatives as links, on few nodes, draws that knew nothing of each other would collide."""
    region = read_region(store, torch.arange(7), HALF, seed)
    whole = region_with_all_links(store, torch.arange(7), HALF, seed)
    made = certify(region.graph, region.valid, region.test, region.graph, whole=whole)
    assert len(made.checks) == 11
    again = read_region(store, torch.arange(7), HALF, seed)
    assert torch.equal(again.valid.negative, region.valid.negative)
    assert torch.equal(again.test.negative, region.test.negative)


def test_evaluation_stays_within_its_bound(store: Store) -> None:
    edges = store.num_edges
    assert evaluation_parts(store, ShardConfig(), 0).tolist() == list(range(7))
    few = evaluation_parts(store, ShardConfig(evaluation_edges=edges // 2), 0)
    received = sum(int(store.rowptr[store.part_starts[p + 1]] - store.rowptr[store.part_starts[p]]) for p in few)
    assert 0 < received <= edges // 2
    assert evaluation_parts(store, ShardConfig(evaluation_edges=1), 0).numel() == 1


def test_a_region_without_held_out_links_says_what_to_change(store: Store) -> None:
    with pytest.raises(UserError, match=r"shards\.valid_links"):
        read_region(store, torch.tensor([0]), ShardConfig(valid_links=1e-6), 0)


def test_the_next_batch_is_read_while_one_is_used() -> None:
    def load(place: int) -> int:
        time.sleep(0.02)
        begun.append(place)
        return place

    begun: list[int] = []
    seen = []
    for place in ahead(load, range(4)):
        time.sleep(0.06)
        seen.append((place, len(begun)))
    assert [place for place, _ in seen] == [0, 1, 2, 3]
    assert all(read > place + 1 for place, read in seen[:-1])
    assert list(ahead(load, [])) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"parts_per_group": 0},
        {"valid_links": 0.0},
        {"valid_links": 0.6, "test_links": 0.5},
        {"patience_seconds": 0},
        {"patience_seconds": float("nan")},
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ShardConfig(**wrong)  # type: ignore[arg-type]
