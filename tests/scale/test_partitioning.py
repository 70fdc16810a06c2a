"""Streaming parts against loops over every node and every part, and what its time depends on."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bandana.scale.partitioning import _placed


def placed_by_loops(neighbours: list[list[int]], parts: np.ndarray, sizes: np.ndarray, capacity: int) -> list[int]:
    """Every node wants the part with most neighbours and room; the keenest come first, the others go where room is."""
    wishes = []
    for node, others in enumerate(neighbours):
        value, best = 0.0, 0
        for part in range(len(sizes)):
            score = sum(parts[other] == part for other in others) * (1 - sizes[part] / capacity)
            if score > value:
                value, best = score, part
        wishes.append((-value, node, best))
    room, placed, left = capacity - sizes, [-1] * len(neighbours), []
    for value, node, best in sorted(wishes):
        if value < 0 and room[best] > 0:
            placed[node] = best
            room[best] -= 1
        else:
            left.append(node)
    waiting = sorted(left)
    for part in sorted(range(len(sizes)), key=lambda part: -room[part]):
        taken, waiting = waiting[: room[part]], waiting[room[part] :]
        for node in taken:
            placed[node] = part
    assert not waiting
    return placed


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[list[int]], np.ndarray, np.ndarray, int]:
    """Some nodes to place among others, of which some are placed already."""
    num_nodes, num_parts, count = draw(st.integers(4, 30)), draw(st.integers(1, 9)), draw(st.integers(1, 8))
    parts = np.array(draw(st.lists(st.integers(-1, num_parts - 1), min_size=num_nodes, max_size=num_nodes)))
    sizes = np.bincount(parts[parts >= 0], minlength=num_parts)
    capacity = max(int(sizes.max()), -(-(int(sizes.sum()) + count) // num_parts)) + draw(st.integers(0, 3))
    rows = st.lists(st.integers(0, num_nodes - 1), max_size=12, unique=True)
    return draw(st.lists(rows, min_size=count, max_size=count)), parts, sizes, capacity


@given(situations())
def test_nodes_are_placed_as_by_loops_over_all_parts(
    situation: tuple[list[list[int]], np.ndarray, np.ndarray, int],
) -> None:
    neighbours, parts, sizes, capacity = situation
    rowptr = np.cumsum([0, *map(len, neighbours)])
    col = np.array([other for others in neighbours for other in others], dtype=np.int64)
    found = _placed(rowptr, col, parts, sizes.copy(), capacity)
    assert found.tolist() == placed_by_loops(neighbours, parts, sizes, capacity)


def test_a_table_of_nodes_by_parts_is_never_made() -> None:
    """Which is what takes the time where parts are many: a million here would need eight gigabytes."""
    num_parts = 1_000_000
    sizes = np.zeros(num_parts, dtype=np.int64)
    parts = np.array([num_parts - 1, 7])
    sizes[parts] = 1
    found = _placed(np.arange(1025), np.tile([0, 1], 512), parts, sizes, capacity=600)
    assert found[:2].tolist() == parts.tolist()
