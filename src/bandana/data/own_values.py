"""From columns of a table to arrays: ids as numbers of nodes, quantities, points in time. Nothing loops over rows."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bandana.data.columns import MISSING, is_number
from bandana.data.own_source import Source
from bandana.errors import UserError

LONGEST_ID = 1000
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,18})$"
"""A text that is a whole number in the way that numbers are written, so that nothing is lost by keeping that."""
NO_IDS = ("", "nan", "NaN", "NAN", "null", "NULL", "None", "<NA>")
"""Texts that other programs write where an id is missing."""

SMALLEST_WEIGHT, LARGEST_WEIGHT = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
RANGE = f"{SMALLEST_WEIGHT:.1e} to {LARGEST_WEIGHT:.1e}"
"""Of the weights that models in single precision can tell from zero and from infinity."""

Indices = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


class TextIds(NamedTuple):
    """A column of ids: its different texts, and which of them stands in each row.

    `kept` says that whoever made the table chose text, so that 12 stays '12'. A text file has no such choice.
    """

    texts: pa.Array
    codes: npt.NDArray[np.integer[Any]]
    kept: bool = False


class NodeBook(NamedTuple):
    """All nodes of a graph in order: whole numbers by size, other ids by letters, so that no file's order matters.

    Attributes:
        ids: What the user calls them: all int, or all str.
        texts: The same as text.
    """

    ids: list[Any]
    texts: pa.Array

    def find(self, column: TextIds) -> Indices:
        """``[rows]`` the node of each row, -1 for ids that are not in the book."""
        found: Indices = index_in(column.texts, self.texts)[column.codes]
        return found


def index_in(texts: pa.Array, known: pa.Array) -> Indices:
    """``[texts]`` where each text stands among the known ones, -1 for others. All that are known are looked at."""
    found = pc.fill_null(pc.index_in(texts, value_set=known), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def open_book(*columns: TextIds) -> NodeBook:
    """Number every id that occurs in the columns."""
    texts = pc.unique(pa.concat_arrays([column.texts for column in columns]))
    whole = None if any(column.kept for column in columns) else _whole_numbers(texts)
    order = pc.array_sort_indices(texts if whole is None else whole)
    ids = (texts if whole is None else whole).take(order)
    return NodeBook(ids.to_pylist(), texts.take(order))


def written_as_two(book: NodeBook) -> list[str]:
    """Ids such as ``1.0`` beside ``1``: a column of whole numbers with a gap is often written so."""
    marked = book.texts.filter(pc.match_substring_regex(book.texts, r"^-?[0-9]+\.0+$"))
    bare = pc.replace_substring_regex(marked, r"\.0+$", "")
    return list(marked.filter(pc.is_in(bare, value_set=book.texts)).to_pylist())


def text_ids(source: Source, column: str) -> TextIds:
    """Read a column of ids; blanks around an id do not count.

    Raises:
        UserError: An id is missing or overlong, or the column is of a kind that names nothing.
    """
    values = source.table[column]
    empty = pc.is_null(values, nan_is_null=True)
    if pc.any(empty).as_py():
        raise _no_id(source, column, first_row(empty))
    encoded = _encoded(source, column, values).unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
    texts = pc.utf8_trim_whitespace(encoded.chunk(0).dictionary.cast(pa.string()))
    empty = pc.is_in(texts, value_set=pa.array(NO_IDS))
    if pc.any(empty).as_py():
        raise _no_id(source, column, _first_use(codes, empty))
    overlong = pc.greater(pc.binary_length(texts), LONGEST_ID)
    if pc.any(overlong).as_py():
        raise UserError(
            f"{source.row(_first_use(codes, overlong))}: the id in column {column!r} is over {LONGEST_ID} bytes long; "
            f"look for a quotation mark that is not closed, or shorten it."
        )
    return TextIds(texts, codes, kept=source.layout is None and is_text(encoded.type.value_type))


class Categories(NamedTuple):
    """A column of names that repeat: the different ones in order, and which stands in each row, -1 for none."""

    names: list[str]
    codes: Indices


def categories(source: Source, column: str) -> Categories:
    """Read a column of categories, whatever it is written in.

    Raises:
        UserError: It holds fractions, or something that is neither text nor number.
    """
    values = source.table[column]
    if values.null_count == len(values):
        return Categories([], np.full(len(values), -1))
    encoded = _encoded(source, column, values).unify_dictionaries()
    texts = pc.utf8_trim_whitespace(encoded.chunk(0).dictionary.cast(pa.string()))
    codes = np.concatenate([pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
    present = pc.unique(texts.filter(pc.invert(pc.is_in(texts, value_set=pa.array(MISSING)))).drop_null())
    book = open_book(TextIds(present, codes))
    place = np.append(book.find(TextIds(texts, np.arange(len(texts)))), -1)  # the last one is where code -1 points
    return Categories(book.texts.to_pylist(), place[codes])


def numbers(source: Source, column: str) -> Numbers:
    """``[rows]`` a column of numbers, NaN where a value is missing.

    Raises:
        UserError: A cell is no number.
    """
    values = source.table[column]
    kind = values.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        values = values.cast(pa.float64() if pa.types.is_decimal(kind) else pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise _no_number(source, column)
    filled = values.cast(pa.float64(), safe=False).fill_null(float("nan"))
    return np.asarray(filled.to_numpy(), dtype=np.float64)


def positive_numbers(source: Source, column: str) -> Numbers:
    """``[rows]`` a column of weights.

    Raises:
        UserError: One is missing, infinite, zero or negative.
    """
    weights = numbers(source, column)
    wrong = ~representable(weights)
    if wrong.any():
        row = int(wrong.argmax())
        value = "missing" if np.isnan(weights[row]) else f"{weights[row]:g}"
        raise UserError(
            f"{source.row(row)}: the weight in column {column!r} is {value}, but weights must be positive and finite, "
            f"within {RANGE}; correct it, drop the row, or rename the column if it is no weight."
        )
    return weights


def representable(weights: Any) -> npt.NDArray[np.bool_]:
    """Which weights are positive and finite, and stay so in single precision."""
    fitting: npt.NDArray[np.bool_] = (weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT)
    return fitting


def first_row(marks: Any) -> int:
    """The first row that is marked."""
    return int(pc.index(marks, True).as_py())


def _encoded(source: Source, column: str, values: Any) -> Any:
    """The column as dictionary codes. A dictionary that came with it may name ids that no row has, so it is redone."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        if source.layout is not None:
            return values
        values, kind = values.cast(kind.value_type), kind.value_type
    if pa.types.is_floating(kind):
        raw = np.asarray(values.cast(pa.float64()).to_numpy(), dtype=np.float64)
        wrong = ~np.isnan(raw) & ((raw != np.floor(raw)) | (np.abs(raw) >= 2.0**63))
        if wrong.any():
            row = int(wrong.argmax())
            raise UserError(
                f"{source.row(row)}: {raw[row]:g} in column {column!r} is neither a whole number nor text, as ids "
                f"and labels are; name another column or write it as text."
            )
        values = pc.if_else(pc.is_nan(values), None, values).cast(pa.int64())
    elif pa.types.is_boolean(kind):
        values, kind = values.cast(pa.string()), pa.string()
    elif not (pa.types.is_integer(kind) or is_text(kind)):
        raise UserError(
            f"{source.name}: column {column!r} holds {kind}, but ids and labels are text or whole numbers; name "
            f"another column or convert it."
        )
    if is_text(kind):
        values = values.cast(pa.large_string())
    return values.dictionary_encode()


