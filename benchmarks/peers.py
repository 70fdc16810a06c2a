"""Our vectors beside those of packages that somebody would otherwise install: quality, time and memory in one run.

    pip install pycleora scikit-network node2vec "setuptools<81"
    python benchmarks/peers.py --data-root PATH --out results --seeds 3
    python benchmarks/peers.py --data-root PATH --out results --datasets cora --methods bandana "PyG DGI"

Links: 5 % are held out for validation and 10 % for the test, with as many pairs that are not linked. Everybody learns
from the rest of the graph alone, and the test pairs are ranked by dot product; by cosine as well, which some packages
are made for. Nodes: everybody learns from the whole graph without labels; a logistic regression reads the labels of the
training nodes, validation nodes choose its penalty and scaling, and test nodes judge. They are the official nodes where
a data set has them, the same for every seed, and otherwise 10, 10 and 80 % by the seed; for everybody the same.

`bandana` is what ``bandana embed`` chooses by itself. `bandana, recipe` has the settings of the paper for the data set,
and its weights are chosen on the validation links, which nobody else sees. `peer_methods.py` says what the others were
asked. Everything runs on the CPU, one run at a time, so that times can be compared; on a machine that others use too,
compare the processor's seconds. With ``--device cuda`` PyG's models and ours run on the card, and the memory is that of
the card; with ``--jobs`` several runs share it, for the scores and not for the times. Rows are written as runs finish,
failed ones with the reason; a second call repeats none of them.

Not among them: pecanpy 2.0.9, because the nptyping that it needs asks numpy for a type that numpy 2 has not.
"""

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from compare import read
from figures import DATASETS
from meters import ResidentPeak, TensorPeak
from peer_methods import PEERS
from peer_tables import page
from torch import Tensor
from torch.nn.functional import normalize

from bandana.data.datasets import Dataset, find_dataset, load
from bandana.data.splits import EdgeSplit, NodeSplit, SplitConfig, split_edges, split_nodes
from bandana.errors import UserError
from bandana.estimator import learn
from bandana.evaluation.dot_product_probe import dot_product_probe
from bandana.experiment import Task, run_seed
from bandana.files import write_text
from bandana.own.automatic import plan
from bandana.paper.cookbook import recipe
from bandana.workers import carry_out

TASKS: tuple[Task, ...] = ("link", "node")
OURS, OUR_RECIPE = "bandana", "bandana, recipe"
METHODS = (OURS, OUR_RECIPE, *PEERS)
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)
FIELDS = [
    *("method", "dataset", "task", "seed", "auc", "ap", "cosine_auc", "cosine_ap", "micro_f1", "macro_f1"),
    *("width", "seconds", "cpu_seconds", "peak_mb", "threads", "device", "failed"),
]


class Run(NamedTuple):
    """One embedding and its score."""

    method: str
    dataset: str
    task: Task
    seed: int


def measure(run: Run, root: str | None, threads: int, device: str) -> dict[str, Any]:
    """The row of one run: time and memory are those of the embedding alone."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    place = torch.device(device if run.method not in PEERS or PEERS[run.method].can_use_gpu else "cpu")
    data, memory = load(run.dataset, root), TensorPeak(place) if place.type == "cuda" else ResidentPeak()
    if run.method in PEERS and (absence := PEERS[run.method].absence()):
        raise RuntimeError(f"{PEERS[run.method].package} cannot be used here ({absence})")
    memory.start()
    started, worked = time.perf_counter(), time.process_time()
    z = embed(run, data, place).cpu()
    cost = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - worked,
        "peak_mb": memory.stop(),
        "threads": threads,
        "device": place.type,
    }
    return {**run._asdict(), **score(run, data, z), **cost, "width": z.shape[1]}


def embed(run: Run, data: Dataset, device: torch.device) -> Tensor:
    """``[nodes, width]`` vectors, for links from the graph without the held-out ones."""
    if run.method == OUR_RECIPE:
        # Its own probe is cut short: here everybody's vectors go through the same one.
        brief = {"probe.epochs": 1, "probe.repeats": 1} if run.task == "node" else {}
        experiment = recipe("bandana", run.dataset, run.task, brief)
        return run_seed(experiment, data, run.seed, device, floors=False).embedding
    graph = link_split(data, run.seed).train if run.task == "link" else data.graph
    if run.method == OURS:
        return learn(graph, plan(graph), seed=run.seed, device=device.type).embedding
    return PEERS[run.method].embed(graph.to(device), run.seed)


def link_split(data: Dataset, seed: int) -> EdgeSplit:
    """The split that `run_seed` makes too."""
    shares = SplitConfig()
    return data.edge_split or split_edges(data.graph, shares.valid_edges, shares.test_edges, seed=seed)


def score(run: Run, data: Dataset, z: Tensor) -> dict[str, float]:
    """What the vectors are worth."""
    if not bool(z.isfinite().all()):
        raise ValueError("the vectors hold NaN or infinite values")
    if run.task == "link":
        test = link_split(data, run.seed).test
        bare, cosine = dot_product_probe(z, test), dot_product_probe(normalize(z), test)
        return {name: bare[name] for name in ("auc", "ap")} | {f"cosine_{name}": cosine[name] for name in ("auc", "ap")}
    labels = data.graph.y
    assert labels is not None
    nodes = data.node_split or split_nodes(labels, SplitConfig().nodes, seed=run.seed)
    return classify(z.numpy(), labels.numpy(), nodes)


def classify(z: np.ndarray, labels: np.ndarray, nodes: NodeSplit) -> dict[str, float]:
    """Micro- and macro-F1 of a logistic regression; validation nodes choose its penalty, and rows or columns to scale.

    The scale of vectors is a matter of taste that differs between packages, so nobody should win or lose by it.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score
    from sklearn.preprocessing import Normalizer, StandardScaler

    train, valid, test = (part.numpy() for part in (nodes.train, nodes.valid, nodes.test))
    best, answer = -1.0, labels[test]
    for scaler in (Normalizer(), StandardScaler()):
        x = scaler.fit_transform(z)
        for penalty in PENALTIES:
            model = LogisticRegression(C=penalty, max_iter=200).fit(x[train], labels[train])
            right = model.score(x[valid], labels[valid])
            if right > best:
                best, answer = right, model.predict(x[test])
    return {
        "micro_f1": float(f1_score(labels[test], answer, average="micro")),
        "macro_f1": float(f1_score(labels[test], answer, average="macro")),
    }


