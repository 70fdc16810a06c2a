"""What every method does over many steps: it repeats, it can be stored, and it learns."""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import normalize

from bandana.evaluation.metrics import auc
from bandana.graph import Graph
from bandana.method import Method
from bandana.parts.floor import Floor
from bandana.training import trainer
from bandana.training.trainer import TrainingConfig, TrainingState, pretrain

GraphFactory = Callable[..., Graph]
Build = Callable[..., Method]
LEARNING_RATE = 1e-2


def schedule(epochs: int) -> TrainingConfig:
    return TrainingConfig(epochs=epochs, lr=LEARNING_RATE, evaluate_every=1, patience_evaluations=0)


def curve(method: Method, graph: Graph, epochs: int, seed: int) -> list[float]:
    return [row["loss"] for row in pretrain(method, graph, schedule(epochs), seed=seed).history]


@pytest.fixture(scope="module")
def graph(random_graph: GraphFactory) -> Graph:
    return random_graph(40, 120, isolated=3)


class Trained(NamedTuple):
    method: Method
    state: TrainingState
    untrained: Method


@pytest.fixture(scope="module")
def trained(build: Build, graph: Graph) -> Callable[[type[Method]], Trained]:
    """Each method after three epochs, for all who only look at it, and as it was before them."""

    @cache
    def train(cls: type[Method]) -> Trained:
        method = build(cls, graph)
        untrained = deepcopy(method)
        return Trained(method, pretrain(method, graph, schedule(3), seed=1), untrained)

    return train


def test_same_seed_same_curve_bit_for_bit(
    cls: type[Method], trained: Callable[..., Trained], build: Build, embed: Callable[..., Tensor], graph: Graph
) -> None:
    first, second = trained(cls), build(cls, graph)
    assert [row["loss"] for row in first.state.history] == curve(second, graph, 3, seed=1)
    assert embed(first.method, graph).equal(embed(second, graph))


def test_another_seed_another_curve(
    learner: type[Method], build: Build, graph: Graph, drawn: Callable[[], bool]
) -> None:
    """Unless no step draws anything."""
    first, second = (curve(build(learner, graph), graph, 3, seed=seed) for seed in (1, 2))
    assert first != second or not drawn()


def _interrupt_after_two(state: TrainingState) -> None:
    if state.epoch == 2:
        raise KeyboardInterrupt


def test_an_interrupted_run_continues_bit_for_bit(
    cls: type[Method],
    build: Build,
    embed: Callable[..., Tensor],
    graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trainer, "TIME_PER_SAVING", 0.0)
    whole, first, second = (build(cls, graph) for _ in range(3))
    pretrain(whole, graph, schedule(5), seed=1)
    file = tmp_path / "checkpoint.safetensors"
    with suppress(KeyboardInterrupt):  # which a method that learns nothing never hears
        pretrain(first, graph, schedule(5), seed=1, checkpoint=file, on_epoch=_interrupt_after_two)
    pretrain(second, graph, schedule(5), seed=1, checkpoint=file)
    assert embed(second, graph).equal(embed(whole, graph))


def test_weights_survive_a_file(
    cls: type[Method], build: Build, embed: Callable[..., Tensor], graph: Graph, tmp_path: Path
) -> None:
    trained, other = build(cls, graph), build(cls, graph, seed=1)
    pretrain(trained, graph, schedule(2), seed=1)
    save_file({name: tensor.contiguous() for name, tensor in trained.state_dict().items()}, tmp_path / "w.safetensors")
    has_weights = any(True for _ in trained.parameters())
    assert embed(other, graph).equal(embed(trained, graph)) != has_weights
    other.load_state_dict(load_file(tmp_path / "w.safetensors"))
    assert embed(other, graph).equal(embed(trained, graph))


def test_parameters_stay_finite_in_single_precision(cls: type[Method], trained: Callable[..., Trained]) -> None:
    for name, parameter in trained(cls).method.named_parameters():
        assert parameter.dtype == torch.float32, name
        assert parameter.device.type == "cpu", name
        assert bool(parameter.isfinite().all()), name


def test_every_trainable_parameter_moves(cls: type[Method], trained: Callable[..., Trained]) -> None:
    before = dict(trained(cls).untrained.named_parameters())
    after = trained(cls).method.named_parameters()
    assert not [name for name, p in after if p.requires_grad and p.equal(before[name])]


def test_a_floor_stays_as_it_was_built(
    cls: type[Method], trained: Callable[..., Trained], embed: Callable[..., Tensor], graph: Graph
) -> None:
    method, state, untrained = trained(cls)
    stayed = embed(method, graph).equal(embed(untrained, graph)) and state.epoch == 0
    assert stayed == issubclass(cls, Floor)


def test_training_lowers_the_loss_and_brings_communities_together(
    learner: type[Method], build: Build, loss_of: Callable[..., Tensor], embed: Callable[..., Tensor]
) -> None:
    """A few steps serve two statements.

    The loss is taken under the same noise before and after, so that only the weights can have made the difference. And
    two nodes of one community are closer than two of different ones, clearly more often than before training.
    """
    graph = planted_communities(seed=0)
    method = build(learner, graph)

    def level() -> float:
        with torch.no_grad():
            return sum(float(loss_of(method, graph, seed=99, step=step)) for step in range(5)) / 5

    loss, apart = level(), separation(embed(method, graph), graph)
    pretrain(method, graph, schedule(50), seed=0)
    assert level() < loss
    assert separation(embed(method, graph), graph) > apart + 0.05


def planted_communities(seed: int) -> Graph:
    """Four communities of sixteen nodes, with links mostly inside, and each with ten words of its own among 200."""
    generator = torch.Generator().manual_seed(seed)
    community = torch.arange(64) % 4
    first, second = torch.triu_indices(64, 64, offset=1)
    chance = torch.where(community[first] == community[second], 0.16, 0.016)
    linked = torch.rand(len(first), generator=generator) < chance
    own_word = torch.arange(200) // 10 == community.unsqueeze(1)
    x = torch.rand(64, 200, generator=generator) < torch.where(own_word, 0.10, 0.03)
    edge_index = torch.stack([first, second])[:, linked]
    return Graph.from_edges(edge_index, num_nodes=64, x=x, y=community)


def separation(z: Tensor, graph: Graph) -> float:
    """Chance that a pair within a community has a higher cosine than a pair across."""
    assert graph.y is not None
    cosine = normalize(z) @ normalize(z).T
    first, second = torch.triu_indices(graph.num_nodes, graph.num_nodes, offset=1)
    within = graph.y[first] == graph.y[second]
    return auc(cosine[first, second][within], cosine[first, second][~within])
