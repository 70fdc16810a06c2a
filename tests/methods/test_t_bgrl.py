"""T-BGRL: its loss node by node, its target, and its corruptions."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bandana.engine.propagate import propagate
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.t_bgrl import TBGRL, TBGRLConfig, momentum_at
from bandana.parts.views import encode, two_views, whole_view
from bandana.training.trainer import TrainingConfig, pretrain

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, epoch=1, step=7)
SMALL = TBGRLConfig(width=5)


def build(graph: Graph, config: TBGRLConfig = SMALL) -> TBGRL:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TBGRL(config, GraphSpec.of(graph))


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return a @ b / (a.norm() * b.norm())


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("features", ["keep", "scramble", "random"])
@pytest.mark.parametrize("edges", ["keep", "random", "drop"])
def test_loss_and_gradients_are_those_of_the_equations(random_graph: GraphFactory, features: str, edges: str) -> None:
    graph = random_graph(weighted=True)
    config = replace(SMALL, corrupt_features=features, corrupt_edges=edges, repulsion=0.2)  # type: ignore[arg-type]
    method = build(graph, config)
    generator = CLOCK.generator(graph.device)
    views = two_views(graph, config.views, generator)
    corrupted = method._corrupt(graph, generator)
    q1, q2 = (method.predictor(encode(method.encoder, view)) for view in views)
    y1, y2, wrong = (encode(method.target, view).detach() for view in (*views, corrupted))
    expected = torch.stack(
        [
            0.2 * (cosine(q1[i], wrong[i]) + cosine(q2[i], wrong[i]))
            - 0.8 * (cosine(q1[i], y2[i]) + cosine(q2[i], y1[i]))
            for i in range(30)
        ]
    ).mean()
    loss = method.loss(Batch(graph, graph.links), CLOCK)
    torch.testing.assert_close(loss, expected)
    assert -2 <= float(loss.detach()) <= 2
    moved = method.parameter_groups()["main"]
    for mine, reference in zip(torch.autograd.grad(loss, moved), torch.autograd.grad(expected, moved), strict=True):
        torch.testing.assert_close(mine, reference)


def test_corruptions_change_what_they_name(random_graph: GraphFactory) -> None:
    graph = random_graph(100, 2000)
    own = whole_view(graph)

    def corrupt(features: str, edges: str) -> tuple[bool, bool, float]:
        method = build(graph, replace(SMALL, corrupt_features=features, corrupt_edges=edges))  # type: ignore[arg-type]
        view = method._corrupt(graph, CLOCK.generator(graph.device))
        gone = float((view.edges.values == 0).double().mean())
        return view.x.equal(own.x), view.structure is own.structure, gone

    assert corrupt("keep", "keep") == (True, True, 0.0)
    assert corrupt("scramble", "keep") == (False, True, 0.0)
    assert corrupt("random", "random") == (False, False, pytest.approx(0, abs=0.05))  # pairs drawn twice count once
    assert corrupt("keep", "drop")[:2] == (True, True)
    assert corrupt("keep", "drop")[2] == pytest.approx(0.95, abs=0.02)  # 4,000 draws: six deviations


def test_momentum_rises_along_a_cosine() -> None:
    assert momentum_at(0, 0.94) == pytest.approx(0.94)
    assert momentum_at(0.5, 0.94) == pytest.approx(0.97)
    assert momentum_at(1, 0.94) == 1
    assert momentum_at(3, 0.94) == 1
    assert momentum_at(0.3, 1.0) == 1


def test_the_target_has_its_own_beginning_and_follows_after_the_step(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = build(graph, replace(SMALL, momentum=0.9, momentum_epochs=4))
    start = [weight.clone() for weight in method.target.weights]
    assert not start[0].equal(method.encoder.weights[0])
    pretrain(method, graph, TrainingConfig(epochs=1, lr=0.01), seed=0)
    for before, target, online in zip(start, method.target.weights, method.encoder.weights, strict=True):
        torch.testing.assert_close(target, 0.9 * before + 0.1 * online)
    second = [weight.clone() for weight in method.target.weights]
    method.after_step(Clock(0, epoch=2))
    share = 0.1 * (1 + math.cos(math.pi / 4)) / 2
    torch.testing.assert_close(method.target.weights[0], (1 - share) * second[0] + share * method.encoder.weights[0])


@pytest.mark.usefixtures("float64")
def test_running_statistics_are_nearly_those_of_the_last_view(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = build(graph).train()
    method.loss(Batch(graph, graph.links), CLOCK)
    means = []
    for x, structure, edges in two_views(graph, method.config.views, CLOCK.generator(graph.device)):
        means.append(propagate(structure, edges.values, x @ method.encoder.weights[0], edges.loop).mean(0))
    torch.testing.assert_close(method.encoder.norms[0].running_mean, 0.99 * means[1] + 0.01 * 0.99 * means[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width: must be at least 1"),
        ({"momentum_epochs": -1}, "momentum_epochs: must not be negative"),
        ({"repulsion": 1.1}, "repulsion: must lie in"),
        ({"momentum": -0.1}, "momentum: must lie in"),
    ],
)
def test_rules(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        TBGRLConfig(**changes)  # type: ignore[arg-type]
