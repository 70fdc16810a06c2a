"""Mask ratios (Table 4): the share of the messages that bandwidths hold back, calculated and measured.

The paper calculates 1 - n / 2|E| over the training edges. Nodes without neighbours there receive nothing, so what is
measured in draws lies a little above.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from bandana.config import to_table
from bandana.data.datasets import load
from bandana.data.splits import split_edges
from bandana.experiment import Experiment, Task
from bandana.method import Clock
from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.cookbook import recipe
from bandana.paper.grid import Place, Reading, Results, beside, make_sheet
from bandana.paper.pieces import datasets_of, seeds_of
from bandana.paper.published import printed
from bandana.paper.work import work
from bandana.parts.masks import MaskConfig, draw_mask

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics", "ogbn-arxiv", "ogbl-collab")
DRAWS = 5
HOW = {
    "calculated": "1 - nodes / directed training edges",
    "measured": f"1 - mean bandwidth, over {DRAWS} draws on the training edges of a split",
}


@work("mask-ratio")
def measure(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Both ratios on the training graph of one split, masked as the experiment says."""
    experiment, seed = Experiment.from_table(arguments["experiment"]), int(arguments["seed"])
    data = load(experiment.dataset, data_root)
    held_out = experiment.split.valid_edges, experiment.split.test_edges
    train = (data.edge_split or split_edges(data.graph, *held_out, seed=seed)).train.to(device)
    mask: MaskConfig = experiment.model.mask
    means = [float(draw_mask(mask, train, Clock(seed, step=step), 0).values.mean()) for step in range(DRAWS)]
    return {"calculated": 1 - train.num_nodes / train.num_edges, "measured": 1 - fmean(means)}


def pieces(scope: Scope) -> Sequence[Piece]:
    """One split for every seed, by Bandana's recipes; nothing is trained."""
    datasets = [name for name in datasets_of(scope, DATASETS) if not scope.methods or "bandana" in scope.methods]
    tables = [to_table(recipe("bandana", name, _task(name))) for name in datasets]
    return [Piece("mask-ratio", {"experiment": table, "seed": seed}) for seed in seeds_of(scope) for table in tables]


def show(results: Results) -> Sequence[Sheet]:
    """Both ratios side by side."""
    cells = printed("mask-ratios")
    return [beside([make_sheet(TITLE, results, _reading(how), cells, highest_is_best=None) for how in HOW])]


def _reading(column: str) -> Reading:
    def place(piece: Piece) -> Place:
        return piece.arguments["experiment"]["dataset"], column

    def value(values: Mapping[str, Any]) -> float:
        return float(values[column])

    return Reading(place, value, HOW[column], "seeds" if column == "measured" else None)


def _task(dataset: str) -> Task:
    return "link" if dataset.startswith("ogbl") else "node"


TITLE = "Share of the messages held back by Bandana's masks"
ARTIFACT = Artifact(
    name="mask-ratios",
    kind="table",
    title="Mask ratios, calculated and measured",
    printed="Table 4",
    pieces=pieces,
    show=show,
)
