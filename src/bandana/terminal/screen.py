"""The two streams of the terminal, and the progress bars of trainings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bandana.evaluation.wording import how_many
from bandana.training.trainer import OnEpoch, TrainingConfig, TrainingState

console = Console()
status = Console(stderr=True)


def said(where: Console, sentence: str, **how: Any) -> None:
    """Print a sentence as it is: names of files and columns are somebody else's words, whatever brackets they hold."""
    where.print(sentence, markup=False, emoji=False, **how)


@contextmanager
def progress_bars(epochs: int) -> Iterator[Callable[[str], OnEpoch]]:
    """Live bars on the terminal's error stream, one for each training that starts."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    progress = Progress(*columns, console=status)

    def start(name: str) -> OnEpoch:
        progress.start()
        bar = progress.add_task(name, total=epochs, note="")
        return lambda state: progress.update(bar, completed=state.epoch, note=_note(state))

    try:
        yield start
    finally:
        if progress.tasks:
            progress.stop()


def say_if_stopped_early(name: str, epochs: int, best_epoch: int, training: TrainingConfig) -> None:
    """Say why a bar ends before its end: that is no abort.

    Args:
        name: Of the bar.
        epochs: That were trained.
        best_epoch: Whose weights were kept.
        training: What was planned.
    """
    looks, patience = (epochs - best_epoch) // training.evaluate_every, training.patience_evaluations
    if epochs < training.epochs and 0 < patience <= looks:
        said(
            status,
            f"{name}: stopped early, after {epochs:,} of {training.epochs:,} epochs, because {how_many(looks, 'look')} "
            f"in a row at the validation links found nothing better than epoch {best_epoch:,}, whose weights are kept.",
            style="dim",
            highlight=False,
        )


def _note(state: TrainingState) -> str:
    if not state.history:
        return "epochs"
    last = state.history[-1]
    best = f", best validation {100 * state.progress.best_value:.2f}" if "monitor" in last else ""
    return f"epochs, loss {last['loss']:.3f}{best}"
