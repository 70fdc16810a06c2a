"""Several trainings at once. On a GPU each has a stream of its own, so that small graphs share the card."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class StoppedError(Exception):
    """Another of the trainings failed or was interrupted, and with it this one."""


def at_once(
    task: Callable[[Item, Callable[[], None]], Result], items: Iterable[Item], jobs: int, device: torch.device
) -> list[Result]:
    """Do a task for every item, up to `jobs` of them at a time; results come in the order of the items.

    Args:
        task: Gets an item and a function to call now and then, which raises when the work has become useless.
        items: What to do it for.
        jobs: Threads. They are enough: while a GPU works, Python waits.
        device: Where the tasks run.

    Raises:
        Exception: What a task raised, or an interruption from the keyboard; the other tasks are stopped.
    """
    stop = Event()

    def check() -> None:
        if stop.is_set():
            raise StoppedError

    if jobs == 1:
        return [task(item, check) for item in items]

    def on_own_stream(item: Item) -> Result:
        if device.type != "cuda":
            return task(item, check)
        with torch.cuda.stream(torch.cuda.Stream(device)):
            return task(item, check)

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(on_own_stream, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
