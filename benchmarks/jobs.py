"""Seeds per second of `bandana run --jobs`: several at a time against one after the other.

    python benchmarks/jobs.py cora --jobs 16 --csv jobs.csv

Processes start once for all settings, as they do for a sweep. The first round of seeds of each setting shows what it
costs to get there (imports and the GPU's context where it is the very first, kernels). Then a round is timed, and one
with some more seeds for every process: the difference is what a seed costs when all processes are under way. Early
stopping gives every seed another number of epochs, so the throughput that is compared is that of epochs.
"""

import argparse
import csv
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import torch

from bandana.devices import resolve_device
from bandana.experiment import Experiment, run, run_apart
from bandana.paper.cookbook import recipe
from bandana.seeds import side_by_side
from bandana.training.trainer import OnEpoch


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured with so many seeds at a time; times are seconds."""

    dataset: str
    task: str
    precision: str
    jobs: int
    first_round: float
    per_seed: float
    per_epoch: float


class Timed(NamedTuple):
    """What a round of seeds took, and how many epochs it had."""

    seconds: float
    epochs: int


def measure(experiments: Sequence[Experiment], jobs: int, rounds: int) -> Iterator[Row]:
    """For each experiment: a first round of seeds, another one, and that one with `rounds` more."""
    device = resolve_device("auto")
    with side_by_side(device, jobs) if jobs > 1 else nullcontext() as carry_out:

        def timed(experiment: Experiment, count: int) -> Timed:
            started = time.perf_counter()
            if carry_out is None:
                records = run(experiment, seeds=range(count)).seeds
            else:
                records = carry_out(
                    run_apart, [(seed, experiment, device, None, None) for seed in range(count)], _ignore
                )
            return Timed(time.perf_counter() - started, sum(record.epochs for record in records))

        for experiment in experiments:
            first, once, more = (timed(experiment, jobs * count) for count in (1, 1, 1 + rounds))
            spent = more.seconds - once.seconds
            yield Row(
                dataset=experiment.dataset,
                task=experiment.task,
                precision=experiment.training.precision,
                jobs=jobs,
                first_round=first.seconds,
                per_seed=spent / (jobs * rounds),
                per_epoch=spent / (more.epochs - once.epochs),
            )


def _ignore(seed: int) -> OnEpoch:
    return lambda state: None


def main() -> None:
    """Measure what is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--jobs", nargs="+", type=int, default=[8])
    parser.add_argument("--tasks", nargs="+", default=["node", "link"])
    parser.add_argument("--rounds", type=int, default=4, help="further seeds for every process")
    parser.add_argument("--precisions", nargs="+", default=["float32"])
    parser.add_argument("--csv", type=Path, help="append rows to this file")
    options = parser.parse_args()
    experiments = [
        recipe("bandana", dataset, task, {"training.precision": precision})
        for dataset in options.datasets
        for task in options.tasks
        for precision in options.precisions
    ]
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if torch.cuda.is_available() else 'CPU'}")
    print("data set   task  precision  jobs  first round s  seed ms  epoch ms  throughput")
    alone: list[float] = []
    for jobs in [1, *options.jobs]:
        # One after the other a round is one seed, so it takes several to be measured.
        for place, row in enumerate(measure(experiments, jobs, options.rounds * (2 if jobs == 1 else 1))):
            if jobs == 1:
                alone.append(row.per_epoch)
            print(
                f"{row.dataset:11}{row.task:6}{row.precision:11}{jobs:4d}{row.first_round:15.2f}"
                f"{1e3 * row.per_seed:9.0f}{1e3 * row.per_epoch:10.3f}{alone[place] / row.per_epoch:12.2f}",
                flush=True,
            )
            if options.csv is not None:
                _append(options.csv, [row])


def _append(path: Path, rows: list[Row]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(map(asdict, rows))


if __name__ == "__main__":
    main()
