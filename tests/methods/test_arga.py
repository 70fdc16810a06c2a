"""ARGA's turns: their order, their losses, and whom each of them moves."""

import copy
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.arga import ARGA, ARGAConfig
from bandana.parts.autoencoder import LayersConfig

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, step=7)
SMALL = ARGAConfig(encoder=LayersConfig(widths=(5, 4)))


def build(graph: Graph, config: ARGAConfig = SMALL) -> ARGA:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ARGA(config, GraphSpec.of(graph))


@pytest.fixture
def graph(random_graph: GraphFactory) -> Graph:
    return random_graph()


def test_each_turn_moves_its_own_group_and_five_one_one_times(graph: Graph) -> None:
    method = build(graph)
    groups = method.parameter_groups()
    optimizers = {name: torch.optim.Adam(group, lr=0.01) for name, group in groups.items()}
    names = Counter()
    for name, loss in method.turns(Batch(graph, graph.links), CLOCK):
        before = copy.deepcopy(method.state_dict())
        optimizers[name].zero_grad()
        loss.backward()
        optimizers[name].step()
        changed = {key.split(".")[0] for key, tensor in method.state_dict().items() if not tensor.equal(before[key])}
        assert changed == ({"discriminator"} if name == "discriminator" else {"encoder"})
        names[name] += 1
    assert list(names.items()) == [("reconstruction", 5), ("discriminator", 1), ("generator", 1)]
    for name, optimizer in optimizers.items():
        assert {int(state["step"]) for state in optimizer.state.values()} == {names[name]}


def test_the_discriminators_loss_leaves_the_encoder_without_a_gradient(graph: Graph) -> None:
    method = build(graph)
    losses = dict(method.turns(Batch(graph, graph.links), CLOCK))
    losses["discriminator"].backward()
    assert all(parameter.grad is None for parameter in method.encoder.parameters())
    assert all(parameter.grad is not None for parameter in method.discriminator.parameters())


def test_the_generator_descends_suspicion_and_reconstruction_together(graph: Graph) -> None:
    """Written out with the step's generator run through in order."""
    method = build(graph)
    batch, generator = Batch(graph, graph.links), CLOCK.generator(graph.device)

    def encode() -> Tensor:
        (z,) = method.encoder(graph, generator)
        return z

    expected = [method.reconstruction.loss(encode(), batch, generator) for _ in range(5)]
    fake, prior = encode(), torch.empty(30, 4).normal_(generator=generator)
    judge = method.discriminator
    expected.append(softplus(-judge(prior)).mean() + softplus(judge(fake)).mean())
    z = encode()
    expected.append(softplus(-judge(z)).mean() + method.reconstruction.loss(z, batch, generator))
    losses = [loss for _, loss in method.turns(batch, CLOCK)]
    torch.testing.assert_close(losses, expected)
    assert len({float(loss.detach()) for loss in losses[:5]}) == 5
    assert method.loss(batch, CLOCK).equal(losses[0])


def test_each_group_learns_at_its_own_rate(graph: Graph) -> None:
    method = build(graph)
    assert [method.rate_of(name) for name in method.parameter_groups()] == [1.0, 2.0, 2.0]


def test_embeddings_carry_no_noise(graph: Graph) -> None:
    quiet, loud = (build(graph, ARGAConfig(noise=noise)).eval() for noise in (0.0, 5.0))
    with torch.no_grad():
        assert quiet.embed(graph).equal(loud.embed(graph))
    with pytest.raises(ValueError, match="noise: must not be negative nor infinite, got -1"):
        ARGAConfig(noise=-1.0)
