"""ARVGA's turns: the bound, the discriminator on draws, and a generator that has no reconstruction in it."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.arvga import ARVGA, ARVGAConfig
from bandana.parts.autoencoder import LayersConfig
from bandana.parts.variational import gaussian_kl

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, step=7)


@pytest.fixture
def graph(random_graph: GraphFactory) -> Graph:
    return random_graph()


@pytest.fixture
def method(graph: Graph) -> ARVGA:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ARVGA(ARVGAConfig(encoder=LayersConfig(widths=(5, 4))), GraphSpec.of(graph))


def test_losses_of_the_turns(graph: Graph, method: ARVGA) -> None:
    """Written out with the step's generator run through in order."""
    batch, generator = Batch(graph, graph.links), CLOCK.generator(graph.device)

    def draw() -> tuple[Tensor, Tensor]:
        mean, log_std = method.encoder(graph, generator)
        noise = torch.empty(30, 4).normal_(generator=generator)
        return mean + noise * log_std.exp(), gaussian_kl(mean, log_std)

    expected = []
    for _ in range(5):
        z, divergence = draw()
        expected.append(method.reconstruction.loss(z, batch, generator) + divergence / 30)
    judge = method.discriminator
    fake, prior = draw()[0], torch.empty(30, 4).normal_(generator=generator)
    expected.append(softplus(-judge(prior)).mean() + softplus(judge(fake)).mean())
    expected.append(softplus(-judge(draw()[0])).mean())

    turns = list(method.turns(batch, CLOCK))
    assert Counter(name for name, _ in turns) == {"reconstruction": 5, "discriminator": 1, "generator": 1}
    torch.testing.assert_close([loss for _, loss in turns], expected)
    assert method.loss(batch, CLOCK).equal(turns[0][1])


def test_the_discriminators_turn_stops_in_front_of_the_encoder(graph: Graph, method: ARVGA) -> None:
    losses = dict(method.turns(Batch(graph, graph.links), CLOCK))
    losses["discriminator"].backward()
    assert all(parameter.grad is None for parameter in method.encoder.parameters())
    losses["generator"].backward()
    assert all(bool(parameter.grad.any()) for parameter in method.encoder.parameters())


def test_groups_and_rates(method: ARVGA) -> None:
    groups = method.parameter_groups()
    assert {name: method.rate_of(name) for name in groups} == {
        "reconstruction": 1.0,
        "discriminator": 2.0,
        "generator": 2.0,
    }
    judges = {id(parameter) for parameter in groups["discriminator"]}
    assert not judges & {id(parameter) for name in ("reconstruction", "generator") for parameter in groups[name]}


def test_embeddings_are_the_means(graph: Graph, method: ARVGA) -> None:
    with torch.no_grad():
        assert method.eval().embed(graph).equal(method.encoder(graph)[0])
