"""Where the lines, bars and ticks of a small chart lie, as numbers for an SVG. The report's template draws them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

WIDTH, HEIGHT = 440, 230
LEFT, RIGHT, TOP, BOTTOM = 50, 16, 12, 42


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line: a value that is not finite leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"curve {self.name!r}: {len(self.x)} places for {len(self.y)} values")


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """Curves over a common axis.

    Attributes:
        title: What is shown, and in which unit.
        x_label: Name of the horizontal axis.
        curves: The lines.
        marked: A place on the horizontal axis worth a rule, such as the epoch whose weights were kept.
        mark_text: What is there.
    """

    title: str
    x_label: str
    curves: tuple[Curve, ...]
    marked: float | None = None
    mark_text: str = ""


@dataclass(frozen=True, kw_only=True)
class BarChart:
    """Counts of a few kinds, side by side, such as how many nodes have how many links."""

    title: str
    x_label: str
    names: Sequence[str]
    heights: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.heights):
            raise ValueError(f"chart {self.title!r}: {len(self.names)} names for {len(self.heights)} bars")


class Tick(NamedTuple):
    """A mark on an axis."""

    at: float
    text: str


class Line(NamedTuple):
    """A curve as an SVG path, with single points where it has no neighbour to be joined to."""

    name: str
    path: str
    dots: tuple[tuple[float, float], ...]


class Bar(NamedTuple):
    """A rectangle standing on the horizontal axis."""

    x: float
    y: float
    width: float
    height: float


class Drawing(NamedTuple):
    """A chart in the pixels of its SVG."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    bars: tuple[Bar, ...]
    marked: float | None
    words: str


def draw(chart: LineChart | BarChart) -> Drawing:
    """Lay out a chart.

    Args:
        chart: What to show.

    Returns:
        Its geometry, and a sentence for those who do not see it.
    """
    return _draw_lines(chart) if isinstance(chart, LineChart) else _draw_bars(chart)


def nice_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers between two values: multiples of 1, 2 or 5 times a power of ten."""
    if not low < high:
        return [low]
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def short_number(value: float) -> str:
    """``12,000`` or ``0.25``: as few digits as tell ticks apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _draw_lines(chart: LineChart) -> Drawing:
    points = [(x, y) for curve in chart.curves for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(x + y)]
    x_low, x_high = _span([x for x, _ in points])
    y_low, y_high = _span([y for _, y in points], margin=0.04)

    def across(x: float) -> float:
        return round(LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT), 2)

    def up(y: float) -> float:
        return round(HEIGHT - BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM), 2)

    def line(curve: Curve) -> Line:
        runs: list[list[tuple[float, float]]] = [[]]
        for x, y in zip(curve.x, curve.y, strict=True):
            if math.isfinite(x + y):
                runs[-1].append((across(x), up(y)))
            elif runs[-1]:
                runs.append([])
        path = " ".join("M" + " L".join(f"{x},{y}" for x, y in run) for run in runs if len(run) > 1)
        return Line(curve.name, path, tuple(run[0] for run in runs if len(run) == 1))

    return Drawing(
        x_ticks=tuple(Tick(across(value), short_number(value)) for value in nice_ticks(x_low, x_high)),
        y_ticks=tuple(Tick(up(value), short_number(value)) for value in nice_ticks(y_low, y_high)),
        lines=tuple(map(line, chart.curves)),
        bars=(),
        marked=None if chart.marked is None else across(min(max(chart.marked, x_low), x_high)),
        words=" ".join(_course(curve, chart.x_label) for curve in chart.curves),
    )


def _draw_bars(chart: BarChart) -> Drawing:
    slot = (WIDTH - LEFT - RIGHT) / max(len(chart.names), 1)
    tallest = max([height for height in chart.heights if math.isfinite(height)], default=0.0) or 1.0
    room = HEIGHT - TOP - BOTTOM

    def tall(height: float) -> float:
        return round(max(height, 0.0) / tallest * room, 2) if math.isfinite(height) else 0.0

    bars = tuple(
        Bar(round(LEFT + (place + 0.1) * slot, 2), HEIGHT - BOTTOM - tall(height), round(0.8 * slot, 2), tall(height))
        for place, height in enumerate(chart.heights)
    )
    return Drawing(
        x_ticks=tuple(Tick(round(LEFT + (place + 0.5) * slot, 2), name) for place, name in enumerate(chart.names)),
        y_ticks=tuple(
            Tick(round(HEIGHT - BOTTOM - tall(value), 2), short_number(value)) for value in nice_ticks(0.0, tallest)
        ),
        lines=(),
        bars=bars,
        marked=None,
        words="; ".join(
            f"{name}: {short_number(height)}" for name, height in zip(chart.names, chart.heights, strict=True)
        ),
    )


def _span(values: Sequence[float], margin: float = 0.0) -> tuple[float, float]:
    """Smallest and largest with a little air, never the same."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low == high:
        reach = abs(low) * 0.1 or 0.5
        return low - reach, high + reach
    air = margin * (high - low)
    return low - air, high + air


def _course(curve: Curve, x_label: str) -> str:
    known = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(x + y)]
    if not known:
        return f"{curve.name}: no values."
    (first_x, first_y), (last_x, last_y) = known[0], known[-1]
    return (
        f"{curve.name}: {short_number(first_y)} at {x_label} {short_number(first_x)}, "
        f"{short_number(last_y)} at {x_label} {short_number(last_x)}."
    )
