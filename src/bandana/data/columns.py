"""What the columns of a table are: their delimiter and header, guessed from the first lines, and what each is for."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Literal, NamedTuple, TypeAlias

from bandana.errors import UserError, did_you_mean

DELIMITERS = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar", " ": "space"}
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "NAN", "null", "NULL", "None")
"""Cells that say that there is no value, in every column but those of ids: Namibia's code is NA."""

SOURCE = ("source", "src", "from", "fromnode", "fromnodeid", "fromid", "sourceid", "sender", "head", "u", "node1")
TARGET = ("target", "dst", "to", "tonode", "tonodeid", "toid", "targetid", "receiver", "tail", "v", "node2")
WEIGHT = ("weight", "weights", "edgeweight", "w")
TIME = ("time", "timestamp", "date", "datetime")
NODE = ("id", "nodeid", "node", "key", "name")
LABEL = ("label", "labels", "class", "y", "category", "group", "community")
KNOWN = {*SOURCE, *TARGET, *NODE}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
Header: TypeAlias = Literal["yes", "no", "usual", "guess"]
"""Whether a first line is a header: as somebody says, or if it has usual names or stands above numbers, or else also if
it is written unlike all lines below it. Such a line could still be an edge, so the last is for those who tell the user.
"""

ROWS_OF_ONE_SHAPE = 20
"""So many rows must be written alike before a first line that is not gives itself away as a header."""

_COMMENT = re.compile(r"#(\s|#|$)|%")


class Layout(NamedTuple):
    """How a text table is written.

    Attributes:
        delimiter: One character.
        names: One per column; 1, 2, 3, … when there is no header.
        header: Whether the first line that is neither blank nor a comment holds the names.
        skipped: Lines before the first row of data.
        squeeze: Whether runs of blanks count as one delimiter.
        first: The cells of the first line, which may be taken for a header or not.
        certain: Whether there is no doubt about that: it was asked for, or the line reads like only one of the two.
    """

    delimiter: str
    names: tuple[str, ...]
    header: bool
    skipped: int
    squeeze: bool
    first: tuple[str, ...]
    certain: bool

    def describe(self) -> str:
        blanks = "blanks" if self.squeeze else f"{DELIMITERS[self.delimiter]}s"
        return f"columns separated by {blanks}, {'with a' if self.header else 'no'} header"


class EdgeColumns(NamedTuple):
    """Names of the columns of an edge list."""

    source: str
    target: str
    weight: str | None
    time: str | None

    def describe(self) -> str:
        used = (f"{use} {name!r}" for use, name in self._asdict().items() if name is not None)
        return ", ".join(used)


def detect_layout(head: str, place: str, asked: Iterable[str], header: Header = "usual") -> Layout:
    """Guess how a table is written from its first lines.

    Args:
        head: Whole lines from the beginning of the file.
        place: The file, for messages.
        asked: What the user calls columns: names of a header, or numbers, counted from 1, where there is none.
        header: Whether the first line holds the names of the columns, or how to find out.

    Raises:
        UserError: There are no rows, or no delimiter splits them.
    """
    lines = re.split(r"\r\n|\n|\r", head)
    preamble = sum(1 for _ in takewhile(lambda line: not line.strip() or _COMMENT.match(line), lines))
    lines = [line for line in lines[preamble:] if line.strip()][:200]
    if not lines:
        raise UserError(f"{place}: holds no rows; give one line per edge or node, such as a,b.")
    delimiter = _delimiter(lines, place)
    squeeze = delimiter in " \t" and any(re.search(r"^\s|\s$|[ \t]{2}", line) for line in lines) and not _tabbed(lines)
    delimiter = " " if squeeze else delimiter
    cells = [tuple(cell.strip() for cell in row) for row in _split(lines, delimiter, squeeze, place)]
    guess = _Guess(header == "yes", certain=True)
    if header in ("usual", "guess"):
        guess = _guess(cells[0], cells[1:], set(asked), by_shape=header == "guess")
    if not guess.header:
        numbers = tuple(str(number) for number in range(1, len(cells[0]) + 1))
        return Layout(delimiter, numbers, False, preamble, squeeze, cells[0], guess.certain)
    names = tuple(name or f"column {number}" for number, name in enumerate(cells[0], 1))
    _refuse_repeated(names, place)
    return Layout(delimiter, names, True, preamble + 1, squeeze, cells[0], guess.certain)


def edge_columns(names: Sequence[str], asked: Mapping[str, str | None], place: str) -> EdgeColumns:
    """Which columns hold the two ends, the weight and the time: those asked for, else those with a usual name.

    Ends with unusual names are the first two columns that are left. A weight or a time needs a usual name or to be
    asked for.

    Raises:
        UserError: A column that was asked for is not there, or there are fewer than two.
    """
    for name in asked.values():
        if name is not None and name not in names:
            raise UserError(f"{place}: has no column {name!r}. {did_you_mean(name, names)}")
    given = [name for name in asked.values() if name is not None]
    if len(set(given)) < len(given):
        raise UserError(f"{place}: the same column is named for two uses ({', '.join(given)}); name a different one.")
    for end, known in (("source", SOURCE), ("target", TARGET)):
        taken = next((name for name in names if plain(name) in known), None)
        use = next((use for use in ("weight", "time") if taken is not None and asked.get(use) == taken), None)
        if use is not None and asked.get(end) is None:
            raise UserError(
                f"{place}: the column {taken!r} is the {end} of an edge already and cannot be its {use}, too; name "
                f"another, or name another for the {end}."
            )

    def usual(use: str, known: Sequence[str]) -> str | None:
        fitting = (name for name in names if plain(name) in known and name not in given)
        return asked.get(use) or next(fitting, None)

    weight, time = usual("weight", WEIGHT), usual("time", TIME)
    source, target = usual("source", SOURCE), usual("target", TARGET)
    free = [name for name in names if name not in {weight, time, source, target}]
    source = source or (free.pop(0) if free else None)
    target = target or (free.pop(0) if free else None)
    if source is None or target is None:
        raise UserError(
            f"{place}: an edge needs a source and a target, but the columns are {', '.join(map(repr, names))}; add one."
        )
    return EdgeColumns(source, target, weight, time)


