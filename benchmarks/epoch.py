"""One training epoch of ours against the plain reference: time and memory, measured in turns in one process.

    python benchmarks/epoch.py                         # Cora, PubMed, Photo and CS with the paper's node recipes
    python benchmarks/epoch.py photo --repeats 5 --csv photo.csv
    python benchmarks/epoch.py --threads 1 --cpu-time  # on a machine that others use too
    python benchmarks/epoch.py photo --profile         # where our time goes
    python benchmarks/epoch.py cora --precision bf16   # ours with faster products; the reference stays in float32

Ours is `bandana.training.trainer.pretrain` itself, and the reference trains one epoch after each of its epochs, so a
busy machine slows down both. README.md says how to read the numbers.
"""

import argparse
import csv
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import NamedTuple, get_args

import torch
from meters import Meter, ResidentPeak, Stopwatch, TensorPeak
from reference import ReferenceTraining
from torch.profiler import profile

from bandana.data.datasets import load
from bandana.data.splits import split_edges
from bandana.devices import resolve_device
from bandana.experiment import Task, build
from bandana.graph import Graph
from bandana.method import GraphSpec, Method
from bandana.paper.cookbook import recipe
from bandana.training.trainer import Precision, TrainingConfig, TrainingState, edge_batches, pretrain

SEED = 0
WARM_UP = 1
MEMORY_EPOCHS = 1
TOP_OPERATIONS = 12


class Race(NamedTuple):
    """Two trainings of the same recipe on the same graph."""

    graph: Graph
    training: TrainingConfig
    method: Method
    reference: ReferenceTraining


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured on one data set. Times are milliseconds of an epoch; memory is megabytes above the start."""

    dataset: str
    task: str
    device: str
    precision: str
    threads: int
    steps: int
    ours_ms: float
    reference_ms: float
    ratio: float
    ours_fastest_ms: float
    reference_fastest_ms: float
    fastest_ratio: float
    ours_resident_mb: float
    reference_resident_mb: float
    ours_tensors_mb: float
    reference_tensors_mb: float
    load: float
    matrix_gflops: float


def prepare(dataset: str, task: Task, device: torch.device, precision: Precision) -> Race:
    """Load and split the data and build both sides from the recipe; the precision is that of our products."""
    experiment = recipe("bandana", dataset, task)
    graph = split_edges(
        load(dataset).graph.to(device), experiment.split.valid_edges, experiment.split.test_edges, seed=SEED
    ).train
    torch.manual_seed(SEED)
    reference = ReferenceTraining(graph, experiment.model, experiment.training)
    method = build(experiment, GraphSpec.of(graph), SEED).to(device)
    return Race(graph, replace(experiment.training, precision=precision), method, reference)


def train(race: Race, epochs: int, on_epoch: Callable[[TrainingState], None]) -> None:
    """Our epochs, through the trainer that users run."""
    pretrain(race.method, race.graph, replace(race.training, epochs=epochs), seed=SEED, on_epoch=on_epoch)


def alternate(race: Race, meter: Meter, epochs: int) -> tuple[list[float], list[float]]:
    """Measure epochs of ours and of the reference in turns."""
    ours: list[float] = []
    theirs: list[float] = []

    def after_ours(state: TrainingState) -> None:
        ours.append(meter.stop())
        meter.start()
        race.reference()
        theirs.append(meter.stop())
        meter.start()

    meter.start()
    train(race, WARM_UP + epochs, after_ours)
    meter.stop()
    return ours[WARM_UP:], theirs[WARM_UP:]


def matrix_rate(device: torch.device, clock: Callable[[], float]) -> float:
    """Billions of operations per second in products as large as a decoder's: what the machine gives us just now."""
    rows, width, repeats = 2048, 256, 50
    a, b = torch.randn(rows, width, device=device), torch.randn(width, width, device=device)
    spent, watch = [], Stopwatch(device, clock)
    for _ in range(repeats):
        watch.start()
        torch.mm(a, b)
        spent.append(watch.stop())
    return 2 * rows * width**2 / median(spent) / 1e9


