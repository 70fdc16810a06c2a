"""The figures that Zhao et al. (WWW 2024) print, one CSV file for each of their tables.

``tables.csv`` holds the two large ones, node classification and link prediction. The others share one form: our name of
the table, row and column in this package's names, mean, deviation, the number of runs behind it, and the unit. What is
printed as words, such as a complexity or a want of memory, stands under ``text``. All have the paper's number and label
of the table under ``source``.
"""

import csv
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from bandana.errors import UserError, did_you_mean
from bandana.paper.artifact import Score
from bandana.paper.sentences import sentence

LARGE_TABLES = "tables.csv"
METRICS = ("micro_f1", "macro_f1", "auc", "ap")
"""What the two large tables print; each can be asked for like a table of its own."""
RUNS = 10
"""Behind every figure, by section 5.1; the caption of a table may say otherwise."""
REMARKS = {
    "OOM": "That means out of memory, on a card of 24 GB.",
    "quoted": "The published figure is quoted from the method's own paper.",
    "implemented by the Bandana authors": "The published figure is of an implementation by the Bandana authors.",
    "fine-tuned": "The published figure is of a decoder that was fine-tuned.",
}
"""What the short notes of the files mean, for a reader."""


class Figure(NamedTuple):
    """One cell, in percent. A method that ran out of memory has neither mean nor deviation, and a note that says so."""

    mean: float | None
    sd: float | None
    note: str
    """Empty, "OOM" (24 GB), "quoted" (from the method's own paper), or "implemented by the Bandana authors"."""
    source: str
    """The paper's number and label of the table."""

    def __str__(self) -> str:
        return self.note if self.mean is None else f"{self.mean:.2f} ± {self.sd:.2f}"


class Printed(NamedTuple):
    """One cell of any table as the paper has it.

    Attributes:
        score: The figure, or None where words are printed.
        unit: Such as "%", "s" or "count".
        source: The paper's number and label of the table.
        text: Words printed in place of a figure.
        note: Ours: what a reader should know about the cell, in sentences.
    """

    score: Score | None
    unit: str
    source: str
    text: str = ""
    note: str = ""


@cache
def published_figures() -> dict[tuple[str, str, str], Figure]:
    """Every cell of the two large tables by method, data set and metric (one of `METRICS`)."""
    return {
        (row["method"], row["dataset"], row["metric"]): Figure(
            _number(row["mean"]), _number(row["sd"]), row["note"], row["source"]
        )
        for row in _rows(LARGE_TABLES)
    }


def published(table: str) -> dict[tuple[str, str], Score]:
    """The figures of a table by row and column; cells in which the paper prints words are left out.

    Args:
        table: One of `table_names`, such as ``mask-ablation``, or a metric of the large tables, such as ``auc``.

    Raises:
        UserError: There is no such table.
    """
    return {place: cell.score for place, cell in printed(table).items() if cell.score is not None}


def printed(table: str) -> dict[tuple[str, str], Printed]:
    """Every cell of a table by row and column, with its unit and where it comes from.

    Raises:
        UserError: There is no such table.
    """
    if table not in _tables():
        raise UserError(f"published table {table!r} does not exist. {did_you_mean(table, _tables())}")
    return dict(_tables()[table])


def table_names() -> tuple[str, ...]:
    """All that `published` knows."""
    return tuple(sorted(_tables()))


@cache
def _tables() -> dict[str, dict[tuple[str, str], Printed]]:
    tables: dict[str, dict[tuple[str, str], Printed]] = {metric: {} for metric in METRICS}
    for row in _rows(LARGE_TABLES):
        like_others = {**row, "unit": "%", "runs": str(RUNS), "text": "" if row["mean"] else row["note"]}
        tables[row["metric"]][row["method"], row["dataset"]] = _cell(like_others)
    for file in sorted(files(__package__).iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".csv") and file.name != LARGE_TABLES:
            for row in _rows(file.name):
                tables.setdefault(row["table"], {})[row["row"], row["column"]] = _cell(row)
    return tables


def _cell(row: Mapping[str, str]) -> Printed:
    note = sentence(REMARKS.get(row["note"], row["note"]))
    return Printed(_score(row) if row["mean"] else None, row["unit"], row["source"], row["text"], note)


def _score(row: Mapping[str, str]) -> Score:
    """A figure, with as many digits as are printed."""
    last_digit = int(Decimal(row["mean"]).as_tuple().exponent)
    return Score(float(row["mean"]), _number(row["sd"]), int(row["runs"]), last_digit)


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (files(__package__) / name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _number(text: str) -> float | None:
    return float(text) if text else None
