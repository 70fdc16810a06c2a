"""What is made of an embedding before it is judged, against matrices written out."""

from collections.abc import Callable

import pytest
import torch

from bandana.errors import UserError
from bandana.graph import Graph
from bandana.parts.readout import AS_IT_IS, ReadoutConfig, read_out, smooth


def normalised(graph: Graph) -> torch.Tensor:
    """``D^-1/2 (A + I) D^-1/2``, every zero written out."""
    matrix = torch.eye(graph.num_nodes)
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    matrix[graph.structure.row, graph.structure.col] = weight
    scale = matrix.sum(1).rsqrt()
    return scale[:, None] * matrix * scale


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_averaged_over_neighbours_as_often_as_asked(hand_graph: Callable[..., Graph], weighted: bool) -> None:
    graph, z = hand_graph(weighted=weighted), torch.randn(5, 2)
    torch.testing.assert_close(smooth(z, graph, 3), normalised(graph).matrix_power(3) @ z)
    torch.testing.assert_close(read_out(z, graph, ReadoutConfig(smoothing=1)), normalised(graph) @ z)


def test_by_default_nothing_is_done(hand_graph: Callable[..., Graph]) -> None:
    z = torch.randn(5, 2)
    assert read_out(z, hand_graph(), AS_IT_IS) is z
    assert read_out(z, hand_graph(), ReadoutConfig(smoothing=0, skip=0.0, skip_smoothing=0)) is z


@pytest.mark.usefixtures("float64")
def test_features_stand_beside_as_long_as_asked(hand_graph: Callable[..., Graph]) -> None:
    graph, z = hand_graph(), 50 * torch.randn(5, 2)
    both = read_out(z, graph, ReadoutConfig(skip=0.5, skip_smoothing=2))
    learned, features = both[:, :2], both[:, 2:]
    lengths = [part.square().sum(1).mean().sqrt().item() for part in (learned, features)]
    assert lengths == pytest.approx([1.0, 0.5])
    expected = normalised(graph) @ normalised(graph) @ graph.x
    torch.testing.assert_close(features / features.norm(), expected / expected.norm())
    torch.testing.assert_close(learned / learned.norm(), z / z.norm())


def test_without_features_none_stand_beside() -> None:
    graph = Graph.from_edges(torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    with pytest.raises(UserError, match=r"readout\.skip: this graph has no features"):
        read_out(torch.ones(3, 2), graph, ReadoutConfig(skip=1.0))


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"smoothing": -1}, "smoothing: must be a number from 0 on, got -1"),
        ({"skip": float("nan")}, "skip: must be a number from 0 on, got nan"),
    ],
)
def test_rules(options: dict[str, float], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        ReadoutConfig(**options)
