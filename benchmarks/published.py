"""Bandana on the seven real data sets, both tasks, both protocols, beside the published figures.

    python benchmarks/published.py --data-root PATH --out results/ --seeds 5 --jobs 12

Every (data set, task, seed) is a new split, a new initialisation and a new pre-training. Small graphs leave a GPU
nearly idle, so several processes share it. Rows are written as they finish; a second call repeats none of them.
Node classification needs one training for both protocols, since they differ only in the probe; link prediction
needs two, since they also choose the weights differently.
"""

import argparse
import csv
import os
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev

DATASETS = ("computers", "photo", "cs", "pubmed", "citeseer", "cora", "physics")
METRICS = {"node": ("micro_f1", "macro_f1"), "link": ("auc", "ap", "auc_sigmoid32", "ap_sigmoid32", "tied_share")}
FIELDS = [
    *("method", "dataset", "task", "protocol", "seed", "micro_f1", "macro_f1", "auc", "ap", "auc_sigmoid32"),
    *("ap_sigmoid32", "tied_share", "decoder_auc", "mask_ratio", "best_epoch", "epochs", "seconds"),
]


def train(dataset: str, task: str, protocol: str, seed: int, root: str, changes: dict) -> list[dict]:
    """Run one seed; for nodes, judge the same embedding under both protocols."""
    import torch

    from bandana.data.datasets import load
    from bandana.data.splits import split_nodes
    from bandana.evaluation.linear_probe import linear_probe
    from bandana.experiment import resolve_device, run_seed
    from bandana.paper.cookbook import recipe

    torch.set_num_threads(1)
    experiment = recipe("bandana", dataset, task, {"protocol": protocol, **changes})
    data, device = load(dataset, root), resolve_device("auto")
    started = time.perf_counter()
    result = run_seed(experiment, data, seed, device)
    row = {
        "method": "bandana",
        "dataset": dataset,
        "task": task,
        "protocol": protocol,
        "seed": seed,
        "best_epoch": result.record.best_epoch,
        "epochs": result.record.epochs,
        "mask_ratio": result.record.history[-1]["mask_ratio"],
        "seconds": time.perf_counter() - started,
    }
    rows = [{**row, **result.record.metrics}]
    rows += [
        {**row, "method": floor, **metrics, "mask_ratio": "", "best_epoch": "", "epochs": "", "seconds": ""}
        for floor, metrics in result.record.floors.items()
    ]
    if task == "node":
        labels = data.graph.y.to(device)
        nodes = data.node_split or split_nodes(labels, experiment.split.nodes, seed=seed)
        again = linear_probe(result.embedding, labels, nodes, experiment.probe, seed, "separate")
        rows.append({**row, **again, "protocol": "paper"})
    return rows


def summarise(rows: list[dict]) -> list[dict]:
    """Mean ± standard deviation over seeds of every cell, beside the published value."""
    from bandana.paper.published import published_figures

    cells = defaultdict(list)
    for row in rows:
        cells[row["dataset"], row["task"], row["protocol"], row["method"]].append(row)
    paper, out = published_figures(), []
    for (dataset, task, protocol, method), members in sorted(cells.items()):
        for metric in METRICS[task]:
            values = [100 * float(row[metric]) for row in members if row.get(metric) not in (None, "")]
            if values:
                spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
                reported = "auc" if metric == "auc_sigmoid32" else "ap" if metric == "ap_sigmoid32" else metric
                out.append(
                    {
                        "dataset": dataset,
                        "task": task,
                        "protocol": protocol,
                        "method": method,
                        "metric": metric,
                        "ours": f"{fmean(values):.2f}{spread}",
                        "seeds": len(values),
                        "published": str(paper.get((method, dataset, reported), "")),
                    }
                )
    return out


def main() -> None:
    """Run what is missing, write rows and summary, print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--tasks", nargs="+", default=("node", "link"))
    parser.add_argument("--protocols", nargs="+", default=("clean", "paper"))
    parser.add_argument("--set", nargs="*", default=(), dest="changes")
    parser.add_argument("--name", default="bandana")
    options = parser.parse_args()
    from bandana.config import parse_assignment

    changes = dict(map(parse_assignment, options.changes))
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.name}-seeds.csv"
    rows = list(csv.DictReader(path.open(encoding="utf-8"))) if path.exists() else []
    done = {(row["dataset"], row["task"], row["protocol"], int(row["seed"])) for row in rows}
    wanted = [
        (dataset, task, protocol, seed)
        for dataset in options.datasets
        for task in options.tasks
        for protocol in (["clean"] if task == "node" else options.protocols)
        for seed in range(options.first_seed, options.first_seed + options.seeds)
    ]
    missing = [cell for cell in wanted if cell not in done]
    with (
        ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool,
        path.open("a", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, FIELDS, extrasaction="ignore", restval="")
        if not rows:
            writer.writeheader()
        futures = {pool.submit(train, *cell, options.data_root, changes): cell for cell in missing}
        for count, future in enumerate(as_completed(futures), 1):
            fresh = future.result()
            writer.writerows(fresh)
            file.flush()
            rows += fresh
            first = fresh[0]
            shown = " ".join(f"{m}={100 * first[m]:.2f}" for m in METRICS[first["task"]][:2])
            print(
                f"{count}/{len(futures)} {futures[future]} {shown} {first['epochs']} epochs {first['seconds']:.0f} s",
                flush=True,
            )
    table = summarise(rows)
    with (options.out / f"{options.name}-summary.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    for row in table:
        if row["method"] == "bandana":
            print(
                "{dataset:10} {task:4} {protocol:5} {metric:14} {ours:>16} ({seeds}) published {published}".format(
                    **row
                )
            )


if __name__ == "__main__":
    main()
