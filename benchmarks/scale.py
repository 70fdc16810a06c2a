"""Costs and quality of training from a store, on power-law graphs with planted communities of 10^5 to 10^8 edges.

    python benchmarks/scale.py --folder FOLDER --csv scale.csv
    python benchmarks/scale.py --folder FOLDER --csv scale.csv --edges 100000 1000000 --ways 1x2 full --epochs 5
    python benchmarks/scale.py --ogb --csv ogb.csv

Every work is the command that a user types, in processes of its own, start-up included. Edges are directed entries as
drawn; parts grow in number and not in size, so that a step costs the same on every graph. A way such as 1x2 is one
process on two cores, from the store; `full` is training in memory on both, with the same held-out links and pairs, and
as many steps per epoch. Interrupted, the same command goes on: rows of the CSV are not measured again, and stores are
kept. `docs/scale.md` reads the figures.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from scale_commands import CORES, Budget, OutOfBudgetError, Rows, Taken, record_of, settings
from scale_summary import summary

HERE = Path(__file__).parent
EDGES = (100_000, 1_000_000, 10_000_000, 100_000_000)
STORE_WAYS = {"1x2": (1, 2), "1x1": (1, 1), "2x2": (2, 2)}
"""Processes, and cores for all of them together."""
WAYS = (*STORE_WAYS, "full")
ALL_WAYS_UP_TO = 10_000_000
"""Directed edges; a larger graph is learned in the first way only, unless ways are named."""
ENTRIES_PER_PART, FEWEST_PARTS = 20_000, 16
PARTS_PER_STEP = 16
"""As the settings of a run on a store have it: four groups of four."""
STEPS, FEWEST_EPOCHS = 64, 2
"""Where epochs are not given: enough of them for so many steps."""
MODEL = {"model.encoder.width": 64, "model.encoder.num_layers": 2, "model.decoder_width": 32, "training.lr": 0.005}
MODEL |= {"training.patience_evaluations": 0, "shards.evaluation_edges": 500_000, "probe.repeats": 3}
SCORES = ("auc", "micro_f1", "nmi")


class Bench(NamedTuple):
    """What is the same for all sizes.

    Attributes:
        budget: Time that is left.
        rows: Where results go.
        cpu_time: Whether estimates are in seconds of the processor.
    """

    budget: Budget
    rows: Rows
    cpu_time: bool

    def say(self, edges: int, what: str) -> None:
        """On the error stream, before it begins."""
        left = f"{self.budget.left / 60:.0f} min left"
        print(f"{time.strftime('%H:%M:%S')}  {edges:,} edges: {what} ({left})", file=sys.stderr, flush=True)


class Size(NamedTuple):
    """One of the graphs, for how many epochs it is learned, and the folder for its tables, store and runs."""

    edges: int
    epochs: int
    place: Path

    @classmethod
    def of(cls, edges: int, epochs: int | None, folder: Path) -> "Size":
        steps = steps_per_epoch(parts_of(edges))
        return cls(edges, epochs or max(STEPS // steps, FEWEST_EPOCHS), folder / f"edges-{edges}")

    @property
    def store(self) -> Path:
        return self.place / "store"

    @property
    def changes(self) -> dict[str, Any]:
        return {**MODEL, "training.epochs": self.epochs, "training.evaluate_every": self.epochs}

    @property
    def entries(self) -> int:
        """Directed edges of the store: those drawn, less loops and repetitions."""
        return int(json.loads((self.store / "store.json").read_text())["num_edges"])


def parts_of(edges: int) -> int:
    return max(FEWEST_PARTS, edges // ENTRIES_PER_PART)


def steps_per_epoch(parts: int) -> int:
    return -(-parts // PARTS_PER_STEP)


def measure_size(bench: Bench, size: Size, ways: Iterable[str]) -> None:
    """Everything about one size that is not known yet."""
    prepare(bench, size)
    for way in ways:
        if bench.rows.has(edges=size.edges, epochs=size.epochs, way=way):
            continue
        if way == "full":
            learn_in_memory(bench, size)
        else:
            learn_from_store(bench, size, way)
    runs = [run for way in STORE_WAYS if ((run := size.place / f"run-{way}") / "record.json").exists()]
    if runs and not bench.rows.has(what="infer", edges=size.edges):
        infer(bench, size, runs[0])


def prepare(bench: Bench, size: Size) -> None:
    """Draw a graph and lay it into a store, where that has not been done."""
    edges, place, store = size.edges, size.place, size.store
    if not bench.rows.has(what="draw", edges=edges) or not (place / "labels.parquet").exists():
        bench.say(edges, "draw")
        shutil.rmtree(place, ignore_errors=True)
        drawn = bench.budget.measure([sys.executable, str(HERE / "power_law.py"), str(edges // 2), str(place)])
        bench.rows.add(what="draw", edges=edges, **drawn._asdict())
    if not bench.rows.has(what="partition", edges=edges, parts=parts_of(edges)) or not (store / "store.json").exists():
        bench.say(edges, f"partition into {parts_of(edges):,} parts")
        forget_unfinished(place)
        tables = ("--features", place / "features.parquet", "--labels", place / "labels.parquet")
        cut = ("-k", str(parts_of(edges)), "--partitioner", "stream", "--force")
        taken = bench.budget.run("partition", place / "edges.parquet", store, *tables, *cut)
        facts = json.loads((store / "store.json").read_text())
        counts = {"entries": facts["num_edges"], "nodes": facts["num_nodes"], "parts": parts_of(edges)}
        bench.rows.add(what="partition", edges=edges, **counts, **taken._asdict())


def learn_from_store(bench: Bench, size: Size, way: str) -> None:
    """Estimate a run, run it, and look for the communities in its vectors."""
    processes, cores = STORE_WAYS[way]
    start_s = start_up(bench)
    bench.say(size.edges, f"estimate {way}")
    clock = ["--cpu-time"] if bench.cpu_time else []
    _, expected = started(bench, size, "estimate", "--processes", str(processes), *clock, cores=cores)
    out = size.place / f"run-{way}"
    shutil.rmtree(out, ignore_errors=True)
    bench.say(size.edges, f"learn {way}, {size.epochs} epochs")
    words = ("run", "bandana", size.store, "--task", "node", "--device", "cpu", "--out", out, *settings(size.changes))
    taken = bench.budget.run(*words, processes=processes, cores=cores)
    bench.say(size.edges, f"communities of {way}")
    _, found = started(bench, size, "recovery", "--run", str(out))
    record = record_of(out)
    bench.rows.add(
        what="store",
        way=way,
        edges=size.edges,
        entries=size.entries,
        epochs=size.epochs,
        epoch_s=record["seconds"]["pretrain"] / size.epochs,
        evaluate_s=record["seconds"]["evaluate"],
        **taken._asdict(),
        estimated_s=start_s + expected["estimated_s"],
        estimated_mb=expected["estimated_mb"],
        clock="cpu" if bench.cpu_time else "wall",
        **scores(record["metrics"] | found),
        untrained_auc=record["floors"]["untrained encoder"]["auc"],
        untrained_micro_f1=record["floors"]["untrained encoder"]["micro_f1"],
    )


def learn_in_memory(bench: Bench, size: Size) -> None:
    """The same on the full graph."""
    bench.say(size.edges, f"learn full, {size.epochs} epochs")
    steps = str(steps_per_epoch(parts_of(size.edges)))
    taken, found = started(bench, size, "full", "--steps", steps, threads=CORES)
    bench.rows.add(
        what="full graph",
        way="full",
        edges=size.edges,
        entries=size.entries,
        epochs=size.epochs,
        epoch_s=found["seconds"] / found["epochs"],
        **taken._asdict(),
        **scores(found),
    )


def infer(bench: Bench, size: Size, run: Path) -> None:
    """Embed all nodes by what a run has learned, and look for the communities in vectors from all over the graph."""
    bench.say(size.edges, "infer")
    forget_unfinished(size.place)
    vectors = size.place / "vectors"
    model = run / "seed-0" / "model"
    taken = bench.budget.run("infer", size.store, "--model", model, "-o", vectors, "--force")
    _, found = started(bench, size, "recovery", "--vectors", str(vectors))
    shutil.rmtree(vectors)
    bench.rows.add(what="infer", edges=size.edges, entries=size.entries, **taken._asdict(), **scores(found))


def forget_unfinished(place: Path) -> None:
    """What an interrupted command has left would be continued, and make the next one look faster than it is."""
    for folder in (".store.building", ".vectors.inferring"):
        shutil.rmtree(place / folder, ignore_errors=True)


def started(
    bench: Bench, size: Size, what: str, *words: str, cores: int = CORES, threads: int = 1
) -> tuple[Taken, dict[str, float]]:
    """Run a part of `scale_runs.py`, and read the figures that it prints."""
    out = size.place / f"{what}.json"
    command = [sys.executable, str(HERE / "scale_runs.py"), what, str(size.store), json.dumps(size.changes), *words]
    taken = bench.budget.measure(command, cores, threads=threads, out=out)
    found: dict[str, float] = json.loads(out.read_text())
    return taken, found


def start_up(bench: Bench) -> float:
    """Seconds that every training takes before its work begins: loading torch, and what an optimiser loads on top."""
    taken = bench.budget.measure([sys.executable, "-c", "import bandana.terminal.research, torch._dynamo"])
    return taken.cpu_s if bench.cpu_time else taken.seconds


def scores(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: metrics[name] for name in SCORES if name in metrics}


def on_paper(rows: Rows, given: argparse.Namespace) -> None:
    """Public graphs, from their sizes alone."""
    import torch
    from scale_ogb import PUBLISHED, on_paper

    if given.cpu_time:
        time.perf_counter = time.process_time
    for name in PUBLISHED:
        rows.add(**on_paper(name, given.processes, torch.device(given.device)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("scale-bench"), help="for tables, stores and runs")
    parser.add_argument("--edges", type=int, nargs="+", default=EDGES, help="directed edges to draw")
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="processes x cores; default all, of 10^8 edges 1x2")
    parser.add_argument("--epochs", type=int, help=f"default enough for {STEPS} steps, and {FEWEST_EPOCHS} at least")
    parser.add_argument("--budget-seconds", type=float, default=4 * 3600.0, help="then stop; rows so far are kept")
    parser.add_argument("--ogb", action="store_true", help="estimate large public graphs by their sizes")
    parser.add_argument("--processes", type=int, default=1, help="of --ogb")
    parser.add_argument("--device", default="cpu", help="of --ogb")
    parser.add_argument("--cpu-time", action="store_true", help="estimate seconds of the processor, for a busy machine")
    parser.add_argument("--csv", type=Path, help="rows, written as they come, and known when it goes on")
    given = parser.parse_args()
    print(f"torch {version('torch')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    rows = Rows(given.csv)
    if given.ogb:
        on_paper(rows, given)
        return
    bench = Bench(Budget(given.budget_seconds), rows, given.cpu_time)
    try:
        for edges in given.edges:
            ways = given.ways or (WAYS if edges <= ALL_WAYS_UP_TO else WAYS[:1])
            measure_size(bench, Size.of(edges, given.epochs, given.folder), ways)
    except OutOfBudgetError:
        print(f"Stopped after {given.budget_seconds:g} s.")
    for line in summary(rows.all):
        print(line)


if __name__ == "__main__":
    main()
