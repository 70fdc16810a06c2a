"""The tuned GAE against dense matrices, written from its equations."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, layer_norm

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods import gae_tuned
from bandana.methods.gae_tuned import GAETuned, GAETunedConfig

PLAIN = GAETunedConfig(node_embedding=4, width=6, num_hops=3, hop_decay=0.5, dropout=0.0, negatives_per_link=2.0)


def make(config: GAETunedConfig, graph: Graph) -> GAETuned:
    torch.manual_seed(0)
    return GAETuned(config, GraphSpec.of(graph))


def dense_adjacency(graph: Graph, hidden_links: list[int]) -> torch.Tensor:
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes)
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    hidden = {(int(graph.structure.row[e]), int(graph.structure.col[e])) for e in hidden_links}
    if not graph.directed:
        hidden |= {(col, row) for row, col in hidden}
    for row, col, value in zip(graph.structure.row, graph.structure.col, weight, strict=True):
        if (int(row), int(col)) not in hidden:
            adjacency[row, col] = value
    with_loops = adjacency + torch.eye(graph.num_nodes)
    scale = with_loops.sum(1).rsqrt()
    return scale[:, None] * with_loops * scale[None, :]


def dense_encoding(method: GAETuned, graph: Graph, hidden_links: list[int]) -> torch.Tensor:
    """``Σ_k softmax(a)_k H_k`` with full matrices."""
    operator = dense_adjacency(graph, hidden_links)
    assert isinstance(graph.x, torch.Tensor)
    inputs = graph.x if method.nodes is None else torch.cat([graph.x, method.nodes], dim=1)
    hops = [operator @ inputs @ method.weight]
    for norm in method.norms:
        rows = hops[-1]
        if method.config.layer_norm:
            rows = layer_norm(rows, (method.config.width,), norm.weight, norm.bias)
        hops.append(operator @ rows)
    share = method.hop_weights.exp() / method.hop_weights.exp().sum()
    return sum(part * hop for part, hop in zip(share, hops, strict=True))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("change", [{}, {"hide_batch": True}, {"node_embedding": 0}, {"layer_norm": False}])
def test_the_loss_is_the_one_of_dense_matrices(hand_graph, monkeypatch, directed: bool, change: dict) -> None:
    graph = hand_graph(directed=directed, weighted=True)
    method = make(replace(PLAIN, **change), graph)
    negatives = torch.tensor([[0, 1, 4, 3], [3, 4, 2, 1]])
    monkeypatch.setattr(gae_tuned, "sample_negatives", lambda keys, nodes, count, generator: negatives[:, :count])
    links = graph.links[:2]
    z = dense_encoding(method, graph, links.tolist() if method.config.hide_batch else [])

    def logits(pairs: torch.Tensor) -> torch.Tensor:
        return torch.cat([method.decoder((z[u] * z[v])[None]) for u, v in pairs.T])

    positive = logits(torch.stack([graph.structure.row[links], graph.structure.col[links]]))
    negative = logits(negatives)
    expected = binary_cross_entropy_with_logits(positive, torch.ones(2))
    expected = expected + binary_cross_entropy_with_logits(negative, torch.zeros(4))
    found = method.loss(Batch(graph, links), Clock(0))
    torch.testing.assert_close(found, expected)
    leaves = list(method.parameters())
    torch.testing.assert_close(torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves))


@pytest.mark.usefixtures("float64")
def test_orthogonal_vectors_count_common_neighbours(hand_graph) -> None:
    """What linear propagation is for: one unnormalised hop over orthonormal rows has A Aᵀ as its dot products."""
    graph = hand_graph()
    rows = make(replace(PLAIN, node_embedding=8), graph).nodes
    assert rows is not None
    torch.testing.assert_close(rows @ rows.T, torch.eye(5))
    adjacency = torch.zeros(5, 5)
    adjacency[graph.structure.row, graph.structure.col] = 1
    hop = adjacency @ rows
    torch.testing.assert_close(hop @ hop.T, adjacency @ adjacency.T)


def test_hidden_links_pass_no_message(hand_graph) -> None:
    """With its only link hidden, node 3 is encoded as if it stood alone."""
    graph = hand_graph(weighted=True)
    (tail,) = (e for e in graph.links.tolist() if 3 in (int(graph.structure.row[e]), int(graph.structure.col[e])))
    values = gae_tuned._without(graph, torch.tensor([tail]))
    touching = (graph.structure.row == 3) | (graph.structure.col == 3)
    assert values[touching].eq(0).all()
    assert graph.weight is not None
    assert values[~touching].equal(graph.weight[~touching])
    assert graph.weight.gt(0).all()


def test_scores_are_those_of_the_decoder_on_the_embedding(hand_graph) -> None:
    graph = hand_graph()
    method = make(replace(PLAIN, dropout=0.5), graph).eval()
    pairs = torch.tensor([[0, 1], [3, 2]])
    with torch.no_grad():
        z = method.embed(graph)
        torch.testing.assert_close(method.score_edges(graph, pairs), method.decoder(z[pairs[0]] * z[pairs[1]]))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("width", 0),
        ("num_hops", 0),
        ("dropout", 1.0),
        ("hop_decay", 0.0),
        ("negatives_per_link", 0.0),
    ],
)
def test_what_makes_no_sense_is_refused(option: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{option}: .*got {value}"):
        GAETunedConfig(**{option: value})


def test_weights_of_hops_stay_numbers() -> None:
    GAETunedConfig(num_hops=2, hop_decay=1e38)
    with pytest.raises(ValueError, match=r"^hop_decay: leaves the range of numbers over 3 hops, got 1e\+38"):
        GAETunedConfig(num_hops=3, hop_decay=1e38)
