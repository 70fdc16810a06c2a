"""Data statistics (Table 5): what the files hold, counted by us, beside what the paper says of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bandana.data.datasets import find_dataset, load
from bandana.paper.artifact import Artifact, Cell, Piece, Scope, Sheet
from bandana.paper.grid import Place, Reading, Results, beside, make_sheet
from bandana.paper.pieces import chosen
from bandana.paper.published import printed
from bandana.paper.work import work

DATASETS = (
    *("swiss_roll", "two_moon", "cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics"),
    *("wikics", "ogbn-arxiv", "ogbn-mag", "ogbl-collab", "ogbl-ppa"),
)
QUICK = ("swiss_roll", "two_moon")
COLUMNS = ("nodes", "edges", "features", "classes", "density")
TITLE = "Data sets: nodes, directed edges, features, classes, and edges per thousand pairs of nodes"
NOTE = "An undirected edge counts twice here, as in the paper's rows for the citation graphs but not in all of them."
CAUSES = {
    "photo": "Photo and Computers are whole here, as in the released code. The paper's table has their largest "
    "components: 7,487 and 13,381 nodes, with 119,043 and 245,778 edges counted once.",
    "two_moon": "Two-moon is drawn with scikit-learn. The paper's points are those of PyGSP, to which the same rule of "
    "five nearest neighbours gives 12,264 edges; these have 12,430.",
}
"""Why counts differ, by the row that it is said for."""


@work("statistics")
def count(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Count a data set, without its held-out links where there are official ones."""
    graph = load(arguments["dataset"], data_root).graph
    pairs = graph.num_nodes * (graph.num_nodes - 1)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "density": 1000 * graph.num_edges / pairs,
    }


def pieces(scope: Scope) -> Sequence[Piece]:
    """One count of every data set."""
    names = chosen(QUICK if scope.quick else DATASETS, scope.datasets)
    return [Piece("statistics", {"dataset": name}) for name in names]


def show(results: Results) -> Sequence[Sheet]:
    """All counts in one table, with what is known about each difference."""
    cells = printed("statistics")
    sheets = [make_sheet(TITLE, results, _reading(name), cells, notes=[NOTE], highest_is_best=None) for name in COLUMNS]
    sheet = beside(sheets)
    causes = [cause for row, cause in CAUSES.items() if row in sheet.rows]
    return [replace(sheet, cells=tuple(map(_explained, sheet.cells)), notes=(NOTE, *causes, *sheet.notes[1:]))]


def _reading(column: str) -> Reading:
    def place(piece: Piece) -> Place:
        return piece.arguments["dataset"], column

    def value(values: Mapping[str, Any]) -> float:
        return float(values[column])

    return Reading(place, value, "counted in the loaded graph", None)


def _explained(cell: Cell) -> Cell:
    remark = find_dataset(cell.row).remark
    if cell.state not in ("higher", "lower") or not remark:
        return cell
    return replace(cell, note=f"{cell.note} Known: {remark}.")


ARTIFACT = Artifact(
    name="statistics",
    kind="table",
    title="The data sets, counted",
    printed="Table 5",
    pieces=pieces,
    show=show,
)
