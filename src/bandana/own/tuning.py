"""Searching settings for somebody's own graph, by the links that are held out to choose weights and by no others."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from bandana.config import nest, patch
from bandana.data.features import preprocess
from bandana.data.tables import OwnGraph
from bandana.devices import resolve_device
from bandana.errors import UserError
from bandana.estimator import learn
from bandana.own.automatic import Choice, build
from bandana.own.calibration import estimate
from bandana.tuning.sampling import propose, require_optuna
from bandana.tuning.space import default_space, without
from bandana.tuning.trials import best_of, search


def tune_own(
    own: OwnGraph,
    choice: Choice,
    *,
    trials: int,
    seed: int,
    device: str,
    on_trial: Callable[[int, float], None],
    fixed: Collection[str] = (),
) -> Choice:
    """The choice with the settings that predicted the validation links best; the size of the layers stays.

    The seed must be the one that the graph is then embedded with: it decides the split, so that the links that the
    report measures by are held out of every trial as well.

    Args:
        own: The graph.
        choice: Where to start from; it is the first trial.
        trials: How many settings to try.
        seed: Of the split, of every training, and of the search.
        device: ``auto``, ``cpu`` or ``cuda``.
        on_trial: Called after every trial with the number of trials made and the best validation AUC so far.
        fixed: Dotted options that the user has set, which are left as they are.

    Raises:
        UserError: The graph is too small to hold out links, the method has nothing to tune, or optuna is missing.
    """
    require_optuna()
    if not choice.held_out:
        raise UserError("--tune: the graph has too few links to hold some out, so settings cannot be compared.")
    space = without(default_space(choice.method, "own"), fixed)

    def judged(values: Mapping[str, Any]) -> list[float]:
        trial = patch(choice, nest(values))
        return [learn(own.graph, trial, seed=seed, device=device, times=own.times).state.progress.best_value]

    made = search(
        {option: attrgetter(option)(choice) for option in space},
        lambda so_far: propose(space, so_far, seed),
        judged,
        trials=trials,
        on_trial=lambda so_far: on_trial(len(so_far), best_of(so_far).scores[0]),
    )
    best = best_of(made)
    tuned = patch(choice, nest(best.values))
    seen = preprocess(own.graph, tuned.features).to(resolve_device(device))
    return replace(
        tuned,
        reasons=(*choice.reasons, _why(best.values, best.scores[0], made[0].scores[0], trials)),
        estimate=estimate(seen, lambda spec: build(tuned, spec, seed=0), tuned.training),
    )


def _why(values: Mapping[str, Any], score: float, before: float, trials: int) -> str:
    settings = ", ".join(f"{option} {value}" for option, value in values.items())
    return (
        f"tuned in {trials} trials: AUC of the validation links {score:.4f}, {before:.4f} without tuning; it is the "
        f"highest of {trials}, so expect a little less on other links ({settings})"
    )
