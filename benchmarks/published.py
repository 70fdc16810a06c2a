"""Every method on the seven real data sets, both tasks, beside the published figures.

    python benchmarks/published.py --data-root PATH --out results --seeds 3 --jobs 12
    python benchmarks/published.py --data-root PATH --out results --methods gae vgae --datasets cora --tasks link

Every (method, data set, task, seed) is a new split, a new initialisation and a new pre-training by the method's recipe.
Small graphs leave a GPU nearly idle, so several processes share it. Cheap runs come first, and no method gets a second
seed before all have had their first. Rows are written as runs finish, failed ones with the reason; a second call
repeats none of them, and with `--checkpoints` goes on with those that were cut off. In the end `compare.py` sets means
beside the published ones.

Node classification needs one training for both protocols, since they differ only in the epochs at which a probe is
scored. Link prediction is trained once, with weights chosen on logits, and scored with and without the float32 sigmoid;
Bandana is trained a second time with weights chosen after the sigmoid.
"""

import argparse
import csv
import gc
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch
from compare import read, write
from figures import DATASETS, METRICS, PROTOCOLS

from bandana.config import parse_assignment, to_table
from bandana.data.datasets import find_dataset, load
from bandana.devices import resolve_device, shared_gpu
from bandana.evaluation.linear_probe import as_published
from bandana.experiment import SeedResult, Task, run_seed
from bandana.files import write_text
from bandana.paper.cookbook import recipe
from bandana.paper.pieces import digest_of
from bandana.registry import all_methods, get_method
from bandana.training.trainer import TrainingState
from bandana.workers import carry_out

WITH_FLOORS = "bandana"
"""The method that is trained under both protocols, and whose floors are recorded."""
ALL_PAIRS = {"gca", "grace", "seegera", "sig_vae"}
"""Methods that look at all pairs of nodes in every step; known here only to put them later."""
PAIRS_PER_EDGE = 50
"""Pairs of nodes that cost about as much as one edge."""
PROBE_EPOCHS_PER_EPOCH = 10
"""Epochs of a probe that cost about as much as one of training."""
FIELDS = [
    *("method", "dataset", "task", "protocol", "seed", "micro_f1", "macro_f1", "auc", "ap", "auc_sigmoid32"),
    *("ap_sigmoid32", "tied_share", "decoder_auc", "mask_ratio", "best_epoch", "epochs", "seconds"),
    *("pretrain_seconds", "peak_gpu_mb", "precision", "config", "failed"),
]


class Run(NamedTuple):
    """One training."""

    method: str
    dataset: str
    task: Task
    protocol: str
    seed: int


def train(
    run: Run, root: str | None, changes: Mapping[str, Any], checkpoints: Path | None = None
) -> list[dict[str, Any]]:
    """The rows of one run; for nodes, the same embedding is judged under both protocols.

    With a folder for `checkpoints`, a run that was cut off before goes on from where it was.
    """
    experiment = recipe(run.method, run.dataset, run.task, {"protocol": run.protocol, **changes})
    data, device = load(run.dataset, root), resolve_device("auto")
    config = {"config": digest_of(to_table(experiment)), "precision": experiment.training.precision}
    name = "-".join([*map(str, run), *config.values()])
    checkpoint = None if checkpoints is None else checkpoints / f"{name}.safetensors"

    def after_epoch(state: TrainingState) -> None:
        if state.epoch == 1:  # the floors, which came before, are none of the method's memory
            _reset_peak(device)

    _reset_peak(device)
    started = time.perf_counter()
    floors = run.method == WITH_FLOORS
    result = run_seed(experiment, data, run.seed, device, floors=floors, checkpoint=checkpoint, on_epoch=after_epoch)
    cost = {
        "seconds": time.perf_counter() - started,
        "peak_gpu_mb": torch.cuda.max_memory_allocated(device) / 1e6 if device.type == "cuda" else "",
    }
    rows = [{**run._asdict(), **_facts(result), **cost, **config, **result.record.metrics}]
    if run.method == WITH_FLOORS:
        rows += [{**run._asdict(), "method": name, **scores} for name, scores in result.record.floors.items()]
    if run.task == "node":
        rows.append({**rows[0], **as_published(result.record.metrics), "protocol": "paper"})
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return rows


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _facts(result: SeedResult) -> dict[str, Any]:
    record = result.record
    return {
        "mask_ratio": record.history[-1].get("mask_ratio", "") if record.history else "",
        "best_epoch": record.best_epoch,
        "epochs": record.epochs,
        "pretrain_seconds": record.seconds["pretrain"],
    }


