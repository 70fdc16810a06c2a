"""Many searches over one pool of processes, which share a limited time.

Whenever a process is free, the search that is furthest behind its share of the work gets it. A search has two legs. In
the first it tries settings. In the second its best trials are repeated, seed after seed, with seeds that have not
chosen them; the winner is the one that does best there (`bandana.tuning.trials.winner_of`).

Every trial is kept when it ends, so that a race can be stopped anywhere and be run on.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from bandana.devices import resolve_device, shared_gpu
from bandana.errors import UserError
from bandana.seeds import load_once
from bandana.tuning.folder import SearchFolder
from bandana.tuning.sampling import importance, propose, require_optuna
from bandana.tuning.trials import Trial, failure_of, ranked
from bandana.tuning.tune import Search, tuned_recipe
from bandana.tuning.validation import DECIDE_READING, read_off, readable, validation_scores
from bandana.workers import Team

FIRST_FRESH_SEED = 2000
"""Second legs take seeds from here on, first legs those before, and reported runs those from 0."""
HOPELESS = 5
"""Failures before the first score after which a search is given up."""


class Rules(NamedTuple):
    """How long a race is, and how it ends.

    Attributes:
        jobs: Processes.
        seconds: Time after which no work begins any more.
        second_leg: Share of the time that the second leg has.
        finalists: Trials of each search that come into the second leg.
        rounds: Repetitions of each finalist at most.
        grace: Seconds after the end that work under way is waited for.
    """

    jobs: int
    seconds: float
    second_leg: float = 0.3
    finalists: int = 3
    rounds: int = 4
    grace: float = 20.0


class Work(NamedTuple):
    """One piece of work: some settings, to be judged by some seeds from some time on; a `trial` is to be repeated."""

    search: Search
    number: int
    values: dict[str, Any]
    seeds: range
    trial: Trial | None = None
    begun: float = 0.0

    @property
    def round(self) -> int:
        """How often the finalist was repeated before."""
        return 0 if self.trial is None else len(self.trial.fresh) // len(self.seeds)


@dataclass(eq=False)
class Runner:
    """A search in a race.

    Attributes:
        search: What it searches.
        folder: Where it keeps its trials.
        weight: Its share, relative to the others'.
        also: Settings to try next to the recipe, before any are proposed.
        trials: What it has, by number.
        under_way: Numbers of trials that are being worked on.
        died: Numbers of finalists whose process broke down once, which is forgiven: others use the machine too.
    """

    search: Search
    folder: SearchFolder
    weight: float = 1.0
    also: Sequence[Mapping[str, Any]] = ()
    trials: dict[int, Trial] = field(default_factory=dict)
    under_way: set[int] = field(default_factory=set)
    died: set[int] = field(default_factory=set)

    @property
    def hopeless(self) -> bool:
        """Whether all that was tried has failed, so that the fault is not in what is searched."""
        return len(self.trials) >= HOPELESS and not ranked(self.made)

    @property
    def made(self) -> list[Trial]:
        return [self.trials[number] for number in sorted(self.trials)]

    @property
    def progress(self) -> float:
        """Work done and under way per weight; what is under way is taken to need what others needed."""
        seconds = [trial.seconds for trial in self.trials.values()]
        expected = fmean(seconds) if seconds else 1.0
        return (sum(seconds) + expected * len(self.under_way)) / self.weight

    def try_next(self) -> Work:
        """The next settings to try: the recipe, what was picked by hand, or what the sampler proposes."""
        what = self.search
        number = next(number for number in count() if number not in self.trials and number not in self.under_way)
        read = {} if what.space.keys() & DECIDE_READING else readable(what.experiment, what.space)
        space = {option: dimension for option, dimension in what.space.items() if option not in read}
        picked = [{}, *self.also]
        if number < len(picked):
            return Work(what, number, {**what.first, **picked[number]}, what.seeds)
        proposed = propose(space, self.made, what.sampler_seed, number=number, start=what.first)
        return Work(what, number, {**what.first, **proposed}, what.seeds)

    def repeat_next(self, finalists: int, rounds: int) -> Work | None:
        """The next repetition of the finalist that has the fewest; None if all have had theirs."""
        size = len(self.search.seeds)
        waiting = [
            trial
            for trial in ranked(self.made)[:finalists]
            if trial.number not in self.under_way and len(trial.fresh) < rounds * size
        ]
        if not waiting:
            return None
        trial = min(waiting, key=lambda trial: len(trial.fresh))
        first = FIRST_FRESH_SEED + len(trial.fresh)
        return Work(self.search, trial.number, trial.values, range(first, first + size), trial)

    def bury(self, work: Work, failure: str, now: float) -> Trial:
        """What a trial is after its process broke down: failed, but for a finalist that this befalls first."""
        seconds = now - work.begun
        if work.trial is None or work.number in self.died:
            return _judged(work, work.values, [], seconds, failure)
        self.died.add(work.number)
        return replace(work.trial, seconds=work.trial.seconds + seconds)

    def take(self, work: Work, trial: Trial, budget: Mapping[str, Any]) -> None:
        """Keep what came of a piece of work."""
        self.under_way.discard(work.number)
        self.trials[work.number] = trial
        if ranked(self.made):
            self.folder.keep(self.made, budget, importance(self.search.space, self.made) if work.trial else {})
            self.folder.write_recipe(tuned_recipe(self.search, self.made))


def race(
    runners: Sequence[Runner],
    rules: Rules,
    *,
    device: str = "auto",
    data_root: Path | None = None,
    on_trial: Callable[[Runner, Trial], None] = lambda runner, trial: None,
) -> None:
    """Let searches share some processes until the time is up.

    Args:
        runners: The searches, with the trials of earlier races.
        rules: How long, and how it ends.
        device: ``auto``, ``cpu`` or ``cuda``.
        data_root: Where raw data lie, read-only.
        on_trial: Called when a trial was made or repeated.

    Raises:
        UserError: optuna is not installed, or there is no such device.
    """
    require_optuna()
    began = time.monotonic()

    def pieces() -> Iterator[tuple[Work, str, Path | None] | None]:
        while True:
            now = time.monotonic()
            chosen = next_work(runners, rules, now - began)
            if chosen is None:
                yield None
            else:
                runner, work = chosen
                runner.under_way.add(work.number)
                yield work._replace(begun=now), device, data_root

    with shared_gpu(resolve_device(device), rules.jobs), Team(attempt, rules.jobs) as team:
        for outcome in team.carry_out(pieces(), budget=rules.seconds, grace=rules.grace):
            work: Work = outcome.arguments[0]
            runner = next(runner for runner in runners if runner.search is work.search)
            trial = outcome.result if not outcome.failure else runner.bury(work, outcome.failure, time.monotonic())
            runner.take(work, trial, {**rules._asdict(), "weight": runner.weight})
            on_trial(runner, trial)


def next_work(runners: Sequence[Runner], rules: Rules, elapsed: float) -> tuple[Runner, Work] | None:
    """What a free process is to do: work of the search that is furthest behind, in the second leg by rounds."""
    taking_part = sorted((runner for runner in runners if not runner.hopeless), key=lambda runner: runner.progress)
    if elapsed < rules.seconds * (1 - rules.second_leg):
        return next(((runner, runner.try_next()) for runner in taking_part), None)
    offered = ((runner, runner.repeat_next(rules.finalists, rules.rounds)) for runner in taking_part)
    works = [(runner, work) for runner, work in offered if work is not None]
    return min(works, key=lambda pair: pair[1].round, default=None)


def attempt(work: Work, device: str, data_root: Path | None) -> Trial:
    """Judge settings, in a process that does nothing else and leaves the GPU to the others afterwards."""
    torch.set_num_threads(1)
    what, started, where = work.search, time.perf_counter(), resolve_device(device)
    values, failure, scores = work.values, "", list[float]()
    try:
        experiment = what.with_values(work.values)
        data = load_once(experiment.dataset, data_root)
        read = {} if work.trial else readable(experiment, what.space)
        if read:
            chosen, scores = read_off(experiment, data, work.seeds, where, read)
            values = {**values, **chosen}
        else:
            scores = validation_scores(experiment, data, work.seeds, where)
    except (UserError, RuntimeError, MemoryError) as problem:
        failure = failure_of(problem)
    gc.collect()
    torch.cuda.empty_cache()
    return _judged(work, values, scores, time.perf_counter() - started, failure)


def _judged(work: Work, values: dict[str, Any], scores: Sequence[float], seconds: float, failure: str) -> Trial:
    """The trial that came of some work. A finalist that fails in a repetition is out."""
    if work.trial is None:
        return Trial(number=work.number, values=values, scores=tuple(scores), seconds=seconds, failure=failure)
    before = work.trial
    if failure:
        return replace(before, scores=(), fresh=(), seconds=before.seconds + seconds, failure=failure)
    return replace(before, fresh=(*before.fresh, *scores), seconds=before.seconds + seconds)
