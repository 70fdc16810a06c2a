"""Few labels (Table 12): the probe learns from 10, 5 and 1 percent of the nodes of CS and Physics."""

from collections.abc import Sequence
from typing import Any

from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Place, Reading, Results, make_sheet, percent
from bandana.paper.pieces import datasets_of, trainings
from bandana.paper.published import printed

DATASETS, METHODS = ("cs", "physics"), ("maskgae_edge", "bandana")
SHARES = (0.10, 0.05, 0.01)
VALIDATION = 0.10
PROTOCOL = "linear probe; 10 % of the nodes for validation, the rest for the test"


def pieces(scope: Scope) -> Sequence[Piece]:
    """The first share is the recipe's own, so that those trainings are the ones of the node classification table."""
    return [
        piece
        for dataset in datasets_of(scope, DATASETS)
        for share in SHARES
        for piece in trainings(scope, "node", METHODS, [dataset], _changes(share))
    ]


def show(results: Results) -> Sequence[Sheet]:
    """Accuracy by data set and share."""
    title = "Accuracy (%) of node classification by the share of labelled nodes"
    reading = Reading(_place, percent("metrics", "micro_f1"), PROTOCOL, "probes")
    return [make_sheet(title, results, reading, printed("semi-supervised"))]


def _changes(share: float) -> dict[str, Any]:
    return {} if share == SHARES[0] else {"split.nodes": [share, VALIDATION, round(1 - VALIDATION - share, 2)]}


def _place(piece: Piece) -> Place:
    table = piece.arguments["experiment"]
    return table["method"], f"{table['dataset']} {100 * table['split']['nodes'][0]:.0f} %"


ARTIFACT = Artifact(
    name="semi-supervised",
    kind="table",
    title="Few labels on CS and Physics",
    printed="Table 12",
    pieces=pieces,
    show=show,
)
