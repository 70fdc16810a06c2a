"""Node features from a table: numbers stay, categories become indicators, lists are spread out; sparse if worth it."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from bandana.data.columns import MISSING, id_column, is_number, lists_entries, plain
from bandana.data.own_alignment import columns_of, places_of, spread
from bandana.data.own_entries import LARGEST, NodeFeatures, entry_table, sparse_matrix
from bandana.data.own_source import Source, Wanted, flattened
from bandana.data.own_values import Indices, Numbers, TextIds, categories, is_text, numbers
from bandana.errors import UserError
from bandana.graph import SPARSE_BELOW_DENSITY, Features

Missing: TypeAlias = Literal["refuse", "impute"]

MOST_CATEGORIES = 1000
FEW_CATEGORIES = 20
"""Up to this many are always taken as categories; more only if they repeat, so that names are not."""
MOSTLY = 0.9
IMPUTE = "--missing impute"
"""How the command line is asked to impute."""


class _Column(NamedTuple):
    """A column of numbers, or with `codes` as many columns of indicators as there are names; in the nodes' order."""

    names: tuple[str, ...]
    values: npt.NDArray[np.float32] | None = None
    codes: Indices | None = None


class _Rows(NamedTuple):
    """Which node each row of a table is about, and which columns a model reads; none where there is no model yet."""

    source: Source
    nodes: Indices
    num_nodes: int
    missing: Missing
    read: frozenset[str]

    def spread(self, values: Numbers) -> Numbers:
        """From the order of the rows to that of the nodes, NaN for those without a row."""
        everywhere = np.full(self.num_nodes, np.nan)
        everywhere[self.nodes] = values
        return everywhere


def choose_features(names: Sequence[str]) -> Wanted:
    """All columns. Ids stay text, and so do the names of features in a sparse table."""
    own = id_column(names)
    named = tuple(name for name in names if lists_entries(names) and plain(name) == "feature")
    return Wanted(tuple(names), (own, *named))


def node_features(
    source: Source,
    ids: TextIds,
    nodes: Indices,
    node_ids: list[object],
    missing: Missing,
    wanted: Sequence[str] = (),
) -> NodeFeatures:
    """Build the features of all nodes.

    Args:
        source: A row per node with a column per feature, or a row per entry with the columns id, feature and value.
        ids: Its ids.
        nodes: ``[rows]`` the node of each row.
        node_ids: All nodes.
        missing: Whether a missing value is an error, or becomes the column's mean or a category of its own.
        wanted: Features of a model that is there already. Then these are what comes back, in this order.

    Raises:
        UserError: A node has two rows, something is missing, infinite or no feature, or a model does not know it.
    """
    # In a table of single entries the name of the feature is an id, too, and what has no row is zero.
    by_entry = lists_entries(source.names)
    if by_entry:
        found = entry_table(source, nodes, len(node_ids))
    else:
        found = _full_table(source, ids, nodes, node_ids, missing, columns_of(wanted))
    if not wanted:
        return found
    places = places_of(found.names, wanted, source.name, by_entry=by_entry)
    return NodeFeatures(spread(found.x, places, len(wanted)), tuple(wanted), found.notes)


def _full_table(
    source: Source,
    ids: TextIds,
    nodes: Indices,
    node_ids: list[object],
    missing: Missing,
    read: frozenset[str],
) -> NodeFeatures:
    """A row per node and a column per feature; only some columns, where they are named."""
    own = id_column(source.names)
    _refuse_repeated(source, ids, nodes)
    absent = np.setdiff1d(np.arange(len(node_ids)), nodes)
    notes = []
    if absent.size and missing == "refuse":
        raise UserError(
            f"{source.name}: has no row for {absent.size:,} of the nodes, such as {node_ids[absent[0]]!r}; add rows, "
            f"or let what is missing be imputed ({IMPUTE})."
        )
    if absent.size:
        notes.append(f"Without a row in {source.name}, their features therefore imputed: {absent.size:,} nodes.")
    rows = _Rows(source, nodes, len(node_ids), missing, read)
    columns: list[_Column] = []
    for name in source.names:
        if read and name != own and name not in read:
            notes.append(f"Column {name!r} of {source.name} is left out: the model has not learned from it.")
        elif name != own:
            columns.extend(_encode(rows, name, notes))
    if not columns and not read:
        raise UserError(
            f"{source.name}: has no column that could be a feature beside {own!r}; add one, or leave it out."
        )
    names = tuple(name for column in columns for name in column.names)
    return NodeFeatures(_matrix(columns, len(node_ids)), names, tuple(notes))


def _encode(rows: _Rows, name: str, notes: list[str]) -> Iterator[_Column]:
    kind = rows.source.table.schema.field(name).type
    if is_text(kind) or pa.types.is_dictionary(kind):
        yield from _indicators(rows, name, notes)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        for place, values in enumerate(_vectors(rows.source, name).T):
            yield from _quantity(rows, f"{name}[{place}]", values, notes)
    elif pa.types.is_temporal(kind):
        raise UserError(f"{rows.source.name}: column {name!r} holds dates; turn them into numbers, such as years.")
    else:
        yield from _quantity(rows, name, numbers(rows.source, name), notes)


