"""Search settings for every small-data cell of the paper, on validation data only, and put the winners into one book.

    python benchmarks/tune_all.py --data-root PATH --out tuned --jobs 15 --set training.precision=tf32
    python benchmarks/tune_all.py --data-root PATH --out tuned --cells cora-node cora-link=2 --budget-seconds 60

Every cell (data set and task) is one search of `bandana.tuning.race`: small graphs leave a GPU nearly idle, so many
processes share it, and a free one works for the cell that is furthest behind its share of the budget. `NAME=NUMBER`
gives a cell another share than 1. In the last part of the budget the best trials of each cell are repeated with fresh
seeds, which choose the winner. All trials are kept as they end, and the same call goes on with what is there.

No link is held out from learning to classify nodes: there the number of epochs is searched, where the paper stops by
held-out links. Which nodes validate does not depend on it.

Writes one folder per cell, `summary.csv`, and `METHOD-tuned.toml`, which belongs into `src/bandana/paper/recipes`.
"""

import argparse
import csv
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from statistics import fmean
from typing import Any

from figures import DATASETS, METRICS

from bandana.config import parse_assignment
from bandana.devices import resolve_device
from bandana.errors import UserError
from bandana.files import write_text
from bandana.paper.cookbook import recipe
from bandana.tuning.folder import RECIPE, SEARCH, SearchFolder, merged, read_trials
from bandana.tuning.race import Rules, Runner, race
from bandana.tuning.space import OneOf, Space, space_for, without
from bandana.tuning.trials import Trial, winner_of
from bandana.tuning.tune import FIRST_SEED, Search
from bandana.tuning.validation import LENGTH

