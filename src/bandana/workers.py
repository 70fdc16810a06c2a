"""Processes that carry out one piece of work after another, so that one which fails, dies or lingers stops no other."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import Pipe, forkserver, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, NamedTuple, TypeAlias

_CAN_FORK = sys.platform == "linux"  # libraries of macOS do not survive it
_PRELOADED = ["bandana.experiment", "torch._dynamo"]  # torch imports the second for the first optimiser: seconds
"""What most work needs and nothing that touches the GPU, which a fork of a process that did could not use."""
_boss: Connection | None = None
"""In a process that works: where its answers go."""
_number: int | None = None
"""In a process that works: how many its boss had begun before."""

OnNews: TypeAlias = Callable[[tuple[Any, ...], Any], None]


class Outcome(NamedTuple):
    """What became of a piece of work: its result, or why there is none."""

    arguments: tuple[Any, ...]
    result: Any
    failure: str
    """Empty when there is a result."""


class _News(NamedTuple):
    content: Any


def tell(content: Any) -> None:
    """Let whoever waits for the piece of work that this process is busy with know how it goes."""
    if _boss is not None:
        _boss.send(_News(content))


def number() -> int | None:
    """How many processes the boss of this one had begun before; None for a process that has no boss."""
    return _number


def end_with_parent() -> None:
    """Let this process end when the one that began it does, however that one ends, and whatever this one is doing."""
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()


def get_ready(jobs: int) -> None:
    """If so many processes are going to be forks of a server, let it import what they need while others are busy."""
    if _forked(jobs):
        _run_server()


def carry_out(
    work: Callable[..., Any],
    pieces: Iterable[tuple[Any, ...]],
    *,
    jobs: int = 1,
    limit: float = float("inf"),
    budget: float = float("inf"),
    on_news: OnNews = lambda arguments, news: None,
) -> Iterator[Outcome]:
    """Call `work` with the arguments of every piece, and give the outcomes as they come; see `Team.carry_out`."""
    with Team(work, jobs) as team:
        yield from team.carry_out(pieces, limit=limit, budget=budget, on_news=on_news)


class Team:
    """Processes for one kind of work, each begun when it is first needed, all ended with the context."""

    def __init__(self, work: Callable[..., Any], jobs: int) -> None:
        """Begin none yet, but get ready.

        Args:
            work: A function of a module, as processes take no others.
            jobs: Processes at a time.
        """
        self._work, self._jobs = work, jobs
        get_ready(jobs)
        self._idle: list[_Worker] = []
        self._numbers = count()

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *problem: object) -> None:
        for worker in self._idle:
            worker.dismiss()

    def carry_out(
        self,
        pieces: Iterable[tuple[Any, ...] | None],
        *,
        limit: float = float("inf"),
        budget: float = float("inf"),
        grace: float = float("inf"),
        on_news: OnNews = lambda arguments, news: None,
    ) -> Iterator[Outcome]:
        """Give the outcomes of all pieces as they come; whoever stops asking for them ends the work under way.

        Args:
            pieces: Arguments of the calls, in the order in which they are begun. A piece is asked for when a process is
                free; None says that there is nothing to do before another outcome has been looked at.
            limit: Seconds after which a call is given up.
            budget: Seconds after which no further call is begun; those under way are waited for.
            grace: Seconds beyond the budget for which they are. What is not done then is forgotten.
            on_news: Called with the arguments of a piece and with what it told about itself; see `tell`.
        """
        ends, waiting = time.monotonic() + budget, iter(pieces)
        busy: list[_Worker] = []
        try:
            while (now := time.monotonic()) < ends + grace:
                while len(busy) < self._jobs and time.monotonic() < ends and (piece := next(waiting, None)) is not None:
                    busy.append(self._begun(piece, limit))
                if not busy:
                    break
                patience = min(ends + grace, *(worker.ends for worker in busy)) - now
                connections = [worker.connection for worker in busy]
                answered = wait(connections, None if patience == float("inf") else max(patience, 0))
                now = time.monotonic()
                for worker in list(busy):
                    answer = worker.answer() if worker.connection in answered else None
                    if isinstance(answer, _News):
                        on_news(worker.arguments, answer.content)
                    elif answer is not None or now >= worker.ends:
                        busy.remove(worker)
                        yield self._released(worker, answer or worker.over(limit))
        finally:
            for worker in busy:
                worker.dismiss()

    def _begun(self, arguments: tuple[Any, ...], limit: float) -> "_Worker":
        """A process at work on a piece: one that waits for some, unless it has died meanwhile, or a new one."""
        while self._idle:
            worker = self._idle.pop()
            with suppress(OSError):
                worker.begin(arguments, limit)
                return worker
            worker.dismiss()
        worker = _Worker(self._work, next(self._numbers), _forked(self._jobs))
        worker.begin(arguments, limit)
        return worker

    def _released(self, worker: "_Worker", outcome: Outcome) -> Outcome:
        # After a failure the memory or the GPU of the process may be in any state: the next piece gets a new one.
        if outcome.failure:
            worker.dismiss()
        else:
            self._idle.append(worker)
        return outcome


@dataclass(eq=False)
class _Worker:
    """One process and the piece it is busy with."""

    work: Callable[..., Any]
    number: int
    forked: bool
    arguments: tuple[Any, ...] = ()
    ends: float = 0.0
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.connection, theirs = Pipe()
        begin = _fork if self.forked else _spawn
        self._process = begin(_serve, (dict(os.environ), self.work, self.number, theirs))
        theirs.close()  # so that the death of the process ends the connection

    def begin(self, arguments: tuple[Any, ...], limit: float) -> None:
        self.arguments, self.ends = arguments, time.monotonic() + limit
        self.connection.send(arguments)

    def answer(self) -> Outcome | _News:
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            answer = None, f"the process ended with code {self._process.exitcode}"
        return answer if isinstance(answer, _News) else Outcome(self.arguments, *answer)

    def over(self, limit: float) -> Outcome:
        return Outcome(self.arguments, None, f"over {limit:g} s")

    def dismiss(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(environment: Mapping[str, str], work: Callable[..., Any], number: int, connection: Connection) -> None:
    """Work until nobody asks any more, or listens."""
    global _boss, _number
    os.environ.clear()
    os.environ.update(environment)  # of the boss by now; the server of a fork has kept that of its own start
    _boss, _number = connection, number
    end_with_parent()
    with suppress(EOFError, OSError):
        while True:
            arguments = connection.recv()
            try:
                answer = work(*arguments), ""
            except Exception as problem:
                lines = str(problem).strip().splitlines()
                answer = None, f"{type(problem).__name__}: {lines[0] if lines else 'no message'}"
            connection.send(answer)


def _forked(jobs: int) -> bool:
    """Whether so many processes are begun by `_fork`: one alone gains nothing by waiting for the server first."""
    return _CAN_FORK and jobs > 1


def _spawn(target: Callable[..., None], arguments: tuple[Any, ...]) -> BaseProcess:
    """Begin a process that imports for itself. It is no fork of the boss, who may have used the GPU."""
    process = get_context("spawn").Process(target=target, args=arguments, daemon=True)
    with _interrupts_blocked():
        process.start()
    return process


def _fork(target: Callable[..., None], arguments: tuple[Any, ...]) -> BaseProcess:
    """Begin a process as a fork of the server."""
    _run_server()
    process = get_context("forkserver").Process(target=target, args=arguments, daemon=True)
    try:
        process.start()  # waits while the server imports, and Ctrl-C is heard: the fork has its block from there
    except (EOFError, ConnectionError):  # the server died while it was asked, of too little memory perhaps
        return _spawn(target, arguments)
    return process


def _run_server() -> None:
    """See that there is a process which only imports and forks, until this one and all forks have ended."""
    forkserver.set_forkserver_preload(_PRELOADED)
    same_modules = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "yes"}  # and none of the current folder
    with _interrupts_blocked(), changed_environment(same_modules):
        forkserver.ensure_running()


@contextmanager
def changed_environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for a while, for processes begun meanwhile; afterwards they are as before."""
    before = {name: os.environ[name] for name in settings if name in os.environ}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Keep Ctrl-C waiting for a while; processes begun meanwhile never hear of it: the boss does, who ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # it comes with the first process, and as it starts it ends any block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