def measure(race: Race, dataset: str, task: Task, repeats: int, clock: Callable[[], float]) -> Row:
    """One row of the table."""
    device = race.graph.device
    before = matrix_rate(device, clock)
    ours, theirs = alternate(race, Stopwatch(device, clock), repeats)
    after = matrix_rate(device, clock)
    load_average = os.getloadavg()[0]
    resident = [max(values) for values in alternate(race, ResidentPeak(), MEMORY_EPOCHS)]
    tensors = [max(values) for values in alternate(race, TensorPeak(device), MEMORY_EPOCHS)]
    return Row(
        dataset=dataset,
        task=task,
        device=device.type,
        precision=race.training.precision,
        threads=torch.get_num_threads(),
        steps=len(list(edge_batches(race.graph, race.training.edge_batch_size, SEED, 1))),
        ours_ms=median(ours) * 1e3,
        reference_ms=median(theirs) * 1e3,
        ratio=median(theirs) / median(ours),
        ours_fastest_ms=min(ours) * 1e3,
        reference_fastest_ms=min(theirs) * 1e3,
        fastest_ratio=min(theirs) / min(ours),
        ours_resident_mb=resident[0],
        reference_resident_mb=resident[1],
        ours_tensors_mb=tensors[0],
        reference_tensors_mb=tensors[1],
        load=load_average,
        matrix_gflops=(before + after) / 2,
    )


def show_profile(race: Race, dataset: str) -> None:
    """Print the operations in which one of our epochs spends its own time."""
    recording, on_cpu = profile(), race.graph.device.type == "cpu"

    def after_epoch(state: TrainingState) -> None:
        if state.epoch == WARM_UP:
            recording.start()
        else:
            recording.stop()

    train(race, WARM_UP + 1, after_epoch)

    def own_time(event: torch.autograd.profiler_util.FunctionEventAvg) -> float:
        return event.self_cpu_time_total if on_cpu else event.self_device_time_total

    events = sorted(recording.key_averages(), key=own_time, reverse=True)
    total = sum(map(own_time, events))
    print(f"\n{dataset}: {total / 1e3:.1f} ms in one epoch of ours, of which")
    for event in events[:TOP_OPERATIONS]:
        print(f"  {own_time(event) / total:6.1%} {own_time(event) / 1e3:9.1f} ms {event.count:7d} × {event.key}")


def write(row: Row) -> None:
    """Print one line of the table."""
    print(
        f"{row.dataset:11}{row.steps:5d}{row.ours_ms:9.0f}{row.reference_ms:11.0f}{row.ratio:7.2f}"
        f"{row.ours_fastest_ms:9.0f}{row.reference_fastest_ms:11.0f}{row.fastest_ratio:7.2f}"
        f"{row.ours_resident_mb:10.0f}{row.reference_resident_mb:11.0f}"
        f"{row.ours_tensors_mb:9.0f}{row.reference_tensors_mb:11.0f}{row.load:7.2f}{row.matrix_gflops:9.0f}",
        flush=True,
    )


HEADER = (
    f"{'':16}{'median ms':^27}{'fastest ms':^27}{'resident peak MB':^21}{'tensor peak MB':^20}\n"
    f"{'data set':11}{'steps':>5}{'ours':>9}{'reference':>11}{'ratio':>7}{'ours':>9}{'reference':>11}{'ratio':>7}"
    f"{'ours':>10}{'reference':>11}{'ours':>9}{'reference':>11}{'load':>7}{'GFLOP/s':>9}"
)


def main() -> None:
    """Measure the data sets named on the command line."""
    parser = argparse.ArgumentParser(description="Time one training epoch against a plain PyTorch and PyG version.")
    parser.add_argument("datasets", nargs="*", default=["cora", "pubmed", "photo", "cs"])
    parser.add_argument("--task", choices=get_args(Task), default="node")
    parser.add_argument("--repeats", type=int, default=9, help="epochs of each side whose median is taken")
    parser.add_argument("--threads", type=int, help="CPU threads; torch decides when not given")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=get_args(Precision), default="float32", help="of our products")
    parser.add_argument("--cpu-time", action="store_true", help="time the process, not the wall; best with --threads 1")
    parser.add_argument("--profile", action="store_true", help="print where our time goes instead")
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    device = resolve_device(args.device)
    machine = f"{device.type}, {torch.get_num_threads()} threads, {os.cpu_count()} cores"
    print(f"torch {torch.__version__}, {machine}, ours in {args.precision}")
    if args.profile:
        for dataset in args.datasets:
            show_profile(prepare(dataset, args.task, device, args.precision), dataset)
        return
    clock = time.process_time if args.cpu_time else time.perf_counter
    print(HEADER)
    rows = []
    for dataset in args.datasets:
        race = prepare(dataset, args.task, device, args.precision)
        rows.append(measure(race, dataset, args.task, args.repeats, clock))
        write(rows[-1])
    if any(math.isnan(row.ours_resident_mb) for row in rows):
        print("Resident peaks need Linux and the right to write /proc/self/clear_refs: not available here.")
    if args.csv:
        with args.csv.open("w", newline="") as file:
            table = csv.DictWriter(file, [field.name for field in fields(Row)])
            table.writeheader()
            table.writerows(asdict(row) for row in rows)


if __name__ == "__main__":
    main()
