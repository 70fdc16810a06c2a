"""Trials: settings that were tried, and how well they did on validation data."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from bandana.errors import UserError, wants_memory

Objective = Callable[[Mapping[str, Any]], Sequence[float]]
"""Validation scores of some settings, one per seed, each a share; higher is better."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One trial.

    Attributes:
        number: From 0; the first is the recipe as it stands.
        values: Dotted options and their values.
        scores: Validation score of each seed; empty if it failed.
        seconds: What it took, fresh seeds included.
        failure: Why there are no scores, or empty.
        fresh: Validation scores of seeds that did not choose it, in the same order for all trials that have some.
    """

    number: int
    values: dict[str, Any]
    scores: tuple[float, ...] = ()
    seconds: float = 0.0
    failure: str = ""
    fresh: tuple[float, ...] = ()

    @property
    def score(self) -> float | None:
        """The mean over seeds."""
        return fmean(self.scores) if self.scores else None


def search(
    first: Mapping[str, Any],
    propose: Callable[[Sequence[Trial]], dict[str, Any]],
    objective: Objective,
    *,
    trials: int,
    seconds: float = math.inf,
    done: Sequence[Trial] = (),
    on_trial: Callable[[Sequence[Trial]], None] = lambda trials: None,
) -> list[Trial]:
    """Try settings until the budget is spent.

    Args:
        first: The settings to begin with, so that the best is never worse than they are.
        propose: What to try next, from all trials so far.
        objective: Judges settings on validation data.
        trials: How many, with those that are done.
        seconds: Time of all trials after which none begins any more.
        done: Trials of an earlier call, to go on from.
        on_trial: Called after each trial with all of them, to keep them.

    Raises:
        UserError: The first settings cannot be judged, so the fault is not in what was searched.
    """
    made = list(done)
    while len(made) < trials and sum(trial.seconds for trial in made) < seconds:
        values = propose(made) if made else dict(first)
        made.append(_tried(objective, len(made), values))
        on_trial(made)
    return made


def best_of(trials: Sequence[Trial]) -> Trial:
    """The trial with the highest mean score; of equals, the earliest."""
    return ranked(trials)[0]


def winner_of(trials: Sequence[Trial]) -> Trial:
    """The trial to take: by fresh seeds where some trials were repeated with them, else the one with the best score.

    The highest of many scores was lucky too, and fresh seeds do not know about its luck. Trials are compared by the
    seeds that all repeated ones have in common; of equals, the one that did better before.
    """
    repeated = [trial for trial in ranked(trials) if trial.fresh]
    if not repeated:
        return best_of(trials)
    shared = min(len(trial.fresh) for trial in repeated)
    return max(repeated, key=lambda trial: fmean(trial.fresh[:shared]))


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that have a score, best first."""
    scored = ((trial.score, trial) for trial in trials)
    pairs = sorted(((score, trial) for score, trial in scored if score is not None), key=lambda pair: -pair[0])
    return [trial for _, trial in pairs]


def failure_of(problem: Exception) -> str:
    """Why a trial has no scores, if that is due to what was tried; any other problem is raised again."""
    if isinstance(problem, UserError):
        return str(problem)
    if isinstance(problem, torch.OutOfMemoryError) or wants_memory(problem):
        return "it does not fit into the memory of the device."
    raise problem


def _tried(objective: Objective, number: int, values: dict[str, Any]) -> Trial:
    started = time.perf_counter()
    scores: tuple[float, ...] = ()
    failure = ""
    try:
        scores = tuple(objective(values))
    except (UserError, RuntimeError, MemoryError) as problem:
        failure = failure_of(problem)
        if number == 0:
            raise UserError(f"The recipe itself gives no score: {failure}") from None
    return Trial(number=number, values=values, scores=scores, seconds=time.perf_counter() - started, failure=failure)
