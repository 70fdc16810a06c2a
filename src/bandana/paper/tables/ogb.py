"""OGB (Table 10): links of ogbl-collab and ogbl-ppa by a method's own decoder, and nodes of ogbn-mag."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from bandana.experiment import Task
from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Results, metric_sheet
from bandana.paper.pieces import trainings
from bandana.paper.published import printed
from bandana.reporting.compare import Over


class How(TypedDict):
    """How the figures of a task come about, and what the published deviations run over."""

    protocol: str
    over: Over


METHODS = ("maskgae_edge", "maskgae_path", "bandana")
HOW: Mapping[Task, How] = {
    "link": {"protocol": "official split; logits of the method's own decoder ranked", "over": "seeds"},
    "node": {"protocol": "official split; linear probe", "over": "probes"},
}
METRICS: dict[str, dict[str, tuple[str, ...]]] = {
    "ogbl-collab": {"hits@20": ("metrics", "decoder_hits@20"), "hits@50": ("metrics", "decoder_hits@50")},
    "ogbl-ppa": {"hits@50": ("metrics", "decoder_hits@50"), "hits@100": ("metrics", "decoder_hits@100")},
    "ogbn-mag": {"micro_f1": ("metrics", "micro_f1"), "macro_f1": ("as_published", "macro_f1")},
}
"""Where the values of a training hold each column."""


def pieces(scope: Scope) -> Sequence[Piece]:
    """Trainings on the official splits; a coarse version has no data of this kind, and nothing to run."""
    if scope.quick:
        return []
    return [piece for name in METRICS for piece in trainings(scope, _task(name), METHODS, [name])]


def show(results: Results) -> Sequence[Sheet]:
    """One table per data set."""
    present = {piece.arguments["experiment"]["dataset"] for piece, _ in results}
    return [
        metric_sheet(f"{name} (%)", results, name, columns, printed(name), **HOW[_task(name)])
        for name, columns in METRICS.items()
        if name in present
    ]


def _task(dataset: str) -> Task:
    return "node" if dataset.startswith("ogbn") else "link"


ARTIFACT = Artifact(
    name="ogb",
    kind="table",
    title="Larger graphs: ogbl-collab, ogbl-ppa and ogbn-mag",
    printed="Table 10",
    pieces=pieces,
    show=show,
)
