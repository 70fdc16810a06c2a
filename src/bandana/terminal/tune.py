"""What a person sees of a search for settings."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from rich.box import SIMPLE
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bandana.config import parse_assignment
from bandana.paper.cookbook import recipe
from bandana.terminal.screen import console, said, status
from bandana.training.trainer import OnEpoch
from bandana.tuning.folder import RECIPE, TRIALS
from bandana.tuning.space import read_space, space_for, without
from bandana.tuning.trials import Trial, best_of, ranked
from bandana.tuning.tune import FIRST_SEED, MEASURES, Search, Tuned, tune

SHOWN_TRIALS = 5
SHOWN_OPTIONS = 5


def tune_and_show(
    method: str,
    dataset: str,
    task: Any,
    space: Path | None,
    assignments: Sequence[str],
    trials: int,
    seconds: float | None,
    seeds: int,
    sampler_seed: int,
    jobs: int,
    device: str,
    data_root: Path | None,
    out: Path,
) -> None:
    """Search with a progress bar, then show the best trials and where everything is."""
    changes = dict(map(parse_assignment, assignments))
    experiment = recipe(method, dataset, task, changes)
    search = Search(
        experiment=experiment,
        space=without(space_for(method, dataset, task) if space is None else read_space(space, task), changes),
        changes=changes,
        seeds=range(FIRST_SEED, FIRST_SEED + seeds),
        sampler_seed=sampler_seed,
    )
    try:
        with _bars(trials) as (on_trial, on_epoch):
            tuned = tune(
                search,
                out,
                trials=trials,
                seconds=math.inf if seconds is None else seconds,
                jobs=jobs,
                device=device,
                data_root=data_root,
                on_trial=on_trial,
                on_epoch=on_epoch,
            )
    except KeyboardInterrupt:
        said(status, f"Stopped. At most the trial in flight is lost: the same command goes on from {out}.")
        raise SystemExit(130) from None
    _show(search, tuned)
    said(console, f"All {len(tuned.trials)} trials: {out / TRIALS}   Recipe: {out / RECIPE}", soft_wrap=True)
    next_step = f"Run it: bandana run {method} {dataset} --task {task} --recipe {quote(str(out / RECIPE))}"
    said(console, next_step, soft_wrap=True)


def best_table(search: Search, trials: Sequence[Trial]) -> Table:
    """The best trials side by side, one row per option."""
    shown = ranked(trials)[:SHOWN_TRIALS]
    title = f"best of {len(trials)} trials by {MEASURES[search.experiment.task]}"
    table = Table(box=SIMPLE, title=title, title_justify="left", padding=(0, 1, 0, 0))
    table.add_column("trial", no_wrap=True)
    for trial in shown:
        table.add_column("recipe" if trial.number == 0 else str(trial.number), justify="right")
    table.add_row("validation score, %", *(f"{100 * (trial.score or 0.0):.2f}" for trial in shown), end_section=True)
    for option in search.space:
        table.add_row(option, *(str(trial.values[option]) for trial in shown))
    return table


def _show(search: Search, tuned: Tuned) -> None:
    console.print(best_table(search, tuned.trials))
    if tuned.importance:
        shares = list(tuned.importance.items())[:SHOWN_OPTIONS]
        console.print("What mattered: " + ", ".join(f"{option} {share:.0%}" for option, share in shares))
    failed = [trial for trial in tuned.trials if trial.failure]
    if failed:
        said(console, f"{len(failed)} trials gave no score; the first of them: {failed[0].failure}")
    console.print(
        "The best score was chosen for being the highest, so a fresh run may well be a little lower. "
        "No test figure was computed."
    )


@contextmanager
def _bars(total: int) -> Iterator[tuple[Callable[[Sequence[Trial]], None], OnEpoch]]:
    """A bar of the trials with the best so far, and one of the training in progress."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=status) as progress:
        trials = progress.add_task("trials", total=total, note="")
        training = progress.add_task("this training", total=None, note="epochs")

        def on_trial(made: Sequence[Trial]) -> None:
            best = best_of(made) if made else None
            note = "" if best is None else f"best {100 * (best.score or 0.0):.2f} (trial {best.number})"
            progress.update(trials, completed=len(made), note=note)

        yield on_trial, lambda state: progress.update(training, completed=state.epoch)
