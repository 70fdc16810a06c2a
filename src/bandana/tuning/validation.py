"""How good an experiment's settings are on validation data. Test links and test labels are never looked at."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from bandana.config import nest, patch
from bandana.data.datasets import Dataset
from bandana.data.features import preprocess
from bandana.data.splits import EdgeSplit, split_nodes
from bandana.errors import UserError
from bandana.evaluation.linear_probe import validation_score
from bandana.experiment import Experiment, build, edges_of, embed, monitor_of
from bandana.graph import Graph
from bandana.method import GraphSpec, Method
from bandana.parts.readout import read_out
from bandana.training.trainer import OnEpoch, TrainingState, pretrain
from bandana.tuning.space import SKIP, OneOf, Space

LENGTH = "training.epochs"
READABLE = (
    *(LENGTH, "readout.smoothing", SKIP, f"{SKIP}_smoothing"),
    *("probe.weight_decay", "probe.normalize"),
)
DECIDE_READING = {"monitor", "training.schedule"}
"""Options by which a trial's own experiment says whether it can be read off."""

UNSET = {"copies": 1}
"""What a number that is not set counts as, where it is not zero."""


def validation_scores(
    experiment: Experiment,
    data: Dataset,
    seeds: Iterable[int],
    device: torch.device,
    *,
    on_epoch: OnEpoch = lambda state: None,
) -> list[float]:
    """The scores of several seeds, one after the other; see `validation_score_of`."""
    return [validation_score_of(seed, experiment, data, device, on_epoch=on_epoch) for seed in seeds]


def validation_score_of(
    seed: int,
    experiment: Experiment,
    data: Dataset,
    device: torch.device,
    *,
    on_epoch: OnEpoch = lambda state: None,
) -> float:
    """One pre-training, as `bandana.experiment.run_seed` makes it, and the score that validation data give it.

    For links this is the best value of the monitor, which chose the weights by it; for nodes, micro-F1.

    Args:
        seed: A new split, a new initialisation and a new pre-training.
        experiment: What to judge.
        data: Its data set.
        device: Where to train.
        on_epoch: Called after every epoch, for progress bars.

    Raises:
        UserError: The data cannot serve the task, or training diverged.
    """
    if experiment.task == "link" and experiment.monitor == "none":
        raise UserError(
            f"monitor: the {experiment.dataset} recipe of {experiment.method} looks at no validation links, so there "
            "is nothing to tune by. Use --set monitor=dot_product."
        )
    graph, edges, method = _prepared(experiment, data, seed, device)
    monitor = monitor_of(experiment, method, edges)
    state = pretrain(method, edges.train, experiment.training, seed=seed, monitor=monitor, on_epoch=on_epoch)
    if experiment.task == "link":
        return state.progress.best_value
    return _node_score(embed(method, graph, experiment.readout), experiment, data, seed)


def value_of(experiment: Experiment, option: str) -> Any:
    """What an experiment has for a dotted option, and what it means that it is not set."""
    value = attrgetter(option)(experiment)
    return UNSET.get(option, 0) if value is None else value


def readable(experiment: Experiment, space: Space) -> dict[str, tuple[Any, ...]]:
    """The options of a space that need no training of their own: see `read_off`."""
    if experiment.task != "node" or experiment.monitor != "none" or experiment.training.schedule != "constant":
        return {}
    wanted = ((option, space.get(option)) for option in READABLE)
    return {option: dimension.values for option, dimension in wanted if isinstance(dimension, OneOf)}


