"""Partition training beside full-graph training on real data sets: one split, one probe, exact embeddings of both.

    python benchmarks/scale_real.py --folder FOLDER --csv real.csv
    python benchmarks/scale_real.py --folder FOLDER --csv real.csv --datasets cora --tasks node --seeds 3 --jobs 2

A piece is one (data set, task, seed). It trains Bandana from a store and on the full graph, each by the recipe, with
the same held-out links, pairs, nodes and initial weights, and judges both by the whole graph. The full graph is learned
in the recipe's batches of links; an epoch of the store takes as many steps as its groups make. Raw data are looked for
under BANDANA_DATA. Where there is no METIS, carry the files of `--assign-only --partitioner metis` there. A row is
written as a piece ends, and a second call repeats none of those with the same settings. `docs/scale.md` reads them.
"""

import argparse
import csv
import gc
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, get_args

import numpy as np
import torch

from bandana.config import parse_assignment
from bandana.data.datasets import find_dataset, load
from bandana.devices import resolve_device
from bandana.experiment import Experiment, Task, build, embed
from bandana.graph import Graph
from bandana.paper.cookbook import recipe
from bandana.reporting.record import Metrics
from bandana.scale.batches import Region
from bandana.scale.distributed import World
from bandana.scale.partitioning import Indices, metis_fits, metis_parts, stream_parts
from bandana.scale.store import Store, write_store
from bandana.scale.training import Job, train_on_store, validation_score
from bandana.store_experiment import StoreExperiment, spec_of
from bandana.store_judge import Judge
from bandana.training.trainer import Precision, TrainingState, pretrain
from bandana.workers import carry_out

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics")
METRIC = {"link": "auc", "node": "micro_f1"}
ALLOWED = {"auc": 0.5, "micro_f1": 1.0}
"""Points that partition training may lose."""
MEMORY = 4 << 30
FIELDS = (
    *("dataset", "task", "seed", "settings", "device", "store", "full", "lost", "store_valid", "full_valid"),
    *("store_links", "full_links", "store_epoch", "full_epoch", "store_steps", "full_steps"),
    *("store_seconds", "full_seconds", "failed"),
)


class Piece(NamedTuple):
    """One comparison."""

    dataset: str
    task: Task
    seed: int


class Way(NamedTuple):
    """How a data set is cut, and how both sides are trained."""

    parts: int
    partitioner: str
    changes: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((f"{self.parts} parts by {self.partitioner}", *self.changes))


class Side(NamedTuple):
    """One side of a comparison, after training: its scores on test and validation nodes, and on validation links."""

    metrics: Metrics
    state: TrainingState

    def columns(self, name: str, metric: str) -> dict[str, Any]:
        """Its figures as columns of the table, scores in percent."""
        return {
            name: 100 * self.metrics[metric],
            f"{name}_valid": 100 * self.metrics["valid_micro_f1"] if metric == "micro_f1" else "",
            f"{name}_links": 100 * self.state.progress.best_value,
            f"{name}_epoch": self.state.progress.best_epoch,
            f"{name}_steps": self.state.step,
            f"{name}_seconds": self.state.seconds,
        }


def compare(piece: Piece, way: Way, folder: Path, device: str) -> dict[str, Any]:
    """Train both sides of a piece; return its row."""
    torch.set_num_threads(1)
    where, metric = resolve_device(device), METRIC[piece.task]
    place, changes = store_folder(folder, way, piece.dataset), dict(map(parse_assignment, way.changes))
    experiment = StoreExperiment.of("bandana", place, piece.task, changes, named=piece.dataset)
    store = Store.open(place)
    judge = Judge.of(experiment, store, piece.seed, where)
    if piece.task == "link":
        judge = replace(judge, labels=None)  # else nodes would be classified as well

    def side(learn: Callable[[Job], TrainingState]) -> Side:
        named = Experiment(method="bandana", dataset=piece.dataset, task=piece.task, model=experiment.model)
        method = build(named, spec_of(experiment, store), piece.seed).to(where)
        settings = experiment.training, experiment.shards, piece.seed, World(0, 1, where), experiment.monitor
        state = learn(Job(method, store, *settings))
        return Side(judge.score(lambda graph: embed(method, graph)), state)

    batch = recipe("bandana", piece.dataset, piece.task).training.edge_batch_size
    row = side(train_on_store).columns("store", metric)
    row |= side(lambda job: learn_the_full_graph(job, judge.region, batch)).columns("full", metric)
    gc.collect()
    torch.cuda.empty_cache()  # other processes need the memory of this one
    return {**piece._asdict(), "settings": str(way), "device": where.type, "lost": row["full"] - row["store"], **row}


def learn_the_full_graph(job: Job, region: Region, edge_batch_size: int) -> TrainingState:
    """As one trains without a store, but with the links that the store holds out."""
    training = replace(job.training, edge_batch_size=edge_batch_size)
    monitor = None if job.monitor == "none" else lambda: validation_score(job, region)
    return pretrain(job.method, region.graph, training, seed=job.seed, monitor=monitor)


def store_folder(folder: Path, way: Way, dataset: str) -> Path:
    """Where a data set's store lies; it bears the name of the data set, whose recipe it therefore gets."""
    return folder / f"{way.parts}-{way.partitioner}" / dataset


def make_store(folder: Path, way: Way, dataset: str) -> Store:
    """The store of a data set, made unless it is there."""
    place = store_folder(folder, way, dataset)
    if (place / "store.json").exists():
        return Store.open(place)
    graph = load(dataset).graph
    return write_store(place, graph, torch.from_numpy(assign(folder, way, dataset, graph)))


