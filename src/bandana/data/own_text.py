"""Text tables: CSV and its relatives, gzipped or not, parsed by Arrow with every mishap turned into one sentence."""

import gzip
import io
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pv

from bandana.data.columns import DELIMITERS, MISSING, Header, Layout, detect_layout
from bandana.data.own_source import Choose, Source, Wanted, check_rows, checked_names
from bandana.errors import UserError

HEAD = 1 << 18
BLOCK = 1 << 24
"""Bytes that are parsed at a time. No row may be longer."""
HARMLESS = 64 << 20
LARGEST_EXPANSION = 100
"""A packed file may unpack to this many times its size, and to `HARMLESS` bytes in any case. Edge lists reach 10."""

ID_TYPE = pa.dictionary(pa.int32(), pa.string())
"""How ids are read: as the text that stands there, so that 007 survives, each different one stored once."""

_FOREIGN = {
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or save the sheet as CSV",
    b"BZh": "packed with bzip2; unpack it, or pack it with gzip",
    b"\x28\xb5\x2f\xfd": "packed with zstd; unpack it, or pack it with gzip",
    b"\xfd7zXZ": "packed with xz; unpack it, or pack it with gzip",
    b"\x1f\x8b": "packed twice; unpack it once",
    b"PAR1": "a Parquet file inside gzip; unpack it",
    b"ARROW1": "an Arrow file inside gzip; unpack it",
    b"FEA1": "in the first Feather format, which is no longer read; save it as Parquet",
    b"\xff\xfe": "in UTF-16; save it as UTF-8",
    b"\xfe\xff": "in UTF-16; save it as UTF-8",
    b"\x89HDF": "an HDF5 file; save the table as Parquet or CSV",
    b"\x93NUMPY": "a NumPy array; load it in Python and embed it from there",
}


def read_text(path: Path, asked: Iterable[str], choose: Choose, header: Header = "usual") -> Source:
    """Read columns of a text table. Types are decided on whole columns, and ids stay text.

    Raises:
        UserError: It cannot be read, with the line where that can be told.
    """
    with unpacked_file(path) as file:
        layout = detect_layout(head_of(file, path), str(path), asked, header)
    wanted = choose(checked_names(layout.names, str(path)))
    try:
        table = _parse(path, layout, wanted)
    except pa.ArrowInvalid as problem:
        raise _explained(path, layout, wanted, problem) from None
    if any(pa.types.is_binary(kind) for kind in table.schema.types):  # what Arrow makes of text that is no text
        raise strange_text(path) or _not_utf8(path, 1)
    check_rows(table.num_rows, str(path))
    return Source(str(path), layout.names, table, layout, partial(line_of_row, path, layout))


