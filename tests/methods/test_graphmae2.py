"""GraphMAE2's two losses written out, and where its target stands after each step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.graphmae2 import GraphMAE2, GraphMAE2Config
from bandana.parts.attention import GATConfig, thinned
from bandana.parts.feature_masks import draw_feature_mask, draw_nodes

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, epoch=1, step=7)
SMALL = GraphMAE2Config(
    encoder=GATConfig(num_layers=2, heads=2, head_width=3, feature_dropout=0.0, attention_dropout=0.0),
    projector_width=4,
    latent_weight=0.7,
)


def build(graph: Graph, config: GraphMAE2Config = SMALL, seed: int = 0) -> GraphMAE2:
    """With every parameter, the target's too, away from its tidy initial value."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        method = GraphMAE2(config, GraphSpec.of(graph))
        for parameter in method.parameters():
            torch.nn.init.normal_(parameter)
    return method


def naive_cosine(x: Tensor, y: Tensor) -> Tensor:
    return x @ y / (x.norm() * y.norm())


def naive_loss(method: GraphMAE2, graph: Graph) -> Tensor:
    """Features masked by hand go through encoder and decoder, which have tests of their own."""
    config, generator = method.config, CLOCK.generator(graph.device)
    num_nodes = graph.num_nodes
    hidden = draw_feature_mask(num_nodes, config.mask_rate, 0.0, generator).nodes
    x = list(graph.x)
    for node in hidden.tolist():
        x[node] = method.token[0]
    z = method.encoder(torch.stack(x), graph.structure, thinned(graph, config.edge_drop, generator))
    visible_to_target = thinned(graph, config.edge_drop, generator)
    target = method.target_projector(method.target_encoder(graph.x, graph.structure, visible_to_target))
    guess = method.predictor(method.projector(z))
    latent = sum(1 - naive_cosine(guess[i], target[i]) for i in range(num_nodes)) / num_nodes

    total = config.latent_weight * latent
    for _ in range(config.blankings if config.blanking == "random" else 1):
        codes = list(method.bridge(z))
        if config.blanking == "fixed":
            blanked, blank = hidden, torch.zeros(6)
        else:
            blanked, blank = draw_nodes(num_nodes, int(config.blank_rate * num_nodes), generator), method.blank[0]
        for node in blanked.tolist():
            codes[node] = blank
        total = total + method.decoder.loss(torch.stack(codes), graph, hidden, config.exponent, None)
    return total


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "changes", [{}, {"blanking": "fixed"}, {"blankings": 1, "blank_rate": 0.2}, {"edge_drop": 0.5, "exponent": 1.0}]
)
def test_loss_and_gradients_are_the_papers(random_graph: GraphFactory, changes: dict[str, Any]) -> None:
    graph = random_graph(12, 40, weighted=True)
    method = build(graph, replace(SMALL, **changes))
    loss, expected = method.loss(Batch(graph, graph.links), CLOCK), naive_loss(method, graph)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    moved = method.parameter_groups()["main"]
    for gradient, wanted in zip(torch.autograd.grad(loss, moved), torch.autograd.grad(expected, moved), strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-11)


def weights(*modules: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for module in modules for parameter in module.parameters()]


def all_equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(a.equal(b) for a, b in zip(first, second, strict=True))


def walk(method: GraphMAE2, graph: Graph, steps: int) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
    """Take optimiser steps, one per epoch; weights of encoder and projector, and of their targets, before each loss."""
    optimizer = torch.optim.SGD(method.parameter_groups()["main"], lr=0.1)
    online, target = [], []
    for step in range(steps):
        online.append(weights(method.encoder, method.projector))
        target.append(weights(method.target_encoder, method.target_projector))
        for _, loss in method.turns(Batch(graph, graph.links), Clock(3, epoch=step + 1, step=step)):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return online, target


def test_without_momentum_the_target_is_the_encoder_of_one_step_earlier(random_graph: GraphFactory) -> None:
    graph = random_graph()
    online, target = walk(GraphMAE2(replace(SMALL, momentum=0.0), GraphSpec.of(graph)), graph, 4)
    assert all_equal(online[0], target[0])
    for step in range(1, 4):
        assert all_equal(target[step], online[step - 1])
        assert not all_equal(target[step], online[step])


def test_with_full_momentum_the_target_never_moves(random_graph: GraphFactory) -> None:
    graph = random_graph()
    online, target = walk(GraphMAE2(replace(SMALL, momentum=1.0), GraphSpec.of(graph)), graph, 4)
    assert all(all_equal(state, online[0]) for state in target)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("still_epochs", [1, 3])
def test_the_target_follows_the_weights_each_loss_was_taken_with(random_graph: GraphFactory, still_epochs: int) -> None:
    graph = random_graph()
    config = replace(SMALL, momentum=0.75, still_epochs=still_epochs)
    online, target = walk(GraphMAE2(config, GraphSpec.of(graph)), graph, 6)
    expected = online[0]
    for step in range(6):
        for mine, wanted in zip(target[step], expected, strict=True):
            torch.testing.assert_close(mine, wanted)
        if step >= still_epochs:
            expected = [0.75 * old + 0.25 * new for old, new in zip(expected, online[step], strict=True)]
    assert not all_equal(target[5], online[0])


def test_the_loss_alone_moves_nothing(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = build(graph, replace(SMALL, momentum=0.0))
    before = weights(method)
    method.loss(Batch(graph, graph.links), Clock(3, epoch=5)).backward()
    assert all_equal(weights(method), before)
    assert all(parameter.grad is None for parameter in method.target_encoder.parameters())


def test_the_targets_dropout_is_active(random_graph: GraphFactory) -> None:
    graph = random_graph()
    noisy = replace(SMALL, latent_weight=1.0, encoder=replace(SMALL.encoder, feature_dropout=0.5))
    method = build(graph, noisy)
    seen: list[Tensor] = []
    method.target_encoder.register_forward_hook(lambda module, arguments, out: seen.append(out))
    method.loss(Batch(graph, graph.links), CLOCK)
    method.target_encoder(graph.x, graph.structure)
    noisy_target, quiet_target = seen
    assert not noisy_target.equal(quiet_target)


def test_tokens_start_at_zero_or_as_xavier_has_it(random_graph: GraphFactory) -> None:
    graph = random_graph()
    zero, xavier = (GraphMAE2(replace(SMALL, initial=how), GraphSpec.of(graph)) for how in ("zero", "xavier"))
    assert zero.blank is not None
    assert xavier.blank is not None
    assert not zero.token.any()
    assert not zero.blank.any()
    assert bool(xavier.token.any())
    assert bool(xavier.blank.any())
    fixed = GraphMAE2(replace(SMALL, blanking="fixed"), GraphSpec.of(graph))
    assert fixed.blank is None
    assert fixed.decoder.receiver is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask_rate": 1.0}, "mask_rate: must lie in"),
        ({"edge_drop": 1.0}, "edge_drop: must lie in"),
        ({"blank_rate": -0.1}, "blank_rate: must lie in"),
        ({"exponent": 0.5}, "exponent: must be at least 1"),
        ({"blankings": 0}, "blankings: must be at least 1"),
        ({"projector_width": 0}, "projector_width: must be at least 1"),
        ({"still_epochs": 0}, "still_epochs: must be at least 1"),
        ({"latent_weight": 0.0}, "latent_weight: must be positive"),
        ({"momentum": 1.5}, "momentum: must lie in"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        GraphMAE2Config(**changes)
