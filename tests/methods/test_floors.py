"""The floors are what they say: the features, the same smoothed, and a GCN at its initial weights."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import elu

from bandana.data.datasets import Dataset
from bandana.experiment import Experiment, run_seed
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.methods.raw_features import RawFeatures
from bandana.methods.smoothed_features import SmoothedFeatures, SmoothedFeaturesConfig
from bandana.methods.untrained_encoder import UntrainedEncoder, UntrainedEncoderConfig
from bandana.registry import get_method


def test_raw_features_are_the_features(hand_graph) -> None:
    graph = hand_graph()
    assert RawFeatures(RawFeatures.Config(), GraphSpec.of(graph)).embed(graph).equal(graph.x)
    bare = Graph.from_edges(graph.edge_index, num_nodes=5)
    assert RawFeatures(RawFeatures.Config(), GraphSpec.of(bare)).embed(bare).equal(torch.eye(5))


def gcn_operator(graph: Graph) -> torch.Tensor:
    """Of a weighted graph, dense, with self-loops."""
    adjacency = torch.eye(graph.num_nodes)
    adjacency[graph.structure.row, graph.structure.col] = graph.weight
    scale = adjacency.sum(1).rsqrt()
    return scale[:, None] * adjacency * scale[None, :]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("steps", [1, 3])
def test_smoothed_features_are_powers_of_the_operator_times_the_features(hand_graph, steps: int) -> None:
    graph = hand_graph(weighted=True)
    method = SmoothedFeatures(SmoothedFeaturesConfig(steps=steps), GraphSpec.of(graph))
    expected = torch.linalg.matrix_power(gcn_operator(graph), steps) @ graph.x
    torch.testing.assert_close(method.embed(graph), expected)


def test_smoothing_takes_a_step() -> None:
    with pytest.raises(ValueError, match=r"^steps: must be at least 1, got 0"):
        SmoothedFeaturesConfig(steps=0)


@pytest.mark.usefixtures("float64")
def test_the_untrained_encoder_is_a_gcn(hand_graph) -> None:
    graph = hand_graph(weighted=True)
    config = UntrainedEncoderConfig(num_layers=2, width=4)
    method = UntrainedEncoder(config, GraphSpec.of(graph))
    operator = gcn_operator(graph)
    first = elu(operator @ graph.x @ method.encoder.weights[0])
    second = elu(operator @ first @ method.encoder.weights[1])
    torch.testing.assert_close(method.embed(graph), torch.cat([first, second], dim=1))
    last = UntrainedEncoder(replace(config, readout="last"), GraphSpec.of(graph))
    last.load_state_dict(method.state_dict())
    torch.testing.assert_close(last.embed(graph), second)


@pytest.mark.parametrize("task", ["node", "link"])
@pytest.mark.parametrize("name", ["raw_features", "smoothed_features", "untrained_encoder"])
def test_a_floor_runs_like_a_method_and_learns_nothing(name: str, task: str, random_graph) -> None:
    experiment = Experiment(method=name, dataset="mine", task=task, model=get_method(name).Config())
    result = run_seed(experiment, Dataset("mine", random_graph(60, 200)), 0, torch.device("cpu"))
    assert result.record.epochs == 0
    assert not result.record.history
    assert result.record.metrics == result.record.floors[name.replace("_", " ")]


@pytest.mark.parametrize(("option", "value"), [("num_layers", 0), ("width", 0)])
def test_an_encoder_needs_layers_and_a_width(option: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^{option}: must be at least 1, got 0"):
        UntrainedEncoderConfig(**{option: value})