def _quantity(rows: _Rows, name: str, values: Numbers, notes: list[str]) -> Iterator[_Column]:
    infinite = np.abs(values) > LARGEST
    if infinite.any():
        row = int(infinite.argmax())
        raise UserError(
            f"{rows.source.row(row)}: {values[row]:g} in column {name!r} is infinite or too large (over {LARGEST:g}); "
            f"correct it, or clear the cell and let it be imputed ({IMPUTE})."
        )
    empty = np.isnan(values)
    if empty.all():
        notes.append(f"Column {name!r} of {rows.source.name} is empty and left out.")
        return
    if empty.any():
        _refuse_missing(rows, name, int(empty.argmax()))
        notes.append(
            f"Missing in column {name!r}, filled with the mean {np.nanmean(values):.4g}: {empty.sum():,} values."
        )
    everywhere = rows.spread(values)
    filled = np.where(np.isnan(everywhere), np.nanmean(values), everywhere)
    yield _Column((name,), values=filled.astype(np.float32))


def _indicators(rows: _Rows, name: str, notes: list[str]) -> Iterator[_Column]:
    found, codes = categories(rows.source, name)
    _refuse_stray_text(rows.source, name, found, codes)
    if not found:
        notes.append(f"Column {name!r} of {rows.source.name} is empty and left out.")
        return
    if not rows.read and len(found) > min(MOST_CATEGORIES, max(FEW_CATEGORIES, len(codes) // 2)):
        notes.append(
            f"Column {name!r} of {rows.source.name} is left out: {len(found):,} different texts in {len(codes):,} rows "
            f"are names or prose rather than categories."
        )
        return
    names = tuple(f"{name}={category}" for category in found)
    if (codes < 0).any():
        _refuse_missing(rows, name, int((codes < 0).argmax()))
        notes.append(f"Missing in column {name!r}, made a category of their own: {(codes < 0).sum():,}.")
    everywhere = np.full(rows.num_nodes, -1)
    everywhere[rows.nodes] = codes
    if (everywhere < 0).any():
        everywhere[everywhere < 0] = len(names)
        names = (*names, f"{name} missing")
    yield _Column(names, codes=everywhere)


def _vectors(source: Source, name: str) -> Numbers:
    """``[rows, width]`` a column of lists, NaN in rows without one."""
    column = source.table[name]
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    lengths = column.combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
    present = ~np.isnan(lengths)
    width = lengths[present][0] if present.any() else 0
    uneven = present & (lengths != width)
    if uneven.any() or width == 0:
        row = int(uneven.argmax())
        raise UserError(
            f"{source.row(row)}: the list in column {name!r} has {int(lengths[row]) if present[row] else 0} numbers "
            f"where others have {int(width)}; give all of them the same length, at least 1."
        )
    vectors = np.full((len(lengths), int(width)), np.nan)
    vectors[present] = numbers(flattened(source, name), name).reshape(-1, int(width))
    return vectors


def _matrix(columns: list[_Column], num_nodes: int) -> Features:
    """Put columns side by side, sparse if that is worth it, without ever laying out a sparse one densely."""
    width = sum(len(column.names) for column in columns)
    filled = sum(num_nodes if column.values is None else np.count_nonzero(column.values) for column in columns)
    if filled >= SPARSE_BELOW_DENSITY * num_nodes * width:
        dense = np.zeros((num_nodes, width), dtype=np.float32)
        for row, place, values in _entries(columns, num_nodes):
            dense[row, place] = values
        return torch.from_numpy(dense).to(torch.get_default_dtype())
    parts = [np.broadcast_arrays(*entry) for entry in _entries(columns, num_nodes)]
    row, place, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return sparse_matrix(row, place, values, num_nodes, width)


def _entries(
    columns: list[_Column], num_nodes: int
) -> Iterator[tuple[Indices, Indices | int, npt.NDArray[np.float32] | np.float32]]:
    """Row, column and value of what is not zero, one group of columns after the other."""
    first = 0
    for column in columns:
        if column.values is not None:
            row = np.flatnonzero(column.values)
            yield row, first, column.values[row]
        elif column.codes is not None:
            yield np.arange(num_nodes), first + column.codes, np.float32(1)
        first += len(column.names)


def _refuse_repeated(source: Source, ids: TextIds, nodes: Indices) -> None:
    _, first = np.unique(nodes, return_index=True)
    if first.size < len(nodes):
        row = int(np.setdiff1d(np.arange(len(nodes)), first)[0])
        name = ids.texts[int(ids.codes[row])].as_py()
        raise UserError(f"{source.row(row)}: the node {name!r} has had a row before; keep one row for each node.")


def _refuse_missing(rows: _Rows, name: str, row: int) -> None:
    if rows.missing == "refuse":
        raise UserError(
            f"{rows.source.row(row)}: the value in column {name!r} is missing; fill it in, or let what is missing be "
            f"imputed ({IMPUTE})."
        )


def _refuse_stray_text(source: Source, name: str, found: list[str], codes: Indices) -> None:
    """A column that is nearly all numbers is meant as numbers, and its one text is a slip."""
    present = codes[codes >= 0]
    strays = np.array([not is_number(text) for text in found], dtype=bool)
    if not present.size or not strays.any() or strays[present].mean() > 1 - MOSTLY:
        return
    row = int((np.append(strays, False)[codes]).argmax())
    raise UserError(
        f"{source.row(row)}: {found[codes[row]]!r} in column {name!r} is no number, but the others are; correct it, or "
        f"write one of {', '.join(MISSING[1:4])} if it is missing."
    )
