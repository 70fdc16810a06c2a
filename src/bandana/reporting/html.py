"""The report: one HTML page that carries everything it needs and asks the network for nothing.

`Report` says what is on the page in plain words and numbers; the template decides how it looks. Ids, labels and file
names come from the user and are never trusted: text is escaped, data travel as JSON, and the page's own content
security policy names the hash of its one script, so that nothing else could run.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from numpy.typing import NDArray

from bandana import __version__
from bandana.evaluation.verdicts import Tone, Verdict
from bandana.files import write_text
from bandana.reporting import charts
from bandana.reporting.charts import BarChart, LineChart

_SCRIPTS = ("map_data.js", "map_view.js", "map_hands.js")
TONE_WORDS: dict[Tone, str] = {"good": "Good", "fair": "Fair", "poor": "Weak", "note": "Note"}
_TONE_SIGNS: dict[Tone, str] = {"good": "✓", "fair": "≈", "poor": "!", "note": "i"}


@dataclass(frozen=True)
class Score:
    """A figure with a bar: `share` of its track is filled, so that rows can be compared at a glance."""

    text: str
    share: float

    @property
    def width(self) -> float:
        """Per cent of the track."""
        return round(100 * min(max(self.share, 0.0), 1.0), 1) if self.share == self.share else 0.0


Cell: TypeAlias = str | Score | Verdict


@dataclass(frozen=True)
class Row:
    """A line of a table. What the report is about stands out from the floors that it must beat."""

    name: str
    cells: tuple[Cell, ...]
    kind: Literal["result", "floor", "plain"] = "plain"
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of figures under headings; the first column holds the rows' names."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    corner: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"table {self.caption!r}: row {row.name!r} does not fill {len(self.columns)} columns")


@dataclass(frozen=True)
class Fact:
    """A name and a value, with a few words on what it means."""

    name: str
    value: str
    meaning: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A chapter of the page."""

    title: str
    lead: str = ""
    verdicts: tuple[Verdict, ...] = ()
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[LineChart | BarChart, ...] = ()


@dataclass(frozen=True)
class NextStep:
    """Something to try, and the command that does it."""

    text: str
    command: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """A colour for each group of points: labels or communities.

    Attributes:
        name: What the groups are.
        values: ``[points]`` group numbers, negative where there is none.
        names: The name of each group.
    """

    name: str
    values: NDArray[Any]
    names: Sequence[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Shades:
    """A colour between two for each point, by a number such as its degree.

    Attributes:
        name: What the number is.
        values: ``[points]`` numbers, NaN where there is none.
        logarithmic: Whether ten to a hundred should look as far as one to ten. For counts that few nodes dominate.
    """

    name: str
    values: NDArray[Any]
    logarithmic: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Map:
    """The embedding as points in the plane.

    Attributes:
        points: ``[points, 2]`` finite coordinates.
        ids: Names of the points, and after them of neighbours that are not drawn themselves.
        colourings: What the points can be coloured by; the first is shown at the start.
        neighbours: By the name of the relation, ``[points, most]`` positions in `ids`, nearest first, negative at the
            end of a shorter list. Lines are drawn for the first relation.
        note: How the map was made, and whether it shows a sample.
    """

    points: NDArray[Any]
    ids: Sequence[Any]
    colourings: tuple[Groups | Shades, ...]
    neighbours: Mapping[str, NDArray[Any]]
    note: str = ""

    def __post_init__(self) -> None:
        count = self.points.shape[0]
        if self.points.shape != (count, 2) or not np.isfinite(self.points).all():
            raise ValueError(f"map: points must be finite and of shape [points, 2], got {self.points.shape}")
        if len(self.ids) < count:
            raise ValueError(f"map: {len(self.ids)} ids for {count} points")
        for colouring in self.colourings:
            if colouring.values.shape != (count,):
                raise ValueError(f"map: colouring {colouring.name!r} must have the shape [{count}]")
            if isinstance(colouring, Groups) and count and colouring.values.max() >= len(colouring.names):
                raise ValueError(f"map: colouring {colouring.name!r} has a group without a name")
        for name, lists in self.neighbours.items():
            if lists.ndim != 2 or len(lists) != count or (lists.size and lists.max() >= len(self.ids)):
                raise ValueError(f"map: neighbours {name!r} must be [{count}, most] positions in the ids")


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that is on the page.

    Attributes:
        title: Of the page and its first heading.
        summary: What the graph is and what was done, in a sentence or two.
        facts: The few figures to see first.
        verdicts: The short answer.
        map: The embedding to walk in, or None.
        sections: The chapters: the graph, quality, training.
        next_steps: What to do with the vectors, and what to try where they are weak.
        made_with: Command, settings, versions, seed: what is needed to believe and repeat it.
    """

    title: str
    summary: str
    facts: tuple[Fact, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    map: Map | None = None
    sections: tuple[Section, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    made_with: tuple[Fact, ...] = ()


def write_report(path: Path, report: Report) -> None:
    """Write the page in one step.

    Raises:
        UserError: The file cannot be written.
    """
    write_text(path, page(report))


def page(report: Report) -> str:
    """The report as HTML."""
    style, script = _part("report.css"), "".join(map(_part, _SCRIPTS))
    text = _template().render(
        report=report,
        map=None if report.map is None else map_data(report.map),
        style=Markup(style),  # noqa: S704 (our own files)
        script=Markup(script),  # noqa: S704
        style_hash=_policy_hash(style),
        script_hash=_policy_hash(script),
        version=__version__,
    )
    # A file name that is no valid text arrives with lone surrogates, which no encoding can write.
    return text.encode("utf-8", "replace").decode("utf-8")


@cache
def _template() -> Template:
    """The page with its blanks, compiled once."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"draw": charts.draw, "tone_words": TONE_WORDS, "tone_signs": _TONE_SIGNS}
    environment.globals |= {
        name: getattr(charts, name) for name in ("WIDTH", "HEIGHT", "LEFT", "RIGHT", "TOP", "BOTTOM")
    }
    environment.tests |= {
        "score": lambda cell: isinstance(cell, Score),
        "verdict": lambda cell: isinstance(cell, Verdict),
    }
    return environment.from_string(_part("report.html.j2"))


def map_data(drawn: Map) -> dict[str, Any]:
    """What the page's script reads: arrays as base64 of little-endian numbers, everything else as it is."""
    return {
        "ids": [str(name) for name in drawn.ids],
        "points": _packed(_centred(drawn.points), "<f4"),
        "colourings": [_colouring(colouring) for colouring in drawn.colourings],
        "neighbours": [
            {"name": name, "most": lists.shape[1], "positions": _packed(lists, "<i4")}
            for name, lists in drawn.neighbours.items()
        ],
    }


def _colouring(colouring: Groups | Shades) -> dict[str, Any]:
    if isinstance(colouring, Groups):
        names = [str(name) for name in colouring.names]
        return {"name": colouring.name, "kind": "groups", "names": names, "values": _packed(colouring.values, "<i4")}
    kind = "logarithmic" if colouring.logarithmic else "linear"
    return {"name": colouring.name, "kind": kind, "names": [], "values": _packed(colouring.values, "<f4")}


def _centred(points: NDArray[Any]) -> NDArray[Any]:
    """Moved and scaled into the square from -1 to 1, in the same proportions."""
    if not len(points):
        return points
    low, high = points.min(axis=0), points.max(axis=0)
    reach = float((high - low).max()) / 2
    centred: NDArray[Any] = (points - (low + high) / 2) / (reach or 1.0)
    return centred


def _packed(values: NDArray[Any], kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _part(name: str) -> str:
    return files("bandana.reporting").joinpath(name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
