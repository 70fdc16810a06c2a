"""Search settings for every small-data cell of the paper, on validation data only, and put the winners into one book.

    python benchmarks/tune_all.py --data-root PATH --out tuned --jobs 14 --budget-seconds 500
    python benchmarks/tune_all.py --data-root PATH --out tuned --datasets cora --tasks link --trials 20 --device cpu

Every cell (data set and task) is one search by `bandana.tuning`, in its own process: small graphs leave a GPU nearly
idle, so several processes share it. The budget is the time of the whole call; each cell gets an equal share of it and
finishes the trial in which it ends. A cell that lingers longer than the grace is given up, without the trial in flight.
A second call goes on where the first ended: give it a larger budget, as the time of earlier calls counts.

Writes one folder per cell, `summary.csv`, and `METHOD-tuned.toml`, which belongs into `src/bandana/paper/recipes`.
"""

import argparse
import csv
import gc
import os
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from figures import DATASETS, METRICS

from bandana.files import write_text
from bandana.paper.cookbook import recipe
from bandana.tuning.folder import RECIPE, SEARCH, merged, read_trials
from bandana.tuning.space import default_space
from bandana.tuning.trials import Trial, best_of
from bandana.tuning.tune import FIRST_SEED, Search, tune
from bandana.workers import carry_out

HEADER = """\
# Settings found by `bandana tune` on validation data, as the sources say. Cells come on top of the method's own book.

"""
LARGEST_FIRST = tuple(reversed(DATASETS))


def search_cell(
    method: str, dataset: str, task: Any, folder: Path, seeds: int, trials: int, seconds: float, device: str, root: str
) -> tuple[int, float | None]:
    """Search one cell; return the number of trials and the best score."""
    torch.set_num_threads(1)

    def tidy(made: Sequence[Trial]) -> None:
        gc.collect()
        torch.cuda.empty_cache()  # wide trials would otherwise keep memory that the other processes need

    search = Search(
        experiment=recipe(method, dataset, task),
        space=default_space(method, task),
        seeds=range(FIRST_SEED, FIRST_SEED + seeds),
    )
    tuned = tune(
        search,
        folder,
        trials=trials,
        seconds=seconds,
        jobs=seeds,
        device=device,
        data_root=Path(root),
        on_trial=tidy,
    )
    return len(tuned.trials), tuned.best.score


def summary(folders: Sequence[Path]) -> str:
    """One row per cell: how many trials, what the recipe scored on validation data, and what the best trial did."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cell", "trials", "failed", "best_trial", "recipe_score", "best_score", "seconds"])
    for folder in folders:
        trials = read_trials(folder / SEARCH)
        best, failed = best_of(trials), sum(bool(trial.failure) for trial in trials)
        seconds = sum(trial.seconds for trial in trials)
        scores = (f"{trial.score:.4f}" for trial in (trials[0], best))
        writer.writerow([folder.name, len(trials), failed, best.number, *scores, f"{seconds:.0f}"])
    return text.getvalue()


def main() -> None:
    """Search all cells side by side, then write the summary and the book."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--method", default="bandana")
    parser.add_argument("--datasets", nargs="+", default=LARGEST_FIRST)
    parser.add_argument("--tasks", nargs="+", default=tuple(METRICS), choices=tuple(METRICS))
    parser.add_argument("--seeds", type=int, default=2, help="pre-trainings per trial")
    parser.add_argument("--trials", type=int, default=1000, help="per cell; usually the budget ends a search first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--budget-seconds", type=float, default=500.0)
    parser.add_argument("--grace-seconds", type=float, default=60.0)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    cells = {(name, task): options.out / f"{name}-{task}" for name in options.datasets for task in options.tasks}
    share = options.budget_seconds * min(options.jobs, len(cells)) / len(cells)
    pieces = [
        (options.method, *cell, folder, options.seeds, options.trials, share, options.device, options.data_root)
        for cell, folder in cells.items()
    ]
    for outcome in carry_out(search_cell, pieces, jobs=options.jobs, limit=share + options.grace_seconds):
        _, dataset, task, *_ = outcome.arguments
        print(f"{dataset} {task}: {outcome.failure or '{} trials, best {:.4f}'.format(*outcome.result)}", flush=True)
    done = sorted(folder for folder in cells.values() if (folder / SEARCH).exists())
    write_text(options.out / "summary.csv", summary(done))
    write_text(options.out / f"{options.method}-tuned.toml", HEADER + merged(folder / RECIPE for folder in done))
    print(options.out / "summary.csv")


if __name__ == "__main__":
    main()
