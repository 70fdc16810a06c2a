"""Features and labels of a store, streamed into the order of its rows."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bandana.data.columns import id_column, label_column, lists_entries
from bandana.data.own_files import read_source
from bandana.data.own_source import Source, Wanted, flattened
from bandana.data.own_values import Numbers, categories, numbers
from bandana.data.tables import choose_labels
from bandana.errors import UserError
from bandana.scale.ids import Book, Indices
from bandana.scale.reading import Piece, Stream
from bandana.scale.store import FeatureType, release


def choose_numbers(names: Sequence[str]) -> Wanted:
    """All columns of a table of features: the id, and what must be numbers.

    Raises:
        UserError: It lists entries, which only a whole table can be made of.
    """
    if lists_entries(names):
        raise UserError("--features: a table of single entries cannot be streamed; write a row of numbers per node.")
    return Wanted(tuple(names), (id_column(names),))


def feature_names(stream: Stream) -> list[str]:
    """A name for each number of a row: that of its column, and its place where a column holds lists.

    Raises:
        UserError: There is nothing but ids.
    """
    own, first, names = id_column(stream.names), next(stream.pieces(1)), list[str]()
    for name in stream.wanted.columns:
        if name != own:
            width = _numbers(first, name).shape[1]
            names += [f"{name}[{place}]" for place in range(width)] if _is_list(first.table[name].type) else [name]
    if not names:
        raise UserError(f"{stream.path}: has no column beside {own!r}; add features, or leave the file out.")
    return names


def write_features(
    path: Path,
    stream: Stream,
    book: Book,
    place: Indices,
    precision: FeatureType,
    rows: int,
    on_rows: Callable[[int], None] = lambda count: None,
) -> dict[str, Any]:
    """Lay a table of features into an array by rows of the store.

    Args:
        path: The array to write.
        stream: A row per node: its id, then numbers or lists of numbers.
        book: All nodes.
        place: ``[nodes]`` where each node of the book stands in the store.
        precision: How precisely they are kept.
        rows: Rows that are read together.
        on_rows: Told how many rows were written, for progress bars.

    Returns:
        The names of the columns, and how many values are not zero.

    Raises:
        UserError: A node has two rows or none, or something is no finite number.
    """
    own, names, largest = id_column(stream.names), feature_names(stream), float(np.finfo(precision).max)
    seen, values = np.zeros(len(book), dtype=bool), 0
    target = np.lib.format.open_memmap(path, "w+", np.dtype(precision), (len(book), len(names)))
    for piece in stream.pieces(rows):
        nodes = book.find(piece, own)
        _refuse_repeated(piece, own, nodes, seen)
        seen[nodes] = True
        block = np.concatenate([_numbers(piece, name) for name in stream.wanted.columns if name != own], axis=1)
        _refuse_unfit(piece, block, names, largest, precision)
        target[place[nodes]] = block.astype(precision)
        values += int(np.count_nonzero(block))
        release(target)
        on_rows(len(nodes))
    target.flush()
    if not seen.all():
        node = book.ids[int((~seen).argmax())].as_py()
        raise UserError(
            f"{stream.path}: has no row for {int((~seen).sum()):,} of the nodes, such as {node!r}; add the rows."
        )
    return {"feature_names": names, "num_values": values}


def write_labels(path: Path, table: Path, book: Book, place: Indices) -> dict[str, Any]:
    """Lay labels into an array by rows of the store, -1 where there is none.

    Raises:
        UserError: A label belongs to no node, or a node has two.
    """
    source = read_source(table, lambda names: choose_labels(names, str(table)))
    own, column = id_column(source.names), label_column(source.names, source.name)
    nodes = book.find(source, own)
    _refuse_repeated(source, own, nodes, np.zeros(len(book), dtype=bool))
    names, codes = categories(source, column)
    if not names:
        raise UserError(f"{table}: column {column!r} holds no label at all; fill it in or leave the file out.")
    labels = np.full(len(book), -1)
    labels[place[nodes]] = codes
    np.save(path, labels)
    return {"label_names": names}


def _numbers(piece: Piece, name: str) -> Numbers:
    """``[rows, width]`` a column of numbers, or of lists of equally many."""
    column = piece.table[name]
    if not _is_list(column.type):
        return numbers(piece, name)[:, None]
    flat = numbers(flattened(piece, name), name)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    width = int(lengths[0])
    if not width or (lengths != width).any():
        row = int((lengths != width).argmax())
        raise UserError(f"{piece.row(row)}: the list in column {name!r} is not as long as others; give all one length.")
    return flat.reshape(-1, width)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _refuse_repeated(piece: Source, column: str, nodes: Indices, seen: npt.NDArray[np.bool_]) -> None:
    """Every row must be about a node of the graph that had no row before."""
    fresh = np.zeros(len(nodes), dtype=bool)
    fresh[np.unique(nodes, return_index=True)[1]] = True
    for wrong, what in (
        (nodes < 0, "is in no edge and has no features; correct it or drop the row"),
        (seen[nodes] | ~fresh, "has had a row before; keep one of them"),
    ):
        if wrong.any():
            row = int(wrong.argmax())
            raise UserError(f"{piece.row(row)}: the node {piece.table[column][row].as_py()!r} {what}.")


def _refuse_unfit(piece: Piece, block: Numbers, names: list[str], largest: float, precision: str) -> None:
    if block.shape[1] != len(names):
        raise UserError(f"{piece.row(0)}: {block.shape[1]} numbers follow where {len(names)} came before; correct it.")
    wrong = ~(np.abs(block) <= largest)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise UserError(
            f"{piece.row(int(row))}: {block[row, column]:g} in column {names[column]!r} is missing, infinite or beyond "
            f"{precision}; fill it in or correct it."
        )
