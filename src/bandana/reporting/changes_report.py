"""The report of ``bandana embed --model``: the page of any embedding, with what has changed in front."""

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

import numpy as np

from bandana.evaluation.verdicts import Verdict
from bandana.reporting.html import Fact, Groups, Map, NextStep, Report, Row, Section, Table
from bandana.use.update import Changes

MOST_ROWS = 20
_STATES = ("as before", "changed", "new")


def changes_report(page: Report, changes: Changes, ids: Sequence[Any], before: str, folder: str) -> Report:
    """The page with what changed.

    Args:
        page: What `own_report` made of the graph as it is now.
        changes: Against the graph as it was.
        ids: Of the rows.
        before: The folder of the graph as it was.
        folder: That of the new one.
    """
    new, moved = changes.new.numel(), changes.moved.numel()
    counts = f"New nodes: {new:,}. Others with another vector than before: {moved:,}. As before: {changes.unchanged:,}."
    promise = (
        "Nothing was trained. Only what the new links reach was computed, to the numbers that a pass over the whole "
        f"graph gives (rows: {changes.recomputed:,})."
    )
    unmeasured = f"No links were held out this time; how well links are predicted stands in the report of {before}."
    facts = (Fact("new", f"{new:,}"), Fact("changed", f"{moved:,}"), Fact("as before", f"{changes.unchanged:,}"))
    section = Section(title="What changed", lead=f"{counts} {promise}", facts=facts, tables=_farthest(changes, ids))
    command = f"bandana compare {quote(before)} {quote(folder)}"
    steps = (NextStep("See what moved, and whose neighbours changed.", command),)
    return replace(
        page,
        summary=f"{page.summary} {counts}",
        verdicts=(*(Verdict("note", sentence) for sentence in (promise, unmeasured)), *page.verdicts),
        map=None if page.map is None else _coloured(page.map, changes, ids),
        sections=(section, *(part for part in page.sections if part.title != "Training")),
        next_steps=(*steps, *page.next_steps),
    )


def _coloured(drawn: Map, changes: Changes, ids: Sequence[Any]) -> Map:
    """The map with a first colouring by what became of each point."""
    state = {ids[row]: 1 for row in changes.moved.tolist()} | {ids[row]: 2 for row in changes.new.tolist()}
    values = np.array([state.get(name, 0) for name in drawn.ids[: len(drawn.points)]])
    return replace(drawn, colourings=(Groups(name="change", values=values, names=_STATES), *drawn.colourings))


def _farthest(changes: Changes, ids: Sequence[Any]) -> tuple[Table, ...]:
    rows = [
        Row(str(ids[row]), (f"{distance:.3g}",))
        for row, distance in zip(changes.moved[:MOST_ROWS].tolist(), changes.distance.tolist(), strict=False)
    ]
    if not rows:
        return ()
    note = "Length of the difference between the two vectors; changed.csv lists all."
    return (Table(caption="Moved farthest", columns=("distance",), rows=tuple(rows), note=note),)
