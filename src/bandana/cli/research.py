"""Verbs of a researcher: run, and what there is to run."""

from pathlib import Path
from typing import Annotated

import typer

from bandana.cli.options import LARGEST_SEED, DataRoot, Device, Estimate, Processes, app
from bandana.errors import UserError


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
    dataset: Annotated[str | None, typer.Argument(help="A data set (see `bandana datasets`), or a store.")] = None,
    task: Annotated[str | None, typer.Option(help="node (default): classify nodes. link: predict links.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Pre-trainings, each with its own split and weights.")] = 1,
    first_seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Number of the first seed.")] = 0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change one option, e.g. --set training.epochs=200. Repeatable.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="clean (default), or paper for the authors' way of scoring.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Settings: tuned, or the recipe.toml of `bandana tune`; else the method's own.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Seeds at the same time, in processes that share a GPU.")] = 1,
    profile: Annotated[bool, typer.Option(help="First write where the time of an epoch goes: profile.csv.")] = False,
    device: Device = "auto",
    data_root: DataRoot = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Run folder; by default runs/NAME-HASH.")] = None,
    estimate: Estimate = False,
    processes: Processes = None,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Pre-train a method on a data set and judge its embeddings.

    The same command continues an interrupted run and repeats nothing that is done.

    Example: bandana run bandana cora --task link --seeds 5 --set training.epochs=200

    A graph in a store is learned part by part, also by several processes:
    torchrun --nproc-per-node 2 -m bandana run bandana store/ --out runs/store
    """
    if first_seed + seeds - 1 > LARGEST_SEED:
        raise UserError(
            f"--seeds: the last one would be {first_seed + seeds - 1}, and they go up to {LARGEST_SEED}; begin at a "
            f"lower --first-seed or run fewer."
        )
    from bandana.workers import get_ready

    get_ready(min(jobs, seeds))  # first: what is imported below is imported there at the same time
    from bandana.terminal.estimates import checked_processes
    from bandana.terminal.research import run_and_show
    from bandana.terminal.store_run import estimate_run_and_show, names_a_store, refuse_for_stores

    count = checked_processes(estimate, processes)
    named = [f"{option}={value}" for option, value in (("task", task), ("protocol", protocol)) if value is not None]
    range_of_seeds = range(first_seed, first_seed + seeds)
    if estimate:
        if names_a_store(method, dataset):
            refuse_for_stores({"--jobs": jobs > 1, "--profile": profile, "--recipe": recipe is not None})
        estimate_run_and_show(method, dataset, range_of_seeds, [*named, *(changes or [])], device, count)
        return
    run_and_show(
        method, dataset, range_of_seeds, [*named, *(changes or [])], jobs, profile, device, data_root, out, json, recipe
    )


@app.command()
def methods(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    write_docs: Annotated[
        Path | None, typer.Option("--write-docs", help="Write a page about each method into this folder instead.")
    ] = None,
) -> None:
    """List the methods with family, year, tasks, paper and cost."""
    from bandana.terminal.research import show_methods

    show_methods(json, write_docs)


@app.command()
def datasets(
    data_root: DataRoot = None, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """List the data sets with their statistics, source, and whether they are here."""
    from bandana.terminal.research import show_datasets

    show_datasets(data_root, json)


@app.command()
def env(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show versions and hardware, as a run records them."""
    from bandana.terminal.research import show_environment

    show_environment(json)
