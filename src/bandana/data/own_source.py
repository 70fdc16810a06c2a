"""A table that somebody brought, with enough of its history to name the place of every mistake in it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from bandana.data.columns import Layout, first_repeated
from bandana.errors import UserError

MOST_ROWS = 1_000_000_000
"""A table beyond this is a mistake or an attack: its graph would not fit into any memory."""


class Wanted(NamedTuple):
    """Which columns to read, and which of them hold ids and are therefore kept as the text that stands there."""

    columns: tuple[str, ...]
    ids: tuple[str, ...]


Choose: TypeAlias = Callable[[Sequence[str]], Wanted]
"""From the names of all columns to those that are wanted."""


class Source(NamedTuple):
    """A table and where it came from.

    Attributes:
        name: The file, or what its owner would call it.
        names: All columns, also those that were not read.
        table: The columns that were.
        layout: How it was written, if as text.
        line: From a row, counted from 0, to its line, counted from 1; None if rows are not lines.
    """

    name: str
    names: tuple[str, ...]
    table: pa.Table
    layout: Layout | None = None
    line: Callable[[int], int] | None = None

    def row(self, number: int) -> str:
        """The place of a row, counted from 0, in the words of somebody who counts from 1."""
        return f"{self.name}, row {number + 1}" if self.line is None else f"{self.name}, line {self.line(number)}"


class Flattened(Source):
    """The numbers of a column of lists, one below the other, each of which is called by the row of its list."""

    lists: Source

    def row(self, number: int) -> str:
        parents = pc.list_parent_indices(self.lists.table[self.names[0]].combine_chunks())
        return self.lists.row(int(parents[number].as_py()))


def flattened(source: Source, column: str) -> Source:
    """A column of lists as one of numbers; there are none of a row without a list."""
    flat = Flattened(source.name, (column,), pa.table({column: pc.list_flatten(source.table[column])}))
    flat.lists = source
    return flat


def source_of_table(table: pa.Table, name: str, choose: Choose) -> Source:
    """A table in memory as a source.

    Raises:
        UserError: It has no rows, too many, or columns of one name.
    """
    names = checked_names(table.column_names, name)
    check_rows(table.num_rows, name)
    return Source(name, names, table.select(list(choose(names).columns)))


def checked_names(names: Sequence[str], place: str) -> tuple[str, ...]:
    """The names, if there are any and each is there once."""
    twice = first_repeated(names)
    if twice is not None:
        raise UserError(f"{place}: two columns are named {twice!r}; give every column its own name.")
    if not names:
        raise UserError(f"{place}: has no columns; an edge needs a source and a target.")
    return tuple(names)


def check_rows(rows: int, place: str) -> None:
    """Refuse a table without rows, and one with more than any memory holds."""
    if rows == 0:
        raise UserError(f"{place}: has columns but no rows; give one row per edge or node.")
    if rows > MOST_ROWS:
        raise UserError(f"{place}: has {rows:,} rows, and {MOST_ROWS:,} are the most that are read; take a part of it.")