def id_column(names: Sequence[str]) -> str:
    """The column of node ids in a table of features or labels: one with a usual name, else the first."""
    return next((name for known in NODE for name in names if plain(name) == known), names[0])


def label_column(names: Sequence[str], place: str) -> str:
    """The column of labels: the only one beside the ids, else one with a usual name.

    Raises:
        UserError: There is none, or it cannot be told which.
    """
    own = id_column(names)
    others = [name for name in names if name != own]
    fitting = others if len(others) == 1 else [name for name in others if plain(name) in LABEL]
    if len(fitting) != 1:
        raise UserError(
            f"{place}: cannot tell the label from the columns {', '.join(map(repr, names))}; keep the id and one more."
        )
    return fitting[0]


def plain(name: str) -> str:
    """A column's name in small letters and digits only: ``From_Node`` and ``from node`` are the same."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_number(cell: str) -> bool:
    """Whether a cell could be read as a number."""
    return _NUMBER.fullmatch(cell) is not None


def _delimiter(lines: Sequence[str], place: str) -> str:
    """The delimiter that splits all lines into equally many cells, else the one that splits most of them alike."""

    def agreement(delimiter: str) -> float:
        widths = [len(row) for row in _split(lines, delimiter, delimiter == " ", place)]
        return max((widths.count(width) for width in set(widths) if width > 1), default=0) / len(widths)

    best = max(DELIMITERS, key=agreement)
    if agreement(best) == 0:
        raise UserError(
            f"{place}: has only one column ({lines[0][:40]!r} in the first row); separate the columns of every row "
            f"by a comma, tab, semicolon, bar or space."
        )
    return best


def _tabbed(lines: Sequence[str]) -> bool:
    """Whether tabs alone split the lines evenly, so that two in a row mean an empty cell."""
    counts = {line.count("\t") for line in lines}
    return len(counts) == 1 and counts != {0}


def _split(lines: Sequence[str], delimiter: str, squeeze: bool, place: str) -> list[list[str]]:
    if squeeze:
        lines = [re.sub(r"[ \t]+", " ", line).strip() for line in lines]
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:  # the only one left: a cell beyond what the reader takes
        raise UserError(
            f"{place}: a cell in its first lines has over {csv.field_size_limit():,} characters; look for a quotation "
            f"mark that is not closed, or shorten it."
        ) from None


class _Guess(NamedTuple):
    header: bool
    certain: bool


def _guess(first: Sequence[str], rest: Sequence[Sequence[str]], asked: set[str], by_shape: bool) -> _Guess:
    """A first line is a header if columns were asked for by its names, or if it reads unlike the lines below it.

    Columns asked for by number have no names. Usual names leave no doubt, and neither does a number in a first line
    that is not one.
    """
    if asked & set(first) or any(map(is_number, asked)):
        return _Guess(not any(map(is_number, asked)), certain=True)
    elsewhere = {cell for row in rest for cell in row[:2]}
    known = [plain(cell) in KNOWN for cell in first[:2]]
    usual = all(known) or (known[0] and plain(first[0]) in NODE)
    columns = [[row[place] for row in rest if place < len(row)] for place in range(len(first))]
    if any(map(_over_numbers, first, columns)):
        return _Guess(True, certain=usual and not elsewhere & set(first[:2]))
    if elsewhere & set(first[:2]):
        return _Guess(False, certain=True)
    if usual:
        return _Guess(True, certain=True)
    if by_shape and len(rest) >= ROWS_OF_ONE_SHAPE and all(map(_over_one_shape, first[:2], columns)):
        return _Guess(True, certain=False)
    return _Guess(False, certain=any(map(is_number, first)))


def _over_numbers(cell: str, below: Sequence[str]) -> bool:
    filled = [other for other in below if other not in MISSING]
    return bool(filled) and not is_number(cell) and cell not in MISSING and all(map(is_number, filled))


def _over_one_shape(cell: str, below: Sequence[str]) -> bool:
    """Whether all cells below are written alike, such as ``n17`` and ``n203``, and this one is not."""
    shapes = set(map(_shape, below))
    return len(shapes) == 1 and _shape(cell) not in shapes


def _shape(cell: str) -> str:
    """How a cell is written: runs of capitals, of small letters and of digits, and all other signs as they are."""
    kinds = ("A" if sign.isupper() else "a" if sign.isalpha() else "0" if sign.isdigit() else sign for sign in cell)
    return "".join(kind for kind, _ in groupby(kinds))


def first_repeated(names: Sequence[str]) -> str | None:
    """The first name that comes a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def lists_entries(names: Sequence[str]) -> bool:
    """Whether a table has a row for each node and feature, with the columns id, feature and value."""
    return len(names) == 3 and {"feature", "value"} < {plain(name) for name in names}


def _refuse_repeated(names: Sequence[str], place: str) -> None:
    twice = first_repeated(names)
    if twice is not None:
        raise UserError(f"{place}: the header names {twice!r} twice; give every column its own name.")
