"""From the user's ids to rows: a sorted book of all nodes, which is the size of the nodes and not of the edges."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bandana.data.own_source import Source
from bandana.data.own_values import text_ids
from bandana.errors import UserError
from bandana.files import write_atomically
from bandana.scale.reading import Stream

Indices = npt.NDArray[np.int64]


class Book(NamedTuple):
    """All nodes in order: whole numbers by size, other ids by letters.

    Attributes:
        ids: int64 or string.
        numbers: The same, where every file keeps ids as whole numbers, so that no text is ever made of them.
        texts: The same as text, where some file does not.
    """

    ids: pa.Array
    numbers: Indices | None
    texts: pa.Array | None

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, piece: Source, column: str) -> Indices:
        """``[rows]`` the row of each id in a column, -1 for ids that are not in the book."""
        if self.numbers is None or not pa.types.is_integer(piece.table.schema.field(column).type):
            ids = text_ids(piece, column)
            texts = self.ids.cast(pa.string()) if self.texts is None else self.texts
            known = pc.fill_null(pc.index_in(ids.texts, value_set=texts), -1)
            found: Indices = known.to_numpy(zero_copy_only=False).astype(np.int64)[ids.codes]
            return found
        wanted = _numbers(piece, column)
        if self.numbers[-1] - self.numbers[0] == len(self.numbers) - 1:
            place = np.clip(wanted - self.numbers[0], 0, len(self.numbers) - 1)
        else:
            place = np.searchsorted(self.numbers, wanted).clip(max=len(self.numbers) - 1)
        return np.where(self.numbers[place] == wanted, place, -1)


def collect_ids(streams: Sequence[Stream], rows: int, on_rows: Callable[[int], None]) -> tuple[Book, list[int]]:
    """Every id that occurs in the id columns of some tables.

    Args:
        streams: The tables.
        rows: How many rows of them are looked at together.
        on_rows: Told how many rows were read, for progress bars.

    Returns:
        The book, and how many rows each table has.
    """
    whole, kept = all(stream.has_whole_number_ids for stream in streams), False
    ids, counts = _Distinct(pa.int64() if whole else pa.string()), [0] * len(streams)
    for number, stream in enumerate(streams):
        for piece in stream.only_ids().pieces(rows):
            for column in stream.wanted.ids:
                if whole:
                    ids.add(pc.unique(pa.array(_numbers(piece, column))))
                else:
                    texts = text_ids(piece, column)
                    kept |= texts.kept
                    ids.add(texts.texts)
            counts[number] += piece.table.num_rows
            on_rows(piece.table.num_rows)
    found = ids.merged()
    if not whole and not kept and _are_whole(found):
        found = found.cast(pa.int64())
    return _book(found.take(pc.array_sort_indices(found)), whole), counts


def save_book(path: Path, book: Book) -> None:
    """Keep a book for a later resumption."""
    table = pa.table({"id": book.ids}, metadata={"numbers": str(book.numbers is not None)})
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def load_book(path: Path) -> Book:
    """Read what `save_book` wrote."""
    table = pq.read_table(path)
    return _book(table["id"].combine_chunks(), table.schema.metadata[b"numbers"] == b"True")


def _book(ids: pa.Array, whole: bool) -> Book:
    return Book(ids, ids.to_numpy(), None) if whole else Book(ids, None, ids.cast(pa.string()))


class _Distinct:
    """Different ids, merged whenever the newcomers outnumber those that are known."""

    def __init__(self, kind: Any) -> None:
        self._known, self._new, self._waiting = pa.array([], kind), list[Any](), 0

    def add(self, ids: Any) -> None:
        self._new.append(ids)
        self._waiting += len(ids)
        if self._waiting > len(self._known):
            self.merged()

    def merged(self) -> pa.Array:
        """All of them, in no order."""
        self._known = pc.unique(pa.concat_arrays([self._known, *self._new]))
        self._new, self._waiting = [], 0
        return self._known


def _are_whole(texts: Any) -> bool:
    """Whether texts are whole numbers in the way that numbers are written, so that nothing is lost by keeping those."""
    if not pc.all(pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]{0,18})$")).as_py():
        return False
    try:
        texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _numbers(piece: Source, column: str) -> Indices:
    values = piece.table[column]
    if values.null_count:
        row = int(pc.index(pc.is_null(values), True).as_py())
        raise UserError(f"{piece.row(row)}: the id in column {column!r} is missing; fill it in or drop the row.")
    return np.asarray(values.cast(pa.int64()).to_numpy(), dtype=np.int64)
