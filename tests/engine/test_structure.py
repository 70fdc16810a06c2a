"""The sorted pattern and its transpose, judged by SciPy's sparse matrices."""

from collections.abc import Callable
from random import Random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_matrix

from bandana.engine.structure import build_structure, entry_keys
from bandana.graph import Graph

Pattern = tuple[list[tuple[int, int]], int, int]


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Distinct entries in any order, with the shape of their matrix; rows and columns may be empty."""
    rows, cols = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    entry = st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1))
    return draw(st.lists(entry, unique=True, max_size=40)), rows, cols


def columns(entries: list[tuple[int, int]]) -> torch.Tensor:
    return torch.tensor(entries, dtype=torch.long).reshape(-1, 2).T


@given(patterns())
def test_arrays_are_those_of_scipy(pattern: Pattern) -> None:
    entries, num_rows, num_cols = pattern
    row, col = columns(entries)
    values = torch.arange(1, len(entries) + 1)
    structure, order = build_structure(row, col, num_rows, num_cols)

    matrix = coo_matrix((values.numpy(), (row.numpy(), col.numpy())), shape=(num_rows, num_cols)).tocsr()
    matrix.sort_indices()
    assert (structure.num_rows, structure.num_cols, structure.num_entries) == (num_rows, num_cols, len(entries))
    assert structure.rowptr.tolist() == matrix.indptr.tolist()
    assert structure.col.tolist() == matrix.indices.tolist()
    assert structure.row.tolist() == np.repeat(np.arange(num_rows), np.diff(matrix.indptr)).tolist()
    assert values[order].tolist() == matrix.data.tolist()
    assert structure.row_sizes.tolist() == np.diff(matrix.indptr).tolist()

    transpose = matrix.T.tocsr()
    transpose.sort_indices()
    assert structure.transposed_rowptr.tolist() == transpose.indptr.tolist()
    assert structure.transposed_col.tolist() == transpose.indices.tolist()
    assert values[order][structure.transposed_entry].tolist() == transpose.data.tolist()


@given(patterns(), st.randoms(use_true_random=False))
def test_storage_order_leaves_no_trace(pattern: Pattern, random: Random) -> None:
    entries, num_rows, num_cols = pattern
    shuffled = list(entries)
    random.shuffle(shuffled)
    first, _ = build_structure(*columns(entries), num_rows, num_cols)
    second, _ = build_structure(*columns(shuffled), num_rows, num_cols)
    assert first.col.equal(second.col)
    assert first.rowptr.equal(second.rowptr)
    assert first.transposed_entry.equal(second.transposed_entry)


@given(patterns())
def test_keys_ascend_in_row_order_and_name_each_entry(pattern: Pattern) -> None:
    entries, num_rows, num_cols = pattern
    structure, _ = build_structure(*columns(entries), num_rows, num_cols)
    keys = entry_keys(structure.row, structure.col, num_cols)
    assert bool((keys.diff() > 0).all())
    assert [(key // num_cols, key % num_cols) for key in keys.tolist()] == sorted(entries)


def test_transposed_entries_of_a_symmetric_pattern_are_the_reverse_edges(random_graph: Callable[..., Graph]) -> None:
    structure = random_graph().structure
    reverse = structure.transposed_entry
    assert structure.row[reverse].equal(structure.col)
    assert structure.col[reverse].equal(structure.row)
    assert reverse[reverse].equal(torch.arange(structure.num_entries))


def test_moving_to_a_device_keeps_every_array(random_graph: Callable[..., Graph]) -> None:
    structure = random_graph(directed=True).structure
    moved = structure.to("meta")
    for name in ("rowptr", "row", "col", "transposed_rowptr", "transposed_col", "transposed_entry"):
        assert getattr(moved, name).device.type == "meta"
        assert getattr(moved, name).shape == getattr(structure, name).shape
