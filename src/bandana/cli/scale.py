"""Verbs of an engineer with a large graph."""

from pathlib import Path
from typing import Annotated

import typer

from bandana.cli.options import LARGEST_SEED, Estimate, Processes, app

StoreFolder = Annotated[Path, typer.Argument(help="A store that `bandana partition` wrote.")]
Memory = Annotated[str, typer.Option(help="Memory to work in, beside a few numbers per node, such as 512MB or 4GB.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


@app.command()
def partition(
    edges: Annotated[Path, typer.Argument(help="Edges: CSV, TSV, Parquet or Arrow, also gzipped; one edge per row.")],
    store: Annotated[Path, typer.Argument(help="Folder to make.")],
    features: Annotated[Path | None, typer.Option(help="Features: id, then columns of numbers.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels: id, label.")] = None,
    parts: Annotated[int, typer.Option("--parts", "-k", min=1, help="Parts to cut the graph into.")] = 256,
    directed: Annotated[bool, typer.Option("--directed", help="Edges go one way.")] = False,
    source: Annotated[str | None, typer.Option("--source-column", help="Where an edge starts.")] = None,
    target: Annotated[str | None, typer.Option("--target-column", help="Where it leads.")] = None,
    header: Annotated[str, typer.Option(help="Whether the first line of EDGES is one: guess, yes or no.")] = "guess",
    partitioner: Annotated[str, typer.Option(help="metis, stream, or auto: metis where the graph fits.")] = "auto",
    precision: Annotated[str, typer.Option(help="How features are kept: float32 or float16.")] = "float32",
    memory: Memory = "1GB",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Of metis.")] = 0,
    force: Force = False,
    estimate: Estimate = False,
) -> None:
    """Stream a graph larger than memory into a store on disk, cut into parts.

    The same command continues an interrupted one.

    Example: bandana partition edges.parquet --features x.parquet -k 256 store/
    """
    from bandana.terminal.scale import partition_and_show

    columns = {"source": source, "target": target}
    partition_and_show(
        edges,
        store,
        features,
        labels,
        parts,
        directed,
        columns,
        header,
        partitioner,
        precision,
        memory,
        seed,
        force,
        estimate,
    )


@app.command()
def verify(store: StoreFolder) -> None:
    """Compare every byte of a store with its checksums."""
    from bandana.terminal.scale import verify_and_show

    verify_and_show(store)


@app.command()
def infer(
    store: StoreFolder,
    model: Annotated[Path, typer.Option(help="A model folder, such as the one that `bandana embed` writes.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the vectors.")] = Path("embedding"),
    memory: Memory = "1GB",
    force: Force = False,
    estimate: Estimate = False,
    processes: Processes = None,
) -> None:
    """Make the vectors of a store, larger than memory, exactly as a trained model would in memory.

    The same command continues an interrupted one.

    Example: bandana infer store/ --model vectors/model -o all-vectors/
    """
    from bandana.terminal.estimates import checked_processes
    from bandana.terminal.scale import estimate_inference_and_show, infer_and_show

    count = checked_processes(estimate, processes)
    if estimate:
        estimate_inference_and_show(store, model, memory, count)
        return
    infer_and_show(store, model, out, memory, force)
