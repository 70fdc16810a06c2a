"""Time and memory of the store: a power-law graph streamed onto disk, verified and embedded, each in its own process.

    python benchmarks/store.py --rows 28_500_000 --features 128 --folder FOLDER

Every step is the command that a user types. Peaks are resident memory as the kernel counts it, touched pages of
mapped files included.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from power_law import PowerLaw, write

from bandana import model_folder
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.own.trained import TrainedModel
from bandana.parts.encoders import EncoderConfig


def measured(name: str, *command: str) -> None:
    """Run a command of bandana in a process of its own, and print what it took."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "bandana", *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds, work = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{name} failed")
    print(f"{name:<10} {seconds:8.1f} s elapsed  {work:8.1f} s of processor  peak {usage.ru_maxrss / 1e6:6.2f} GB")


def untrained(folder: Path, width: int, features: int) -> None:
    """A model of the usual shape; what its weights are makes no difference to the costs."""
    config = BandanaConfig(encoder=EncoderConfig(width=width, num_layers=2))
    spec = GraphSpec(1, features)
    torch.manual_seed(0)
    model = TrainedModel(name="bandana", config=config, spec=spec, method=Bandana(config, spec))
    model_folder.save(folder, model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="undirected edges to draw")
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--width", type=int, default=64, help="of each of two layers")
    parser.add_argument("--parts", type=int, default=256)
    parser.add_argument("--memory", default="512MB")
    parser.add_argument("--folder", type=Path, required=True, help="for tables, store and vectors; tables are reused")
    given = parser.parse_args()
    folder, store = given.folder, given.folder / "store"
    graph = PowerLaw(given.rows, features=given.features)
    edges, features = folder / "edges.parquet", folder / "features.parquet"
    if not (folder / "labels.parquet").exists():
        write(graph, folder)
    size = ("--memory", given.memory)
    print(f"{given.rows:,} rows, {graph.num_nodes:,} nodes, {given.features} features, --memory {given.memory}")
    cut = ("-k", str(given.parts), "--partitioner", "stream", "--force")
    measured("partition", "partition", str(edges), str(store), "--features", str(features), *cut, *size)
    measured("verify", "verify", str(store))
    untrained(folder / "model", given.width, given.features)
    out = folder / "vectors"
    measured("infer", "infer", str(store), "--model", str(folder / "model"), "-o", str(out), "--force", *size)


if __name__ == "__main__":
    main()
