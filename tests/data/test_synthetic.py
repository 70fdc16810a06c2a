"""The built-in graphs: their sizes, their repeatability, and their neighbour rules against plain loops."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from bandana.data.bundled import digits, karate
from bandana.data.synthetic import closest_pairs, nearest_neighbours, swiss_roll, two_moon
from bandana.graph import Graph, SparseFeatures

# Few distinct coordinates, so that equal distances are common.
clouds = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=4, max_size=12).map(
    lambda points: np.array(points, dtype=np.float64)
)


swiss_roll_once, two_moon_once, karate_once, digits_once = map(cache, (swiss_roll, two_moon, karate, digits))


def squared_distance(points: np.ndarray, a: int, b: int) -> float:
    return sum((x - y) ** 2 for x, y in zip(points[a], points[b], strict=True))


def linked_pairs(graph: Graph) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in graph.edge_index.t()}


@given(points=clouds, count=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_nearest_neighbours_are_those_of_a_plain_search(points: np.ndarray, count: int) -> None:
    expected = []
    for here in range(len(points)):
        others = [other for other in range(len(points)) if other != here]
        others.sort(key=lambda other: (squared_distance(points, here, other), other))
        expected += [(here, other) for other in others[:count]]
    assert [tuple(pair) for pair in nearest_neighbours(points, count).t().tolist()] == expected


@given(points=clouds, count=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_closest_pairs_are_those_of_a_plain_search(points: np.ndarray, count: int) -> None:
    pairs = [(a, b) for a in range(len(points)) for b in range(a + 1, len(points))]
    pairs.sort(key=lambda pair: (squared_distance(points, *pair), pair))
    assert [tuple(pair) for pair in closest_pairs(points, count).t().tolist()] == pairs[:count]


def test_nearest_neighbours_agree_with_scikit_learn_where_no_distances_are_equal() -> None:
    points = np.random.default_rng(0).normal(size=(200, 3))
    ours = {tuple(pair) for pair in nearest_neighbours(points, 4).t().tolist()}
    assert ours == set(zip(*kneighbors_graph(points, 4).nonzero(), strict=True))


@pytest.mark.parametrize("make", [swiss_roll_once, two_moon_once, digits_once])
def test_a_generator_gives_the_same_graph_every_time(make: Callable[[], Graph]) -> None:
    first, second = make(), make.__wrapped__()
    assert torch.equal(first.edge_index, second.edge_index)
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.y, second.y)


@pytest.mark.parametrize("make", [swiss_roll_once, two_moon_once, karate_once, digits_once])
def test_links_go_both_ways_and_never_to_oneself(make: Callable[[], Graph]) -> None:
    pairs = linked_pairs(make())
    assert all((b, a) in pairs and a != b for a, b in pairs)


def test_swiss_roll_links_are_a_radius_graph_that_never_jumps_between_turns() -> None:
    graph = swiss_roll_once()
    pairs = linked_pairs(graph)
    distance = torch.cdist(graph.x.double(), graph.x.double())
    linked = torch.zeros_like(distance, dtype=torch.bool)
    linked[tuple(graph.edge_index)] = True
    others = ~linked & ~torch.eye(500, dtype=torch.bool)
    assert len(pairs) == 6_712
    assert distance[linked].max() < distance[others].min()
    bands = graph.y[graph.edge_index]
    assert (bands[0] - bands[1]).abs().max() == 1
    assert graph.y.unique().tolist() == [0, 1, 2, 3, 4]


def test_two_moon_has_two_equal_crescents_with_no_link_between_them() -> None:
    graph = two_moon_once()
    assert graph.y.bincount().tolist() == [1_000, 1_000]
    assert torch.equal(*graph.y[graph.edge_index])
    assert abs(graph.num_edges / 12_264 - 1) < 0.02  # the paper's count, on PyGSP's cloud
    assert graph.structure.row_sizes.min() >= 5


def test_digits_have_scaled_pixels_and_links_to_five_most_similar_images() -> None:
    graph = digits_once()
    pixels, labels = load_digits(return_X_y=True)
    assert torch.equal(graph.x, torch.from_numpy(pixels).float() / 16)
    assert float(graph.x.min()) == 0
    assert float(graph.x.max()) == 1
    assert torch.equal(graph.y, torch.from_numpy(labels))
    distance = torch.cdist(torch.from_numpy(pixels), torch.from_numpy(pixels)).round(decimals=6)
    fifth = distance.fill_diagonal_(torch.inf).kthvalue(5, dim=1).values
    sender, receiver = graph.edge_index
    length = distance[sender, receiver]
    assert bool(((length <= fifth[sender]) | (length <= fifth[receiver])).all())
    closer = (distance < fifth[:, None]).nonzero()
    assert {(int(a), int(b)) for a, b in closer} <= linked_pairs(graph)


def test_karate_is_the_club_everybody_knows() -> None:
    networkx = pytest.importorskip("networkx")
    graph = karate_once()
    club = networkx.karate_club_graph()
    assert linked_pairs(graph) == {(a, b) for edge in club.edges for a, b in (edge, edge[::-1])}
    assert isinstance(graph.x, SparseFeatures)
    assert torch.equal(graph.x.dense(), torch.eye(34))
    # The two leaders fell out and are in different communities.
    assert graph.y[0] != graph.y[33]
