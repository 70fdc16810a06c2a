"""How time and memory of a training epoch grow with the number of edges, on random graphs of 10^5 to 10^7 edges.

    python benchmarks/growth.py
    python benchmarks/growth.py --sizes 100000 1000000 --csv growth.csv

Each size runs in a process of its own, so that peaks are clean. An epoch is one full-batch step: batches of a fixed
size would each encode the whole graph, and an epoch would grow with the square of the edges by construction.
"""

import argparse
import csv
import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

import numpy as np
import torch
from meters import ResidentPeak, Stopwatch

from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.parts.encoders import EncoderConfig
from bandana.training.trainer import TrainingConfig, TrainingState, pretrain

SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
AVERAGE_DEGREE = 20
NUM_FEATURES = 64
MODEL = BandanaConfig(encoder=EncoderConfig(num_layers=2, width=64, dropout=0.5), decoder_width=32)
WARM_UP = 1
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured at one size. `training_mb` is above the loaded graph, `process_mb` is all there ever was."""

    edges: int
    nodes: int
    largest_degree: int
    build_s: float
    epoch_s: float
    ns_per_edge: float
    training_mb: float
    process_mb: float
    threads: int
    load: float


def random_graph(num_edges: int) -> Graph:
    """About `num_edges` directed entries whose degrees fall off like a power law with exponent 3.

    A node is drawn in proportion to the inverse square root of its rank, and ranks are dealt out at random, so that
    neighbours are not near in memory either. Self-loops and repetitions are dropped: a few in a hundred.
    """
    draw = torch.Generator().manual_seed(SEED)
    num_nodes = num_edges // AVERAGE_DEGREE
    rank = torch.rand(2, num_edges // 2, generator=draw).square_().mul_(num_nodes).long()
    node_of_rank = torch.randperm(num_nodes, generator=draw)
    x = torch.randn(num_nodes, NUM_FEATURES, generator=draw)
    return Graph.from_edges(node_of_rank[rank], num_nodes=num_nodes, x=x)


def measure(num_edges: int, repeats: int) -> Row:
    """Build one graph and train on it."""
    watch, peak, epochs = Stopwatch(torch.device("cpu")), ResidentPeak(), []
    watch.start()
    graph = random_graph(num_edges)
    build_s, build_mb = watch.stop(), _highest_mb()
    torch.manual_seed(SEED)
    method = Bandana(MODEL, GraphSpec.of(graph))

    def after_epoch(state: TrainingState) -> None:
        epochs.append(watch.stop())
        watch.start()

    peak.start()
    watch.start()
    pretrain(
        method, graph, TrainingConfig(epochs=WARM_UP + repeats, edge_batch_size=0), seed=SEED, on_epoch=after_epoch
    )
    epoch_s = median(epochs[WARM_UP:])
    return Row(
        edges=graph.num_edges,
        nodes=graph.num_nodes,
        largest_degree=int(graph.structure.row_sizes.max()),
        build_s=build_s,
        epoch_s=epoch_s,
        ns_per_edge=epoch_s / graph.num_edges * 1e9,
        training_mb=peak.stop(),
        process_mb=max(build_mb, _highest_mb()),
        threads=torch.get_num_threads(),
        load=os.getloadavg()[0],
    )


def _highest_mb() -> float:
    """Megabytes of the process at its highest so far, or since `ResidentPeak` set the mark back."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def measure_apart(num_edges: int, repeats: int, threads: int) -> Row:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--only", str(num_edges), "--repeats", str(repeats), "--threads", str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Row(**json.loads(done.stdout))


def exponent(rows: Sequence[Row]) -> float:
    """Slope of log time on log edges: 1 is linear."""
    edges, seconds = np.array([(row.edges, row.epoch_s) for row in rows]).T
    return float(np.polyfit(np.log(edges), np.log(seconds), 1)[0])


def main() -> None:
    """Measure the sizes named on the command line."""
    parser = argparse.ArgumentParser(description="Cost of a full-batch training epoch against the number of edges.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="directed edges")
    parser.add_argument("--repeats", type=int, default=3, help="epochs whose median is taken")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.only:
        print(json.dumps(asdict(measure(args.only, args.repeats))))
        return
    print(
        f"torch {torch.__version__}, cpu, {args.threads} threads, {os.cpu_count()} cores; one full-batch step per epoch"
    )
    print(
        f"{'edges':>11}{'nodes':>9}{'largest':>9}{'build s':>9}{'epoch s':>9}{'ns/edge':>9}"
        f"{'training MB':>13}{'process MB':>12}{'load':>7}"
    )
    rows = []
    for size in args.sizes:
        row = measure_apart(size, args.repeats, args.threads)
        rows.append(row)
        print(
            f"{row.edges:11,d}{row.nodes:9,d}{row.largest_degree:9,d}{row.build_s:9.2f}{row.epoch_s:9.3f}"
            f"{row.ns_per_edge:9.0f}{row.training_mb:13.0f}{row.process_mb:12.0f}{row.load:7.2f}",
            flush=True,
        )
    if len(rows) > 1:
        print(f"time grows with the power {exponent(rows):.2f} of the number of edges")
    if any(math.isnan(row.training_mb) for row in rows):
        print("Training peaks need Linux and the right to write /proc/self/clear_refs: not available here.")
    if args.csv:
        with args.csv.open("w", newline="") as file:
            table = csv.DictWriter(file, [field.name for field in fields(Row)])
            table.writeheader()
            table.writerows(asdict(row) for row in rows)


if __name__ == "__main__":
    main()
