"""Tables that are read a piece at a time, because the whole would not fit into memory."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.ipc as pi
import pyarrow.parquet as pq

from bandana.data import own_text
from bandana.data.columns import MISSING, Header, Layout, detect_layout
from bandana.data.own_files import ARROW_FILE, ARROW_STREAM, PARQUET, first_bytes
from bandana.data.own_source import Choose, Source, Wanted, checked_names
from bandana.errors import UserError, first_line

READ_BYTES = 1 << 20
"""Of a column of a Parquet file, that are fetched at a time."""
_WRONG_CELL = re.compile(r"column #(?P<column>\d+): Row #(?P<row>\d+): .*invalid value '(?P<cell>.*)'", re.DOTALL)


class Piece(Source):
    """A few rows of a table, which know how many came before them."""

    first_row = 0

    def row(self, number: int) -> str:
        return super().row(self.first_row + number)


@dataclass(frozen=True)
class Stream:
    """A table in a file, understood but not read.

    Attributes:
        path: The file: Parquet, Arrow, or text, gzipped or not.
        names: All of its columns.
        wanted: Those that are read; of a text file, what is no id must be a number.
        layout: How it is written, if as text.
        types: Of the wanted columns; empty for text.
        head: The first bytes, which tell the format.
    """

    path: Path
    names: tuple[str, ...]
    wanted: Wanted
    layout: Layout | None
    types: tuple[Any, ...]
    head: bytes

    @property
    def has_whole_number_ids(self) -> bool:
        """Whether the ids are kept as whole numbers already; those of a text file are looked at first."""
        ids = [kind for name, kind in zip(self.wanted.columns, self.types, strict=False) if name in self.wanted.ids]
        return bool(ids) and all(pa.types.is_signed_integer(kind) or pa.types.is_uint32(kind) for kind in ids)

    def only_ids(self) -> "Stream":
        """The same table with no other columns."""
        kinds = dict(zip(self.wanted.columns, self.types, strict=False))
        types = tuple(kinds[name] for name in self.wanted.ids) if kinds else ()
        return replace(self, wanted=Wanted(self.wanted.ids, self.wanted.ids), types=types)

    def pieces(self, rows: int) -> Iterator[Piece]:
        """The table from its beginning, up to `rows` rows at a time.

        Raises:
            UserError: The file is damaged, or a row of a text file cannot be read.
        """
        seen, line = 0, None if self.layout is None else partial(own_text.line_of_row, self.path, self.layout)
        with _explained(self.path):
            for batch in self._batches(rows):
                for start in range(0, batch.num_rows, rows):
                    table = pa.Table.from_batches([batch.slice(start, rows)])
                    table.validate(full=True)
                    piece = Piece(str(self.path), self.names, table, self.layout, line)
                    piece.first_row = seen
                    seen += table.num_rows
                    yield piece
        if not seen:
            raise UserError(f"{self.path}: has columns but no rows; give one row per edge or node.")

    def _batches(self, rows: int) -> Iterator[Any]:
        columns = list(self.wanted.columns)
        if self.layout is not None:
            yield from self._text_batches(self.layout)
        elif self.head.startswith(PARQUET):
            # Otherwise everything that was ever fetched stays in memory until the end of the file.
            with pq.ParquetFile(self.path, buffer_size=READ_BYTES, pre_buffer=False) as file:
                yield from file.iter_batches(rows, columns=columns)
        else:
            with pa.memory_map(str(self.path)) as mapped:
                stream = self.head.startswith(ARROW_STREAM)
                reader = pi.open_stream(mapped) if stream else pi.open_file(mapped)
                batches = reader if stream else map(reader.get_batch, range(reader.num_record_batches))
                yield from (batch.select(columns) for batch in batches)

    def _text_batches(self, layout: Layout) -> Iterator[Any]:
        rows, skipped = 0, layout.skipped
        with own_text.plain_text(self.path, layout) as text:
            for block in _whole_rows(text, self.path):
                try:
                    table = self._parsed(block, layout, skipped)
                except pa.ArrowInvalid as problem:
                    raise self._refused(block, layout, skipped, rows, problem) or problem from None
                yield from table.to_batches()
                rows, skipped = rows + table.num_rows, 0

    def _refused(
        self, block: bytes, layout: Layout, skipped: int, rows: int, problem: pa.ArrowInvalid
    ) -> UserError | None:
        """Why a piece of text could not be parsed, by the line in the file: Arrow counts those of the piece."""
        if not own_text.is_utf8(block) and (strange := own_text.strange_text(self.path)):
            return strange
        before, ragged = rows - skipped - 1, list[Any]()

        def remember(row: Any) -> str:
            ragged.append(row)
            return "error"

        with suppress(pa.ArrowInvalid):
            self._parsed(block, layout, skipped, remember)
        if ragged:
            return own_text.ragged_row(self.path, layout, ragged[0], before + ragged[0].number)
        if wrong := _WRONG_CELL.search(str(problem)):
            line = own_text.line_of_row(self.path, layout, before + int(wrong["row"]))
            return UserError(
                f"{self.path}, line {line}: {wrong['cell'][:40]!r} in column {layout.names[int(wrong['column'])]!r} is "
                f"no number; correct it or drop the row."
            )
        return None

    def _parsed(
        self, block: bytes, layout: Layout, skipped: int, on_ragged: Callable[[Any], str] | None = None
    ) -> pa.Table:
        # Ids as plain text: the dictionary of a whole block would stay with every piece of it.
        kinds = {name: pa.string() if name in self.wanted.ids else pa.float64() for name in self.wanted.columns}
        return pv.read_csv(
            pa.BufferReader(block),  # never Python's file: Arrow's threads would hold it beyond the end of Python
            # Only a single thread counts rows, and a mistake should have its row named.
            pv.ReadOptions(
                column_names=list(layout.names), skip_rows=skipped, block_size=len(block), use_threads=False
            ),
            pv.ParseOptions(delimiter=layout.delimiter, invalid_row_handler=on_ragged),
            pv.ConvertOptions(
                column_types=kinds,
                include_columns=list(self.wanted.columns),
                null_values=MISSING,
                strings_can_be_null=False,
            ),
        )


def open_stream(path: Path, choose: Choose, asked: Iterable[str] = (), header: Header = "usual") -> Stream:
    """Look at the beginning of a table and choose its columns.

    Args:
        path: The file.
        choose: From the names of all columns to those that are wanted.
        asked: Column names that the user gave; a first line that holds one is a header.
        header: Whether the first line of a text holds the names of its columns, or how to find out.

    Raises:
        UserError: There is no such file, or it is no table.
    """
    head = first_bytes(path, header)
    if not head.startswith((PARQUET, ARROW_FILE, ARROW_STREAM)):
        with own_text.unpacked_file(path) as file:
            layout = detect_layout(own_text.head_of(file, path), str(path), asked, header)
        return Stream(path, layout.names, choose(checked_names(layout.names, str(path))), layout, (), head)
    with _explained(path):
        schema = _schema(path, head)
        names = checked_names(schema.names, str(path))
        wanted = choose(names)
        return Stream(path, names, wanted, None, tuple(schema.field(name).type for name in wanted.columns), head)


def _schema(path: Path, head: bytes) -> Any:
    if head.startswith(PARQUET):
        return pq.read_schema(path)
    with pa.memory_map(str(path)) as mapped:
        return (pi.open_stream(mapped) if head.startswith(ARROW_STREAM) else pi.open_file(mapped)).schema


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn whatever is wrong inside a file into a sentence that names it."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as problem:
        summary = first_line(problem, 160)
        raise UserError(f"{path}: is damaged, or not a table of numbers and ids ({summary}); correct it.") from None


def _whole_rows(text: IO[bytes], path: Path) -> Iterator[bytes]:
    """The text in pieces that end where a row does."""
    rest = b""
    while block := text.read(own_text.BLOCK):
        block = rest + block
        end = own_text.end_of_rows(block)
        rest = block[end:]
        if len(rest) > own_text.BLOCK:
            raise own_text.too_long_a_row(path)
        if end:
            yield block[:end]
    if rest:
        yield rest


def unused(stream: Stream, used: Sequence[str]) -> list[str]:
    """A remark on the columns that are not read."""
    read = set(used)
    left = [name for name in stream.names if name not in read]
    return [f"Not used of {stream.path}: {', '.join(map(repr, left[:8]))}."] if left else []
