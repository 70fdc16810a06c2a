"""Time and memory of a training epoch of every method, by its recipe for each data set.

    python benchmarks/methods.py --device cpu --threads 2 --csv methods-cpu.csv
    python benchmarks/methods.py --device cuda --csv methods-gpu.csv
    python benchmarks/methods.py --methods gae grace --datasets cora --limit 20

Epochs go through `bandana.training.trainer.pretrain`, as users run them, without looks at the validation set. Times are
medians over stretches of epochs after a warm-up, as many as fit into a share of the limit; a method that does not get
through its first epochs within the limit gets a note instead. Memory is what training takes at its highest above what
was there before the method was built: of torch's pool on a GPU, of the whole process on a CPU.
"""

import argparse
import csv
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median

import torch
from meters import Meter, ResidentPeak, TensorPeak, synchronize

from bandana.data.datasets import load
from bandana.data.features import preprocess
from bandana.data.splits import split_edges
from bandana.devices import resolve_device
from bandana.experiment import Experiment, Task, build
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.paper.cookbook import recipe
from bandana.registry import all_methods, get_method
from bandana.training.trainer import TrainingState, edge_batches, pretrain
from bandana.workers import Outcome, carry_out

SEED = 0
SMALLEST = "karate"
WARM_UP = {"cpu": 1, "cuda": 15}
"""Epochs before the clock counts: on a GPU kernels are compiled and steps recorded in them."""
COMPILING = 5
"""Epochs of the warm-up whose slowness says nothing about those to come."""
STRETCHES = 5
SHARE_OF_LIMIT = 0.3


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured for one method on one data set."""

    method: str
    dataset: str
    task: str
    device: str
    threads: int
    steps: int = 0
    epoch_ms: float = math.nan
    timed_epochs: int = 0
    peak_mb: float = math.nan
    note: str = ""


class EnoughError(Exception):
    """Ends a training that has been timed."""


class Pace:
    """Called after every epoch: warms up, then times stretches of epochs of equal length.

    Within a stretch nobody waits for the GPU, so that epochs follow each other as they do in a real training.
    """

    def __init__(self, device: torch.device, warm_up: int, most: int, seconds: float) -> None:
        self._device, self._most, self._seconds = device, most, seconds
        self._warm_up, self._length, self._begun = warm_up, 1, time.perf_counter()
        self._last = min(STRETCHES, most)
        self.warming: list[float] = []
        self.stretches: list[float] = []

    def __call__(self, state: TrainingState) -> None:
        if len(self.warming) < self._warm_up:
            self.warming.append(self._lap())
            left = max(self._warm_up - len(self.warming), 1)
            if len(self.warming) >= min(COMPILING, self._warm_up) and self.warming[-1] * left > self._seconds:
                raise EnoughError
            self._length = max(min(self._most, int(self._seconds / self.warming[-1])) // STRETCHES, 1)
        elif (state.epoch - self._warm_up) % self._length == 0:
            self.stretches.append(self._lap() / self._length)
            if len(self.stretches) == self._last or sum(self.stretches) * self._length > self._seconds:
                raise EnoughError

    @property
    def epoch_seconds(self) -> float:
        """Of the stretches; of the warm-up, where there was no time for more."""
        return median(self.stretches or self.warming)

    @property
    def timed_epochs(self) -> int:
        return len(self.stretches) * self._length or len(self.warming)

    def _lap(self) -> float:
        synchronize(self._device)
        begun, self._begun = self._begun, time.perf_counter()
        return self._begun - begun


def measure(method: str, dataset: str, device_name: str, threads: int, epochs: int, seconds: float) -> Row:
    """Train for a while."""
    torch.set_num_threads(threads)
    device = resolve_device(device_name)
    warm_up = WARM_UP[device.type]
    # What torch loads on first use is not this method's memory.
    train(*prepare(method, SMALLEST, device), epochs=1)
    experiment, graph = prepare(method, dataset, device)
    peak: Meter = TensorPeak(device) if device.type == "cuda" else ResidentPeak()
    peak.start()
    pace = Pace(device, warm_up, epochs, seconds)
    with suppress(EnoughError):
        train(experiment, graph, epochs=warm_up + epochs, on_epoch=pace)
    return Row(
        method=method,
        dataset=dataset,
        task=experiment.task,
        device=device.type,
        threads=threads,
        steps=len(list(edge_batches(graph, experiment.training.edge_batch_size, SEED, 1))),
        epoch_ms=pace.epoch_seconds * 1e3,
        timed_epochs=pace.timed_epochs,
        peak_mb=peak.stop(),
        note="" if pace.stretches else "first epochs only",
    )


def prepare(method: str, dataset: str, device: torch.device) -> tuple[Experiment, Graph]:
    """The recipe and the training graph of a method's first task."""
    experiment = recipe(method, dataset, task_of(method))
    graph = preprocess(load(dataset).graph, experiment.features).to(device)
    split = experiment.split
    return experiment, split_edges(graph, split.valid_edges, split.test_edges, seed=SEED).train


