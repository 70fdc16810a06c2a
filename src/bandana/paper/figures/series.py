"""Accuracy against one setting: what the figures of curves share, from trainings to lines and sentences."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from bandana.paper.artifact import Piece, Result, Scope, Score
from bandana.paper.cookbook import recipe
from bandana.paper.grid import score_of
from bandana.paper.pieces import COARSE, SMALL, seeds_of, training
from bandana.reporting.drawing import Line

NAMES: Mapping[str, str] = {
    "bandana": "Bandana",
    "maskgae_edge": "MaskGAE-edge",
    "maskgae_path": "MaskGAE-path",
    "untrained_encoder": "untrained encoder",
}
TITLES: Mapping[str, str] = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "photo": "Photo",
    "computers": "Computers",
    "cs": "CS",
    "physics": "Physics",
    "digits": "Digits",
}

Results: TypeAlias = Sequence[tuple[Piece, Result]]
Setting: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Reads one setting from an experiment, as `to_table` writes it."""


def trials(scope: Scope, cells: Iterable[tuple[str, str, Mapping[str, Any]]]) -> list[Piece]:
    """A training and its linear probe for every seed and every (method, data set, changed settings)."""
    coarse = COARSE if scope.quick else {}
    experiments = [recipe(method, dataset, "node", {**coarse, **changes}) for method, dataset, changes in cells]
    return [training(experiment, seed) for seed in seeds_of(scope) for experiment in experiments]


def scores(results: Results, *settings: Setting) -> dict[tuple[Any, ...], Score]:
    """Micro-F1 in percent by the given settings, over the seeds that have come out."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for piece, result in results:
        if result.values is not None:
            key = tuple(setting(piece.arguments["experiment"]) for setting in settings)
            found.setdefault(key, []).append(100 * result.values["metrics"]["micro_f1"])
    return {key: score for key, figures in found.items() if (score := score_of(figures))}


def line(name: str, places: Sequence[float], found: Sequence[Score | None]) -> Line:
    """A line through what there is; what is missing leaves a gap."""
    middle = [float("nan") if score is None else score.mean for score in found]
    spread = [0.0 if score is None or score.sd is None else score.sd for score in found]
    return Line(name, places, middle, spread)


def in_order(results: Results, setting: Setting) -> list[Any]:
    """The values of a setting, each once, in the order of the pieces."""
    return list(dict.fromkeys(setting(piece.arguments["experiment"]) for piece, _ in results))


def caveats(results: Results) -> tuple[str, ...]:
    """Where the data are not the paper's, and what has not come out, once for each data set and reason."""
    tables = [(piece.arguments["experiment"]["dataset"], result) for piece, result in results]
    said = {f"{TITLES[name]}: {result.failure or 'not run'}." for name, result in tables if result.values is None}
    coarse = "A coarse version on a small data set with few epochs: it shows the form, not the paper's figure."
    return ((coarse,) if any(name == SMALL for name, _ in tables) else ()) + tuple(sorted(said))


def too_few(found: int | str, wanted: int, points: str) -> str:
    """Words in place of a reading where only some of the points have come out."""
    return f"nothing is read from a part of the {points} ({found} of {wanted} are there)"


def spoken(score: Score) -> str:
    """``82.53 ± 0.41``, or without the deviation of a single seed."""
    return f"{score.mean:.2f}" if score.sd is None else f"{score.mean:.2f} ± {score.sd:.2f}"


def dataset_of(experiment: Mapping[str, Any]) -> str:
    """The data set of an experiment."""
    return str(experiment["dataset"])
