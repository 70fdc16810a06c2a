"""COSTA's loss with its random matrix written out."""

import math
from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from bandana.engine.sketch import sketch
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.costa import COSTA, COSTAConfig
from bandana.parts.views import encode, two_views

CLOCK = Clock(seed=3, step=7)


def build(graph: Graph, config: COSTAConfig) -> COSTA:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return COSTA(config, GraphSpec.of(graph))


@pytest.mark.usefixtures("float64")
def test_loss_and_gradients_are_those_of_the_equations(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(31)
    method = build(graph, COSTAConfig(width=8, sketch_ratio=0.25, temperature=0.3))
    p = sketch(torch.eye(31), 7, seed=CLOCK.seed, step=CLOCK.step)
    views = two_views(graph, method.config.views, CLOCK.generator(graph.device))
    u, v = (normalize(method.head(p @ encode(method.encoder, view))) for view in views)
    logits, partners = u @ v.T / 0.3, torch.arange(7)
    expected = (cross_entropy(logits, partners) + cross_entropy(logits.T, partners)) / 2
    loss = method.loss(Batch(graph, graph.links), CLOCK)
    torch.testing.assert_close(loss, expected)
    gradients, references = (torch.autograd.grad(value, list(method.parameters())) for value in (loss, expected))
    for gradient, reference in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient, reference)


def test_a_head_that_says_always_the_same_leaves_a_guess_among_the_mixtures(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(40)
    method = build(graph, COSTAConfig(sketch_ratio=0.5))
    torch.nn.init.zeros_(method.head[2].weight)
    assert float(method.loss(Batch(graph, graph.links), CLOCK).detach()) == pytest.approx(math.log(20), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width: must be at least 1"),
        ({"sketch_ratio": 0.0}, "sketch_ratio: must lie in"),
        ({"sketch_ratio": 1.5}, "sketch_ratio: must lie in"),
        ({"temperature": 0.0}, "temperature: must be at least"),
    ],
)
def test_rules(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        COSTAConfig(**changes)  # type: ignore[arg-type]
