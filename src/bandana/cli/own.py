"""Verbs of somebody with a graph of their own."""

import errno
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from bandana.cli.options import LARGEST_SEED, Device, app
from bandana.errors import UserError
from bandana.own.unfinished import checkpoints

Folder = Annotated[Path, typer.Argument(help="A folder that `bandana embed` wrote.")]


@contextmanager
def _ending_in_a_sentence(out: Path) -> Iterator[None]:
    """Let Ctrl-C, and whatever the disk refuses, end the work in one sentence, wherever it happens to be.

    What breaks off may not pass the interrupt on as it is: an import that is cut short, say, complains of something
    else. So the signal itself is remembered.
    """
    pressed, before, kept = [], _version(out), checkpoints(out)

    def stop(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except BaseException as problem:
        if pressed:
            untouched = f"{out} is as it was, and the same command {_next_time(kept, checkpoints(out))}"
            typer.echo(f"Stopped: {untouched if _version(out) == before else f'{out} is written already'}.", err=True)
            raise typer.Exit(130) from None
        if isinstance(problem, OSError) and problem.errno != errno.EPIPE:
            place = problem.filename or tempfile.gettempdir()
            raise UserError(
                f"{place}: {problem.strerror or problem}. Check that there is space, and try again."
            ) from None
        raise
    finally:
        signal.signal(signal.SIGINT, previous)


def _version(out: Path) -> int | None:
    """Tells a folder from the one that takes its place."""
    return out.stat().st_ino if out.exists() else None


def _next_time(before: dict[str, int], now: dict[str, int]) -> str:
    """Where the same command will begin, from the checkpoints that were there when it began, and those that are now."""
    if not now:
        return "begins anew"
    return "begins where this one began" if now == before else "goes on from the last checkpoint of its training"


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
    time: Annotated[
        str | None, typer.Option("--time-column", help="When it appeared: the latest are held out.")
    ] = None,
    header: Annotated[str, typer.Option(help="Whether the first line of EDGES is one: guess, yes or no.")] = "guess",
    missing: Annotated[str, typer.Option(help="Missing features: refuse (default), or impute.")] = "refuse",
    method: Annotated[str | None, typer.Option(help="A method (see `bandana methods`); chosen when not given.")] = None,
    dimensions: Annotated[int | None, typer.Option(min=1, help="Numbers per vector; chosen when not given.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the links; chosen when not given.")] = None,
    tune: Annotated[int, typer.Option(min=0, help="Search for better settings in so many trials first.")] = 0,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change one option. Repeatable.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Add the edges to the graph of this model (OUT/model) without any training.")
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="Vectors also as npz, tsv or safetensors; Parquet always. Repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Of everything random.")] = 0,
    device: Device = "auto",
) -> None:
    """Make vectors of your own graph, and a report that says how good they are.

    Example: bandana embed edges.csv --features people.parquet -o vectors/

    With --model, new edges and nodes come to a graph that has vectors, and only rows that they reach are computed:
    bandana embed new_edges.csv --model vectors/model --features new_people.parquet -o newer/
    """
    with _ending_in_a_sentence(out):
        from bandana.terminal.own import Input, Wishes, embed_and_show, follow_and_show

        columns = {"source": source, "target": target, "weight": weight, "time": time}
        given = Input(edges, features, labels, columns, directed, missing, header)
        wishes = Wishes(method, dimensions, epochs, changes or [], tune)
        if model is None:
            embed_and_show(given, wishes, seed, device, out, formats or [])
        else:
            follow_and_show(model, given, wishes, seed, device, out, formats or [])


@app.command()
def similar(
    folder: Folder,
    node: Annotated[str, typer.Option("--id", help="The node.")],
    count: Annotated[int, typer.Option("-k", help="How many.")] = 10,
) -> None:
    """List the nodes most similar to one."""
    from bandana.terminal.use import show_similar

    show_similar(folder, node, count)


@app.command()
def links(
    folder: Folder,
    top: Annotated[int, typer.Option(help="How many.")] = 100,
    within: Annotated[int | None, typer.Option(help="Only pairs at most so many steps apart: 2 or 3.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a CSV file instead.")] = None,
) -> None:
    """List the most likely missing links: exactly, of all pairs, with faiss where it is installed."""
    from bandana.terminal.use import show_links

    show_links(folder, top, within, out)


@app.command()
def classify(
    folder: Folder,
    labels: Annotated[Path, typer.Option(help="Labels of a few nodes: id, label; any format that `embed` reads.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; by default into the folder.")] = None,
) -> None:
    """Predict the labels of all nodes from those of a few."""
    from bandana.terminal.use import classify_and_show

    classify_and_show(folder, labels, out)


@app.command()
def compare(
    before: Folder,
    after: Folder,
    most: Annotated[int, typer.Option(min=1, help="Nodes to list.")] = 20,
    reseeded: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="The first graph embedded with another --seed: what means nothing. Repeatable."
        ),
    ] = None,
) -> None:
    """Show what moved between two versions of a graph, and whether by more than another seed moves it.

    Example: bandana compare monday/ friday/ --reseeded monday-reseeded/
    """
    from bandana.terminal.use import show_comparison

    show_comparison(before, after, most, reseeded or [])


@app.command()
def why(
    folder: Folder,
    link: Annotated[tuple[str, str], typer.Option("--link", help="Two ids.")],
) -> None:
    """Show the shared neighbours and paths behind the score of a pair, and the score without them."""
    from bandana.terminal.use import show_why

    show_why(folder, *link)
