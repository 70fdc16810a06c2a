"""OGB (Table 10): links of ogbl-collab and ogbl-ppa by a method's own decoder, and nodes of ogbn-mag."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from bandana.experiment import Task
from bandana.paper.artifact import Artifact, Piece, Result, Scope, Sheet
from bandana.paper.grid import Results, metric_sheet
from bandana.paper.pieces import TRAINING, trainings
from bandana.paper.published import printed
from bandana.reporting.compare import Over


class How(TypedDict):
    """How the figures of a task come about, and what the published deviations run over."""

    protocol: str
    over: Over


METHODS = ("maskgae_edge", "maskgae_path", "bandana")
WITHOUT_RECIPE: Mapping[Task, tuple[str, ...]] = {"link": ("maskgae_edge", "maskgae_path"), "node": ()}
NO_RECIPE = (
    "not run: there is no recipe of MaskGAE for these links; its authors' runs have SAGE layers, learned node vectors, "
    "a squared AUC loss and a dot decoder, which MaskGAE here does not have"
)
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
    return [piece for name in METRICS for piece in trainings(scope, _task(name), _trained(name), [name])]


def show(results: Results) -> Sequence[Sheet]:
    """One table per data set, with the published figures of methods that are not trained there."""
    present = {piece.arguments["experiment"]["dataset"] for piece, _ in results}
    return [
        metric_sheet(f"{name} (%)", [*_untrained(name), *results], name, columns, printed(name), **HOW[_task(name)])
        for name, columns in METRICS.items()
        if name in present
    ]


def _trained(dataset: str) -> list[str]:
    return [method for method in METHODS if method not in WITHOUT_RECIPE[_task(dataset)]]


def _untrained(dataset: str) -> Results:
    """Why methods without a recipe have no figure, in place of trainings."""
    return [
        (Piece(TRAINING, {"experiment": {"method": method, "dataset": dataset}}), Result(None, NO_RECIPE))
        for method in WITHOUT_RECIPE[_task(dataset)]
    ]


def _task(dataset: str) -> Task:
    return "node" if dataset.startswith("ogbn") else "link"


ARTIFACT = Artifact(
    name="ogb",
    kind="table",
    title="Larger graphs: ogbl-collab, ogbl-ppa and ogbn-mag",
    pieces=pieces,
    show=show,
)
