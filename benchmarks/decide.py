"""Hold settings for classifying nodes against each other on validation data, and write the recipe of the best.

    python benchmarks/decide.py cora citeseer --data-root PATH --csv decided.csv --jobs 16

A search (`benchmarks/tune_all.py`) has a seed or two for each of its trials. Here a few candidates get several fresh
seeds. Every training is read out and probed in several ways, on the official split and on others that deal its training
and validation nodes anew (`bandana.data.resplit.redrawn`); where there is no official one, on as many random ones,
others for every seed. The best is that with the highest mean over splits and seeds. Test nodes are never looked at.
`tuned` is what the book of tuned recipes has at the time.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import torch
from candidates import ALL_NODES, CANDIDATES, Settings

from bandana import __version__
from bandana.data.datasets import Dataset
from bandana.data.features import preprocess
from bandana.data.resplit import redrawn
from bandana.data.splits import NodeSplit, split_nodes
from bandana.devices import resolve_device, shared_gpu
from bandana.evaluation.linear_probe import validation_score
from bandana.experiment import Experiment, build, edges_of, embed
from bandana.files import write_text
from bandana.method import GraphSpec
from bandana.paper.cookbook import recipe
from bandana.parts.readout import ReadoutConfig, read_out
from bandana.seeds import load_once
from bandana.training.trainer import pretrain
from bandana.tuning.folder import recipe_text
from bandana.workers import carry_out

REDRAWN = 3
"""Splits beside the first, which is the official one or that of the seed."""
OFFICIAL = ("cora", "citeseer", "pubmed")
"""Data sets with an official split of their nodes."""
READOUTS = (
    ReadoutConfig(),
    ReadoutConfig(smoothing=1),
    ReadoutConfig(skip=1.0, skip_smoothing=2),
    ReadoutConfig(smoothing=1, skip=1.0, skip_smoothing=2),
)
WITH_FEATURES = (ReadoutConfig(), ReadoutConfig(skip=1.0), ReadoutConfig(skip=1.0, skip_smoothing=2))
DECAYS = (5e-4, 5e-3, 5e-2)
COLUMNS = (
    *("dataset", "candidate", "seed", "smoothing", "skip", "skip_smoothing", "normalize", "weight_decay"),
    *("official", "redrawn"),
)
KEYS = COLUMNS[3:8]
OPTIONS = (*(f"readout.{key}" for key in KEYS[:3]), *(f"probe.{key}" for key in KEYS[3:]))
"""The last five, as settings."""


def experiment_of(dataset: str, settings: Settings | None) -> Experiment:
    """A candidate: the tuned recipe, or the paper's with changes."""
    if settings is None:
        return recipe("bandana", dataset, "node", book="tuned")
    return recipe("bandana", dataset, "node", {**ALL_NODES, **settings})


def judge(
    dataset: str, candidate: str, seed: int, device: torch.device, data_root: Path | None
) -> list[dict[str, Any]]:
    """One training, and what validation nodes say of it, read out and probed in every way."""
    torch.set_num_threads(1)  # others compute beside it
    experiment = experiment_of(dataset, CANDIDATES[dataset][candidate])
    data = load_once(dataset, data_root)
    graph = preprocess(data.graph, experiment.features).to(device)
    method = build(experiment, GraphSpec.of(graph), seed).to(device)
    pretrain(method, edges_of(experiment, data, graph, seed).train, experiment.training, seed=seed)
    raw, splits, rows = embed(method, graph), splits_of(experiment, data, seed), []
    assert graph.y is not None
    readouts, decays, repeats = readings_of(dataset)
    for readout in readouts:
        z = read_out(raw, graph, readout)
        for normalize, decay in product((True, False), decays):
            probe = replace(experiment.probe, normalize=normalize, weight_decay=decay, repeats=repeats)
            first, *others = (validation_score(z, graph.y, split, probe, seed) for split in splits)
            how = (readout.smoothing or 0, readout.skip or 0, readout.skip_smoothing or 0, normalize, decay)
            rows.append(dict(zip(COLUMNS, (dataset, candidate, seed, *how, first, fmean(others)), strict=True)))
    return rows


def readings_of(dataset: str) -> tuple[Sequence[ReadoutConfig], Sequence[float], int]:
    """Readouts and penalties of the probe to choose from, and how many probes are averaged."""
    if dataset in OFFICIAL:
        return READOUTS, DECAYS, 3
    if dataset == "physics":  # a probe of its 8,415 features takes long, and has 3,449 nodes to learn from
        return WITH_FEATURES, DECAYS[:2], 1
    return READOUTS[:1], DECAYS, 3


