"""Node classification (Table 1): how well a linear layer reads classes from embeddings, for every method and data set.

The paper's deviation runs over ten probes of one pre-trained encoder, ours over pre-trainings; the verdict knows that.
"""

from collections.abc import Sequence
from dataclasses import replace

from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Reading, Results, make_sheet, of_training, percent, with_printed_ranks
from bandana.paper.pieces import trainings
from bandana.paper.published import printed
from bandana.reporting.compare import average_ranks

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics", "ogbn-arxiv")
METHODS = (
    *("gae", "arga", "vgae", "arvga", "seegera", "grace", "gca", "costa", "cca_ssg"),
    *("graphmae", "graphmae2", "s2gae", "maskgae_edge", "maskgae_path", "bandana"),
)
FLOORS = ("raw_features", "smoothed_features", "untrained_encoder")
JOINT = "linear probe, ten repeats per encoder; one epoch, chosen by validation micro-F1, for both metrics"
SEPARATE = "linear probe, ten repeats per encoder; every metric at its own best validation epoch, as published"


def pieces(scope: Scope) -> Sequence[Piece]:
    """One training gives both metrics under both protocols."""
    return trainings(scope, "node", [*METHODS, *FLOORS], DATASETS)


def show(results: Results) -> Sequence[Sheet]:
    """Both metrics, in LaTeX also one above the other as the paper sets them, and the average rank."""
    micro = _sheet("Micro-F1 (%) of node classification", results, "metrics", "micro_f1", JOINT)
    macro = _sheet("Macro-F1 (%), at its own best epoch", results, "as_published", "macro_f1", SEPARATE)
    jointly = _sheet("Macro-F1 (%), at the epoch of best micro-F1", results, "metrics", "macro_f1", JOINT)
    ranks = average_ranks([micro, macro], "Average rank by micro- and macro-F1")
    return [
        replace(micro, below=macro),
        macro,
        replace(jointly, rescored=True),
        with_printed_ranks(ranks, "node classification"),
    ]


def _sheet(title: str, results: Results, protocol: str, metric: str, words: str) -> Sheet:
    reading = Reading(of_training(), percent(protocol, metric), words, "probes")
    return make_sheet(title, results, reading, printed(metric))


ARTIFACT = Artifact(
    name="node-classification",
    kind="table",
    title="Node classification: 15 methods and three floors on eight data sets",
    printed="Table 1",
    pieces=pieces,
    show=show,
)
