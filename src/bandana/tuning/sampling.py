"""What to try next, and which option mattered: the only file that knows optuna.

A proposal depends on the seed, the number of the trial and the trials before it, and on nothing else: a search that was
interrupted goes on as if it had not been.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandana.errors import UserError
from bandana.tuning.space import Dimension, OneOf, Space
from bandana.tuning.trials import Trial

WORST = 0.0
"""What the sampler is told of a trial that failed: scores are shares, so none is lower."""
RANDOM_TRIALS = 10
"""Drawn at random before the sampler begins to learn."""
FEWEST_FOR_IMPORTANCE = 12


def propose(space: Space, trials: Sequence[Trial], seed: int) -> dict[str, Any]:
    """Values for the next trial, by optuna's tree-structured Parzen estimator.

    Args:
        space: What may vary.
        trials: All trials so far.
        seed: Of the search.

    Raises:
        UserError: optuna is not installed.
    """
    optuna = _optuna()
    trial_seed = int(np.random.SeedSequence([seed, len(trials)]).generate_state(1)[0])
    sampler = optuna.samplers.TPESampler(seed=trial_seed, n_startup_trials=RANDOM_TRIALS)
    asked = _study(optuna, space, trials, sampler).ask(_distributions(optuna, space))
    return {option: _decoded(dimension, asked.params[option]) for option, dimension in space.items()}


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
    return dimension.place(value) if isinstance(dimension, OneOf) else value


def _decoded(dimension: Dimension, value: Any) -> Any:
    return dimension.values[value] if isinstance(dimension, OneOf) else dimension.rounded(value)


def _inside(space: Space, trial: Trial) -> bool:
    """Whether the sampler can learn from a trial; the recipe, which comes first, may lie outside of the space."""
    return all(dimension.holds(trial.values[option]) for option, dimension in space.items())
