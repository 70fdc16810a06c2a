"""How good the estimate of time and memory is, and what the automatic choice costs, on random graphs.

    python benchmarks/estimate.py
    python benchmarks/estimate.py --links 1000000 --features 64 --csv estimate.csv
    python benchmarks/estimate.py --command --links 1000000 --features 0

Each size runs in a process of its own: choose, then train to the end as chosen, unless training stops early by itself.
With --command that process is ``bandana embed`` on files, from the first import to the last byte of the report. A ratio
is measured over estimated; between 0.5 and 2 is what we want. Memory is the highest of the whole process. The estimate
is for three quarters of the epochs, because training may stop anywhere after half of them; random links teach nothing
that holds for other links, so here it often stops early. On a busy machine look at the processor's seconds: with one
thread, they are what the clock would show on an idle one.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import torch

from bandana.estimator import learn
from bandana.graph import Graph
from bandana.own.automatic import choose

LINKS = (3_000, 30_000, 200_000, 1_000_000)
LINKS_PER_NODE = 10
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One size: what was estimated and what was measured."""

    method: str
    links: int
    nodes: int
    features: int
    choose_s: float
    """Until the estimate is made; with the command, from its start."""
    estimated_s: float
    measured_s: float
    """The training; with the command, everything."""
    training_s: float
    processor_s: float
    """Of the whole process, over all threads."""
    estimated_mb: float
    measured_mb: float
    epochs: int
    planned_epochs: int
    threads: int
    load: float

    @property
    def seconds_ratio(self) -> float:
        return self.measured_s / self.estimated_s

    @property
    def memory_ratio(self) -> float:
        return self.measured_mb / self.estimated_mb


def random_graph(num_links: int, num_features: int) -> Graph:
    """Degrees that fall off like a power law with exponent 3, as in growth.py, with or without features."""
    draw = torch.Generator().manual_seed(SEED)
    num_nodes = num_links // LINKS_PER_NODE
    rank = torch.rand(2, num_links, generator=draw).square_().mul_(num_nodes).long()
    node_of_rank = torch.randperm(num_nodes, generator=draw)
    x = torch.randn(num_nodes, num_features, generator=draw) if num_features else None
    return Graph.from_edges(node_of_rank[rank], num_nodes=num_nodes, x=x)


def measure(num_links: int, num_features: int, method: str | None) -> Row:
    """Choose and train in this process."""
    graph = random_graph(num_links, num_features)
    started = time.perf_counter()
    choice = choose(graph, method=method, device="cpu")
    chosen = time.perf_counter()
    learned = learn(graph, choice, seed=SEED, device="cpu")
    done = time.perf_counter()
    return Row(
        method=choice.method,
        links=graph.links.numel(),
        nodes=graph.num_nodes,
        features=num_features,
        choose_s=chosen - started,
        estimated_s=choice.estimate.seconds,
        measured_s=done - chosen,
        training_s=done - chosen,
        processor_s=time.process_time(),
        estimated_mb=choice.estimate.bytes / 1e6,
        measured_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        epochs=learned.state.epoch,
        planned_epochs=choice.training.epochs,
        threads=torch.get_num_threads(),
        load=os.getloadavg()[0],
    )


def measure_command(num_links: int, num_features: int, method: str | None) -> Row:
    """``bandana embed`` as a user would run it; what it estimated and how training went stands in its record."""
    graph = random_graph(num_links, num_features)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = write_files(folder, graph) + ([] if method is None else ["--method", method])
        words = [sys.executable, "-m", "bandana", "embed", "edges.csv", "-o", "out", "--device", "cpu", *options]
        started = time.perf_counter()
        with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            marks = {line.split(b" ")[0]: time.perf_counter() - started for line in process.stderr or ()}
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        done = time.perf_counter() - started
        if process.returncode:
            raise SystemExit(f"bandana embed ended with code {process.returncode} after {done:.0f} s")
        record = json.loads((folder / "out" / "run.json").read_text(encoding="utf-8"))
    return Row(
        method=record["method"],
        links=graph.links.numel(),
        nodes=graph.num_nodes,
        features=num_features,
        choose_s=marks[b"Estimate:"],
        estimated_s=record["estimate"]["seconds"],
        measured_s=done,
        training_s=marks[b"Judging"] - marks[b"Estimate:"],
        processor_s=used.ru_utime + used.ru_stime,
        estimated_mb=record["estimate"]["bytes"] / 1e6,
        measured_mb=used.ru_maxrss * 1024 / 1e6,
        epochs=int(record["history"][-1]["epoch"]),
        planned_epochs=record["training"]["epochs"],
        threads=torch.get_num_threads(),
        load=os.getloadavg()[0],
    )


def write_files(folder: Path, graph: Graph) -> list[str]:
    """Write the graph as a user would have it; return the options that name more than the edges."""
    source, target = graph.edge_index[:, graph.links].numpy()
    pv.write_csv(pa.table({"source": source, "target": target}), folder / "edges.csv")
    if not graph.has_features:
        return []
    columns = {f"x{number}": column.numpy() for number, column in enumerate(torch.as_tensor(graph.x).T)}
    pq.write_table(pa.table({"id": range(graph.num_nodes), **columns}), folder / "features.parquet")
    return ["--features", "features.parquet"]


def measure_apart(num_links: int, features: int, method: str | None) -> Row:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--only", "--links", str(num_links), "--features", str(features)]
    command += [] if method is None else ["--method", method]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Row(**json.loads(done.stdout))


def show(row: Row) -> None:
    """One line of the table."""
    epochs = f"{row.epochs}/{row.planned_epochs}"
    print(
        f"{row.links:10,d}{row.nodes:9,d}{row.features:9d}{row.choose_s:9.1f}{row.estimated_s:11.1f}"
        f"{row.training_s:11.1f}{row.measured_s:11.1f}{row.seconds_ratio:7.2f}{row.processor_s:12.1f}"
        f"{row.estimated_mb:12.0f}{row.measured_mb:12.0f}{row.memory_ratio:7.2f}{epochs:>10}{row.load:7.2f}",
        flush=True,
    )


def main() -> None:
    """Measure the sizes named on the command line."""
    parser = argparse.ArgumentParser(description="Estimated against measured time and memory of the automatic choice.")
    parser.add_argument("--links", type=int, nargs="+", default=LINKS, help="undirected edges")
    parser.add_argument("--features", type=int, nargs="+", default=(0, 64), help="per node; 0 for none")
    parser.add_argument("--method", help="a method by name; the default is the automatic choice")
    parser.add_argument("--command", action="store_true", help="the whole of bandana embed, from files to the report")
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    parser.add_argument("--only", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(asdict(measure(args.links[0], args.features[0], args.method))))
        return
    print(f"torch {torch.__version__}, cpu, {torch.get_num_threads()} threads, {os.cpu_count()} cores")
    print(
        f"{'links':>10}{'nodes':>9}{'features':>9}{'choose s':>9}{'estimate s':>11}{'training s':>11}{'measured s':>11}"
        f"{'ratio':>7}{'processor s':>12}{'estimate MB':>12}{'measured MB':>12}{'ratio':>7}{'epochs':>10}{'load':>7}"
    )
    rows = []
    for features in args.features:
        for links in args.links:
            rows.append((measure_command if args.command else measure_apart)(links, features, args.method))
            show(rows[-1])
    if args.csv:
        with args.csv.open("w", newline="") as file:
            table = csv.DictWriter(file, [field.name for field in fields(Row)])
            table.writeheader()
            table.writerows(asdict(row) for row in rows)


if __name__ == "__main__":
    main()
