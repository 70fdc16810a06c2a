"""What a person with a large graph sees in the terminal."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any, get_args

import torch
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from bandana import model_folder
from bandana.data.own_files import first_bytes
from bandana.errors import UserError, did_you_mean
from bandana.own.calibration import resident_bytes
from bandana.scale.build import build_store
from bandana.scale.distributed import joined
from bandana.scale.estimate import Sizes, inference_costs, partition_costs
from bandana.scale.inference import Share
from bandana.scale.pieces import output_width, time_inference, time_partition
from bandana.scale.plan import BuildPlan, Partitioner
from bandana.scale.seal import DESCRIPTION, damaged_blocks, read_description
from bandana.scale.store import FeatureType, Store
from bandana.terminal.estimates import in_bytes, show_costs
from bandana.terminal.screen import console, said, status
from bandana.use.infer import PARQUET, encoder_of, infer

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SMALLEST_MEMORY, LARGEST_MEMORY = 16 << 20, 1 << 50
LONGEST_PASS = 24 * 3600
"""Seconds that one of several processes may be behind the others."""


def partition_and_show(
    edges: Path,
    folder: Path,
    features: Path | None,
    labels: Path | None,
    parts: int,
    directed: bool,
    columns: dict[str, str | None],
    header: str,
    partitioner: str,
    precision: str,
    memory: str,
    seed: int,
    force: bool,
    estimate: bool = False,
) -> None:
    """Build a store and say what is in it, or only what building it would cost."""
    for table in filter(None, (edges, features, labels)):
        first_bytes(table)
    plan = BuildPlan(
        edges=edges,
        features=features,
        labels=labels,
        parts=parts,
        directed=directed,
        header=_choice("--header", header, ("guess", "yes", "no")),
        partitioner=_choice("--partitioner", partitioner, get_args(Partitioner)),
        precision=_choice("--precision", precision, get_args(FeatureType)),
        memory=bytes_of(memory),
        seed=seed,
        **columns,
    )
    if estimate:
        _estimate_partition_and_show(plan)
        return
    with _resumable(), _bars() as tell:
        store = build_store(plan, folder, force=force, on_progress=tell)
    for note in store.notes:
        said(status, note, style="dim")
    said(
        console,
        f"Store: {folder}   {store.num_nodes:,} nodes, {store.num_edges:,} directed edges, "
        f"{store.num_features:,} features, {store.num_parts:,} parts",
    )


def verify_and_show(folder: Path) -> None:
    """Compare every byte of a store with its checksums.

    Raises:
        UserError: Something is damaged; it names the file and the block.
    """
    table = read_description(folder)
    total = sum(entry["bytes"] for entry in table["files"].values())
    with _bars() as tell:
        damaged = list(damaged_blocks(folder, lambda count: tell("verify", count, total)))
    if damaged:
        size = table["block_bytes"]
        places = [f"{name}, block {number} (bytes from {number * size:,})" for name, number in damaged[:8]]
        more = f" and {len(damaged) - 8} more" if len(damaged) > 8 else ""
        raise UserError(f"{folder}: damaged in {'; '.join(places)}{more}; copy the store again or build it anew.")
    said(console, f"{folder}: all {total:,} bytes in {len(table['files'])} files and {DESCRIPTION} are as written.")


def _estimate_partition_and_show(plan: BuildPlan) -> None:
    with status.status("A few rows are timed …"):
        sizes, rows, metis, piece = time_partition(plan)
    costs = partition_costs(sizes, rows, piece, memory=plan.memory, metis=metis, base=resident_bytes())
    said(
        console,
        f"About {rows:,} rows of edges, {sizes.nodes:,} nodes, {sizes.features:,} features; parts by "
        f"{'METIS' if metis else 'streaming'}; the store will have about {in_bytes(sizes.store_bytes)}.",
    )
    show_costs(f"partition {plan.edges}", costs, 1)


def estimate_inference_and_show(folder: Path, model: Path, memory: str, processes: int) -> None:
    """Say what embedding a store would cost, and do not start it."""
    trained, store = model_folder.load(model), Store.open(folder)
    encoder = encoder_of(trained, store)
    with status.status("A few rows are timed …"):
        piece = time_inference(encoder, store)
    costs = inference_costs(
        Sizes.of(store),
        piece,
        encoder.widths,
        output_width(encoder),
        memory=bytes_of(memory),
        processes=processes,
        base=resident_bytes(),
    )
    show_costs(f"infer {folder}", costs, processes)


def infer_and_show(folder: Path, model: Path, out: Path, memory: str, force: bool) -> None:
    """Embed a store and say where the vectors are."""
    trained, store = model_folder.load(model), Store.open(folder)
    with _resumable(), _bars() as tell, joined(torch.device("cpu"), LONGEST_PASS) as world:
        infer(
            trained,
            store,
            out,
            memory=bytes_of(memory),
            force=force,
            share=Share(world.rank, world.size, world.wait),
            on_block=lambda done, total: tell("blocks", 1, total) if world.leads else None,
        )
    if world.leads:
        said(console, f"Vectors of {store.num_nodes:,} nodes: {out / PARQUET}")
        said(console, f"Nearest nodes: bandana similar {quote(str(out))} --id ID", style="dim", soft_wrap=True)


def bytes_of(text: str) -> int:
    """Read a size such as 512MB, 1.5G or 2GiB.

    Raises:
        UserError: It is none, too small to do anything in, or beyond all that there is.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = float(match[1]) * UNITS[match[2].upper()] if match else 0.0
    if not SMALLEST_MEMORY <= size <= LARGEST_MEMORY:
        most = f"{LARGEST_MEMORY >> 40}TB"
        raise UserError(
            f"--memory {text[:40]!r}: give a size from {SMALLEST_MEMORY >> 20}MB to {most}, such as 512MB or 2GB."
        )
    return int(size)


def _choice(option: str, value: str, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise UserError(f"{option} {value!r}: there is no such choice. {did_you_mean(value, choices)}")
    return value


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Live bars on the terminal's error stream, one for each stage that starts."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=status) as progress:
        bars: dict[str, TaskID] = {}

        def tell(stage: str, done: int, total: int | None) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=total)
            progress.advance(bars[stage], done)

        yield tell
        for bar in bars.values():
            task = progress.tasks[bar]
            progress.update(bar, total=task.total or task.completed or 1, completed=task.total or task.completed or 1)


@contextmanager
def _resumable() -> Iterator[None]:
    """Say how an interrupted work goes on."""
    try:
        yield
    except KeyboardInterrupt:
        said(status, "Stopped; the same command goes on from here.")
        raise SystemExit(130) from None
