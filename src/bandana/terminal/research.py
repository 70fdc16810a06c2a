"""What a researcher sees: runs, methods, data sets and the machine."""

import hashlib
import json as jsonlib
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from bandana import __version__
from bandana.config import nest, parse_assignment, patch, read_toml, to_table, to_toml
from bandana.data.datasets import DATASETS, presence
from bandana.errors import UserError
from bandana.experiment import Experiment, profile, run
from bandana.files import write_text
from bandana.paper.cookbook import recipe
from bandana.registry import all_methods
from bandana.reporting.method_pages import in_families, index_page, method_page
from bandana.reporting.record import RunFolder, environment
from bandana.reporting.tables import profile_csv, profile_table, result_table
from bandana.terminal.screen import console, progress_bars, said, say_if_stopped_early, status
from bandana.terminal.store_run import names_a_store, refuse_for_stores, run_store_and_show

COUNTS = ("nodes", "edges", "features", "classes")
WIDTH_FOR = {"data set": 0, "source": 78, "nodes": 0, "edges": 44, "features": 68, "classes": 68, "here?": 0}
"""Columns of the table of data sets, and from which width of the terminal on each of them is shown."""
FOUND = "found in "
"""How `presence` begins where raw files lie in a folder of the user's."""


def run_and_show(
    method: str,
    dataset: str | None,
    seeds: range,
    assignments: Sequence[str],
    jobs: int,
    profiled: bool,
    device: str,
    data_root: Path | None,
    out: Path | None,
    json: bool,
    book: str | None = None,
) -> None:
    """Run an experiment with a progress bar and show its table, or print its record as JSON."""
    if names_a_store(method, dataset):
        refuse_for_stores({"--jobs": jobs > 1, "--profile": profiled, "--recipe": book is not None})
        run_store_and_show(method, dataset, seeds, dict(map(parse_assignment, assignments)), device, out, json)
        return
    experiment = _experiment(method, dataset, dict(map(parse_assignment, assignments)), book)
    folder = out or Path("runs") / _run_name(experiment)
    try:
        if profiled:
            RunFolder.open(folder, to_table(experiment))
            operations = profile(experiment, seed=seeds[0], device=device, data_root=data_root)
            torch.cuda.empty_cache()  # the processes of --jobs share the device
            status.print(profile_table(operations))
            write_text(folder / "profile.csv", profile_csv(operations))
        with progress_bars(experiment.training.epochs) as bar:
            record = run(
                experiment,
                seeds=seeds,
                device=device,
                data_root=data_root,
                folder=folder,
                jobs=jobs,
                on_seed=lambda seed: bar(f"{experiment.dataset}, seed {seed}"),
            )
    except KeyboardInterrupt:
        said(status, f"Stopped. Nothing is lost: the same command goes on from {folder}.")
        raise SystemExit(130) from None
    for seed in record.seeds:
        name = f"{experiment.dataset}, seed {seed.seed}"
        say_if_stopped_early(name, seed.epochs, seed.best_epoch, experiment.training)
    if json:
        console.print_json(record.to_json())
        return
    console.print(result_table(record))
    for name, (mean, _) in record.diagnostics.items():
        console.print(f"{name.replace('_', ' ').capitalize()}, measured in training: {mean:.4f}")
    said(console, f"Configuration, figures of every seed and weights: {folder}")


def show_methods(json: bool, write_docs: Path | None) -> None:
    """List every method, or write the page of each."""
    if write_docs is not None:
        _write_pages(write_docs)
        return
    methods = all_methods()
    facts = {name: method.facts for name, method in methods.items()}
    if json:
        console.print_json(jsonlib.dumps({name: fact._asdict() for name, fact in facts.items()}))
        return
    known_by = {name: f"{fact.year}, {' and '.join(fact.tasks)}" for name, fact in facts.items()}
    width = max(map(len, [*known_by, *known_by.values()]))
    for family, members in groupby(in_families(methods), key=lambda name: facts[name].family):
        console.rule(family, align="left", style="dim")
        table = Table.grid(padding=(0, 3, 0, 0))
        table.add_column(min_width=width)
        for name in members:
            paper = Text.assemble(facts[name].paper, (f"\n{facts[name].cost}", "dim"))
            table.add_row(Text.assemble((name, "bold"), (f"\n{known_by[name]}", "dim")), paper)
        console.print(table)
    console.print("After each paper: the cost of an epoch. For more: bandana methods --write-docs FOLDER", style="dim")