def read_off(
    experiment: Experiment,
    data: Dataset,
    seeds: Sequence[int],
    device: torch.device,
    choices: Mapping[str, Sequence[Any]],
) -> tuple[dict[str, Any], list[float]]:
    """The best lengths of training, readouts and probes for an experiment, and every seed's validation score with them.

    A training that is stopped by nothing and whose rate is level passes through all shorter ones on its way, and
    readouts and probes only read. So one training per seed serves all choices; see `climbed` for those that are made.

    Args:
        experiment: What to judge; nodes, as `readable` wants it.
        data: Its data set.
        seeds: As in `validation_score_of`.
        device: Where to train.
        choices: Values of options, as `readable` gives them.
    """
    lengths = sorted({*choices.get(LENGTH, [experiment.training.epochs])})
    longest = patch(experiment, nest({LENGTH: lengths[-1]}))
    graph = preprocess(data.graph, experiment.features).to(device)
    by_seed = [_embeddings(longest, data, seed, device, lengths) for seed in seeds]

    def scores(values: Mapping[str, Any]) -> list[float]:
        chosen = patch(longest, nest(values))
        place = lengths.index(chosen.training.epochs)
        return [
            _node_score(read_out(kept[place], graph, chosen.readout), chosen, data, seed)
            for kept, seed in zip(by_seed, seeds, strict=True)
        ]

    start = {option: value_of(experiment, option) for option in choices} | {LENGTH: lengths[0]}
    return climbed(start, {LENGTH: lengths, **choices}, scores)


def climbed(
    start: Mapping[str, Any], choices: Mapping[str, Sequence[Any]], scores: Callable[[Mapping[str, Any]], list[float]]
) -> tuple[dict[str, Any], list[float]]:
    """Choose option by option, again and again, until no single change helps.

    Features beside an embedding want another probe than the embedding alone. So this is done once from each length of
    them, and the best end is taken.

    Args:
        start: A value for every option.
        choices: Values that each option may have.
        scores: How good values are, one score for each seed; asked once for the same values.

    Returns:
        The values with the highest mean score, and their scores.
    """
    known: dict[tuple[Any, ...], list[float]] = {}

    def judged(values: Mapping[str, Any]) -> list[float]:
        key = tuple(values[option] for option in start)
        if key not in known:
            known[key] = scores(values)
        return known[key]

    def mean(values: Mapping[str, Any]) -> float:
        return fmean(judged(values))

    def climb(best: dict[str, Any]) -> dict[str, Any]:
        while True:
            before = best
            for option, values in choices.items():
                if option != SKIP:
                    best = max(({**best, option: value} for value in (best[option], *values)), key=mean)
            if best == before:
                return best

    starts = [{**start, SKIP: length} for length in choices.get(SKIP, [])] or [dict(start)]
    best = max(map(climb, starts), key=mean)
    return best, judged(best)


def _embeddings(
    experiment: Experiment, data: Dataset, seed: int, device: torch.device, lengths: Collection[int]
) -> list[Tensor]:
    """``[nodes, width]`` embeddings, not read out yet, after several numbers of epochs of one pre-training."""
    graph, edges, method = _prepared(experiment, data, seed, device)
    kept: list[Tensor] = []

    def keep(state: TrainingState) -> None:
        if state.epoch in lengths:
            kept.append(embed(method, graph))

    pretrain(method, edges.train, experiment.training, seed=seed, on_epoch=keep)
    return kept


def _prepared(
    experiment: Experiment, data: Dataset, seed: int, device: torch.device
) -> tuple[Graph, EdgeSplit, Method]:
    """The whole graph, what is held out of it, and an untrained method."""
    graph = preprocess(data.graph, experiment.features).to(device)
    if experiment.task == "node" and graph.y is None:
        raise UserError(f"{data.name}: has no labels, so its nodes cannot be classified. Use --task link.")
    return graph, edges_of(experiment, data, graph, seed), build(experiment, GraphSpec.of(graph), seed).to(device)


def _node_score(z: Tensor, experiment: Experiment, data: Dataset, seed: int) -> float:
    labels = data.graph.y
    assert labels is not None
    nodes = data.node_split or split_nodes(labels, experiment.split.nodes, seed=seed)
    return validation_score(z, labels, nodes, experiment.probe, seed)
