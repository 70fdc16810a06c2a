"""Link prediction (Table 2): how well bare embeddings rank held-out links, for every method and data set.

Published figures were ranked after a float32 sigmoid, which ties large scores; those stand beside the ranking of raw
logits. Bandana is trained a second time with its weights chosen after the sigmoid too, as its authors did.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Place, Reading, Results, beside, make_sheet, of_training, percent, with_printed_ranks
from bandana.paper.pieces import HEURISTICS, datasets_of, seeds_of, trainings
from bandana.paper.published import printed
from bandana.paper.tables.node_classification import FLOORS
from bandana.reporting.compare import average_ranks

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics")
METHODS = (
    *("gae", "arga", "vgae", "arvga", "sig_vae", "seegera", "grace", "gca", "cca_ssg", "t_bgrl"),
    *("graphmae", "graphmae2", "s2gae", "maskgae_edge", "maskgae_path", "bandana"),
)
COUNTS = ("common neighbours", "Adamic-Adar", "resource allocation")
HELD_OUT = (0.05, 0.10)
LOGITS = "dot products of embeddings, raw logits ranked"
SIGMOID = "dot products of embeddings, ranked after a float32 sigmoid, as published"
TIED = "dot products of embeddings; pairs at exactly 1 after a float32 sigmoid, links and others together"
WHAT_TIES_DO = (
    "After the sigmoid these pairs share one rank, which sets the two scorings above apart; see docs/ties.md."
)
UNPRINTED = "Rows without a published figure are floors, and GAE-tuned, which is newer than the paper."
CHOSEN_AS_PUBLISHED = "bandana, weights chosen after the sigmoid"


def pieces(scope: Scope) -> Sequence[Piece]:
    """One training gives both metrics with and without the sigmoid."""
    counts = [
        Piece(HEURISTICS, {"dataset": dataset, "held_out": HELD_OUT, "seed": seed})
        for seed in seeds_of(scope)
        for dataset in datasets_of(scope, DATASETS)
        if not scope.methods
    ]
    by_recipe = trainings(scope, "link", [*METHODS, "gae_tuned", *FLOORS], DATASETS)
    return [*by_recipe, *trainings(scope, "link", ["bandana"], DATASETS, {"protocol": "paper"}), *counts]


def show(results: Results) -> Sequence[Sheet]:
    """AUC and AP on logits, the same after the sigmoid, average ranks over the data sets present, and ties."""
    logits = [
        _sheet("AUC (%) of link prediction, on logits", results, "auc", LOGITS),
        _sheet("AP (%), on logits", results, "ap", LOGITS),
    ]
    squashed = [
        replace(_sheet(title, results, metric, SIGMOID), rescored=True)
        for title, metric in (
            ("AUC (%), after a float32 sigmoid", "auc_sigmoid32"),
            ("AP (%), after a float32 sigmoid", "ap_sigmoid32"),
        )
    ]
    ranks = [
        with_printed_ranks(average_ranks(list(map(_methods_only, sheets)), title), "link prediction")
        for sheets, title in (
            (logits, "Average rank by AUC and AP, on logits"),
            (squashed, "Average rank by AUC and AP, after a float32 sigmoid"),
        )
    ]
    return [*_over(*logits), *_over(*squashed), *ranks, _ties(results)]


def _over(auc: Sheet, ap: Sheet) -> list[Sheet]:
    """Both, the first with the second below it, as the paper sets them."""
    return [replace(auc, below=ap), ap]


def _sheet(title: str, results: Results, metric: str, words: str) -> Sheet:
    """Trainings, and below them the counts of shared neighbours, which no sigmoid is needed for."""
    cells = printed(metric.removesuffix("_sigmoid32"))
    cells |= {(CHOSEN_AS_PUBLISHED, dataset): cells["bandana", dataset] for dataset in DATASETS}
    reading = Reading(of_training(_row), percent("metrics", metric), words, "seeds")
    sheet = make_sheet(title, results, reading, cells, notes=[UNPRINTED])
    if metric.endswith("_sigmoid32"):
        return sheet
    return beside([sheet, *(make_sheet(title, results, _count_reading(name, metric), {}) for name in COUNTS)])


def _ties(results: Results) -> Sheet:
    """How many pairs the sigmoid ties, which is what sets the two scorings apart."""
    reading = Reading(of_training(_row), percent("metrics", "tied_share"), TIED, "seeds")
    title = "Share (%) of test pairs whose float32 sigmoid is exactly 1"
    return replace(make_sheet(title, results, reading, {}, notes=[WHAT_TIES_DO], highest_is_best=None), rescored=True)


def _methods_only(sheet: Sheet) -> Sheet:
    """Every method once: Bandana's second training takes no rank from others."""
    rows = tuple(row for row in sheet.rows if row in METHODS)
    return replace(sheet, rows=rows, cells=tuple(cell for cell in sheet.cells if cell.row in rows))


def _row(table: Mapping[str, Any]) -> str:
    return CHOSEN_AS_PUBLISHED if table["protocol"] == "paper" else str(table["method"])


def _count_reading(name: str, metric: str) -> Reading:
    def place(piece: Piece) -> Place | None:
        return (name, piece.arguments["dataset"]) if piece.work == HEURISTICS else None

    return Reading(place, percent("metrics", name, metric), "counts of shared neighbours, ranked", "seeds")


ARTIFACT = Artifact(
    name="link-prediction",
    kind="table",
    title="Link prediction: 16 methods, a newer one and six floors on seven data sets",
    printed="Table 2",
    pieces=pieces,
    show=show,
)