def _write_pages(folder: Path) -> None:
    pages = method_pages()
    for name, text in pages.items():
        write_text(folder / name, text)
    said(console, f"{len(pages)} pages in {folder}")


def method_pages() -> dict[str, str]:
    """File name and text of the page of every method, and of an index of them."""
    methods = all_methods()
    recipes = Path(str(files("bandana.paper") / "recipes"))
    books = {name: read_toml(recipes / f"{name}.toml") for name in methods}
    pages = {f"{name}.md": method_page(name, method, books[name]) for name, method in methods.items()}
    return {"README.md": index_page(methods), **pages}


def show_datasets(data_root: Path | None, json: bool) -> None:
    """List every data set."""
    rows = [{**asdict(info), "presence": presence(info, data_root)} for info in DATASETS.values()]
    if json:
        console.print_json(jsonlib.dumps(rows))
        return
    shown = [name for name, least in WIDTH_FOR.items() if console.width >= least]
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for name in shown:
        table.add_column(name, justify="right" if name in COUNTS else "left", overflow="fold", no_wrap=name != "source")
    for row in rows:
        counts = {name: f"{row[name]:,}" if row[name] else "–" for name in COUNTS}
        state = "found" if row["presence"].startswith(FOUND) else row["presence"]
        cells = {"data set": row["name"], "source": row["source"], **counts, "here?": state}
        table.add_row(*(cells[name] for name in shown))
    console.print(table)
    directed = ", ".join(row["name"] for row in rows if row["directed"])
    console.print(
        f"Edges are directed entries: an undirected edge counts twice. Directed graphs: {directed}.", style="dim"
    )
    for place in dict.fromkeys(row["presence"] for row in rows if row["presence"].startswith(FOUND)):
        said(console, f"Found{place.removeprefix('found')}.", style="dim", soft_wrap=True, highlight=False)


def show_environment(json: bool) -> None:
    """Show versions and hardware."""
    facts = environment()
    if json:
        console.print_json(jsonlib.dumps(facts))
        return
    table = Table(show_header=False)
    for name, value in facts.items():
        table.add_row(name, Text(value))
    console.print(table)


def _experiment(method: str, dataset: str | None, changes: dict[str, Any], book: str | None) -> Experiment:
    """A recipe by name, or the configuration of an earlier run, with changes on top."""
    if method.endswith(".toml"):
        if dataset is not None:
            raise UserError(f"{method}: names its data set already; leave {dataset!r} out.")
        if book is not None:
            raise UserError(f"{method}: holds all settings already; leave --recipe {book} out.")
        return patch(Experiment.from_table(read_toml(Path(method))), nest(changes))
    if dataset is None:
        raise UserError(f"bandana run {method}: name a data set too, for example: bandana run {method} digits.")
    for fixed in changes.keys() & {"method", "dataset"}:
        raise UserError(f"--set {fixed}: is an argument: bandana run METHOD DATASET, which decides the recipe.")
    return recipe(method, dataset, changes.pop("task", "node"), changes, book=book)


def _run_name(experiment: Experiment) -> str:
    """Equal settings of an equal version share a folder, so that the same command continues its run."""
    content = f"{__version__}\n{to_toml(to_table(experiment))}"
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    return f"{experiment.method}-{experiment.dataset}-{experiment.task}-{experiment.protocol}-{digest}"
