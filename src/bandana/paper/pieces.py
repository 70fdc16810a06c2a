"""Work that several tables and figures share: trainings, and counts of shared neighbours as their floor."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from bandana.config import to_table, to_toml
from bandana.data.datasets import find_dataset, load
from bandana.data.splits import split_edges
from bandana.evaluation.heuristics import heuristic_floors
from bandana.evaluation.linear_probe import as_published
from bandana.experiment import Experiment, Task, run_seed
from bandana.paper.artifact import Piece, Scope
from bandana.paper.cookbook import recipe
from bandana.paper.work import work
from bandana.registry import get_method
from bandana.training.trainer import OnEpoch, TrainingState

TRAINING, FITTED, COST, HEURISTICS = "experiment", "fitted decoder", "pretraining-cost", "heuristics"
SMALL = "digits"
"""Stands in for the data sets of the paper when something coarse is asked for: real, bundled, and quick to train on."""
COARSE: Mapping[str, Any] = {
    "training.epochs": 10,
    "training.evaluate_every": 5,
    "training.warmup_epochs": 0,
    "probe.epochs": 10,
    "probe.repeats": 2,
}
"""Changes to a recipe that make it a matter of seconds."""


def training(experiment: Experiment, seed: int) -> Piece:
    """A pre-training and its evaluation."""
    return Piece(TRAINING, {"experiment": to_table(experiment), "seed": seed})


def trainings(
    scope: Scope,
    task: Task,
    methods: Iterable[str],
    datasets: Sequence[str],
    changes: Mapping[str, Any] | None = None,
) -> list[Piece]:
    """A training of every method that can do the task, on every data set, for every seed."""
    able = [name for name in chosen(methods, scope.methods) if task in get_method(name).facts.tasks]
    more = {**(COARSE if scope.quick else {}), **(changes or {})}
    tables = [
        to_table(recipe(method, dataset, task, more)) for method in able for dataset in datasets_of(scope, datasets)
    ]
    return [Piece(TRAINING, {"experiment": table, "seed": seed}) for seed in seeds_of(scope) for table in tables]


def seeds_of(scope: Scope) -> range:
    """The seeds that are asked for; a coarse version has one."""
    return range(1 if scope.quick else scope.seeds)


def datasets_of(scope: Scope, datasets: Sequence[str]) -> list[str]:
    """Those of the data sets that are asked for; a coarse version has one small one in their place."""
    return chosen([SMALL] if scope.quick else datasets, scope.datasets)


def chosen(names: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """The names that are wanted; all of them when nothing is said."""
    return [name for name in names if not wanted or name in wanted]


def dataset_of(piece: Piece) -> str | None:
    """The data set that a piece reads; None if it reads none."""
    table = piece.arguments.get("experiment", piece.arguments)
    name = table.get("dataset")
    return None if name is None else find_dataset(name).name


def method_of(piece: Piece) -> str | None:
    """The method that a piece trains; None if it trains none."""
    name = piece.arguments.get("experiment", piece.arguments).get("method")
    return None if name is None else str(name)


def configuration(piece: Piece) -> str:
    """A piece as TOML, without its seed; that of a training can be run as it stands."""
    table = {name: value for name, value in piece.arguments.items() if name != "seed"}
    head = "bandana run THIS-FILE --seeds N" if piece.work == TRAINING else piece.work
    return f"# {head}\n{to_toml(table['experiment'] if piece.work == TRAINING else table)}"


def config_name(piece: Piece) -> str:
    """A file name for the configuration, the same for all seeds."""
    table = piece.arguments.get("experiment", piece.arguments)
    words = [str(table[name]) for name in ("method", "dataset", "task") if name in table] or [piece.work]
    return f"{'-'.join(words)}-{hashlib.sha256(configuration(piece).encode()).hexdigest()[:8]}.toml"


def digest_of(experiment: Mapping[str, Any]) -> str:
    """What tells settings apart, so that a later reader knows whether they are still the recipe's.

    The precision of products is left out: it decides how fast a result comes (docs/speed.md), and is told beside it.
    """
    same = {**experiment, "training": {**experiment["training"], "precision": "float32"}}
    return hashlib.sha256(to_toml(same).encode()).hexdigest()[:8]


@work(TRAINING)
def train(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """One training: `metrics` by the protocol of the experiment and, for nodes, those `as_published` beside them."""
    experiment, seed = Experiment.from_table(arguments["experiment"]), int(arguments["seed"])
    data = load(experiment.dataset, data_root)
    result = run_seed(experiment, data, seed, device, floors=False, on_epoch=_from_first_epoch(device))
    record = result.record
    values: dict[str, Any] = {
        "metrics": record.metrics,
        "diagnostics": record.diagnostics,
        "best_epoch": record.best_epoch,
        "epochs": record.epochs,
        "precision": experiment.training.precision,
        "seconds": record.seconds,
        "peak_gpu_mb": torch.cuda.max_memory_allocated(device) / 1e6 if device.type == "cuda" else None,
    }
    if experiment.task == "node":
        values["as_published"] = as_published(record.metrics)
    return values


@work(HEURISTICS)
def count_shared_neighbours(
    arguments: Mapping[str, Any], device: torch.device, data_root: Path | None
) -> dict[str, Any]:
    """Ranking metrics of the three heuristics, on the held-out links that a training with this seed is judged by."""
    data = load(arguments["dataset"], data_root)
    edges = data.edge_split or split_edges(data.graph, *arguments["held_out"], seed=int(arguments["seed"]))
    return {"metrics": heuristic_floors(edges.test_graph, edges.test)}


def _from_first_epoch(device: torch.device) -> OnEpoch:
    """Count the highest memory from the first epoch on: what came before is no part of the training."""

    def after_epoch(state: TrainingState) -> None:
        if device.type == "cuda" and state.epoch == 1:
            torch.cuda.reset_peak_memory_stats(device)

    return after_epoch