def splits_of(experiment: Experiment, data: Dataset, seed: int) -> list[NodeSplit]:
    """The official split and some that are dealt anew, or the one of this seed and some that no run has."""
    labels = data.graph.y
    assert labels is not None
    if data.node_split is None:
        return [
            split_nodes(labels, experiment.split.nodes, seed=seed + 10_000 * number) for number in range(1 + REDRAWN)
        ]
    return [data.node_split, *(redrawn(data.node_split, labels, seed=number) for number in range(REDRAWN))]


def mean_over_splits(row: Mapping[str, Any]) -> float:
    """Every split counts the same."""
    return float(row["official"] + REDRAWN * row["redrawn"]) / (1 + REDRAWN)


class Judged(NamedTuple):
    """A candidate with the readout and probe that suit it best, and its scores over seeds."""

    score: float
    candidate: str
    how: tuple[Any, ...]
    scores: list[float]
    official: float

    def __str__(self) -> str:
        spread = f"{100 * stdev(self.scores):.2f}" if len(self.scores) > 1 else "–"
        chosen = ", ".join(f"{key}={value}" for key, value in zip(KEYS, self.how, strict=True))
        seeds = f"({len(self.scores)} seeds; first split {100 * self.official:.2f})"
        return f"{100 * self.score:.2f} ± {spread} {seeds} {self.candidate}: {chosen}"


def ranking(rows: Iterable[Mapping[str, Any]]) -> list[Judged]:
    """The candidates of one data set, the best first."""
    groups: dict[str, dict[tuple[Any, ...], list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["candidate"]][tuple(row[key] for key in KEYS)].append(row)
    found = []
    for candidate, ways in groups.items():
        how, best = max(ways.items(), key=lambda way: fmean(map(mean_over_splits, way[1])))
        scores = list(map(mean_over_splits, best))
        found.append(Judged(fmean(scores), candidate, how, scores, fmean(row["official"] for row in best)))
    return sorted(found, reverse=True)


def cell(dataset: str, judged: Sequence[Judged], first_seed: int) -> str:
    """The recipe of the best, unless that is the tuned one, which is in the book already."""
    best, others = judged[0], {other.candidate: other.score for other in judged}
    settings = CANDIDATES[dataset][best.candidate]
    if settings is None:
        return ""
    beside = f", {others['tuned']:.4f} for the recipe that was there" if "tuned" in others else ""
    source = (
        f"decided here on validation nodes by benchmarks/decide.py: {best.candidate}, out of {len(judged)} candidates; "
        f"mean micro-F1 {best.score:.4f} over {len(best.scores)} seeds from {first_seed} on and "
        f"{1 + REDRAWN} splits each{beside}; bandana {__version__}"
    )
    values = {**ALL_NODES, **settings, **dict(zip(OPTIONS, best.how, strict=True))}
    return recipe_text("node", dataset, values, source)


def main() -> None:
    """Judge the candidates of the data sets that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", choices=CANDIDATES, metavar="DATASET", help=", ".join(CANDIDATES))
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--recipes", type=Path, help="folder for the recipe of the best of each data set")
    parser.add_argument("--first-seed", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--few-seeds", type=int, default=3, help="where there is no official split")
    parser.add_argument("--candidates", nargs="+", default=[], help="only these")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--budget-seconds", type=float, default=float("inf"), help="begin nothing after this time")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device = resolve_device(options.device)
    pieces = [
        (dataset, candidate, options.first_seed + place, device, options.data_root)
        for dataset in options.datasets
        for place in range(options.seeds if dataset in OFFICIAL else options.few_seeds)
        for candidate in CANDIDATES[dataset]
        if not options.candidates or candidate in options.candidates
    ]
    rows: list[dict[str, Any]] = []
    with shared_gpu(device, options.jobs), options.csv.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for outcome in carry_out(judge, pieces, jobs=options.jobs, budget=options.budget_seconds):
            print(*outcome.arguments[:3], outcome.failure or "done", flush=True)
            writer.writerows(outcome.result or [])
            file.flush()
            rows += outcome.result or []
    for dataset in options.datasets:
        judged = ranking(row for row in rows if row["dataset"] == dataset)
        print(dataset, *judged, sep="\n  ")
        if options.recipes and judged and (text := cell(dataset, judged, options.first_seed)):
            write_text(options.recipes / f"{dataset}.toml", text)


if __name__ == "__main__":
    main()
