"""GraphSAGE layers against loops over nodes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import elu

from bandana.engine.propagate import mean_weights
from bandana.graph import Graph, SparseFeatures
from bandana.parts.sage import SageStack

GraphFactory = Callable[..., Graph]


def build(widths: list[int], dropout: float = 0.0) -> SageStack:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SageStack(widths, name="elu", dropout=dropout)


def naive_layer(stack: SageStack, depth: int, z: list[Tensor], graph: Graph, weight: list[float]) -> list[Tensor]:
    out = []
    edges = graph.edge_index.T.tolist()
    for node in range(graph.num_nodes):
        heard = [(w, sender) for w, (sender, receiver) in zip(weight, edges, strict=True) if receiver == node]
        mixed = z[node] @ stack.own[depth] + stack.biases[depth]
        total = sum(w for w, _ in heard)
        if total:
            mixed = mixed + sum(w * z[sender] for w, sender in heard) / total @ stack.neighbours[depth]
        out.append(elu(mixed))
    return out


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weights", ["none", "own", "some zero"])
def test_a_layer_is_the_mean_of_neighbours_and_the_node_itself(
    hand_graph: GraphFactory, directed: bool, weights: str
) -> None:
    graph = hand_graph(directed=directed, weighted=weights != "none")
    weight = graph.weight
    if weights == "some zero":
        assert weight is not None
        weight = weight * (torch.arange(graph.num_edges) % 3 > 0)
    stack = build([3, 4, 2])
    outputs = stack(graph.x, graph.structure, weight)
    z = list(graph.x)
    for depth, output in enumerate(outputs):
        z = naive_layer(stack, depth, z, graph, [1.0] * graph.num_edges if weight is None else weight.tolist())
        torch.testing.assert_close(output, torch.stack(z))
    assert len(outputs) == 2


def test_sparse_features_are_read_as_dense_ones(random_graph: GraphFactory) -> None:
    graph = random_graph(num_features=0)
    assert isinstance(graph.x, SparseFeatures)
    stack = build([30, 5])
    torch.testing.assert_close(
        stack(graph.x, graph.structure, None)[0], stack(graph.x.dense(), graph.structure, None)[0]
    )


def test_what_is_dropped_is_dropped_for_neighbours_and_node_alike(random_graph: GraphFactory) -> None:
    """With equal maps, and every node hearing one neighbour that is like it, both halves are the same."""
    pair = Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=2, x=torch.ones(2, 50))
    stack = build([50, 1], dropout=0.5)
    with torch.no_grad():
        stack.own[0].fill_(1.0)
        stack.neighbours[0].fill_(-1.0)
        stack.biases[0].zero_()
    out = stack(pair.x, pair.structure, None, torch.Generator().manual_seed(0))[0].detach()
    # elu(own - other) of the one and elu(other - own) of the other: one is positive and the other its elu.
    high, low = out.max(), out.min()
    assert float(high) > 0
    torch.testing.assert_close(low, elu(-high))
    assert stack(pair.x, pair.structure, None)[0].abs().max() == 0


def test_initial_values_are_those_of_linear_layers() -> None:
    stack = build([400, 300])
    for parameter in stack.parameters():
        assert float(parameter.detach().abs().max()) <= 1 / 20
        assert float(parameter.detach().std()) == pytest.approx(1 / 20 / 3**0.5, rel=0.1)


def test_shares_of_a_row_add_up_to_one_or_are_zero(random_graph: GraphFactory) -> None:
    graph = random_graph(isolated=4, weighted=True)
    assert graph.weight is not None
    first = graph.structure.row[0]
    shares = mean_weights(graph.structure, graph.weight * (graph.structure.row != first))
    sums = torch.zeros(30).index_add_(0, graph.structure.row, shares)
    heard = (graph.structure.row_sizes > 0) & (torch.arange(30) != first)
    torch.testing.assert_close(sums, heard.float())
    torch.testing.assert_close(mean_weights(graph.structure), 1 / graph.structure.row_sizes[graph.structure.row])
