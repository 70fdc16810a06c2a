"""The paper on one static page: every table, figure and check, each cell in the colour of its verdict.

Like the report of own graphs, the page asks the network for nothing, escapes every text, and names the hashes of its
one style sheet and its one script in its content security policy. Drawings come as images, so that what is inside one
cannot reach the page.
"""

import base64
import hashlib
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from bandana import __version__
from bandana.files import write_text
from bandana.paper.artifact import ORIGINS, Cell, Claim, Exhibit, Kind, Picture, Score, Sheet
from bandana.paper.names import called
from bandana.reporting.legends import meanings
from bandana.reporting.marks import (
    CELL_MARKS,
    CLAIM_MARKS,
    Mark,
    best_places,
    mark_of,
    mark_of_claim,
    number_texts,
    published_text,
    shows_seeds,
)
from bandana.reporting.sheets import difference, file_names

PAGE = "index.html"
_ALL_MARKS = (*CELL_MARKS, *CLAIM_MARKS)
_ROWS = 200
"""Numbers of a figure that are on the page; its CSV file has all."""
_KINDS: dict[Kind, str] = {"table": "Tables", "figure": "Figures", "check": "Theory"}
_NAMED = ("dataset", "method")
"""Columns of a figure's numbers whose values are names."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """What came of one artifact. The origins of its cells are files relative to the page; those there become links.

    Attributes:
        name: Of the artifact, as on the command line.
        title: One line.
        kind: Table, figure or check.
        exhibits: What is shown, in order.
        command: What makes it.
    """

    name: str
    title: str
    kind: Kind
    exhibits: tuple[Exhibit, ...]
    command: str


class Link(NamedTuple):
    """A text, and the address that it leads to; none if there is nothing to lead to."""

    text: str
    address: str


class CellView(NamedTuple):
    """A cell as the template writes it. The details, by their number, are read by the page's script."""

    mean: str
    sd: str
    seeds: str
    published: str
    place: int
    mark: Mark
    details: int
    summary: str
    links: list[Link]


def write_page(folder: Path, title: str, sections: Sequence[Section], facts: Mapping[str, str]) -> Path:
    """Write the page in one step.

    Args:
        folder: Where it goes, as ``index.html``.
        title: Of the page and its first heading.
        sections: In the order in which they are shown within their kind.
        facts: Hardware, versions, seeds: what is needed to believe and repeat it.

    Returns:
        The file.

    Raises:
        UserError: It cannot be written.
    """
    path = folder / PAGE
    write_text(path, page(folder, title, sections, facts))
    return path


def artifacts_on(folder: Path) -> list[str]:
    """The names of the artifacts on the page that is in a folder; none where there is no page."""
    path = folder / PAGE
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return re.findall(r'<section class="artifact" id="([^"]*)"', text)


def page(folder: Path, title: str, sections: Sequence[Section], facts: Mapping[str, str]) -> str:
    """The page as HTML, with links that hold in `folder`."""
    style, script = _part("report.css") + _part("page.css"), _part("page.js")
    details: list[dict[str, Any]] = []
    views = [_section(section, folder, details) for section in sections]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_part("page.html.j2")).render(
        title=title,
        breakable=_breakable,
        unbroken=_unbroken,
        called=called,
        groups=[
            (name, [view for view in views if view["kind"] == kind])
            for kind, name in _KINDS.items()
            if any(view["kind"] == kind for view in views)
        ],
        marks=[mark for mark, _ in _tally([e for section in sections for e in section.exhibits])],
        facts=facts,
        details=details,
        style=Markup(style),  # noqa: S704 (our own files)
        script=Markup(script),  # noqa: S704
        style_hash=_policy_hash(style),
        script_hash=_policy_hash(script),
        version=__version__,
    )


def _section(section: Section, folder: Path, details: list[dict[str, Any]]) -> dict[str, Any]:
    exhibits = [
        {
            **_exhibit(exhibit, folder, details),
            "files": [_link(name, folder) for name in file_names(section.name, number, exhibit)],
            "counts": _tally([exhibit]),
        }
        for number, exhibit in enumerate(section.exhibits, start=1)
    ]
    return {
        "name": section.name,
        "title": section.title,
        "kind": section.kind,
        "command": section.command,
        "exhibits": exhibits,
        "counts": _tally([it for it in section.exhibits if not (isinstance(it, Sheet) and it.rescored)]),
    }


def _tally(exhibits: Sequence[Exhibit]) -> list[tuple[Mark, int]]:
    """How many cells and statements have each verdict, in the colour that most of them have."""
    counts = Counter(mark for exhibit in exhibits for mark in _marks(exhibit))
    found = {mark.word: [(one, count) for one, count in counts.items() if one.word == mark.word] for mark in _ALL_MARKS}
    return [(max(own, key=lambda pair: pair[1])[0], sum(count for _, count in own)) for own in found.values() if own]


