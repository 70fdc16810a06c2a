"""What a work would cost, shown before it is started."""

import os

from rich.table import Table
from rich.text import Text

from bandana.errors import UserError
from bandana.scale.distributed import leading
from bandana.scale.estimate import Costs
from bandana.terminal.screen import console

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def checked_processes(estimate: bool, processes: int | None) -> int:
    """How many processes an estimate is for: as many as are named, or as ``torchrun`` has started.

    Raises:
        UserError: A number was given without an estimate.
    """
    if processes is not None and not estimate:
        raise UserError(
            f"--processes {processes}: is for --estimate alone; start them with torchrun --nproc-per-node {processes}."
        )
    return processes or int(os.environ.get("WORLD_SIZE", "1"))


def show_costs(title: str, costs: Costs, processes: int, times: int = 1) -> None:
    """Print an estimate, in one process of those that there may be.

    Args:
        title: The work.
        costs: Of doing it once.
        processes: How many would work together.
        times: How often it is done, one after the other.
    """
    if not leading():
        return
    table = Table("", title=Text(title, "bold"), show_header=False, box=None, title_justify="left")
    table.add_column(justify="right", no_wrap=True)
    for phase, seconds in costs.seconds.items():
        table.add_row(f"  {phase}", in_time(times * seconds))
    table.add_row("time", in_time(times * sum(costs.seconds.values())), style="bold")
    table.add_row("memory of each process" if processes > 1 else "memory", in_bytes(costs.memory), style="bold")
    table.add_row("disk, beside what is there", in_bytes(times * costs.disk), style="bold")
    if costs.sent_per_step:
        table.add_row("sent by each process in a step", in_bytes(costs.sent_per_step))
        table.add_row("sent by each process in all", in_bytes(times * costs.sent), style="bold")
    console.print(table)
    if processes > 1:
        console.print("Each process as fast as this one, and a network that keeps none of them waiting.", style="dim")
    console.print("Good to about a factor of two. Nothing was started.", style="dim")


def in_bytes(count: float) -> str:
    """A size that is easy to read."""
    for unit in UNITS[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {UNITS[-1]}"


def in_time(seconds: float) -> str:
    """A time that is easy to read."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 100 * 3600 else f"{seconds / 86400:.0f} days"