def assign(folder: Path, way: Way, dataset: str, graph: Graph) -> Indices:
    """``[nodes]`` the part of every node, kept in a small file that can be carried to a machine without METIS."""
    place = store_folder(folder, way, dataset).with_suffix(".npy")
    if place.exists():
        known: Indices = np.load(place, allow_pickle=False)
        return known
    rowptr, col = graph.structure.rowptr.numpy(), graph.structure.col.numpy()
    if way.partitioner == "metis":
        parts = metis_parts(rowptr, col, way.parts, graph.directed, 0)
    else:
        parts = stream_parts(
            lambda start, stop: (rowptr[start : stop + 1] - rowptr[start], col[rowptr[start] : rowptr[stop]]),
            graph.num_nodes,
            way.parts,
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    np.save(place, parts)
    return parts


def pieces_of(datasets: Iterable[str], tasks: Sequence[Task], seeds: Iterable[int]) -> list[Piece]:
    """Everything that is asked for: no second seed before all have had their first, small graphs before large ones."""
    pieces = [Piece(dataset, task, seed) for seed in seeds for dataset in datasets for task in tasks]
    return sorted(pieces, key=lambda piece: (piece.seed, find_dataset(piece.dataset).edges or 0))


def missing(pieces: Iterable[Piece], rows: Iterable[Mapping[str, str]], way: Way) -> list[Piece]:
    """The pieces without a row of these settings; failed ones count as missing."""
    done = {
        (row["dataset"], row["task"], int(row["seed"]))
        for row in rows
        if row["settings"] == str(way) and not row["failed"]
    }
    return [piece for piece in pieces if piece not in done]


def read(path: Path) -> list[dict[str, str]]:
    """The rows so far."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add a row to the file."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
        if is_new:
            table.writeheader()
        table.writerow(row)


def verdicts(rows: Sequence[Mapping[str, str]], way: Way, seeds: Container[int]) -> Iterator[str]:
    """A line for every data set and task: what partition training loses against the full graph, over some seeds.

    What it loses on validation nodes or links comes first: a way of cutting is chosen by that, and never by the rest.
    """
    asked = [row for row in rows if row["settings"] == str(way) and int(row["seed"]) in seeds]
    sound = [row for row in asked if not row["failed"]]
    for dataset, task in dict.fromkeys((row["dataset"], row["task"]) for row in sound):
        own = [row for row in sound if (row["dataset"], row["task"]) == (dataset, task)]
        shown = "valid" if task == "node" else "links"
        seen = [float(row[f"full_{shown}"]) - float(row[f"store_{shown}"]) for row in own]
        lost = [float(row["lost"]) for row in own]
        bound = ALLOWED[METRIC[task]]
        verdict = "within" if fmean(lost) <= bound else "beyond"
        yield (
            f"{dataset}, {METRIC[task]}, seeds: {len(own)}; partition training loses {_mean(seen)} points in "
            f"validation, {_mean(lost)} in the test, {verdict} the bound of {bound:g}"
        )


def _mean(values: Sequence[float]) -> str:
    """With its standard error, which one value does not have."""
    spread = f" ± {stdev(values) / math.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{fmean(values):.2f}{spread}"


def main() -> None:
    """Train what is missing, then say what was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("scale-bench"), help="for stores")
    parser.add_argument("--csv", type=Path, default=Path("scale-real.csv"), help="rows, written as they come")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--tasks", nargs="+", default=tuple(METRIC), choices=tuple(METRIC))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--precision", default="float32", choices=get_args(Precision), help="of both sides")
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--partitioner", default="auto", choices=("auto", "metis", "stream"))
    parser.add_argument("--assign-only", action="store_true", help="write the parts of all nodes, and train nothing")
    parser.add_argument("--parts-per-group", type=int, default=4)
    parser.add_argument("--groups-per-step", type=int, default=1)
    parser.add_argument(
        "--set", nargs="*", action="extend", default=[], dest="changes", help="option=value on top, for both sides"
    )
    parser.add_argument("--budget-seconds", type=float, default=math.inf, help="begin no piece after this time")
    options = parser.parse_args()
    way = way_of(options)
    for dataset in options.datasets:
        if options.assign_only:
            assign(options.folder, way, dataset, load(dataset).graph)
        else:
            make_store(options.folder, way, dataset)
    if options.assign_only:
        return
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    waiting = missing(pieces_of(options.datasets, options.tasks, seeds), read(options.csv), way)
    work = [(piece, way, options.folder, options.device) for piece in waiting]
    for count, outcome in enumerate(carry_out(compare, work, jobs=options.jobs, budget=options.budget_seconds), 1):
        piece = outcome.arguments[0]
        failure = {**piece._asdict(), "settings": str(way), "failed": outcome.failure}
        append(options.csv, outcome.result or failure)
        print(
            f"{count}/{len(waiting)} {' '.join(map(str, piece))}: {outcome.failure or _shown(outcome.result)}",
            flush=True,
        )
    print(*verdicts(read(options.csv), way, seeds), sep="\n")


def way_of(options: argparse.Namespace) -> Way:
    """The settings, each in words that a run on a store understands."""
    partitioner = options.partitioner
    if partitioner == "auto":
        partitioner = "metis" if metis_fits(0, MEMORY) else "stream"
    changes = (
        f"shards.parts_per_group={options.parts_per_group}",
        f"shards.groups_per_step={options.groups_per_step}",
        f"training.precision={options.precision}",
    )
    return Way(options.parts, partitioner, (*changes, *options.changes))


def _shown(row: Mapping[str, Any]) -> str:
    return (
        f"store {row['store']:.2f} ({row['store_steps']} steps, {row['store_seconds']:.0f} s), full graph "
        f"{row['full']:.2f} ({row['full_steps']} steps, {row['full_seconds']:.0f} s), lost {row['lost']:.2f}"
    )


if __name__ == "__main__":
    main()