def _marks(exhibit: Exhibit) -> Iterator[Mark]:
    if isinstance(exhibit, Sheet):
        yield from (mark_of(cell, exhibit.highest_is_best) for cell in exhibit.cells)
    elif isinstance(exhibit, Claim):
        yield mark_of_claim(exhibit)


def _exhibit(exhibit: Exhibit, folder: Path, details: list[dict[str, Any]]) -> dict[str, Any]:
    if isinstance(exhibit, Sheet):
        legend = [f"{mark.sign} {meaning}" for mark, meaning in meanings(exhibit) if mark.word in exhibit.meanings]
        return {"kind": "sheet", "it": exhibit, "rows": _rows(exhibit, folder, details), "legend": legend}
    if isinstance(exhibit, Picture):
        image = base64.b64encode(exhibit.svg.encode("utf-8")).decode("ascii")
        numbers = [
            [_number(column, value, folder) for column, value in zip(exhibit.columns, row, strict=True)]
            for row in exhibit.rows[:_ROWS]
        ]
        image = f"data:image/svg+xml;base64,{image}"
        return {"kind": "picture", "it": exhibit, "image": image, "numbers": numbers}
    measured = [(called(name), f"{value:.6g}") for name, value in exhibit.measured.items()]
    return {"kind": "claim", "it": exhibit, "mark": mark_of_claim(exhibit), "measured": measured}


def _rows(sheet: Sheet, folder: Path, details: list[dict[str, Any]]) -> list[tuple[str, list[CellView | None]]]:
    cells = {(cell.row, cell.column): cell for cell in sheet.cells}
    texts, places, counted = number_texts(sheet), best_places(sheet), shows_seeds(sheet)

    def view(cell: Cell | None) -> CellView | None:
        if cell is None:
            return None
        mark = mark_of(cell, sheet.highest_is_best)
        details.append(_details(cell, sheet, mark, folder))
        mean, sd = texts(cell, cell.ours) if cell.ours else (mark.word, "")
        return CellView(
            mean=mean,
            sd=sd,
            seeds=str(cell.ours.seeds) if cell.ours and counted else "",
            published=published_text(cell, texts),
            place=places.get((cell.row, cell.column), 0),
            mark=mark,
            details=len(details) - 1,
            summary=f"{called(cell.row)}, {called(cell.column)}: {mark.word}. {cell.note}".strip(),
            links=[link for origin in cell.origins if (link := _link(origin, folder)).address],
        )

    return [(row, [view(cells.get((row, column))) for column in sheet.columns]) for row in sheet.rows]


def _details(cell: Cell, sheet: Sheet, mark: Mark, folder: Path) -> dict[str, Any]:
    texts, apart, counted = number_texts(sheet), difference(cell), shows_seeds(sheet)

    def words(score: Score | None, of: str) -> str:
        if score is None:
            return "none"
        figure = " ± ".join(filter(None, texts(cell, score)))
        number = f"{score.seeds} {of if score.seeds != 1 else of.removesuffix('s')}"
        return f"{figure} ({number})" if counted and of else figure

    facts = {
        "Ours": words(cell.ours, sheet.counted),
        "Published": cell.printed or words(cell.published, cell.published_over),
        "Difference": "" if apart is None else f"{apart:+.4g}".replace("-", "−"),
        "Protocol": cell.protocol,
    }
    return {
        "title": f"{called(cell.row)} · {called(cell.column)}",
        "sign": mark.sign,
        "word": mark.word,
        "tone": mark.tone,
        "facts": [[name, value] for name, value in facts.items() if value],
        "note": cell.note,
        "links": [_link(origin, folder) for origin in cell.origins],
    }


def _breakable(name: str) -> Markup:
    """A name that may wrap after its underscores and dots, where browsers would not wrap it."""
    return Markup("<wbr>").join(re.split(r"(?<=[_.])(?=.)", name))


def _unbroken(text: str) -> Markup:
    """A text whose options, such as ``--seeds``, stay in one piece, where browsers would wrap them at their hyphens."""
    parts = re.split(r"(?<!\S)(--[\w-]+)", text)
    whole = Markup('<span class="option">{}</span>')
    return Markup("").join(whole.format(part) if number % 2 else part for number, part in enumerate(parts))


def _number(column: str, value: Any, folder: Path) -> list[Link]:
    """A number of a figure as text, or as links where it names configurations."""
    if column == ORIGINS:
        return [_link(origin, folder) for origin in str(value).split()]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return [Link("–", "")]
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return [Link(called(text) if column in _NAMED else text, "")]


def _link(origin: str, folder: Path) -> Link:
    """The name of a file, and its address seen from the page; no address if the file is not there."""
    path = folder / origin
    if not path.is_file():
        return Link(origin, "")
    return Link(path.name, quote(Path(os.path.relpath(path, folder)).as_posix()))


def _part(name: str) -> str:
    return files("bandana.reporting").joinpath(name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
