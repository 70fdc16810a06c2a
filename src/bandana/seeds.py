"""Seeds of an experiment side by side, each in a process of its own: a small graph leaves a GPU nearly idle."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from numbers import Integral
from typing import Any, TypeAlias

import torch

from bandana.data.datasets import load
from bandana.devices import resolve_device, shared_gpu
from bandana.engine.streams import LARGEST_SEED
from bandana.errors import UserError
from bandana.training.trainer import OnEpoch, TrainingState
from bandana.workers import Team, tell

OnSeed: TypeAlias = Callable[[int], OnEpoch]
SideBySide: TypeAlias = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]], OnSeed], list[Any]]

SECONDS_BETWEEN_NEWS = 0.2

load_once = lru_cache(maxsize=1)(load)
"""A process that runs one seed after another reads the data once."""


def checked(seeds: Iterable[int]) -> list[int]:
    """The seeds as plain numbers.

    Raises:
        UserError: There is none, or one is not a number that torch and numpy tell from all others.
    """
    numbers = list(seeds)
    for seed in numbers:
        if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= seed <= LARGEST_SEED:
            raise UserError(f"seeds: must be whole numbers from 0 to {LARGEST_SEED}, got {seed!r}; give another one.")
    if not numbers:
        raise UserError("seeds: there is none, so there is nothing to run; give at least one.")
    return [int(seed) for seed in numbers]


@contextmanager
def side_by_side(device: torch.device, jobs: int) -> Iterator[SideBySide]:
    """Processes that stay for as long as this context, and a function that sets them to work.

    It takes a function of a module, a list of its arguments, in each of which the seed comes first, and the epoch
    callback of each seed. It returns the results in the order of the arguments. Processes share the CPU's threads.

    Raises:
        UserError: A seed could not be run; the others are given up.
    """
    threads = max(torch.get_num_threads() // jobs, 1)
    team = Team(partial(_apart, device.type), jobs)  # gets ready while the sharing of the card does
    with shared_gpu(device, jobs), team:

        def carry_out(work: Callable[..., Any], pieces: Iterable[tuple[Any, ...]], on_seed: OnSeed) -> list[Any]:
            wanted = [(work, threads, *arguments) for arguments in pieces]
            results: dict[int, Any] = {}
            for outcome in team.carry_out(wanted, on_news=_passing_on(on_seed)):
                seed = _seed_of(outcome.arguments)
                if outcome.failure:
                    raise UserError(f"Seed {seed}: {outcome.failure.removeprefix('UserError: ')}")
                results[seed] = outcome.result
            return [results[_seed_of(piece)] for piece in wanted]

        yield carry_out


@contextmanager
def telling() -> Iterator[OnEpoch]:
    """An epoch callback for a process of `side_by_side`.

    It passes states on, but not more often than one can see, and the last one in any case, so that a bar ends where the
    training did.
    """
    last, untold = 0.0, None

    def pass_on(state: TrainingState) -> None:
        nonlocal last, untold
        untold = state
        if time.monotonic() - last > SECONDS_BETWEEN_NEWS:
            last, untold = time.monotonic(), None
            tell(state)

    yield pass_on
    if untold is not None:
        tell(untold)


def _passing_on(on_seed: OnSeed) -> Callable[[Sequence[Any], TrainingState], None]:
    """Gives the news of every seed to its own callback, which is asked for with the first of them."""
    callbacks: dict[int, OnEpoch] = {}

    def pass_on(arguments: Sequence[Any], state: TrainingState) -> None:
        seed = _seed_of(arguments)
        if seed not in callbacks:
            callbacks[seed] = on_seed(seed)
        callbacks[seed](state)

    return pass_on


def _seed_of(piece: Sequence[Any]) -> int:
    """What `_apart` passes on as its first argument."""
    _work, _threads, seed, *_rest = piece
    return int(seed)


def _apart(device: str, work: Callable[..., Any], threads: int, *arguments: Any) -> Any:
    resolve_device(device)  # of several cards, this process takes its own
    torch.set_num_threads(threads)
    try:
        return work(*arguments)
    finally:
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()  # other processes share the device
