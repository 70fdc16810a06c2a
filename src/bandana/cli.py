"""The verbs of the command line: each parses its options and hands over. No decision is made here.

Everything heavy is imported inside the verbs, so that ``bandana --help`` answers at once.
"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Node embeddings from a graph without labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DataRoot = Annotated[
    Path | None, typer.Option("--data-root", envvar="BANDANA_DATA", help="Folder with raw data sets, only read.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the embeddings and the picture.")] = Path("demo"),
    device: Device = "auto",
) -> None:
    """Learn embeddings of 1,797 handwritten digits, judge them, and draw them. No download, under a minute."""
    from bandana.demo import run_demo

    run_demo(out, device)


@app.command()
def run(
    method: Annotated[str, typer.Argument(help="A method (see `bandana methods`), or the config.toml of a run.")],
    dataset: Annotated[str | None, typer.Argument(help="A data set (see `bandana datasets`).")] = None,
    task: Annotated[str | None, typer.Option(help="node (default): classify nodes. link: predict links.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Pre-trainings, each with its own split and weights.")] = 1,
    first_seed: Annotated[int, typer.Option(min=0, help="Number of the first seed.")] = 0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change one option, e.g. --set training.epochs=200. Repeatable.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="clean (default), or paper for the authors' way of scoring.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Seeds trained at the same time; small graphs share a GPU.")] = 1,
    profile: Annotated[bool, typer.Option(help="First write where the time of an epoch goes: profile.csv.")] = False,
    device: Device = "auto",
    data_root: DataRoot = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Run folder; by default runs/NAME-HASH.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Pre-train a method on a data set and judge its embeddings.

    The same command continues an interrupted run and repeats nothing that is done.

    Example: bandana run bandana cora --task link --seeds 5 --set training.epochs=200
    """
    from bandana.terminal import run_and_show

    named = [f"{option}={value}" for option, value in (("task", task), ("protocol", protocol)) if value is not None]
    range_of_seeds = range(first_seed, first_seed + seeds)
    run_and_show(
        method, dataset, range_of_seeds, [*named, *(changes or [])], jobs, profile, device, data_root, out, json
    )


@app.command()
def methods(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    write_docs: Annotated[
        Path | None, typer.Option("--write-docs", help="Write a page about each method into this folder instead.")
    ] = None,
) -> None:
    """List the methods with family, year, tasks, paper and cost."""
    from bandana.terminal import show_methods

    show_methods(json, write_docs)


@app.command()
def datasets(
    data_root: DataRoot = None, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """List the data sets with their statistics, source, and whether they are here."""
    from bandana.terminal import show_datasets

    show_datasets(data_root, json)


@app.command()
def env(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show versions and hardware, as a run records them."""
    from bandana.terminal import show_environment

    show_environment(json)


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
    from bandana.own_terminal import embed_and_show

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
    from bandana.own_terminal import show_similar

    show_similar(folder, node, count)


@app.command()
def links(
    folder: Folder,
    top: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    within: Annotated[int | None, typer.Option(min=2, max=3, help="Only pairs at most so many steps apart.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a CSV file instead.")] = None,
) -> None:
    """List the most likely missing links."""
    from bandana.own_terminal import show_links

    show_links(folder, top, within, out)


@app.command()
def classify(
    folder: Folder,
    labels: Annotated[Path, typer.Option(help="CSV with the columns id and label, for a few nodes.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; by default into the folder.")] = None,
) -> None:
    """Predict the labels of all nodes from those of a few."""
    from bandana.own_terminal import classify_and_show

    classify_and_show(folder, labels, out)


@app.command()
def compare(
    before: Folder,
    after: Folder,
    most: Annotated[int, typer.Option(min=1, help="Nodes to list.")] = 20,
) -> None:
    """Show what moved between two versions of a graph."""
    from bandana.own_terminal import show_comparison

    show_comparison(before, after, most)


@app.command()
def why(
    folder: Folder,
    link: Annotated[tuple[str, str], typer.Option("--link", help="Two ids.")],
) -> None:
    """Show the shared neighbours and paths behind the score of a pair."""
    from bandana.own_terminal import show_why

    show_why(folder, *link)
