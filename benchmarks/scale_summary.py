"""What the rows of `scale.py` say together: growth, the worth of a second process, and how near estimates were."""

from collections.abc import Iterator, Mapping, Sequence
from math import log
from statistics import linear_regression
from typing import Any

Row = Mapping[str, Any]
WORKS = (
    ("partition", None, "seconds"),
    ("store", "1x2", "epoch_s"),
    ("store", "1x1", "epoch_s"),
    ("store", "2x2", "epoch_s"),
    ("full graph", "full", "epoch_s"),
    ("infer", None, "seconds"),
)
"""What is done, in which way, and what of it is compared: an epoch, or the whole command."""


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each finding, as far as the rows allow."""
    yield from growth(rows)
    yield from efficiency(rows)
    yield from estimates(rows)


def growth(rows: Sequence[Row]) -> Iterator[str]:
    """Exponents of time and memory against the directed edges that a store holds."""
    for what, way, clock in WORKS:
        found = sorted(_latest(rows, what, way).values(), key=lambda row: row["entries"])
        if len(found) < 2:
            continue
        slopes = [_exponent(found, name) for name in (clock, "peak_mb")]
        lasts = [_exponent(found[-2:], name) for name in (clock, "peak_mb")]
        name = f"{what} {way}" if way not in (None, "full") else what
        yield (
            f"{name}, {found[0]['entries']:,} to {found[-1]['entries']:,} edges: "
            f"{'an epoch' if clock == 'epoch_s' else 'time'} grows with the power {slopes[0]:.2f} of the edges "
            f"(last step {lasts[0]:.2f}); memory with {slopes[1]:.2f} (last step {lasts[1]:.2f}), "
            f"from {found[0]['peak_mb']:.0f} to {found[-1]['peak_mb']:.0f} MB"
        )


def efficiency(rows: Sequence[Row]) -> Iterator[str]:
    """Two processes on two cores, against one on one of them and on both."""
    both, alone, free = (_latest(rows, "store", way) for way in ("2x2", "1x1", "1x2"))
    for edges, row in sorted(both.items()):
        against = []
        if edges in alone:
            gain = alone[edges]["epoch_s"] / row["epoch_s"]
            against.append(f"{gain:.2f} times as fast as one on one core (efficiency {gain / 2:.0%})")
        if edges in free:
            against.append(f"{free[edges]['epoch_s'] / row['epoch_s']:.2f} times as fast as one on two cores")
        if against:
            yield f"{edges:,} edges: two processes are {', '.join(against)}"


def estimates(rows: Sequence[Row]) -> Iterator[str]:
    """What was measured over what had been estimated."""
    for way in ("1x2", "1x1", "2x2"):
        for edges, row in sorted(_latest(rows, "store", way).items()):
            memory = f"memory {row['peak_mb'] / row['estimated_mb']:.2f}"
            # An estimate is for each process, and the system counts the processor's time of all of them together.
            comparable = row["clock"] == "wall" or way != "2x2"
            measured = row["seconds"] if row["clock"] == "wall" else row["cpu_s"]
            time = f"time {measured / row['estimated_s']:.2f}, " if comparable else ""
            yield f"{edges:,} edges, {way}: measured over estimated: {time}{memory}"


def _latest(rows: Sequence[Row], what: str, way: str | None) -> dict[int, Row]:
    """The last row about each size."""
    return {row["edges"]: row for row in rows if row.get("what") == what and row.get("way") == way}


def _exponent(rows: Sequence[Row], name: str) -> float:
    """Slope of the logarithm on that of the edges: 1 is linear, 0 is flat."""
    return linear_regression([log(row["entries"]) for row in rows], [log(row[name]) for row in rows]).slope
