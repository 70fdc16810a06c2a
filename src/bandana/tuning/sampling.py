"""What to try next, and which option mattered: the only file that knows optuna.

A proposal depends on the seed, the number of the trial and the trials before it, and on nothing else: a search that was
interrupted goes on as if it had not been.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandana.errors import UserError
from bandana.tuning.space import Dimension, Interval, OneOf, Space
from bandana.tuning.trials import Trial, ranked

WORST = 0.0
"""What the sampler is told of a trial that failed: scores are shares, so none is lower."""
VARIATIONS = 10
"""Trials that vary the best one at random, before the sampler begins to learn; a third of the later ones do, too."""
VARIED_SHARE = 0.3
"""Of the options in such a trial. A recipe is a good place in a space that is mostly bad."""
FEWEST_FOR_IMPORTANCE = 12


def propose(
    space: Space,
    trials: Sequence[Trial],
    seed: int,
    *,
    number: int | None = None,
    start: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Values for the next trial: variations of the best one, or by optuna's tree-structured Parzen estimator.

    Args:
        space: What may vary.
        trials: All trials so far.
        seed: Of the search.
        number: Of the trial, where others are still under way; else the next one.
        start: What is varied as long as no trial has a score.

    Raises:
        UserError: optuna is not installed.
    """
    optuna = _optuna()
    good = ranked(trials)
    start = good[0].values if good else start
    number = len(trials) if number is None else number
    random = np.random.default_rng([seed, number])
    vary = len(trials) <= VARIATIONS or number % 3 == 0
    sampler_seed = int(random.integers(2**32))
    kinds = optuna.samplers
    sampler = kinds.RandomSampler(sampler_seed) if vary else kinds.TPESampler(seed=sampler_seed, n_startup_trials=0)
    asked = _study(optuna, space, trials, sampler).ask(_distributions(optuna, space))
    values = {option: _decoded(dimension, asked.params[option]) for option, dimension in space.items()}
    if not vary or start is None:
        return values
    varied = random.random(len(space)) < VARIED_SHARE
    varied[random.integers(len(space))] = True
    return {option: values[option] if new else start[option] for option, new in zip(space, varied, strict=True)}


def importance(space: Space, trials: Sequence[Trial]) -> dict[str, float]:
    """The share of each option in what set good trials apart (PED-ANOVA), highest first; empty for few trials."""
    scored = [trial for trial in trials if trial.score is not None and _inside(space, trial)]
    if len(scored) < FEWEST_FOR_IMPORTANCE:
        return {}
    optuna = _optuna()
    study = _study(optuna, space, scored, optuna.samplers.RandomSampler(seed=0))
    shares = optuna.importance.get_param_importances(study, evaluator=optuna.importance.PedAnovaImportanceEvaluator())
    return {str(option): float(share) for option, share in shares.items()}


def require_optuna() -> None:
    """Complain now rather than after the first trial.

    Raises:
        UserError: optuna is not installed.
    """
    _optuna()


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise UserError("Tuning needs optuna: pip install 'bandana-graph[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _study(optuna: Any, space: Space, trials: Sequence[Trial], sampler: Any) -> Any:
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = _distributions(optuna, space)
    for trial in trials:
        if _inside(space, trial):
            params = {option: _encoded(dimension, trial.values[option]) for option, dimension in space.items()}
            value = WORST if trial.score is None else trial.score
            study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=value))
    return study


def _distributions(optuna: Any, space: Space) -> dict[str, Any]:
    return {option: _distribution(optuna.distributions, dimension) for option, dimension in space.items()}


def _distribution(kinds: Any, dimension: Dimension) -> Any:
    if isinstance(dimension, OneOf):
        # Places rather than values: optuna keeps only plain scalars, and a width per layer is a list.
        return kinds.CategoricalDistribution(tuple(range(len(dimension.values))))
    if dimension.whole:
        return kinds.IntDistribution(int(dimension.low), int(dimension.high))
    return kinds.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _encoded(dimension: Dimension, value: Any) -> Any:
    return dimension.place(value) if isinstance(dimension, OneOf) else dimension.nearest(value)


def _decoded(dimension: Dimension, value: Any) -> Any:
    return dimension.values[value] if isinstance(dimension, OneOf) else dimension.rounded(value)


def _inside(space: Space, trial: Trial) -> bool:
    """Whether the sampler can learn from a trial: what varies a recipe may hold a choice that the space has not."""
    return all(
        isinstance(trial.values[option], int | float)
        if isinstance(dimension, Interval)
        else dimension.holds(trial.values[option])
        for option, dimension in space.items()
    )
