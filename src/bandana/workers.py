"""Processes that carry out one piece of work after another, so that one which fails, dies or lingers stops no other."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

_SPAWN = get_context("spawn")  # a forked process cannot use the GPU of its parent


class Outcome(NamedTuple):
    """What became of a piece of work: its result, or why there is none."""

    arguments: tuple[Any, ...]
    result: Any
    failure: str
    """Empty when there is a result."""


def carry_out(
    work: Callable[..., Any],
    pieces: Iterable[tuple[Any, ...]],
    *,
    jobs: int = 1,
    limit: float = float("inf"),
    budget: float = float("inf"),
) -> Iterator[Outcome]:
    """Call `work` with the arguments of every piece, and give the outcomes as they come.

    Args:
        work: A function of a module, as processes take no others.
        pieces: Arguments of the calls, in the order in which they are begun.
        jobs: Processes at a time.
        limit: Seconds after which a call is given up.
        budget: Seconds after which no further call is begun; those under way are waited for.
    """
    ends, waiting = time.monotonic() + budget, deque(pieces)
    idle: list[_Worker] = []
    busy: dict[Connection, _Worker] = {}
    while waiting or busy:
        while waiting and len(busy) < jobs and time.monotonic() < ends:
            worker = idle.pop() if idle else _Worker(work)
            worker.begin(waiting.popleft(), limit)
            busy[worker.connection] = worker
        if not busy:
            break
        patience = min(worker.ends for worker in busy.values()) - time.monotonic()
        answered = wait(list(busy), None if patience == float("inf") else max(patience, 0))
        now = time.monotonic()
        for worker in [worker for worker in busy.values() if worker.connection in answered or now >= worker.ends]:
            del busy[worker.connection]
            outcome = worker.outcome() if worker.connection in answered else worker.give_up(limit)
            # After a failure the memory or the GPU of the process may be in any state: the next piece gets a new one.
            if outcome.failure:
                worker.dismiss()
            else:
                idle.append(worker)
            yield outcome
    for worker in idle:
        worker.dismiss()


@dataclass(eq=False)
class _Worker:
    """One process and the piece it is busy with."""

    work: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    ends: float = 0.0
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(self.work, theirs), daemon=True)
        self._process.start()
        theirs.close()  # so that the death of the process ends the connection

    def begin(self, arguments: tuple[Any, ...], limit: float) -> None:
        self.arguments, self.ends = arguments, time.monotonic() + limit
        self.connection.send(arguments)

    def outcome(self) -> Outcome:
        try:
            return Outcome(self.arguments, *self.connection.recv())
        except (EOFError, ConnectionResetError):
            self._process.join()
            return Outcome(self.arguments, None, f"the process ended with code {self._process.exitcode}")

    def give_up(self, limit: float) -> Outcome:
        return Outcome(self.arguments, None, f"over {limit:g} s")

    def dismiss(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(work: Callable[..., Any], connection: Connection) -> None:
    """Work until nobody asks any more."""
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = work(*arguments), ""
        except Exception as problem:
            lines = str(problem).strip().splitlines()
            answer = None, f"{type(problem).__name__}: {lines[0] if lines else 'no message'}"
        connection.send(answer)
