"""What a store is made from, and how much memory that may take."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bandana.data.columns import Header
from bandana.scale.store import FeatureType

Partitioner = Literal["auto", "metis", "stream"]
OnProgress = Callable[[str, int, int | None], None]
"""Told the stage, how much of it was just done, and how much there is if that is known."""
BYTES_PER_ROW, BYTES_PER_NUMBER = 1024, 40
"""Of a table, while it is read: text, codes, numbers and copies."""
MOST_ROWS, FEWEST_ROWS = 1 << 20, 1 << 12


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """Everything that decides a store.

    Attributes:
        edges: A row per edge.
        features: A row of numbers per node, or None.
        labels: A row per labelled node, or None.
        parts: How many parts to make.
        directed: Whether edges go one way only.
        source: Name of the column that an edge starts from; None looks for it.
        target: Name of the column that an edge leads to.
        header: Whether the first line of `edges` holds the names of its columns, or how to find out.
        partitioner: METIS, streaming, or the first where it fits.
        precision: How features are kept.
        memory: Bytes that may be used beside what the nodes need.
        seed: Of METIS.
    """

    edges: Path
    features: Path | None = None
    labels: Path | None = None
    parts: int = 256
    directed: bool = False
    source: str | None = None
    target: str | None = None
    header: Header = "guess"
    partitioner: Partitioner = "auto"
    precision: FeatureType = "float32"
    memory: int = 1 << 30
    seed: int = 0

    def rows_at_a_time(self, numbers: int = 0) -> int:
        """How many rows of a table are read together, if each holds so many numbers beside its ids."""
        fitting = self.memory // 4 // (BYTES_PER_ROW + BYTES_PER_NUMBER * numbers)
        return max(FEWEST_ROWS, min(fitting, MOST_ROWS))

    def decisions(self, *names: str) -> dict[str, Any]:
        """Some entries as JSON can hold them, of a file also its state: a changed file makes another store."""
        return {name: _spoken(getattr(self, name)) for name in names}


def _spoken(value: Any) -> Any:
    if not isinstance(value, Path):
        return value
    state = value.stat() if value.exists() else None
    return [str(value), *([] if state is None else [state.st_size, state.st_mtime_ns])]
