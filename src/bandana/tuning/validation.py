"""How good an experiment's settings are on validation data. Test links and test labels are never looked at."""

from collections.abc import Iterable

import torch

from bandana.data.datasets import Dataset
from bandana.data.features import preprocess
from bandana.data.splits import split_nodes
from bandana.errors import UserError
from bandana.evaluation.linear_probe import validation_score
from bandana.experiment import Experiment, OnEpoch, build, edges_of, embed, monitor_of
from bandana.method import GraphSpec
from bandana.training.steps import Training
from bandana.training.together import carry_out
from bandana.training.trainer import pretraining


def validation_scores(
    experiment: Experiment,
    data: Dataset,
    seeds: Iterable[int],
    device: torch.device,
    *,
    jobs: int = 1,
    on_epoch: OnEpoch = lambda state: None,
) -> list[float]:
    """The validation score of every seed: AUC of held-out links, or micro-F1 of held-out nodes.

    Args:
        experiment: What to judge.
        data: Its data set.
        seeds: Each one is a new split, a new initialisation and a new pre-training.
        device: Where to train.
        jobs: Seeds that are trained at the same time.
        on_epoch: Called after every epoch of every seed, for progress bars.

    Raises:
        UserError: The data cannot serve the task, or training diverged.
    """
    runs = (validation_run(experiment, data, seed, device, on_epoch=on_epoch) for seed in seeds)
    return carry_out(runs, device, jobs)


def validation_run(
    experiment: Experiment,
    data: Dataset,
    seed: int,
    device: torch.device,
    *,
    on_epoch: OnEpoch = lambda state: None,
) -> Training[float]:
    """One pre-training, as `bandana.experiment.seed_run` makes it, and the score that validation data give it.

    For links this is the best value of the monitor, which chose the weights by it.
    """
    if experiment.task == "link" and experiment.monitor == "none":
        raise UserError(
            f"monitor: the {experiment.dataset} recipe of {experiment.method} looks at no validation links, so there "
            "is nothing to tune by. Use --set monitor=dot_product."
        )
    graph = preprocess(data.graph, experiment.features).to(device)
    if experiment.task == "node" and graph.y is None:
        raise UserError(f"{data.name}: has no labels, so its nodes cannot be classified. Use --task link.")
    edges = edges_of(experiment, data, graph, seed)
    method = build(experiment, GraphSpec.of(graph), seed).to(device)
    monitor = monitor_of(experiment, method, edges)
    state = yield from pretraining(
        method, edges.train, experiment.training, seed=seed, monitor=monitor, on_epoch=on_epoch
    )
    if experiment.task == "link":
        return state.progress.best_value
    assert graph.y is not None
    nodes = data.node_split or split_nodes(graph.y, experiment.split.nodes, seed=seed)
    return validation_score(embed(method, graph), graph.y, nodes, experiment.probe, seed)
