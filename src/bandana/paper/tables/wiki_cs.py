"""Wiki-CS (Table 11): a directed graph, with Bandana beside GCA."""

from collections.abc import Sequence

from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Results, metric_sheet
from bandana.paper.pieces import trainings
from bandana.paper.published import printed

METHODS = ("gca", "bandana")
COLUMNS = {"micro_f1": ("metrics", "micro_f1"), "macro_f1": ("as_published", "macro_f1")}
PROTOCOL = "linear probe on random 10 : 10 : 80 splits; every metric at its own best validation epoch"


def pieces(scope: Scope) -> Sequence[Piece]:
    """Trainings of both; a coarse version has no directed graph, and nothing to run."""
    return [] if scope.quick else trainings(scope, "node", METHODS, ["wikics"])


def show(results: Results) -> Sequence[Sheet]:
    """Both metrics."""
    title = "Micro- and macro-F1 (%) of node classification on Wiki-CS"
    if not results:
        return []
    return [metric_sheet(title, results, "wikics", COLUMNS, printed("wiki-cs"), protocol=PROTOCOL, over="probes")]


ARTIFACT = Artifact(
    name="wiki-cs",
    kind="table",
    title="A directed graph: Wiki-CS",
    printed="Table 11",
    pieces=pieces,
    show=show,
)
