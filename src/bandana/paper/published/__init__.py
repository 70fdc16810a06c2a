"""The figures that Zhao et al. (WWW 2024) print for Bandana and sixteen other methods, kept in ``tables.csv``."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Figure(NamedTuple):
    """One cell, in percent. A method that ran out of memory has neither mean nor deviation, and a note that says so."""

    mean: float | None
    sd: float | None
    note: str
    """Empty, "OOM" (24 GB), "quoted" (from the method's own paper), or "implemented by the Bandana authors"."""

    def __str__(self) -> str:
        return self.note if self.mean is None else f"{self.mean:.2f} ± {self.sd:.2f}"


@cache
def published_figures() -> dict[tuple[str, str, str], Figure]:
    """Every printed cell by method, data set and metric (``micro_f1``, ``macro_f1``, ``auc`` or ``ap``)."""
    with (files(__package__) / "tables.csv").open(encoding="utf-8") as file:
        return {
            (row["method"], row["dataset"], row["metric"]): Figure(
                _number(row["mean"]), _number(row["sd"]), row["note"]
            )
            for row in csv.DictReader(file)
        }


def _number(text: str) -> float | None:
    return float(text) if text else None