def train(
    experiment: Experiment, graph: Graph, *, epochs: int, on_epoch: Callable[[TrainingState], None] = lambda state: None
) -> None:
    """Some epochs through the trainer that users run."""
    method = build(experiment, GraphSpec.of(graph), SEED).to(graph.device)
    schedule = replace(experiment.training, epochs=epochs, evaluate_every=epochs)
    pretrain(method, graph, schedule, seed=SEED, on_epoch=on_epoch)


def task_of(method: str) -> Task:
    """Classification of nodes, or prediction of links for methods that only do that."""
    return "node" if "node" in get_method(method).facts.tasks else "link"


def row_of(outcome: Outcome) -> Row:
    """The row, or one that says why there is none."""
    if isinstance(outcome.result, Row):
        return outcome.result
    method, dataset, device, threads = outcome.arguments[:4]
    return Row(
        method=method, dataset=dataset, task=task_of(method), device=device, threads=threads, note=outcome.failure
    )


def trained_methods() -> list[str]:
    """All but the floors, which have nothing to train."""
    return [name for name, method in all_methods().items() if method.facts.family != "floor"]


HEADER = f"{'method':18}{'data set':11}{'task':6}{'steps':>6}{'epoch ms':>11}{'epochs':>8}{'peak MB':>9}  note"


def show(row: Row) -> None:
    """Print one line of the table."""
    print(
        f"{row.method:18}{row.dataset:11}{row.task:6}{row.steps:6d}{row.epoch_ms:11.2f}{row.timed_epochs:8d}"
        f"{row.peak_mb:9.0f}  {row.note}",
        flush=True,
    )


def table_writer(path: Path | None) -> Callable[[Row], None]:
    """Appends rows to a new file as they come; does nothing without one."""
    if path is None:
        return lambda row: None
    names = [field.name for field in fields(Row)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.DictWriter(file, names, lineterminator="\n").writeheader()

    def add(row: Row) -> None:
        with path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, names, lineterminator="\n").writerow(asdict(row))

    return add


def main() -> None:
    """Measure what is named on the command line, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", help="all that are trained, when not given")
    parser.add_argument("--datasets", nargs="+", default=["cora", "pubmed", "physics"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")
    parser.add_argument("--epochs", type=int, default=100, help="most epochs that are timed")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one method on one data set, all included")
    parser.add_argument("--csv", type=Path, help="write the table to this file, line by line")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {options.device}, {options.threads} threads, {os.cpu_count()} cores")
    print(HEADER)
    add, methods = table_writer(options.csv), options.methods or trained_methods()
    settings = (options.device, options.threads, options.epochs, SHARE_OF_LIMIT * options.limit)
    pieces = [(method, dataset, *settings) for dataset in options.datasets for method in methods]
    for outcome in carry_out(measure, pieces, limit=options.limit):
        row = row_of(outcome)
        add(row)
        show(row)


if __name__ == "__main__":
    main()
