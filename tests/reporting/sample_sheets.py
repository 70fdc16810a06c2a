"""A table with every kind of cell, a figure and statements, as artifacts might show them, and a page of all."""

from bandana.paper.artifact import Cell, Claim, Picture, Score, Sheet
from bandana.reporting.compare import judge
from bandana.reporting.page import Section

PUBLISHED = Score(84.62, 0.37, 10)
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="40">'
    '<style>*{fill:red}</style><rect width="9" height="9"/></svg>'
)


def cell(row: str, column: str, ours: Score | None, published: Score | None = PUBLISHED, **more: object) -> Cell:
    state, note = judge(ours, published, published_over="probes")
    return Cell(
        **{"row": row, "column": column, "ours": ours, "published": published, "state": state, "note": note} | more
    )


def sample_sheet(title: str = "Micro-F1 (%)", **changes: object) -> Sheet:
    cells = (
        cell("bandana", "cora", Score(84.5, 0.5, 10), protocol="linear probe", origins=("configs/a b.toml",)),
        cell("bandana", "cs", Score(95.5, 2.0, 3), Score(93.1, 0.05, 10)),
        cell("bandana", "photo", Score(99.0, 0.1, 10), origins=("configs/gone.toml",)),
        cell("gae_x", "cora", Score(70.0, 0.5, 10)),
        cell("gae_x", "cs", Score(93.0, None, 1), Score(90.46, 0.29, 10)),
        cell("gae_x", "photo", Score(98.0, 0.1, 3), None),
        cell("seegera", "cora", None, note="not run: data set missing; bandana reproduce x"),
        cell("seegera", "cs", None, None, state="out of memory", note="OutOfMemoryError"),
        cell("seegera", "photo", None, state="failed", note="ValueError: <b>"),
    )
    fields = {"rows": ("bandana", "gae_x", "seegera"), "columns": ("cora", "cs", "photo"), "cells": cells}
    return Sheet(**{"title": title, "notes": ("Three sentences & more.",), **fields} | changes)


def sample_picture() -> Picture:
    rows = ((1, 0.5, "a"), (2, 1 / 3, "b,c"))
    return Picture(title="Depth", svg=SVG, columns=("x", "y", "name"), rows=rows, notes=("It falls.",))


def sample_claims() -> tuple[Claim, ...]:
    return tuple(
        Claim(statement=f"statement {holds}", measured={"ratio": 0.25}, holds=holds, explanation="Counted.")
        for holds in (True, False, None)
    )


def sample_sections() -> tuple[Section, ...]:
    return (
        Section(
            name="nodes", title="Nodes", kind="table", exhibits=(sample_sheet(),), command="bandana reproduce nodes"
        ),
        Section(name="depth", title="Depth", kind="figure", exhibits=(sample_picture(),), command="make depth"),
        Section(name="theory", title="Theory", kind="check", exhibits=sample_claims(), command="make theory"),
    )
