"""Reading a table from a file: its format is told by its first bytes, not by its name."""

import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as pi
import pyarrow.parquet as pq

from bandana.data.columns import Header
from bandana.data.own_source import Choose, Source, check_rows, checked_names
from bandana.data.own_text import largest_unpacked, out_of_proportion, read_text
from bandana.errors import UserError, did_you_mean, first_line

BYTES_PER_VALUE = 8
PARQUET, ARROW_FILE, ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
"""How files begin that are no text."""


def read_source(path: Path, choose: Choose, asked: Iterable[str] = (), header: Header = "usual") -> Source:
    """Read columns of a CSV, TSV or space-separated file, gzipped or not, or of a Parquet, Arrow or Feather file.

    Args:
        path: The file.
        choose: From the names of all columns to those that are wanted.
        asked: Column names that the user gave; a first line that holds one is a header.
        header: Whether the first line of a text holds the names of its columns, or how to find out.

    Raises:
        UserError: It cannot be read, with the row where that can be told.
    """
    head = first_bytes(path, header)
    if head.startswith(PARQUET):
        return _read_parquet(path, choose)
    if head.startswith((ARROW_FILE, ARROW_STREAM)):
        return _read_arrow(path, choose, in_stream=head.startswith(ARROW_STREAM))
    return read_text(path, asked, choose, header)


def first_bytes(path: Path, header: Header = "usual") -> bytes:
    """The beginning of a file, which tells its format.

    Raises:
        UserError: It is no file with something in it, or one that needs no word on its header.
    """
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise UserError(f"{path}: is a folder; name the file in it that holds the table.")
        if not stat.S_ISREG(kind):
            raise UserError(f"{path}: is no file on disk, and a table is read twice; write it to one, and name that.")
        with path.open("rb") as file:
            head = file.read(8)
    except FileNotFoundError:
        siblings = [item.name for item in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, siblings) if 0 < len(siblings) <= 20 else "Correct the path."
        raise UserError(f"{path}: there is no such file. {hint}") from None
    except OSError as problem:
        raise UserError(
            f"{path}: cannot be opened ({problem.strerror}); correct the path or its permissions."
        ) from None
    if not head:
        raise UserError(f"{path}: is empty; give one line per edge or node, such as a,b.")
    if header in ("yes", "no") and head.startswith((PARQUET, ARROW_FILE, ARROW_STREAM)):
        raise UserError(f"--header: {path} is no text, and names its columns in any case; leave the option out.")
    return head


def _read_parquet(path: Path, choose: Choose) -> Source:
    with _named(path, "Parquet"), pq.ParquetFile(path) as file:
        check_rows(file.metadata.num_rows, str(path))
        names = checked_names(file.schema_arrow.names, str(path))
        columns = choose(names).columns
        if BYTES_PER_VALUE * _values(file.metadata, columns) > largest_unpacked(path):
            raise out_of_proportion(path, "look at it, and write it anew without columns that hold one value")
        return _sound(path, names, file.read(columns=list(columns)))


def _values(metadata: pq.FileMetaData, columns: Sequence[str]) -> int:
    """Numbers or texts in some columns, with those inside of lists: a few bytes can stand for any number of rows."""
    wanted = tuple(f"{name}." for name in columns)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    return sum(chunk.num_values for chunk in chunks if f"{chunk.path_in_schema}.".startswith(wanted))


def _read_arrow(path: Path, choose: Choose, in_stream: bool) -> Source:
    with _named(path, "Arrow"), pa.memory_map(str(path)) as mapped:
        reader = pi.open_stream(mapped) if in_stream else pi.open_file(mapped)
        names = checked_names(reader.schema.names, str(path))
        return _sound(path, names, reader.read_all().select(list(choose(names).columns)))


def _sound(path: Path, names: tuple[str, ...], table: pa.Table) -> Source:
    """The table, once nothing in it points astray or is no text: of a damaged file that would be followed anywhere."""
    table.validate(full=True)
    check_rows(table.num_rows, str(path))
    return Source(str(path), names, table)


@contextmanager
def _named(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever is wrong inside a binary file into a sentence that names it."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as problem:
        summary = first_line(problem)
        raise UserError(f"{path}: the {kind} file is damaged or cut off ({summary}); make or copy it again.") from None