def is_text(kind: Any) -> bool:
    """Whether a column's type is text of some sort."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _whole_numbers(texts: Any) -> Any:
    """The texts as integers, if each is written as one would be; 007 is not."""
    if not pc.all(pc.match_substring_regex(texts, WHOLE_NUMBER)).as_py():
        return None
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _first_use(codes: npt.NDArray[np.integer[Any]], marked_texts: Any) -> int:
    return int(marked_texts.to_numpy(zero_copy_only=False)[codes].argmax())


def _no_id(source: Source, column: str, row: int) -> UserError:
    return UserError(f"{source.row(row)}: the id in column {column!r} is missing; fill it in or drop the row.")


def _is_wrong(cell: str | None) -> bool:
    return cell is not None and cell.strip() not in MISSING and not is_number(cell.strip())


def _no_number(source: Source, column: str) -> UserError:
    values = source.table[column]
    if is_text(values.type):
        wrong = next(((row, cell) for row, cell in enumerate(values.to_pylist()) if _is_wrong(cell)), None)
        if wrong is not None:
            row, cell = wrong
            return UserError(
                f"{source.row(row)}: {cell[:40]!r} in column {column!r} is no number; correct it or drop the row."
            )
        return UserError(
            f"{source.name}: column {column!r} holds text where numbers are due; save it as a column of numbers."
        )
    return UserError(
        f"{source.name}: column {column!r} holds {values.type} where numbers are due; name another column."
    )
