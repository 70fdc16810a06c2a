"""From the user's ids to rows: a sorted book of all nodes, which is the size of the nodes and not of the edges."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bandana.data.own_source import Source
from bandana.data.own_values import WHOLE_NUMBER, index_in, text_ids
from bandana.errors import UserError
from bandana.files import write_atomically
from bandana.scale.reading import Stream
from bandana.scale.text_index import TextIndex

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Book:
    """All nodes in order: whole numbers by size, other ids by letters.

    Attributes:
        ids: int64 or string.
    """

    ids: pa.Array

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, piece: Source, column: str) -> Indices:
        """``[rows]`` the row of each id in a column, -1 for ids that are not in the book."""
        kind = piece.table.schema.field(column).type
        if self._numbers is not None and pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
            return self._find_numbers(self._numbers, _numbers(piece, column))
        ids = text_ids(piece, column)
        found: Indices = self._find_texts(ids.texts)[ids.codes]
        return found

    @cached_property
    def _numbers(self) -> Indices | None:
        return self.ids.to_numpy() if pa.types.is_integer(self.ids.type) else None

    @cached_property
    def _texts(self) -> TextIndex:
        return TextIndex(self.ids)

    @staticmethod
    def _find_numbers(numbers: Indices, wanted: Indices) -> Indices:
        if int(numbers[-1]) - int(numbers[0]) == len(numbers) - 1:
            place = np.clip(wanted - numbers[0], 0, len(numbers) - 1)
        else:
            place = np.searchsorted(numbers, wanted).clip(max=len(numbers) - 1)
        return np.where(numbers[place] == wanted, place, -1)

    def _find_texts(self, texts: pa.Array) -> Indices:
        """The same for different texts, at a cost that is theirs and not the book's."""
        if self._numbers is None:
            return self._texts.find(texts)
        whole = pc.match_substring_regex(texts, WHOLE_NUMBER)
        try:
            wanted = texts.filter(whole).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:  # 19 digits may be too large
            return index_in(texts, self.ids.cast(pa.string()))
        places = np.full(len(texts), -1)
        places[whole.to_numpy(zero_copy_only=False)] = self._find_numbers(self._numbers, wanted)
        return places


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
    return Book(found.take(pc.array_sort_indices(found))), counts


def save_book(path: Path, book: Book) -> None:
    """Keep a book for a later resumption."""
    write_atomically(path, lambda temporary: pq.write_table(pa.table({"id": book.ids}), temporary))


def load_book(path: Path) -> Book:
    """Read what `save_book` wrote."""
    return Book(pq.read_table(path)["id"].combine_chunks())


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
    if not pc.all(pc.match_substring_regex(texts, WHOLE_NUMBER)).as_py():
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
