"""docs/deviations.md names every cell of the other methods that lies apart from its published figure, and no other.

`benchmarks/figures.py` says what lies apart. The page has a table for each task, and there a cell stands as `written`
has it. The message of a failure lists every line to add, to remove or to change.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bandana.paper.published import published_figures

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
figures, compare = map(import_module, ("figures", "compare"))
sys.path.pop(0)

PAGE = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")
ROWS = compare.read(ROOT / "results" / "methods-seeds-h200-torch2.11.0.csv")
SECTION = "### Cells that lie apart, and what was tried"
TABLES = {"node": "#### Nodes", "link": "#### Links"}
METRICS = {"node": ("micro_f1", "macro_f1"), "link": ("auc", "ap")}
LEAST_TIED = 0.5
"""Percent of all pairs; below it, figures after a sigmoid are left out."""

Rows = Sequence[Mapping[str, str]]
Cells = Mapping[tuple[str, str, str], Any]
Place = tuple[str, str, str]
"""Task, method and data set."""


class Entry(NamedTuple):
    """What a table says of a cell: the side of the published figure where ours is, and the text."""

    side: str
    text: str


def wanted(rows: Rows) -> dict[Place, Entry]:
    """Every entry that the page must have."""
    both = figures.compare(rows, published_figures())
    cells = {(c.table.metric, c.method, c.dataset): c for c in both if c.table.protocol == "clean"}
    sides: dict[Place, set[str]] = defaultdict(set)
    for (metric, method, dataset), cell in cells.items():
        for task in (task for task, metrics in METRICS.items() if metric in metrics and cell.apart):
            sides[task, method, dataset].add("above" if cell.difference > 0 else "below")
    return {
        (task, *place): Entry(min(found) if len(found) == 1 else "both", written(cells, METRICS[task], *place))
        for (task, *place), found in sides.items()
    }


def written(cells: Cells, metrics: Sequence[str], method: str, dataset: str) -> str:
    """`` `gae photo` 97.4 / 71.5 (77.7), 96.9 / 66.0 (69.2), 72 %``: ours, published, after a sigmoid, share of ties.

    A dash stands for a metric that does not lie apart; the sigmoid is left out where hardly any pair ties.
    """
    tied = cells.get(("tied_share", method, dataset)) if "auc" in metrics else None
    many = tied is not None and tied.ours.mean >= LEAST_TIED

    def part(metric: str) -> str:
        cell = cells[metric, method, dataset]
        if not cell.apart:
            return "–"
        after = f" ({cells[f'{metric}_sigmoid32', method, dataset].ours.mean:.1f})" if many else ""
        return f"{cell.ours.mean:.1f} / {cell.published.mean:.1f}{after}"

    share = [f"{tied.ours.mean:.0f} %"] if many else []
    return f"`{method} {dataset}` " + ", ".join([*map(part, metrics), *share])


def named(page: str) -> list[tuple[Place, Entry]]:
    """Every entry that the page has."""
    section = page.partition(SECTION)[2].split("\n## ")[0]
    out: list[tuple[Place, Entry]] = []
    for task, heading in TABLES.items():
        table = section.partition(f"{heading}\n")[2].split("\n####")[0]
        for side, entries in re.findall(r"^\| (above|below|both) \|.*\| ([^|]*) \|$", table, flags=re.MULTILINE):
            for text in entries.split("; "):
                method, dataset = text.split("`")[1].split()
                out.append(((task, method, dataset), Entry(side, text)))
    return out


def complaints(page: str, rows: Rows) -> list[str]:
    """What is to be changed, a line for each entry."""
    right, present = wanted(rows), named(page)
    places = [place for place, _ in present]
    lines = [f"add, {place[0]}, {entry.side}: {entry.text}" for place, entry in right.items() if place not in places]
    lines += [f"name once: {' '.join(place)}" for place in dict.fromkeys(places) if places.count(place) > 1]
    for place, entry in present:
        if place not in right:
            lines.append(f"remove, {place[0]}, lies apart no longer: {entry.text}")
        elif entry != right[place]:
            old, new = (f"{each.side}: {each.text}" for each in (entry, right[place]))
            lines.append(f"change, {place[0]}, {old}  to  {new}")
    return lines


def test_the_page_names_every_cell_that_lies_apart_and_no_other() -> None:
    found = complaints(PAGE, ROWS)
    assert not found, f"docs/deviations.md, {SECTION[4:]!r}, {len(found)} to change:\n" + "\n".join(found)


SCORES = {"auc": 0.98, "ap": 0.94, "auc_sigmoid32": 0.95, "ap_sigmoid32": 0.94, "tied_share": 0.2}
ROW = {"method": "gae", "dataset": "cora", "task": "link", "protocol": "clean", "seed": "0"}
ENTRY = "`gae cora` 98.0 / 94.7 (95.0), –, 20 %"


def page(*lines: str) -> str:
    return "\n".join(
        [SECTION, "#### Nodes", "", "#### Links", "", *lines, "", "## gae", "| above | | `gae cs` 1 / 2 |"]
    )


@pytest.mark.parametrize(
    ("changed", "lines", "found"),
    [
        ({}, [f"| above | a cause of `this` | {ENTRY} |"], []),
        ({}, [], [f"add, link, above: {ENTRY}"]),
        ({"auc": 0.95}, [f"| above | | {ENTRY} |"], [f"remove, link, lies apart no longer: {ENTRY}"]),
        ({}, [f"| below | | {ENTRY} |"], [f"change, link, below: {ENTRY}  to  above: {ENTRY}"]),
        ({}, [f"| above | | {ENTRY}; {ENTRY} |"], ["name once: link gae cora"]),
        (
            {"ap": 0.92, "tied_share": 0.0},
            [f"| above | | {ENTRY} |"],
            [f"change, link, above: {ENTRY}  to  both: `gae cora` 98.0 / 94.7, 92.0 / 94.2"],
        ),
    ],
)
def test_what_is_missing_outdated_or_wrong_is_listed(changed: dict, lines: list[str], found: list[str]) -> None:
    row = ROW | {name: str(value) for name, value in {**SCORES, **changed}.items()}
    assert complaints(page(*lines), [row]) == found
