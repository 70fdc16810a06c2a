"""Attention against dense matrices, in value and gradient, and what must hold for any graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import leaky_relu
from torch.utils._python_dispatch import TorchDispatchMode

from bandana.engine.attention import SLOPE, Shares, attend, attention_shares
from bandana.engine.dropout import keep_mask, keep_scale
from bandana.graph import Graph

GraphFactory = Callable[..., Graph]


def dense_shares(graph: Graph, sender: Tensor, receiver: Tensor, weight: Tensor | None) -> Tensor:
    """``[heads, nodes, nodes]``, row by row: the softmax over every node's in-edges and itself."""
    counts = torch.eye(graph.num_nodes)
    counts[graph.structure.row, graph.structure.col] = 1.0 if weight is None else weight
    scores = leaky_relu(receiver.unsqueeze(2) + sender.unsqueeze(1), SLOPE)
    powers = counts * scores.exp()
    return powers / powers.sum(2, keepdim=True)


def draw(graph: Graph, heads: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((heads, graph.num_nodes), (heads, graph.num_nodes), (graph.num_nodes, heads * width))
    sender, receiver, h = (torch.randn(shape, generator=generator).requires_grad_() for shape in shapes)
    return sender, receiver, h


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [{}, {"isolated": 9}, {"directed": True, "weighted": True}, {"num_edges": 0}])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("chunk", [1, 7, None])
def test_values_and_gradients_are_those_of_dense_matrices(
    random_graph: GraphFactory, kind: dict[str, Any], heads: int, chunk: int | None
) -> None:
    graph = random_graph(**kind)
    sender, receiver, h = inputs = draw(graph, heads, 4)
    out = attend(graph.structure, h, attention_shares(graph.structure, sender, receiver, graph.weight), chunk=chunk)
    matrices = dense_shares(graph, sender, receiver, graph.weight)
    expected = torch.cat([matrix @ part for matrix, part in zip(matrices, h.chunk(heads, dim=1), strict=True)], dim=1)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)

    pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad(out, inputs, pull)
    for gradient, wanted in zip(gradients, torch.autograd.grad(expected, inputs, pull), strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-12)


@given(
    seed=st.integers(0, 1000),
    num_nodes=st.integers(1, 12),
    num_edges=st.integers(0, 40),
    heads=st.integers(1, 3),
    scale=st.sampled_from([0.1, 1.0, 100.0, 1e4]),
)
def test_shares_of_a_node_add_up_to_one_however_large_the_scores(
    random_graph: GraphFactory, seed: int, num_nodes: int, num_edges: int, heads: int, scale: float
) -> None:
    graph = random_graph(num_nodes, num_edges, seed=seed, directed=True)
    sender, receiver, _ = draw(graph, heads, 1, seed)
    shares = attention_shares(graph.structure, sender * scale, receiver * scale)
    total = shares.loop.detach().clone().index_add_(1, graph.structure.row, shares.edges.detach())
    torch.testing.assert_close(total, torch.ones(heads, num_nodes))
    assert bool((shares.edges >= 0).all())
    assert bool((shares.loop >= 0).all())


@pytest.mark.usefixtures("float64")
def test_an_edge_of_weight_zero_is_no_edge(random_graph: GraphFactory) -> None:
    graph = random_graph(directed=True)
    keep = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0)) < 0.4
    rest = graph.keep_edges(keep.nonzero().squeeze(1))
    outcomes = []
    for part, weight in ((graph, keep.double()), (rest, None)):
        sender, receiver, h = inputs = draw(part, 2, 3)
        out = attend(part.structure, h, attention_shares(part.structure, sender, receiver, weight))
        outcomes.append((out, *torch.autograd.grad(out.square().sum(), inputs)))
    for first, second in zip(*outcomes, strict=True):
        torch.testing.assert_close(first, second)


def test_a_node_without_neighbours_keeps_its_vector(random_graph: GraphFactory) -> None:
    graph = random_graph(isolated=5)
    sender, receiver, h = draw(graph, 2, 3)
    out = attend(graph.structure, h, attention_shares(graph.structure, sender, receiver))
    assert out[-5:].equal(h[-5:])


@pytest.mark.usefixtures("float64")
def test_dropped_shares_are_zero_and_the_others_scaled(random_graph: GraphFactory) -> None:
    graph, rate = random_graph(), 0.4
    sender, receiver, h = draw(graph, 2, 3)
    shares = attention_shares(graph.structure, sender, receiver)
    out = attend(graph.structure, h, shares, rate, torch.Generator().manual_seed(5))
    generator = torch.Generator().manual_seed(5)
    kept = Shares(*(values * keep_mask(values.shape, rate, generator) * keep_scale(rate) for values in shares))
    assert 0.3 < float((kept.edges == 0).double().mean()) < 0.5
    torch.testing.assert_close(out, attend(graph.structure, h, kept))
    torch.testing.assert_close(attend(graph.structure, h, shares, rate), attend(graph.structure, h, shares))


def test_no_tensor_is_ever_as_large_as_a_message_per_edge(random_graph: GraphFactory) -> None:
    graph, width = random_graph(20, 2000), 64
    sender, receiver, h = draw(graph, 2, width // 2)
    assert graph.num_edges > 10 * graph.num_nodes
    with largest_result() as largest:
        out = attend(graph.structure, h, attention_shares(graph.structure, sender, receiver), chunk=8)
        out.sum().backward()
    assert h.grad is not None
    assert largest[0] <= 2 * max(h.numel(), 2 * graph.num_edges)


@contextmanager
def largest_result() -> Iterator[list[int]]:
    largest = [0]

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor) and result.layout == torch.strided:
                largest[0] = max(largest[0], result.numel())
            return result

    with Watch():
        yield largest