def train_apart(*arguments: Any) -> list[dict[str, Any]]:
    """`train` in a process that does nothing else, and that leaves the GPU to the others afterwards."""
    torch.set_num_threads(1)
    rows = train(*arguments)
    gc.collect()
    torch.cuda.empty_cache()
    return rows


def runs_of(
    methods: Iterable[str],
    datasets: Sequence[str],
    tasks: Sequence[Task],
    protocols: Sequence[str],
    seeds: Iterable[int],
) -> list[Run]:
    """Everything that can be asked for, in the order in which it is begun."""
    runs = [
        Run(method, dataset, task, protocol, seed)
        for seed in seeds
        for method in methods
        for task in tasks
        if task in get_method(method).facts.tasks
        for protocol in (protocols if task == "link" and method == WITH_FLOORS else ["clean"])
        for dataset in datasets
    ]
    return sorted(runs, key=lambda run: (run.seed, expected_work(run)))


def expected_work(run: Run) -> float:
    """Epochs times edges, or times pairs of nodes: rough, but enough to begin with the cheap runs."""
    info, experiment = find_dataset(run.dataset), recipe(run.method, run.dataset, run.task)
    linear = info.nodes + (info.edges or 0)
    step = info.nodes**2 / PAIRS_PER_EDGE if run.method in ALL_PAIRS else linear
    probe = linear * experiment.probe.epochs / PROBE_EPOCHS_PER_EPOCH if run.task == "node" else 0
    return step * experiment.training.epochs + probe


def missing(runs: Iterable[Run], rows: Iterable[Mapping[str, str]], *, retry_failed: bool = False) -> list[Run]:
    """The runs that have no row yet, or none but failures."""
    done = {
        (row["method"], row["dataset"], row["task"], row["protocol"], int(row["seed"]))
        for row in rows
        if not (retry_failed and row.get("failed"))
    }
    return [run for run in runs if run not in done]


def table_of(rows: Iterable[Mapping[str, Any]], *, header: bool = True) -> str:
    """Rows as lines of the file."""
    text = StringIO()
    writer = csv.DictWriter(text, FIELDS, extrasaction="ignore", restval="", lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def train_all(runs: Sequence[Run], file: TextIO, options: argparse.Namespace) -> None:
    """Carry out the runs and write their rows as they come."""
    changes = dict(map(parse_assignment, options.changes))
    pieces = [(run, options.data_root, changes, options.checkpoints) for run in runs]
    with shared_gpu(resolve_device("auto"), options.jobs):
        outcomes = carry_out(train_apart, pieces, jobs=options.jobs, budget=options.budget_seconds)
        for count, outcome in enumerate(outcomes, 1):
            run = outcome.arguments[0]
            rows = outcome.result or [{**run._asdict(), "failed": outcome.failure}]
            file.write(table_of(rows, header=False))
            file.flush()
            print(f"{count}/{len(runs)} {' '.join(map(str, run))}: {outcome.failure or _shown(rows[0])}", flush=True)


def _shown(row: Mapping[str, Any]) -> str:
    scores = " ".join(f"{name}={100 * row[name]:.2f}" for name in METRICS[row["task"]][:2])
    return f"{scores}, {row['epochs']} epochs, {row['seconds']:.0f} s"


def main() -> None:
    """Run what is missing, then compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="methods", help="how the files in --out begin")
    parser.add_argument("--methods", nargs="+", help="all when not given")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--tasks", nargs="+", default=tuple(METRICS), choices=tuple(METRICS))
    parser.add_argument("--protocols", nargs="+", default=PROTOCOLS, choices=PROTOCOLS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget-seconds", type=float, default=float("inf"), help="begin no run after this time")
    parser.add_argument("--checkpoints", type=Path, help="folder from which runs that were cut off go on")
    parser.add_argument("--retry-failed", action="store_true", help="repeat runs that failed before")
    parser.add_argument(
        "--set", nargs="*", action="extend", default=[], dest="changes", help="option=value on top of the recipes"
    )
    options = parser.parse_args()
    for folder in (options.out, options.checkpoints):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.name}-seeds.csv"
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    wanted = runs_of(options.methods or all_methods(), options.datasets, options.tasks, options.protocols, seeds)
    rows = read(path)
    write_text(path, table_of(rows))  # an older file may have other columns
    with path.open("a", newline="", encoding="utf-8") as file:
        train_all(missing(wanted, rows, retry_failed=options.retry_failed), file, options)
    write(read(path), options.out, options.name)
    print((options.out / f"{options.name}.md").absolute())


if __name__ == "__main__":
    main()
