"""The same embeddings on the official test nodes, and on the nodes that the official split leaves out.

    python benchmarks/left_out_nodes.py --data-root PATH --csv left-out.csv --seeds 3 --jobs 12

A thousand nodes of Cora, CiteSeer and PubMed have judged methods for a decade, so settings that were handed down may
suit these nodes. Most are in no part of the official split (`bandana.data.resplit.left_out`): 1,068 of Cora, 1,707
of CiteSeer and 18,157 of PubMed. Every method is trained by its recipe, and one probe, trained on the official training
nodes and stopped by the official validation nodes, is scored on both. Nothing is chosen here. A second call goes on
where the first ended; rows are written as trainings finish.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from compare import read
from figures import Score, score_of
from published import runs_of
from scipy.stats import spearmanr

from bandana.data.resplit import left_out
from bandana.devices import resolve_device, shared_gpu
from bandana.evaluation.linear_probe import linear_probe
from bandana.experiment import run_seed
from bandana.paper.cookbook import recipe
from bandana.registry import all_methods
from bandana.seeds import load_once
from bandana.workers import carry_out

DATASETS = ("cora", "citeseer", "pubmed")
TUNED = "bandana-tuned"
COLUMNS = ("dataset", "method", "seed", "valid", "test", "left_out", "pretrain_seconds")


def judge(dataset: str, method: str, seed: int, device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """One training, scored on the test nodes and on those that are left out."""
    torch.set_num_threads(1)  # others compute beside it
    book = "tuned" if method == TUNED else None
    experiment = recipe(method.removesuffix("-tuned"), dataset, "node", book=book)
    data = load_once(dataset, data_root)
    labels, official = data.graph.y, data.node_split
    assert labels is not None
    assert official is not None
    result = run_seed(experiment, data, seed, device, floors=False)
    others = linear_probe(result.embedding, labels, left_out(official, labels), experiment.probe, seed)
    own = result.record.metrics
    scores = (round(score, 6) for score in (own["valid_micro_f1"], own["micro_f1"], others["micro_f1"]))
    seconds = round(result.record.seconds["pretrain"], 1)
    return dict(zip(COLUMNS, (dataset, method, seed, *scores, seconds), strict=True))


def runs(methods: Sequence[str], datasets: Sequence[str], seeds: int) -> Iterator[tuple[str, str, int]]:
    """Data set, method and seed of everything to train, what is cheap first; a tuned recipe follows the paper's."""
    plain = dict.fromkeys(name.removesuffix("-tuned") for name in methods)
    for run in runs_of(plain, datasets, ["node"], [], range(seeds)):
        yield from ((run.dataset, name, run.seed) for name in (run.method, f"{run.method}-tuned") if name in methods)


def table(rows: Iterable[Mapping[str, Any]], dataset: str) -> list[str]:
    """Methods of a data set, the best on left-out nodes first, and how far the two orders agree."""
    scores: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row["dataset"] == dataset:
            scores[row["method"]].append((100 * float(row["test"]), 100 * float(row["left_out"])))
    found = {method: [score_of(part) for part in zip(*pairs, strict=True)] for method, pairs in scores.items()}
    lines = [f"| {dataset} | seeds | official test nodes | left-out nodes | difference |", "|---|---|---|---|---|"]
    for method, (test, other) in sorted(found.items(), key=lambda entry: -entry[1][1].mean):
        lines.append(f"| {method} | {test.seeds} | {test} | {other} | {other.mean - test.mean:+.2f} |")
    return [*lines, f"rank correlation of the two columns: {_rank_correlation(list(found.values()))}"]


def _rank_correlation(pairs: Sequence[Sequence[Score]]) -> str:
    if len(pairs) < 3:
        return "too few methods to tell"
    return f"{spearmanr([test.mean for test, _ in pairs], [other.mean for _, other in pairs]).statistic:.2f}"


def main() -> None:
    """Train what is missing, and print a table for each data set."""
    methods = [*all_methods(), TUNED]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS, metavar="DATASET")
    parser.add_argument("--methods", nargs="+", default=methods, choices=methods, metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget-seconds", type=float, default=float("inf"), help="begin nothing after this time")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device, rows = resolve_device(options.device), read(options.csv)
    known = {(row["dataset"], row["method"], int(row["seed"])) for row in rows}
    wanted = (run for run in runs(options.methods, options.datasets, options.seeds) if run not in known)
    pieces = [(*run, device, options.data_root) for run in wanted]
    with shared_gpu(device, options.jobs), options.csv.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not rows:
            writer.writeheader()
        for outcome in carry_out(judge, pieces, jobs=options.jobs, budget=options.budget_seconds):
            print(*outcome.arguments[:3], outcome.failure or "done", flush=True)
            if outcome.result is not None:
                writer.writerow(outcome.result)
                file.flush()
                rows.append(outcome.result)
    for dataset in options.datasets:
        print(*table(rows, dataset), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
