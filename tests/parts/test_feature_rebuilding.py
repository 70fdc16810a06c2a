"""The loss of rebuilt features against dense matrices."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from bandana.graph import Graph, SparseFeatures
from bandana.parts.encoders import Stack
from bandana.parts.feature_rebuilding import rebuilding_loss
from bandana.parts.views import whole_view


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("widths", [[3], [3, 4]])
def test_the_error_is_that_of_graph_layers_with_balanced_entries(
    random_graph: Callable[..., Graph], widths: list[int], sparse: bool
) -> None:
    graph, draw = random_graph(6, 9), torch.Generator().manual_seed(0)
    x = (torch.rand(6, 5, generator=draw) < 0.4).double()
    view = whole_view(replace(graph, x=SparseFeatures.of(x) if sparse else x))
    stack, out = Stack(widths, bias=False), torch.randn(widths[-1], 5, generator=draw)
    vectors = torch.randn(6, 3, generator=draw)
    messages = view.edges.loop.diag()
    messages[graph.structure.row, graph.structure.col] = view.edges.values
    hidden = vectors
    for weight in stack.weights:
        hidden = (messages @ hidden @ weight).relu()
    rebuilt = messages @ hidden @ out
    rebuilt = rebuilt if len(widths) > 1 else rebuilt.relu()
    expected = 30 / (2 * (30 - x.sum())) * (rebuilt - x).square().mean()
    torch.testing.assert_close(rebuilding_loss(stack, out, vectors, view, "mse", draw), expected)
