"""Time and memory (Table 8): what pre-training takes, for two layers and 500 epochs (100 on ogbn-arxiv).

A few epochs are timed and the time of one is multiplied, so that a slow method needs no hours. Nothing is evaluated in
between. The published figures are of a GTX 3090 with 24 GB: a verdict here compares machines as much as programs.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bandana.config import to_table
from bandana.data.datasets import load
from bandana.data.features import preprocess
from bandana.data.splits import split_edges
from bandana.experiment import Experiment, Task, build
from bandana.method import GraphSpec
from bandana.paper.artifact import Artifact, Cell, Piece, Result, Scope, Sheet
from bandana.paper.cookbook import recipe
from bandana.paper.grid import Reading, Results, make_sheet, of_training
from bandana.paper.meters import GPU_ONLY, peak_mb, start_peak, wait_for
from bandana.paper.pieces import COST, chosen, datasets_of
from bandana.paper.published import printed
from bandana.paper.work import work
from bandana.training.trainer import TrainingState, pretrain

DATASETS = ("cora", "citeseer", "pubmed", "ogbn-arxiv", "ogbl-collab")
METHODS: Mapping[str, Mapping[str, Any]] = {
    "vgae": {},
    "gca": {},
    "seegera": {},
    "maskgae_edge": {"model.num_layers": 2},
    "bandana": {"model.encoder.num_layers": 2},
}
"""With what makes each of them two layers deep, where its recipe does not."""
PRINTED_AS = {"maskgae_edge": "maskgae"}
NOTE = "Published on a GTX 3090 with 24 GB; every recipe keeps its own width."
EPOCHS, ARXIV_EPOCHS = 500, 100
WARM_UP, TIMED, QUICK_TIMED = 2, 10, 3


@work(COST, about_device=True)
def pretrain_and_measure(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Seconds of an epoch, and the highest memory of a GPU while it trains."""
    experiment, seed = Experiment.from_table(arguments["experiment"]), int(arguments["seed"])
    data = load(experiment.dataset, data_root)
    graph = preprocess(data.graph, experiment.features).to(device)
    held_out = experiment.split.valid_edges, experiment.split.test_edges
    train = graph if data.edge_split is not None else split_edges(graph, *held_out, seed=seed).train
    method = build(experiment, GraphSpec.of(graph), seed).to(device)
    ends = []

    def after_epoch(state: TrainingState) -> None:
        wait_for(device)
        ends.append(time.perf_counter())

    start_peak(device)
    pretrain(method, train, experiment.training, seed=seed, on_epoch=after_epoch)
    epochs = [later - earlier for earlier, later in pairwise(ends)]
    return {"epoch_seconds": median(epochs[WARM_UP - 1 :]), "timed": len(epochs), "peak_mb": peak_mb(device)}


def pieces(scope: Scope) -> Sequence[Piece]:
    """One short training of every method on every data set."""
    timed = WARM_UP + (QUICK_TIMED if scope.quick else TIMED)
    short = {"training.epochs": timed, "training.evaluate_every": timed, "training.patience_evaluations": 0}
    experiments = [
        recipe(method, dataset, _task(dataset), {**METHODS[method], **short})
        for dataset in datasets_of(scope, DATASETS)
        for method in chosen(METHODS, scope.methods)
    ]
    return [Piece(COST, {"experiment": to_table(experiment), "seed": 0}) for experiment in experiments]


def show(results: Results) -> Sequence[Sheet]:
    """Time and memory."""
    scaled = [(piece, _scaled(piece, result)) for piece, result in results]
    place = of_training(lambda table: PRINTED_AS.get(table["method"], table["method"]))
    words = f"the median of {TIMED} epochs ({QUICK_TIMED} in a coarse version) times {EPOCHS} ({ARXIV_EPOCHS})"
    seconds = Reading(place, lambda values: float(values["seconds"]), words, None)
    words = "highest memory of tensors; read on a GPU only"
    memory = Reading(place, lambda values: values["peak_mb"], words, None, GPU_ONLY)
    files = sorted({result.file for _, result in results if result.file})
    notes = [NOTE, *(f"Ours from {file}, which may be of another machine than the one of this page." for file in files)]
    sheets = [
        make_sheet("Pre-training time (s)", scaled, seconds, printed("time"), notes=notes, highest_is_best=False),
        make_sheet("Peak GPU memory (MB)", scaled, memory, printed("memory"), notes=notes, highest_is_best=False),
    ]
    return [replace(sheet, cells=tuple(map(_side_by_side, sheet.cells))) for sheet in sheets]


def _side_by_side(cell: Cell) -> Cell:
    """Figures of two machines stand beside each other, but no test can compare the programs."""
    if cell.ours is None or cell.published is None:
        return cell
    return replace(cell, state="side by side", note=f"Another machine. {cell.note}")


def _scaled(piece: Piece, result: Result) -> Result:
    """The seconds of a whole training, where those of an epoch are known."""
    if result.values is None:
        return result
    epochs = ARXIV_EPOCHS if piece.arguments["experiment"]["dataset"] == "ogbn-arxiv" else EPOCHS
    return result._replace(values={**result.values, "seconds": epochs * result.values["epoch_seconds"]})


def _task(dataset: str) -> Task:
    return "link" if dataset.startswith("ogbl") else "node"


ARTIFACT = Artifact(
    name="time-and-memory",
    kind="table",
    title="What pre-training takes",
    printed="Table 8",
    pieces=pieces,
    show=show,
)