@contextmanager
def unpacked_file(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if it is gzipped."""
    try:
        packed = _is_packed(path)
        with path.open("rb") as file:
            yield io.BufferedReader(_Bounded(path, gzip.GzipFile(fileobj=file)), 1 << 20) if packed else file
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise UserError(f"{path}: the gzip file is damaged or cut off ({problem}); make or copy it again.") from None
    except OSError as problem:
        raise UserError(f"{path}: cannot be read ({problem.strerror or problem}); copy it again.") from None


@contextmanager
def plain_text(path: Path, layout: Layout) -> Iterator[IO[bytes]]:
    """The text of a file as Arrow can parse it: unpacked, and with single blanks where a run of them is one."""
    with unpacked_file(path) as raw:
        yield io.BufferedReader(Squeezed(raw, path), 1 << 20) if layout.squeeze else raw


@contextmanager
def _text_for_arrow(path: Path, layout: Layout) -> Iterator[pa.NativeFile]:
    """The same as a file of Arrow's own: its threads outlive the reading, and Python may not end while they hold its.

    Only what Python has to unpack or change is brought into memory whole.
    """
    with plain_text(path, layout) as text:
        if not layout.squeeze and not _is_packed(path):
            with pa.OSFile(os.fsencode(path)) as file:
                yield file
            return
        sink = pa.BufferOutputStream()
        shutil.copyfileobj(text, sink, 1 << 20)
    yield pa.BufferReader(sink.getvalue())


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def largest_unpacked(path: Path) -> int:
    """Bytes that a packed file may unpack to."""
    return max(HARMLESS, LARGEST_EXPANSION * path.stat().st_size)


def out_of_proportion(path: Path, remedy: str) -> UserError:
    """What is said of a file that unpacks to more than it may."""
    return UserError(
        f"{path}: unpacks to more than {largest_unpacked(path) >> 20} MiB, over {LARGEST_EXPANSION} times its size, "
        f"which tables do not; {remedy}."
    )


class _Bounded(io.RawIOBase):
    """An unpacked file that refuses to grow out of proportion to what it was packed in."""

    def __init__(self, path: Path, unpacked: gzip.GzipFile) -> None:
        self._path, self._unpacked, self._taken = path, unpacked, 0
        self._bound = largest_unpacked(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._unpacked.read(len(buffer))
        self._taken += len(block)
        if self._taken > self._bound:
            raise out_of_proportion(self._path, "unpack it by hand and look at it first")
        buffer[: len(block)] = block
        return len(block)


class Squeezed(io.RawIOBase):
    """Text in which runs of blanks become one, and those at the ends of lines none."""

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        self._raw, self._path, self._rest, self._ready = raw, path, b"", b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            block = self._raw.read(1 << 20)
            if not block and not self._rest:
                return 0
            text = self._rest + block
            end = end_of_rows(text) if block else len(text)
            whole, self._rest = text[:end], text[end:]
            if len(self._rest) > BLOCK:
                raise too_long_a_row(self._path)
            self._ready = re.sub(rb"(?m)^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", whole))
        taken = min(len(buffer), len(self._ready))
        buffer[:taken], self._ready = self._ready[:taken], self._ready[taken:]
        return taken


def end_of_rows(text: bytes) -> int:
    """Where the last row ends that is there to its end."""
    return max(text.rfind(b"\n"), text.rfind(b"\r")) + 1


def head_of(file: IO[bytes], path: Path) -> str:
    """Whole lines from the beginning of a text file."""
    head = file.read(HEAD)
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise UserError(f"{path}: is {what}.")
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"[")):
        raise UserError(f"{path}: begins like JSON, which is not read; save it as CSV or Parquet, with a row per edge.")
    if b"\0" in head:
        raise UserError(f"{path}: is neither text nor Parquet nor Arrow; save the table as CSV or Parquet.")
    if len(head) == HEAD:
        head = head[: head.rfind(b"\n") + 1] or head
    return head.decode("utf-8-sig", errors="replace")


def _parse(
    path: Path, layout: Layout, wanted: Wanted, on_ragged: Callable[[Any], str] | None = None, threads: bool = True
) -> pa.Table:
    with _text_for_arrow(path, layout) as text:
        return pv.read_csv(
            text,
            pv.ReadOptions(
                column_names=list(layout.names), skip_rows=layout.skipped, block_size=BLOCK, use_threads=threads
            ),
            pv.ParseOptions(delimiter=layout.delimiter, invalid_row_handler=on_ragged),
            pv.ConvertOptions(
                column_types=dict.fromkeys(wanted.ids, ID_TYPE),
                include_columns=list(wanted.columns),
                null_values=MISSING,
                strings_can_be_null=False,
            ),
        )


def _explained(path: Path, layout: Layout, wanted: Wanted, problem: Exception) -> UserError:
    """Why a text could not be parsed. Rows are only counted in a single thread, so it is read once more."""
    if strange := strange_text(path):
        return strange
    ragged: list[Any] = []

    def remember(row: Any) -> str:
        ragged.append(row)
        return "error"

    with suppress(pa.ArrowInvalid):
        _parse(path, layout, wanted, remember, threads=False)
    if ragged:
        return ragged_row(path, layout, ragged[0], ragged[0].number - layout.skipped - 1)
    if "straddl" in str(problem):
        return too_long_a_row(path)
    return UserError(f"{path}: cannot be read as a table ({str(problem).splitlines()[0][:160]}); save it as CSV again.")


def ragged_row(path: Path, layout: Layout, found: Any, row: int) -> UserError:
    """What is said of a row, counted from 0, with too many cells or too few, as Arrow has found it."""
    place = f"{path}, line {line_of_row(path, layout, row)}"
    if "\n" in found.text:
        return UserError(f"{place}: a quotation mark is opened and not closed; close or remove it.")
    return UserError(
        f"{place}: has {found.actual_columns} cells where {found.expected_columns} are due ({found.text[:60]!r}); "
        f"complete the row, or put cells that hold a {DELIMITERS[layout.delimiter]} into quotation marks."
    )


def too_long_a_row(path: Path) -> UserError:
    """What is said of a row that is longer than what is parsed at a time."""
    return UserError(f"{path}: a row is longer than {BLOCK} bytes; look for a quotation mark that is not closed.")


def _not_utf8(path: Path, line: int) -> UserError:
    return UserError(f"{path}, line {line}: holds text that is not UTF-8; save the file with that encoding.")


def strange_text(path: Path) -> UserError | None:
    """What is said of the first line that is not UTF-8, if there is one."""
    with unpacked_file(path) as file:
        return next((_not_utf8(path, number) for number, text in enumerate(file, 1) if not is_utf8(text)), None)


def is_utf8(text: bytes) -> bool:
    """Whether bytes are text."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def line_of_row(path: Path, layout: Layout, row: int) -> int:
    """The line of a row, as an editor counts: blank lines hold no row."""
    with unpacked_file(path) as file:
        blank = b" \t\r\n" if layout.squeeze else b"\r\n"
        filled = (number for number, text in enumerate(file, 1) if number > layout.skipped and text.strip(blank))
        return next((number for rank, number in enumerate(filled) if rank == row), layout.skipped + row + 1)