HEADER = """\
# Settings found by `benchmarks/tune_all.py` on validation data, as the sources say. Cells come on top of the method's
# own book.

"""
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "node": {"split.valid_edges": 0.0, "split.test_edges": 0.0, "monitor": "none"},
    "link": {"training.epochs": 1000, "training.schedule": "constant", "training.patience_evaluations": 15},
}
"""Set for all cells of a task. A search has no time for 300 epochs of patience, as the released settings have it."""
PLAIN = {"readout.smoothing": 0, "readout.skip": 0.0, "readout.skip_smoothing": 0, "probe.normalize": False}
SETTLED: Mapping[str, Mapping[str, Any]] = {
    "photo-node": PLAIN,
    "computers-node": PLAIN,
    "citeseer-link": {"features": "row_normalised", "model.readout": "concat", "model.target": "aligned"},
}
"""Where earlier searches found nothing in an option, and trying it again would take longer than to train."""
MORE: Mapping[str, Space] = {"node": {"copies": OneOf((1, 2, 4))}, "citeseer-link": {"copies": OneOf((1, 2, 3))}}
"""What is searched besides, in a task or a cell; the spaces of the package leave out what makes a trial much longer."""
SEEDS = {"photo": 1, "computers": 1, "cs": 1, "physics": 1}
"""Pre-trainings per trial, where not two: these have thousands of validation nodes or links, and take longer."""
SHARE = re.compile(r"(?=.*[1-9])\d+(\.\d+)?")
"""A positive number."""
LIMITS: Mapping[str, Mapping[str, float]] = {
    "cora": {LENGTH: 200},
    "citeseer": {LENGTH: 200},
    "pubmed": {"model.encoder.width": 512, LENGTH: 100},
    "photo": {"model.encoder.width": 512},
    "cs": {"model.encoder.width": 512},
    "computers": {"model.encoder.width": 512, "model.negatives_per_edge": 2.0, LENGTH: 200},
    "physics": {"model.encoder.width": 512, "model.negatives_per_edge": 2.0, LENGTH: 200},
}
"""Choices of the space that would take too long."""
TWO_LAYERS = {
    "model.encoder.num_layers": 2,
    "model.mask.distribution": "bernoulli",
    "model.target": "constant",
    "training.lr": 0.01,
    "training.weight_decay": 5e-5,
}
NEVER_DROPPED = {**TWO_LAYERS, "model.decoder_dropout": 0.0}
FAST_NEVER_DROPPED = {**NEVER_DROPPED, "training.lr": 0.02}
FIVE_LAYERS = {
    **NEVER_DROPPED,
    "model.encoder.num_layers": 5,
    "model.negatives_per_edge": 2.0,
    "copies": 4,
}
OFTEN_DROPPED = {"model.decoder_dropout": 0.6, "model.negatives_per_edge": 4.0}
WITH_FEATURES = {"readout.skip": 1.0, "readout.skip_smoothing": 2}
CITESEER_LINK = {
    "model.mask.temperature": 0.4,
    "training.lr": 0.02,
    "model.encoder.dropout": 0.8,
    "model.decoder_dropout": 0.58,
    "training.weight_decay": 1e-6,
    "model.encoder.num_layers": 3,
    "model.encoder.width": 128,
    "model.negatives_per_edge": 1.0,
    "model.decoder_width": 64,
    "copies": 1,
}
"""What an earlier search found, without the features beside it and but for its weight decay, which was 0."""
CITESEER_LINK_WIDER = {**CITESEER_LINK, "model.encoder.width": 256}
ALSO: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "node": [{"model.decoder_dropout": 0.6}, {"model.target": "constant"}, TWO_LAYERS],
    "link": [{"model.decoder_dropout": 0.8}, OFTEN_DROPPED],
    "cora-node": [
        FIVE_LAYERS,
        NEVER_DROPPED,
        {**NEVER_DROPPED, "copies": 2},
        {**NEVER_DROPPED, "model.encoder.width": 512},
        {**NEVER_DROPPED, "model.encoder.num_layers": 3},
        {**NEVER_DROPPED, "model.negatives_per_edge": 4.0},
    ],
    "citeseer-node": [
        FIVE_LAYERS,
        {**FAST_NEVER_DROPPED, "model.encoder.width": 1024},
        {**FAST_NEVER_DROPPED, "copies": 4},
        {**FAST_NEVER_DROPPED, "model.negatives_per_edge": 4.0},
    ],
    "pubmed-node": [
        {**FIVE_LAYERS, "copies": 2},
        {**TWO_LAYERS, "model.encoder.dropout": 0.6, "model.decoder_dropout": 0.7, "features": "row_normalised"},
        {**TWO_LAYERS, "model.encoder.dropout": 0.6, "model.decoder_dropout": 0.7, "copies": 2},
        {**TWO_LAYERS, "model.decoder_dropout": 0.7, "features": "row_normalised"},
    ],
    "photo-node": [{"copies": 4}, {"model.decoder_dropout": 0.6, "copies": 4}, {"model.decoder_dropout": 0.6}],
    "computers-node": [{"copies": 4}, {"copies": 2}, {"model.decoder_dropout": 0.6, "copies": 2}],
    "cora-link": [
        {**OFTEN_DROPPED, **WITH_FEATURES, "model.encoder.width": 512, "readout.skip": 0.6},
        {**OFTEN_DROPPED, "model.readout": "concat", "readout.smoothing": 1},
        {**WITH_FEATURES, "model.encoder.width": 512, "readout.skip": 0.6},
    ],
    "citeseer-link": [
        CITESEER_LINK,
        CITESEER_LINK_WIDER,
        {**CITESEER_LINK, "model.encoder.width": 512},
        {**CITESEER_LINK, "copies": 3},
        {**CITESEER_LINK_WIDER, "copies": 2},
        {**CITESEER_LINK_WIDER, "model.negatives_per_edge": 4.0},
        {**CITESEER_LINK_WIDER, "training.lr": 0.01},
    ],
    "computers-link": [
        {"model.decoder_dropout": 0.8},
        {"model.decoder_dropout": 0.8, "training.lr": 0.002},
        {"model.decoder_dropout": 0.8, "model.decoder_width": 128},
    ],
}
"""Tried first, in a cell or in all others of a task: what did well on validation data in some runs by hand."""


def search_of(method: str, dataset: str, task: Any, changes: Mapping[str, Any]) -> Search:
    """What is searched in one cell."""
    cell = f"{dataset}-{task}"
    changes = {**CHANGES[task], **SETTLED.get(cell, {}), **changes}
    space = without({**space_for(method, dataset, task), **MORE.get(task, {}), **MORE.get(cell, {})}, changes)
    for option, limit in LIMITS.get(dataset, {}).items():
        if isinstance(dimension := space.get(option), OneOf):
            space[option] = OneOf(tuple(value for value in dimension.values if value <= limit))
    if task == "node" and isinstance(dimension := space.get(LENGTH), OneOf):
        changes = {**changes, LENGTH: max(dimension.values)}
    seeds = range(FIRST_SEED, FIRST_SEED + SEEDS.get(dataset, 2))
    return Search(experiment=recipe(method, dataset, task, changes), space=space, changes=changes, seeds=seeds)


