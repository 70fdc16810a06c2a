"""Node features from a table with a row for each entry: a node, a feature and a value."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from bandana.data.columns import plain
from bandana.data.own_source import Source
from bandana.data.own_values import Indices, numbers, open_book, text_ids
from bandana.engine.structure import build_structure
from bandana.errors import UserError
from bandana.graph import Features, SparseFeatures

LARGEST = 1e30
"""Beyond this, sums over all nodes leave the range of float32, and so do means."""


class NodeFeatures(NamedTuple):
    """What a table says of the nodes, with a name for each column of `x` and remarks on how it came about."""

    x: Features
    names: tuple[str, ...]
    notes: tuple[str, ...]


def entry_table(source: Source, nodes: Indices, num_nodes: int) -> NodeFeatures:
    """Features as entries: id, feature, value. What has no row is zero."""
    column = {plain(name): name for name in source.names}
    features = text_ids(source, column["feature"])
    values = numbers(source, column["value"])
    wrong = ~(np.abs(values) <= LARGEST)
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(
            f"{source.row(row)}: the value is missing, infinite or over {LARGEST:g}; correct it, or drop the row, "
            f"which means zero."
        )
    book = open_book(features)
    place = book.find(features)
    _, first = np.unique(nodes * len(book.ids) + place, return_index=True)
    if first.size < len(nodes):
        row = int(np.setdiff1d(np.arange(len(nodes)), first)[0])
        raise UserError(f"{source.row(row)}: this node has had this feature before; keep one row for each pair.")
    names = tuple(book.texts.to_pylist())
    kept = values != 0
    x = sparse_matrix(nodes[kept], place[kept], values[kept], num_nodes, len(names))
    return NodeFeatures(x, names, (f"{source.name}: {kept.sum():,} entries of {len(names):,} sparse features.",))


def sparse_matrix(
    row: Indices, place: Indices, values: npt.NDArray[np.floating], num_nodes: int, width: int
) -> SparseFeatures:
    """``[nodes, width]`` with a value at each row and place, and zeros elsewhere."""
    structure, order = build_structure(torch.from_numpy(row), torch.from_numpy(place), num_nodes, width)
    return SparseFeatures(structure, torch.from_numpy(values).to(torch.get_default_dtype())[order])
