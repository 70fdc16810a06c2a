"""Hold recipes of one cell against each other on validation data of seeds that chose none of them.

    python benchmarks/recipes.py citeseer --task link --csv held.csv --recipes tuned found/recipe.toml,training.lr=0.01

A search compares its own trials, so whether its winner is better than the recipe in the book is asked here. A recipe is
written as `--recipe` takes it (`tuned`, or a file), and can be changed by options after commas. All get the same seeds.
Test data is never looked at.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev

import torch

from bandana.config import parse_assignment
from bandana.devices import resolve_device, shared_gpu
from bandana.errors import UserError
from bandana.experiment import Experiment, Task
from bandana.paper.cookbook import recipe
from bandana.seeds import load_once
from bandana.tuning.validation import validation_score_of
from bandana.workers import carry_out

COLUMNS = ("recipe", "seed", "score")


def experiment_of(dataset: str, task: Task, written: str) -> Experiment:
    """A recipe such as ``tuned,training.lr=0.01``."""
    book, *changes = written.split(",")
    return recipe("bandana", dataset, task, dict(map(parse_assignment, changes)), book=book)


def score(written: str, seed: int, experiment: Experiment, device: torch.device, data_root: Path | None) -> float:
    """What validation data says of one training."""
    torch.set_num_threads(1)  # others compute beside it
    return validation_score_of(seed, experiment, load_once(experiment.dataset, data_root), device)


def main() -> None:
    """Score every recipe with every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--task", choices=("node", "link"), default="node")
    parser.add_argument("--recipes", nargs="+", required=True)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="auto")
    try:
        run(parser.parse_args())
    except UserError as problem:
        parser.exit(2, f"{problem}\n")


def run(options: argparse.Namespace) -> None:
    """Score every recipe with every seed, seed by seed, and say which is best."""
    device = resolve_device(options.device)
    experiments = {written: experiment_of(options.dataset, options.task, written) for written in options.recipes}
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    pieces = [
        (written, seed, experiments[written], device, options.data_root) for seed in seeds for written in experiments
    ]
    scores: dict[str, list[float]] = defaultdict(list)
    with shared_gpu(device, options.jobs), options.csv.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for outcome in carry_out(score, pieces, jobs=options.jobs):
            written, seed = outcome.arguments[:2]
            print(written, seed, outcome.failure or f"{outcome.result:.4f}", flush=True)
            if not outcome.failure:
                writer.writerow([written, seed, outcome.result])
                file.flush()
                scores[written].append(outcome.result)
    for written, found in sorted(scores.items(), key=lambda item: -fmean(item[1])):
        spread = f"{100 * stdev(found):.2f}" if len(found) > 1 else "–"
        print(f"{100 * fmean(found):.2f} ± {spread} ({len(found)} seed{'s' if len(found) > 1 else ''}) {written}")


if __name__ == "__main__":
    main()