def runners_of(cells: Iterable[str], out: Path, method: str, changes: Mapping[str, Any], device: str) -> list[Runner]:
    """The cells, written as `DATASET-TASK` or `DATASET-TASK=SHARE`, with the trials that they have."""
    runners = []
    for cell in cells:
        name, _, share = cell.partition("=")
        dataset, _, task = name.rpartition("-")
        if task not in METRICS or not SHARE.fullmatch(share or "1"):
            raise UserError(f"--cells: write DATASET-TASK or DATASET-TASK=SHARE, such as cora-node=1.5, got {cell!r}.")
        search = search_of(method, dataset, task, changes)
        folder = SearchFolder(out / name, search.to_table(device))
        also = [_inside(search.space, picked) for picked in ALSO.get(name, ALSO[task])]
        trials = {trial.number: trial for trial in folder.trials()}
        runners.append(Runner(search, folder, float(share or 1), also, trials))
    return runners


def _inside(space: Space, picked: Mapping[str, Any]) -> dict[str, Any]:
    """What the space of a cell has of some settings."""
    return {option: value for option, value in picked.items() if option in space and space[option].holds(value)}


def summary(folders: Sequence[Path]) -> str:
    """One row per cell: trials, what the start and the winner scored on validation data, and the winner afresh."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cell", "trials", "failed", "winner", "start_score", "score", "fresh_score", "fresh", "seconds"])
    for folder in folders:
        trials = read_trials(folder / SEARCH)
        best, failed = winner_of(trials), sum(bool(trial.failure) for trial in trials)
        afresh = f"{fmean(best.fresh):.4f}" if best.fresh else ""
        seconds = f"{sum(trial.seconds for trial in trials):.0f}"
        scores = (_shown(trial.score) for trial in (trials[0], best))
        writer.writerow([folder.name, len(trials), failed, best.number, *scores, afresh, len(best.fresh), seconds])
    return text.getvalue()


def _shown(score: float | None) -> str:
    return "" if score is None else f"{score:.4f}"


def tell(runner: Runner, trial: Trial) -> None:
    """One line per trial that was made or repeated."""
    scores = " ".join(f"{score:.4f}" for score in (*trial.scores, *trial.fresh))
    print(f"{runner.folder.path.name} {trial.number}: {trial.failure or scores}, {trial.seconds:.1f} s", flush=True)


def main() -> None:
    """Race all cells, then write the summary and the book."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--method", default="bandana")
    every_cell = [f"{dataset}-{task}" for dataset in DATASETS for task in METRICS]
    parser.add_argument("--cells", nargs="+", default=every_cell, help="DATASET-TASK or DATASET-TASK=SHARE")
    parser.add_argument(
        "--set", nargs="*", action="extend", default=[], dest="changes", help="option=value for all cells"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--budget-seconds", type=float, default=400.0, help="begin no work after this time")
    parser.add_argument("--grace-seconds", type=float, default=20.0, help="wait so long for work under way")
    parser.add_argument("--second-leg", type=float, default=0.35, help="share of the budget for fresh seeds")
    parser.add_argument("--finalists", type=int, default=3, help="trials of a cell that get fresh seeds")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only-write", action="store_true", help="summary and book of the trials that are there")
    options = parser.parse_args()
    try:
        if not options.only_write:
            run(options)
        write(options.out, options.method)
    except UserError as problem:
        parser.exit(2, f"{problem}\n")


def run(options: argparse.Namespace) -> None:
    """Race the cells."""
    changes = dict(map(parse_assignment, options.changes))
    device = resolve_device(options.device).type
    runners = runners_of(options.cells, options.out, options.method, changes, device)
    rules = Rules(
        options.jobs,
        options.budget_seconds,
        second_leg=options.second_leg,
        finalists=options.finalists,
        grace=options.grace_seconds,
    )
    race(runners, rules, device=device, data_root=options.data_root, on_trial=tell)


def write(out: Path, method: str) -> None:
    """The summary and the book of all cells that have a winner."""
    done = sorted(path.parent for path in out.glob(f"*/{RECIPE}"))
    write_text(out / "summary.csv", summary(done))
    write_text(out / f"{method}-tuned.toml", HEADER + merged(folder / RECIPE for folder in done))
    print(out / "summary.csv")


if __name__ == "__main__":
    main()
