"""Accuracy against one setting: what the figures of curves share, from trainings to lines and sentences."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from bandana.paper.artifact import ORIGINS, Piece, Result, Scope, Score
from bandana.paper.cookbook import recipe
from bandana.paper.grid import score_of
from bandana.paper.names import called
from bandana.paper.pieces import COARSE, SMALL, seeds_of, training
from bandana.paper.sentences import failure_notes
from bandana.reporting.drawing import Line

POINT = ("micro_f1", "sd", "seeds", ORIGINS)
"""Columns of a point's numbers, after those of its settings."""
Results: TypeAlias = Sequence[tuple[Piece, Result]]
Setting: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Reads one setting from an experiment, as `to_table` writes it."""


def trials(scope: Scope, cells: Iterable[tuple[str, str, Mapping[str, Any]]]) -> list[Piece]:
    """A training and its linear probe for every seed and every (method, data set, changed settings)."""
    coarse = COARSE if scope.quick else {}
    experiments = [recipe(method, dataset, "node", {**coarse, **changes}) for method, dataset, changes in cells]
    return [training(experiment, seed) for seed in seeds_of(scope) for experiment in experiments]


def scores(results: Results, *settings: Setting) -> dict[tuple[Any, ...], Score]:
    """Micro-F1 in percent by the given settings, the first of which is the data set.

    All points of a data set are means over the same seeds, those that all of them have: a point with more would be
    compared by its seeds too. Where they have none in common, each has its own.
    """
    found = _by_seed(results, settings)
    shared = _shared(found)
    means = {key: [own[seed] for seed in shared[key[0]] or own] for key, own in found.items()}
    return {key: score for key, figures in means.items() if (score := score_of(figures))}


def points(results: Results, *settings: Setting) -> tuple[tuple[Any, ...], ...]:
    """A row for each of the `scores`: the settings, then the columns of `POINT`."""
    origins: dict[tuple[Any, ...], dict[str, None]] = {}
    for piece, result in results:
        if result.values is not None and result.origin:
            origins.setdefault(_point(piece, settings), {})[result.origin] = None
    found = scores(results, *settings)
    return tuple((*key, one.mean, one.sd, one.seeds, " ".join(origins.get(key, ()))) for key, one in found.items())


def seeds_set_aside(results: Results, *settings: Setting) -> list[str]:
    """A sentence for each data set of which `scores` leaves seeds out."""
    found = _by_seed(results, settings)
    said = []
    for dataset, shared in _shared(found).items():
        most = max(len(own) for key, own in found.items() if key[0] == dataset)
        if 0 < len(shared) < most:
            said.append(f"{called(dataset)}: over {_those(len(shared))} that all points have; some have {most}.")
    return said


def _by_seed(results: Results, settings: Sequence[Setting]) -> dict[tuple[Any, ...], dict[int, float]]:
    found: dict[tuple[Any, ...], dict[int, float]] = {}
    for piece, result in results:
        if result.values is not None:
            own = found.setdefault(_point(piece, settings), {})
            own[piece.arguments["seed"]] = 100 * result.values["metrics"]["micro_f1"]
    return found


def _point(piece: Piece, settings: Sequence[Setting]) -> tuple[Any, ...]:
    """What a training is a seed of."""
    return tuple(setting(piece.arguments["experiment"]) for setting in settings)


def _shared(found: Mapping[tuple[Any, ...], Mapping[int, float]]) -> dict[str, list[int]]:
    """The seeds that all points of a data set have."""
    shared: dict[str, list[int]] = {}
    for key, own in found.items():
        shared[key[0]] = [seed for seed in shared.get(key[0], own) if seed in own]
    return shared


def _those(seeds: int) -> str:
    return "the one seed" if seeds == 1 else f"the {seeds} seeds"


def counted(seeds: int) -> str:
    """``3 seeds``, or ``a single seed``."""
    return "a single seed" if seeds == 1 else f"{seeds} seeds"


def line(name: str, places: Sequence[float], found: Sequence[Score | None]) -> Line:
    """A line through what there is; what is missing leaves a gap."""
    middle = [float("nan") if score is None else score.mean for score in found]
    spread = [0.0 if score is None or score.sd is None else score.sd for score in found]
    return Line(name, places, middle, spread)


def in_order(results: Results, setting: Setting) -> list[Any]:
    """The values of a setting, each once, in the order of the pieces."""
    return list(dict.fromkeys(setting(piece.arguments["experiment"]) for piece, _ in results))


def caveats(results: Results, *settings: Setting) -> tuple[str, ...]:
    """Where the data are not the paper's, and how many seeds of how many points have not come out, for each reason."""

    def name(piece: Piece) -> str:
        return called(dataset_of(piece.arguments["experiment"]))

    coarse = "A coarse version on a small data set with few epochs: it shows the form, not the paper's figure."
    small = SMALL in in_order(results, dataset_of)
    return (*([coarse] if small else []), *failure_notes(results, name, lambda piece: _point(piece, settings)))


def too_few(found: int | str, wanted: int, points: str) -> str:
    """Words in place of a reading where only some of the points have come out."""
    return f"nothing is read from a part of the {points} ({found} of {wanted} are there)"


def spoken(score: Score) -> str:
    """``82.53 ± 0.41``, or without the deviation of a single seed."""
    return f"{score.mean:.2f}" if score.sd is None else f"{score.mean:.2f} ± {score.sd:.2f}"


def dataset_of(experiment: Mapping[str, Any]) -> str:
    """The data set of an experiment."""
    return str(experiment["dataset"])