def runs_of(methods: Iterable[str], datasets: Iterable[str], tasks: Sequence[Task], seeds: Iterable[int]) -> list[Run]:
    """Everything that is asked for: first seeds first, small data sets first."""
    by_size = sorted(datasets, key=lambda name: find_dataset(name).edges or 0)
    return [
        Run(method, dataset, task, seed)
        for seed in seeds
        for dataset in by_size
        for task in tasks
        for method in methods
    ]


def missing(runs: Iterable[Run], rows: Iterable[Mapping[str, str]], *, retry: bool = False) -> list[Run]:
    """The runs that have no row yet, or, to `retry` them, none but failures."""
    done = {
        (row["method"], row["dataset"], row["task"], int(row["seed"]))
        for row in rows
        if not (retry and row.get("failed"))
    }
    return [run for run in runs if run not in done]


def lines_of(rows: Iterable[Mapping[str, Any]], *, header: bool = False) -> str:
    """Rows as lines of the file."""
    text = StringIO()
    writer = csv.DictWriter(text, FIELDS, restval="", extrasaction="ignore", lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def measure_all(runs: Sequence[Run], path: Path, options: argparse.Namespace) -> None:
    """Carry out the runs one by one and write each row as it comes."""
    pieces = [(run, options.data_root, options.threads, options.device) for run in runs]
    outcomes = carry_out(measure, pieces, jobs=options.jobs, limit=options.limit_seconds, budget=options.budget_seconds)
    write_text(path, lines_of(read(path), header=True))  # an older file may have other columns
    with path.open("a", newline="", encoding="utf-8") as file:
        for count, outcome in enumerate(outcomes, 1):
            run = outcome.arguments[0]
            row = outcome.result or {**run._asdict(), "failed": outcome.failure}
            file.write(lines_of([row]))
            file.flush()
            print(f"{count}/{len(runs)} {', '.join(map(str, run))}: {outcome.failure or _shown(row)}", flush=True)


def _shown(row: Mapping[str, Any]) -> str:
    names = ("auc", "ap", "cosine_auc") if row["task"] == "link" else ("micro_f1", "macro_f1")
    return f"{' '.join(f'{name}={100 * row[name]:.2f}' for name in names)}, {row['cpu_seconds']:.1f} s of the processor"


def main() -> None:
    """Measure what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", help="where the raw data sets lie; BANDANA_DATA when not given")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="peers", help="how the files in --out begin")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, metavar="METHOD")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--limit-seconds", type=float, default=1800, help="give up a run after this time")
    parser.add_argument("--budget-seconds", type=float, default=float("inf"), help="begin no run after this time")
    parser.add_argument("--retry-failed", action="store_true", help="repeat runs that failed before")
    options = parser.parse_args()
    try:
        wanted = runs_of(options.methods, options.datasets, options.tasks, range(options.seeds))
    except UserError as problem:
        parser.error(str(problem))
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.name}-seeds.csv"
    measure_all(missing(wanted, read(path), retry=options.retry_failed), path, options)
    target = options.out / f"{options.name}.md"
    write_text(target, page(read(path), OURS))
    print(target.absolute())


if __name__ == "__main__":
    main()
