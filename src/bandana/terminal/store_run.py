"""What is seen of a run on a store: one process shows it, the others keep still."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from bandana import __version__
from bandana.config import nest, parse_assignment, patch, read_toml, to_table, to_toml
from bandana.devices import resolve_device
from bandana.errors import UserError
from bandana.reporting.tables import result_table
from bandana.scale.distributed import leading
from bandana.store_estimate import estimate_run
from bandana.store_experiment import StoreExperiment, is_store, run_store
from bandana.terminal.estimates import show_costs
from bandana.terminal.screen import console, progress_bars, said, say_if_stopped_early, status


def names_a_store(method: str, dataset: str | None) -> bool:
    """Whether a run is on a store: the folder of one is named, or the configuration of an earlier run on one."""
    if dataset is None and method.endswith(".toml"):
        return "shards" in read_toml(Path(method))
    return is_store(dataset)


def refuse_for_stores(options: Mapping[str, bool]) -> None:
    """Refuse options that a run on a store does not know.

    Raises:
        UserError: One of them was given.
    """
    for option, given in options.items():
        if given:
            raise UserError(f"{option}: is not for runs on a store; leave it out.")


def run_store_and_show(
    method: str,
    dataset: str | None,
    seeds: range,
    changes: dict[str, Any],
    device: str,
    out: Path | None,
    json: bool,
) -> None:
    """Run an experiment on a store with a progress bar and show its table, or print its record as JSON."""
    experiment = _experiment(method, dataset, changes)
    folder = out or Path("runs") / _run_name(experiment)
    name = Path(experiment.dataset).name
    try:
        with progress_bars(experiment.training.epochs) as bar:
            record = run_store(
                experiment,
                seeds=seeds,
                device=device,
                folder=folder,
                on_seed=lambda seed: bar(f"{name}, seed {seed}") if leading() else lambda state: None,
            )
    except KeyboardInterrupt:
        said(status, f"Stopped. Nothing is lost: the same command goes on from {folder}.")
        raise SystemExit(130) from None
    if record is None:
        return
    for seed in record.seeds:
        say_if_stopped_early(f"{name}, seed {seed.seed}", seed.epochs, seed.best_epoch, experiment.training)
    if json:
        console.print_json(record.to_json())
        return
    console.print(result_table(record))
    if isinstance(untold := record.seeds[0].split.get("nodes"), str):
        said(console, f"Nodes are {untold}.")
    said(console, f"Configuration, figures of every seed, weights and models: {folder}")
    store, model = quote(experiment.dataset), quote(str(folder / f"seed-{seeds[0]}" / "model"))
    next_step = f"Vectors of all nodes: bandana infer {store} --model {model} -o FOLDER"
    said(console, next_step, style="dim", soft_wrap=True)


def estimate_run_and_show(
    method: str, dataset: str | None, seeds: range, assignments: Sequence[str], device: str, processes: int
) -> None:
    """Say what a run on a store would cost, and do not start it.

    Raises:
        UserError: It is no run on a store, or would be refused.
    """
    if not names_a_store(method, dataset):
        raise UserError(
            f"--estimate: is for runs on a store, which {dataset!r} is not; make one with bandana partition."
        )
    experiment = _experiment(method, dataset, dict(map(parse_assignment, assignments)))
    with status.status("A few steps are timed …"):
        costs = estimate_run(experiment, processes=processes, device=resolve_device(device))
    show_costs(f"{experiment.method} on {experiment.dataset}", costs, processes, times=len(seeds))


def _experiment(method: str, dataset: str | None, changes: dict[str, Any]) -> StoreExperiment:
    """The recipe for a store, or the configuration of an earlier run, with changes on top.

    Raises:
        UserError: A change is of what the recipe is for.
    """
    for fixed in ("method", "dataset", "contents"):
        if fixed in changes:
            raise UserError(f"--set {fixed}: follows from the arguments; say bandana run METHOD STORE instead.")
    if dataset is None:
        return patch(StoreExperiment.from_table(read_toml(Path(method))), nest(changes))
    return StoreExperiment.of(method, Path(dataset), changes.pop("task", None), changes)


def _run_name(experiment: StoreExperiment) -> str:
    """Equal settings of an equal version share a folder, so that the same command continues its run."""
    digest = hashlib.sha256(f"{__version__}\n{to_toml(to_table(experiment))}".encode()).hexdigest()[:8]
    return f"{experiment.method}-{Path(experiment.dataset).name}-{experiment.task}-store-{digest}"
