"""Tuning a method's recipe for a data set: the search behind ``bandana tune``."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from bandana import __version__
from bandana.config import nest, patch, to_table
from bandana.data.datasets import Dataset, load
from bandana.devices import resolve_device
from bandana.errors import UserError
from bandana.experiment import Experiment
from bandana.files import alone, check_writable
from bandana.seeds import load_once, side_by_side, telling
from bandana.training.trainer import OnEpoch
from bandana.tuning.folder import SEARCH, SearchFolder, recipe_text
from bandana.tuning.sampling import importance, propose, require_optuna
from bandana.tuning.space import OneOf, Space, spoken
from bandana.tuning.trials import Trial, best_of, search, winner_of
from bandana.tuning.validation import validation_score_of, validation_scores, value_of

FIRST_SEED = 1000
"""Searches take seeds from here on and reported runs from 0, so that no luck of a seed is both chosen and reported."""
MEASURES = {"link": "AUC of validation links", "node": "micro-F1 of validation nodes"}


@dataclass(frozen=True, kw_only=True)
class Search:
    """What to search, except for how long.

    Attributes:
        experiment: Where to start from.
        space: What may vary.
        changes: Dotted options that make the experiment differ from the method's recipe, for the tuned recipe.
        seeds: Pre-trainings per trial, each with a split of its own.
        sampler_seed: Decides what is proposed.
    """

    experiment: Experiment
    space: Space
    changes: Mapping[str, Any] = field(default_factory=dict)
    seeds: range = range(FIRST_SEED, FIRST_SEED + 1)
    sampler_seed: int = 0

    def __post_init__(self) -> None:
        """Try every end of every range, so that a wrong option is named before hours are spent.

        Raises:
            UserError: The experiment has no such option, or not with such a value.
        """
        for option, dimension in self.space.items():
            for value in dimension.values if isinstance(dimension, OneOf) else dimension.ends():
                self.with_values({option: value})

    @property
    def first(self) -> dict[str, Any]:
        """What the experiment itself has for the options of the space."""
        return {option: value_of(self.experiment, option) for option in self.space}

    def with_values(self, values: Mapping[str, Any]) -> Experiment:
        """The experiment with some options changed."""
        return patch(self.experiment, nest(values))

    def to_table(self, device: str) -> dict[str, Any]:
        """All that decides the trials."""
        return {
            "bandana": __version__,
            "device": device,
            "measure": MEASURES[self.experiment.task],
            "sampler": f"optuna TPE, seed {self.sampler_seed}",
            "seeds": list(self.seeds),
            "space": {option: spoken(dimension) for option, dimension in self.space.items()},
            "experiment": to_table(self.experiment),
        }


@dataclass(frozen=True)
class Tuned:
    """A search that has come to its end."""

    trials: Sequence[Trial]
    importance: Mapping[str, float]

    @property
    def best(self) -> Trial:
        return best_of(self.trials)


def tune(
    what: Search,
    folder: Path,
    *,
    trials: int,
    seconds: float = math.inf,
    jobs: int = 1,
    device: str = "auto",
    data_root: Path | None = None,
    on_trial: Callable[[Sequence[Trial]], None] = lambda trials: None,
    on_epoch: OnEpoch = lambda state: None,
) -> Tuned:
    """Search until the budget is spent, keeping every trial; the same call goes on where an earlier one ended.

    Args:
        what: The search.
        folder: Where to keep it, see `bandana.tuning.folder`.
        trials: How many, with those of earlier calls.
        seconds: Time of all trials after which none begins any more, with those of earlier calls.
        jobs: Seeds of a trial that are trained at the same time.
        device: ``auto``, ``cpu`` or ``cuda``.
        data_root: Where raw data lie, read-only.
        on_trial: Called with all trials so far, after each.
        on_epoch: Called after every epoch, for progress bars.

    Raises:
        UserError: The recipe itself cannot be run, or the folder belongs to another search.
    """
    require_optuna()
    check_writable(folder / SEARCH)
    where = resolve_device(device)
    place = SearchFolder(folder, what.to_table(where.type))
    with alone(folder):
        done = place.trials()
        data = load(what.experiment.dataset, data_root)
        budget = {"trials": trials, "seconds": None if math.isinf(seconds) else seconds}

        def keep(made: Sequence[Trial]) -> None:
            place.keep(made, budget, importance(what.space, made))
            place.write_recipe(tuned_recipe(what, made))
            on_trial(made)

        if done:
            keep(done)  # also brings back files that are drawn from the trials
        with _judge(what, data, where, data_root, jobs, on_epoch) as scores_of:
            made = search(
                what.first,
                lambda so_far: propose(what.space, so_far, what.sampler_seed),
                lambda values: scores_of(what.with_values(values)),
                trials=trials,
                seconds=seconds,
                done=done,
                on_trial=keep,
            )
    if not made:
        raise UserError(f"--seconds {seconds:g}: leaves no time for a single trial; give it more.")
    return Tuned(made, importance(what.space, made))


@contextmanager
def _judge(
    what: Search, data: Dataset, device: torch.device, data_root: Path | None, jobs: int, on_epoch: OnEpoch
) -> Iterator[Callable[[Experiment], list[float]]]:
    """Gives the validation scores of an experiment for every seed of a search, one after the other or side by side."""
    if jobs == 1:
        yield lambda experiment: validation_scores(experiment, data, what.seeds, device, on_epoch=on_epoch)
        return
    with side_by_side(device, min(jobs, len(what.seeds))) as carry_out:
        yield lambda experiment: carry_out(
            judge_apart, [(seed, experiment, device, data_root) for seed in what.seeds], lambda seed: on_epoch
        )


def judge_apart(seed: int, experiment: Experiment, device: torch.device, data_root: Path | None) -> float:
    """The validation score of one seed, in a process of its own."""
    data = load_once(experiment.dataset, data_root)
    with telling() as on_epoch:
        return validation_score_of(seed, experiment, data, device, on_epoch=on_epoch)


def tuned_recipe(what: Search, trials: Sequence[Trial]) -> str:
    """The winning trial as a cell of a recipe book, which says how it was found."""
    best, first = winner_of(trials), trials[0]
    source = (
        f"tuned here on validation data: trial {best.number} of {len(trials)} (0 is where the search starts), "
        f"search by optuna's TPE with seed {what.sampler_seed}, {sum(trial.seconds for trial in trials):.0f} s; "
        f"mean {MEASURES[what.experiment.task]} {_spoken(best.score)} over {_counted(what.seeds)}, "
        f"{_spoken(first.score)} for trial {first.number}{_confirmed(best, trials)}"
    )
    by_hand = [f"{option} = {value}" for option, value in what.changes.items() if option not in best.values]
    if by_hand:
        source += f"; set by hand: {', '.join(by_hand)}"
    source += f"; bandana {__version__}"
    values = {**what.changes, **best.values}
    return recipe_text(what.experiment.task, what.experiment.dataset, values, source)


def _confirmed(best: Trial, trials: Sequence[Trial]) -> str:
    """What fresh seeds say, where trials were repeated with some."""
    if not best.fresh:
        return ""
    repeated, seeds = sum(bool(trial.fresh) for trial in trials), len(best.fresh)
    return f"; taken out of {repeated} for {fmean(best.fresh):.4f} over {seeds} fresh seed{'s' if seeds > 1 else ''}"


def _spoken(score: float | None) -> str:
    return "no score" if score is None else f"{score:.4f}"


def _counted(seeds: range) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
