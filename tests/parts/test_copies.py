"""Copies of a method: each learns by itself, and embeddings stand side by side."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest
import torch

from bandana.config import patch, to_table
from bandana.experiment import Experiment, build
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method
from bandana.methods.bandana import BandanaConfig
from bandana.parts.copies import Copies
from bandana.parts.encoders import EncoderConfig
from bandana.parts.floor import Floor
from bandana.registry import all_methods, get_method
from bandana.training.trainer import TrainingConfig, TrainingState, pretrain

SMALL = BandanaConfig(encoder=EncoderConfig(num_layers=2, width=8), decoder_width=4)
BANDANA = Experiment(method="bandana", dataset="toy", task="node", model=SMALL)
TRAINING = TrainingConfig(epochs=4, lr=0.01, edge_batch_size=64, evaluate_every=1, clip_norm=0.01)
LEARNERS = sorted(name for name, method in all_methods().items() if not issubclass(method, Floor))


@pytest.fixture
def graph(random_graph: Callable[..., Graph]) -> Graph:
    return random_graph(40, 90, isolated=2)


def built(name: str, graph: Graph, count: int) -> Method:
    experiment = Experiment(method=name, dataset="toy", task="link", model=get_method(name).Config(), copies=count)
    return build(experiment, GraphSpec.of(graph), seed=3)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_first_of_several_learns_what_it_learns_alone(name: str, graph: Graph) -> None:
    alone, several = built(name, graph, 1), built(name, graph, 2)
    training = replace(TRAINING, epochs=2, lr=1e-3)
    for method in (alone, several):
        pretrain(method, graph, training, seed=5)
    assert isinstance(several, Copies)
    first = several.copies[0].state_dict()
    assert first.keys() == alone.state_dict().keys()
    for key, value in alone.state_dict().items():
        assert torch.equal(first[key], value), key


def test_copies_are_not_the_same(graph: Graph) -> None:
    method = build(replace(BANDANA, copies=3), GraphSpec.of(graph), seed=0)
    assert isinstance(method, Copies)
    method.prepare(graph)
    method.loss(Batch(graph, graph.links), Clock(seed=0))
    bandwidths = [copy._bandwidths[0] for copy in method.copies]  # type: ignore[union-attr, index]
    matrices = [
        [weight for weight in copy.parameters() if weight.dim() == 2 and weight.numel() > 1] for copy in method.copies
    ]
    for one, other in combinations(range(3), 2):
        assert not torch.allclose(bandwidths[one], bandwidths[other])
        assert all(not torch.equal(*pair) for pair in zip(matrices[one], matrices[other], strict=True))


def test_what_draws_from_generators_differs_between_copies_too(graph: Graph) -> None:
    method = build(replace(BANDANA, copies=2), GraphSpec.of(graph), seed=0)
    assert isinstance(method, Copies)
    (_, first), (_, second) = method._timed(Batch(graph, graph.links), Clock(seed=7, step=2, epoch=1))
    alone = Clock(seed=7, step=2, epoch=1)
    for ask in (Clock.generator, Clock.epoch_generator):
        expected = torch.rand(5, generator=ask(alone, graph.device))
        assert torch.equal(torch.rand(5, generator=ask(first, graph.device)), expected)
        assert not torch.equal(torch.rand(5, generator=ask(second, graph.device)), expected)


def test_an_embedding_has_all_copies_side_by_side(graph: Graph) -> None:
    method = build(replace(BANDANA, copies=3), GraphSpec.of(graph), seed=0).eval()
    assert isinstance(method, Copies)
    z = method.embed(graph)
    assert torch.equal(z, torch.cat([copy.embed(graph) for copy in method.copies], dim=1))  # type: ignore[operator]
    assert z.shape == (40, 3 * 16)


def test_decoders_agree_on_the_mean_of_their_logits(graph: Graph) -> None:
    method = build(replace(BANDANA, copies=2), GraphSpec.of(graph), seed=0).eval()
    assert isinstance(method, Copies)
    pairs = torch.tensor([[0, 1, 2], [3, 4, 5]])
    one, two = (copy.score_edges(graph, pairs) for copy in method.copies)  # type: ignore[operator]
    torch.testing.assert_close(method.score_edges(graph, pairs), (one + two) / 2)
    assert method.has_decoder()


def test_what_has_no_decoder_has_none_in_several(graph: Graph) -> None:
    method = built("grace", graph, 2)
    assert not method.has_decoder()
    assert method.score_edges(graph, torch.tensor([[0], [1]])) is None


def test_diagnostics_are_means(graph: Graph) -> None:
    method = build(replace(BANDANA, copies=2), GraphSpec.of(graph), seed=0)
    assert isinstance(method, Copies)
    method.loss(Batch(graph, graph.links), Clock(seed=0))
    told = [copy.diagnostics()["mask_ratio"] for copy in method.copies]  # type: ignore[operator]
    assert method.diagnostics() == {"mask_ratio": fmean(told)}


@pytest.mark.parametrize("name", LEARNERS)
def test_groups_are_those_of_all_copies(name: str, graph: Graph) -> None:
    alone, several = built(name, graph, 1), built(name, graph, 2)
    groups, expected = several.parameter_groups(), alone.parameter_groups()
    assert {group: 2 * len(members) for group, members in expected.items()} == {
        group: len(members) for group, members in groups.items()
    }
    assert [several.rate_of(group) for group in groups] == [alone.rate_of(group) for group in expected]
    assert several.replayable == alone.replayable


class StopError(Exception):
    """In the middle of a training."""


def test_an_interrupted_training_of_copies_goes_on_bit_for_bit(graph: Graph, tmp_path: Path) -> None:
    experiment = replace(BANDANA, copies=2)

    def stop(state: TrainingState) -> None:
        if state.epoch == 2:
            raise StopError

    straight, resumed = (build(experiment, GraphSpec.of(graph), seed=0) for _ in range(2))
    pretrain(straight, graph, TRAINING, seed=1)
    file = tmp_path / "checkpoint.safetensors"
    with pytest.raises(StopError):
        pretrain(resumed, graph, TRAINING, seed=1, checkpoint=file, on_epoch=stop)
    resumed = build(experiment, GraphSpec.of(graph), seed=9)
    pretrain(resumed, graph, TRAINING, seed=1, checkpoint=file)
    for key, value in straight.state_dict().items():
        assert torch.equal(resumed.state_dict()[key], value), key


def test_one_copy_is_none_and_leaves_no_trace() -> None:
    assert replace(BANDANA, copies=1) == BANDANA
    assert "copies" not in to_table(replace(BANDANA, copies=1))
    assert to_table(replace(BANDANA, copies=4))["copies"] == 4


def test_less_than_one_copy_is_refused() -> None:
    with pytest.raises(ValueError, match="copies: must be at least 1, got 0"):
        replace(BANDANA, copies=0)


def test_settings_that_were_written_are_read_back() -> None:
    several = replace(BANDANA, copies=2)
    assert patch(BANDANA, to_table(several)) == several
