"""The two streams of the terminal, and the progress bars of trainings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bandana.training.trainer import OnEpoch, TrainingState

console = Console()
status = Console(stderr=True)


@contextmanager
def progress_bars(epochs: int) -> Iterator[Callable[[str], OnEpoch]]:
    """Live bars on the terminal's error stream, one for each training that starts."""
    columns = (
        TextColumn("{task.description}"),
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


def _note(state: TrainingState) -> str:
    if not state.history:
        return "epochs"
    last = state.history[-1]
    best = f", best validation {100 * state.progress.best_value:.2f}" if "monitor" in last else ""
    return f"epochs, loss {last['loss']:.3f}{best}"
