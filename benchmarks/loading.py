"""How long an edge list takes to load, and how much memory, from CSV and Parquet, with numbers and with text as ids.

    python benchmarks/loading.py
    python benchmarks/loading.py --edges 1000000 --csv loading.csv

Files are written first, into a temporary folder. Each is then read in a process of its own, so that peaks are clean.
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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

EDGES = 10_000_000
AVERAGE_DEGREE = 20
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured on one file. `process_mb` is all there ever was, torch and the finished graph included."""

    file: str
    file_mb: float
    edges: int
    nodes: int
    read_s: float
    process_mb: float
    load: float


def write_files(folder: Path, num_edges: int) -> list[Path]:
    """The same random edges four times: CSV and Parquet, under whole numbers and under text."""
    draw = np.random.default_rng(SEED)
    ends = draw.integers(2 * num_edges // AVERAGE_DEGREE, size=(2, num_edges))
    numbers = pa.table({"source": ends[0], "target": ends[1]})
    words = pa.table([_words(column) for column in numbers.columns], names=numbers.column_names)
    paths = []
    for kind, table in (("numbers", numbers), ("text", words)):
        paths += [folder / f"{kind}.csv", folder / f"{kind}.parquet"]
        pv.write_csv(table, paths[-2])
        pq.write_table(table, paths[-1])
    return paths


def _words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise("user", column.cast(pa.string()), "-")


def measure(path: Path) -> Row:
    """Read one file."""
    from bandana.data.tables import read_graph

    started = time.perf_counter()
    graph = read_graph(path).graph
    return Row(
        file=path.name,
        file_mb=path.stat().st_size / 1e6,
        edges=graph.links.numel(),
        nodes=graph.num_nodes,
        read_s=time.perf_counter() - started,
        process_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        load=os.getloadavg()[0],
    )


def in_own_process(path: Path) -> Row:
    command = [sys.executable, __file__, "--only", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return Row(**json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--csv", type=Path, help="also write the rows here")
    parser.add_argument("--only", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.only:
        print(json.dumps(asdict(measure(options.only))))
        return
    print(f"pyarrow {pa.__version__}, {os.cpu_count()} cores")
    print(f"{'file':<16} {'file MB':>8} {'edges':>11} {'nodes':>10} {'read s':>7} {'process MB':>11} {'load':>5}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for path in write_files(Path(folder), options.edges):
            row = in_own_process(path)
            rows.append(row)
            print(
                f"{row.file:<16} {row.file_mb:>8.0f} {row.edges:>11,} {row.nodes:>10,} {row.read_s:>7.2f} "
                f"{row.process_mb:>11.0f} {row.load:>5.2f}",
                flush=True,
            )
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Row)])
            writer.writeheader()
            writer.writerows(map(asdict, rows))


if __name__ == "__main__":
    main()
