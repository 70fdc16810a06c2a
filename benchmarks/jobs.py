"""Seeds per second of `bandana run --jobs`: several at a time against one after the other.

    python benchmarks/jobs.py cora --jobs 16 --csv jobs.csv

Each setting is run twice through `bandana.experiment.run`, once with a seed for every process and once with some more:
the difference is what a seed costs when all processes are under way, and the first run shows what it costs to get there
(imports, the GPU's context, kernels).
"""

import argparse
import csv
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from bandana.experiment import Experiment, Task, run
from bandana.paper.cookbook import recipe


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured with so many seeds at a time; times are seconds."""

    dataset: str
    task: str
    precision: str
    jobs: int
    first_round: float
    per_seed: float


def measure(experiment: Experiment, jobs: int, rounds: int) -> Row:
    """Time one round of seeds, then that round and `rounds` more."""
    once, more = (_seconds(experiment, jobs, jobs * count) for count in (1, 1 + rounds))
    return Row(
        dataset=experiment.dataset,
        task=experiment.task,
        precision=experiment.training.precision,
        jobs=jobs,
        first_round=once,
        per_seed=(more - once) / (jobs * rounds),
    )


def _seconds(experiment: Experiment, jobs: int, seeds: int) -> float:
    started = time.perf_counter()
    run(experiment, seeds=range(seeds), jobs=jobs)
    return time.perf_counter() - started


def main() -> None:
    """Measure what is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--jobs", nargs="+", type=int, default=[8])
    parser.add_argument("--tasks", nargs="+", default=["node", "link"])
    parser.add_argument("--rounds", type=int, default=4, help="further seeds for every process")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--csv", type=Path, help="append rows to this file")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if torch.cuda.is_available() else 'CPU'}")
    print("data set   task  precision  jobs  first round s  seed ms  throughput")
    for dataset in options.datasets:
        for task in options.tasks:
            rows = _measure_all(dataset, task, options)
            if options.csv is not None:
                _append(options.csv, rows)


def _measure_all(dataset: str, task: Task, options: argparse.Namespace) -> list[Row]:
    experiment = recipe("bandana", dataset, task, {"training.precision": options.precision})
    run(experiment, seeds=[0])  # what is compiled and cached on first use is nobody's
    rows: list[Row] = []
    for jobs in [1, *options.jobs]:
        # One after the other a round is one seed, so it takes several to be measured.
        row = measure(experiment, jobs, options.rounds * (2 if jobs == 1 else 1))
        rows.append(row)
        ratio = rows[0].per_seed / row.per_seed
        print(
            f"{dataset:11}{task:6}{row.precision:11}{jobs:4d}{row.first_round:15.2f}{1e3 * row.per_seed:9.0f}"
            f"{ratio:12.2f}",
            flush=True,
        )
    return rows


def _append(path: Path, rows: list[Row]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(map(asdict, rows))


if __name__ == "__main__":
    main()
