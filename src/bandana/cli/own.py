"""Verbs of somebody with a graph of their own."""

from pathlib import Path
from typing import Annotated

import typer

from bandana.cli.options import Device, app

Folder = Annotated[Path, typer.Argument(help="A folder that `bandana embed` wrote.")]


@app.command()
def embed(
    edges: Annotated[Path, typer.Argument(help="Edges: CSV, TSV, Parquet or Arrow, also gzipped; one edge per row.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for vectors, model and report.")] = Path("embedding"),
    features: Annotated[Path | None, typer.Option(help="Features: id, then columns.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels, only to judge the vectors: id, label.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Edges go one way.")] = False,
    source: Annotated[str | None, typer.Option("--source-column", help="Where an edge starts.")] = None,
    target: Annotated[str | None, typer.Option("--target-column", help="Where it leads.")] = None,
    weight: Annotated[str | None, typer.Option("--weight-column", help="Its weight.")] = None,
    time: Annotated[str | None, typer.Option("--time-column", help="When it appeared.")] = None,
    missing: Annotated[str, typer.Option(help="Missing features: refuse (default), or impute.")] = "refuse",
    method: Annotated[str | None, typer.Option(help="A method (see `bandana methods`); chosen when not given.")] = None,
    dimensions: Annotated[int | None, typer.Option(min=1, help="Numbers per vector; chosen when not given.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the links; chosen when not given.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change one option. Repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    device: Device = "auto",
) -> None:
    """Make vectors of your own graph, and a report that says how good they are.

    Example: bandana embed edges.csv --features people.parquet -o vectors/
    """
    from bandana.terminal.own import embed_and_show

    columns = {"source": source, "target": target, "weight": weight, "time": time}
    embed_and_show(
        edges,
        features,
        labels,
        columns,
        directed,
        missing,
        method,
        dimensions,
        epochs,
        changes or [],
        seed,
        device,
        out,
    )


@app.command()
def similar(
    folder: Folder,
    node: Annotated[str, typer.Option("--id", help="The node.")],
    count: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 10,
) -> None:
    """List the nodes most similar to one."""
    from bandana.terminal.own import show_similar

    show_similar(folder, node, count)


@app.command()
def links(
    folder: Folder,
    top: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    within: Annotated[int | None, typer.Option(min=2, max=3, help="Only pairs at most so many steps apart.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a CSV file instead.")] = None,
) -> None:
    """List the most likely missing links."""
    from bandana.terminal.own import show_links

    show_links(folder, top, within, out)


@app.command()
def classify(
    folder: Folder,
    labels: Annotated[Path, typer.Option(help="CSV with the columns id and label, for a few nodes.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; by default into the folder.")] = None,
) -> None:
    """Predict the labels of all nodes from those of a few."""
    from bandana.terminal.own import classify_and_show

    classify_and_show(folder, labels, out)


@app.command()
def compare(
    before: Folder,
    after: Folder,
    most: Annotated[int, typer.Option(min=1, help="Nodes to list.")] = 20,
) -> None:
    """Show what moved between two versions of a graph."""
    from bandana.terminal.own import show_comparison

    show_comparison(before, after, most)


@app.command()
def why(
    folder: Folder,
    link: Annotated[tuple[str, str], typer.Option("--link", help="Two ids.")],
) -> None:
    """Show the shared neighbours and paths behind the score of a pair."""
    from bandana.terminal.own import show_why

    show_why(folder, *link)
