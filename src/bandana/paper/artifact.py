"""What a table, figure or check of the paper is to us: work to be done, and a way to show what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Kind = Literal["table", "figure", "check"]
State = Literal[
    "same",
    "undecided",
    "higher",
    "lower",
    "not tested",
    "side by side",
    "no published figure",
    "not run",
    "out of memory",
    "failed",
]

ORIGINS = "origins"
"""Column of numbers that names the configurations of the runs behind a row, with spaces between them."""
PRODUCTS = "; products of matrices in "
"""Stands in a protocol before the precision, where that is not full."""


class Piece(NamedTuple):
    """The smallest work that is done as a whole, and once: a name among the known kinds of work, and its arguments.

    The arguments are plain values, so that they can be hashed, written down, and sent to another process.
    """

    work: str
    arguments: Mapping[str, Any]


class Result(NamedTuple):
    """What became of a piece: plain values as JSON has them, or why there are none."""

    values: Mapping[str, Any] | None
    failure: str = ""
    """Such as "data set missing", with the command that would run it; empty when there are values."""
    origin: str = ""
    """Where the run's configuration and figures lie, for a link; empty if nowhere."""
    file: str = ""
    """Name of the file of rows that it is from; empty if it was done here."""


class Score(NamedTuple):
    """Mean and standard deviation, in the unit of the table; the deviation of a single seed is unknown.

    A figure that the paper prints has its `last_digit` as a power of ten: -2 for 84.60.
    """

    mean: float
    sd: float | None
    seeds: int
    last_digit: int | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One figure of ours beside the published one.

    Attributes:
        row: Such as a method.
        column: Such as a data set.
        ours: Mean over pre-training seeds; None if there is none.
        published: As printed; None if the paper has no such cell. ``seeds`` is what its deviation runs over.
        state: The verdict.
        note: In words: the test behind the verdict, or why there is no figure.
        protocol: How ours was scored.
        origins: Configurations of the runs behind it.
        missing: Why there is no figure of ours, with the command that would make it; empty if there is one.
        printed: Words that the paper has in place of a figure, such as OOM.
        published_over: What the published deviation runs over; empty where there is nothing to count.
    """

    row: str
    column: str
    ours: Score | None
    published: Score | None
    state: State
    note: str = ""
    protocol: str = ""
    origins: tuple[str, ...] = ()
    missing: str = ""
    printed: str = ""
    published_over: str = "runs"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table: cells by row and column, in the order in which they are shown.

    Attributes:
        title: What the figures are, with their unit.
        rows: Names, in order.
        columns: Names, in order.
        cells: At most one for each row and column.
        notes: Sentences below the table.
        highest_is_best: Whether the larger of two figures is the better one; None where neither is.
        marks_best: Whether the best figures of a column are marked; not where its rows are no rivals.
        rescored: Whether a table before it has the same cells by another scoring, so that they are not counted again.
        below: A table of the same rows and columns. LaTeX sets its figures below this one's in cells of two lines.
        counted: What the number in brackets beside a figure counts.
        meanings: What verdicts mean, where that is not what they mean elsewhere.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    highest_is_best: bool | None = True
    marks_best: bool = True
    rescored: bool = False
    below: "Sheet | None" = None
    counted: str = "seeds"
    meanings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing and the numbers in it.

    Attributes:
        title: What is seen.
        svg: The drawing, one self-contained SVG document.
        columns: Names of the numbers.
        rows: The numbers, as they go into a CSV file.
        notes: What to look for, and whether it is there.
    """

    title: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of the paper that can be computed.

    Attributes:
        statement: In our words.
        measured: The numbers, by name.
        holds: Whether they bear it out; None if they cannot tell.
        explanation: What was computed, and what follows.
        beyond: Whether the statement is a wider one of ours. The paper is not wrong where such a one does not hold.
    """

    statement: str
    measured: Mapping[str, float]
    holds: bool | None
    explanation: str
    beyond: bool = False


Exhibit = Sheet | Picture | Claim


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A table, figure or check of the paper.

    Attributes:
        name: As on the command line, such as ``node-classification``.
        kind: Table, figure or check.
        title: One line.
        printed: Where the paper has it, such as ``Table 1``; empty if nowhere.
        pieces: The work behind it, for a number of seeds; quickly and coarsely on small data if asked.
        show: From the results, one for each piece and in the same order, to what is shown.
    """

    name: str
    kind: Kind
    title: str
    printed: str = ""
    pieces: Callable[["Scope"], Sequence[Piece]]
    show: Callable[[Sequence[tuple[Piece, Result]]], Sequence[Exhibit]]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """How much of an artifact is wanted.

    Attributes:
        seeds: Pre-training seeds of every cell.
        quick: A coarse version: small data, few epochs, one seed.
        datasets: Only these; all when empty.
        methods: Only these; all when empty.
    """

    seeds: int = 3
    quick: bool = False
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
