"""S2GAE's loss against Python loops over dense matrices, on a graph of five nodes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from bandana.engine.negatives import sample_negatives
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.s2gae import S2GAE, S2GAEConfig
from bandana.parts.edge_masks import hide_entries_by_count, hide_links_by_count

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, epoch=2, step=7)
SMALL = S2GAEConfig(width=4, decoder_width=5, dropout=0.0, mask_rate=0.6)
LINKS = {"masking": "undirected", "negatives": "not_visible"}


def build(graph: Graph, config: S2GAEConfig = SMALL) -> S2GAE:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = S2GAE(config, GraphSpec.of(graph))
        for parameter in method.parameters():
            nn.init.normal_(parameter)
    return method


def naive_codes(method: S2GAE, graph: Graph, values: Tensor, loop: float = 1.0) -> list[list[Tensor]]:
    """The codes of every layer for every node, from a dense adjacency with self-loops laid by hand."""
    adjacency = loop * torch.eye(graph.num_nodes)
    adjacency[graph.structure.row, graph.structure.col] = values
    degree = adjacency.sum(1)
    scale = torch.tensor([d**-0.5 if d > 0 else 0.0 for d in degree.tolist()]).diag()
    hidden, codes = graph.x, []
    for layer in method.layers:
        hidden = relu(scale @ adjacency @ scale @ hidden @ layer.weights[0] + layer.biases[0])
        codes.append(list(hidden))
    return codes


def naive_logit(method: S2GAE, codes: list[list[Tensor]], u: int, v: int) -> Tensor:
    hidden = torch.cat([first[u] * second[v] for first in codes for second in codes])
    *inner, last = method.decoder.layers
    for layer in inner:
        hidden = relu(layer.weight @ hidden + layer.bias)
    return (last.weight @ hidden + last.bias).squeeze()


def naive_loss(method: S2GAE, graph: Graph) -> Tensor:
    config, generator = method.config, CLOCK.generator(graph.device)
    undirected = config.masking == "undirected"
    hide = hide_links_by_count if undirected else hide_entries_by_count
    mask = hide(graph, config.mask_rate, CLOCK.epoch_generator(graph.device))
    codes = naive_codes(method, graph, mask.visible if graph.weight is None else mask.visible * graph.weight)
    entries = graph.links.tolist()
    if not undirected and not graph.directed:
        entries += graph.structure.transposed_entry[graph.links].tolist()
    if config.negatives == "uniform":
        candidates = torch.randint(graph.num_nodes, (2, len(entries)), generator=generator)
    else:
        visible = graph.edge_keys[mask.visible > 0]
        candidates = sample_negatives(visible, graph.num_nodes, len(entries), generator).flip(0)
        seen = graph.edge_index[:, mask.visible > 0].T.tolist()
        assert not any(pair in seen for pair in candidates.T.tolist())
    matching = torch.randperm(len(entries), generator=generator).tolist()
    asked = [mask.hidden[entry] > 0 for entry in entries]
    positives = [graph.edge_index[:, entry].tolist() for entry, yes in zip(entries, asked, strict=True) if yes]
    negatives = [pair for pair, place in zip(candidates.T.tolist(), matching, strict=True) if asked[place]]
    assert len(positives) == len(negatives) == int(config.mask_rate * len(entries))
    loss = -sum(torch.log(torch.sigmoid(naive_logit(method, codes, u, v))) for u, v in positives) / len(positives)
    loss = loss - sum(torch.log(torch.sigmoid(-naive_logit(method, codes, u, v))) for u, v in negatives) / len(
        negatives
    )
    assert isinstance(loss, Tensor)
    return loss


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, LINKS, {"num_layers": 3, "decoder_layers": 3}, {"num_layers": 1}])
def test_loss_and_gradients_are_those_of_the_equation(
    hand_graph: GraphFactory, directed: bool, weighted: bool, options: dict[str, Any]
) -> None:
    graph = hand_graph(directed=directed, weighted=weighted)
    method = build(graph, replace(SMALL, **options))
    loss, expected = method.loss(Batch(graph, graph.links), CLOCK), naive_loss(method, graph)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    parameters = list(method.parameters())
    references = torch.autograd.grad(expected, parameters)
    for gradient, reference in zip(torch.autograd.grad(loss, parameters), references, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-7, atol=1e-9)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_embeddings_with_and_without_self_loops(random_graph: GraphFactory, directed: bool, loops: bool) -> None:
    graph = random_graph(isolated=3, weighted=True, directed=directed)
    assert graph.weight is not None
    method = build(graph, replace(SMALL, readout_loops=loops, readout="concat"))
    codes = naive_codes(method, graph, graph.weight, float(loops))
    z = method.embed(graph)
    torch.testing.assert_close(z, torch.cat([torch.stack(layer) for layer in codes], dim=1))
    last = build(graph, replace(SMALL, readout_loops=loops, readout="last"))
    torch.testing.assert_close(last.embed(graph), z[:, SMALL.width :])
    pairs = torch.tensor([[0, 1, 29], [5, 6, 28]])
    expected = [naive_logit(method, codes, u, v) for u, v in pairs.T.tolist()]
    torch.testing.assert_close(method.score_edges(graph, pairs), torch.stack(expected))


def test_dropout_spares_the_features_and_the_last_code(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method, plain = build(graph, replace(SMALL, dropout=0.5)), build(graph)
    weights = plain._readout_weights(graph)
    dropped = method._encode(graph, weights, torch.Generator().manual_seed(0))
    whole = plain._encode(graph, weights)
    survivors = dropped[:, 0] != 0
    torch.testing.assert_close(dropped[:, 0][survivors], 2 * whole[:, 0][survivors], rtol=1e-4, atol=1e-5)
    assert int(survivors.sum()) < int((whole[:, 0] != 0).sum())
    one = build(graph, replace(SMALL, dropout=0.5, num_layers=1))
    assert one._encode(graph, weights, torch.Generator().manual_seed(0)).equal(one._encode(graph, weights))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers: must be at least 1"),
        ({"decoder_width": 0}, "decoder_width: must be at least 1"),
        ({"dropout": 1.0}, "dropout: must lie in"),
        ({"mask_rate": 0.0}, "mask_rate: must lie in"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        S2GAEConfig(**changes)
