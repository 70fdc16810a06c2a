"""GraphMAE's loss, node by node from the paper's equations, on a graph of five nodes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, prelu

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.graphmae import GraphMAE, GraphMAEConfig
from bandana.parts.attention import GATConfig, GATLayer, thinned
from bandana.parts.feature_masks import draw_feature_mask

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, step=7)
SMALL = GraphMAEConfig(
    encoder=GATConfig(num_layers=2, heads=2, head_width=3, feature_dropout=0.0, attention_dropout=0.0),
    mask_rate=0.8,
    replace_rate=0.25,
)


def build(graph: Graph, config: GraphMAEConfig = SMALL, seed: int = 0) -> GraphMAE:
    """With every parameter away from its tidy initial value, so that no term is zero by chance."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        method = GraphMAE(config, GraphSpec.of(graph))
        for parameter in method.parameters():
            torch.nn.init.normal_(parameter)
    return method


def naive_attention(
    h: list[Tensor], weights: dict[tuple[int, int], float], sender: Tensor, receiver: Tensor | None
) -> list[Tensor]:
    """One head: every node mixes those it hears and itself, by the softmax of their scores."""
    out = []
    for i in range(len(h)):
        heard = {j: weight for (j, k), weight in weights.items() if k == i} | {i: 1.0}
        own = 0 if receiver is None else h[i] @ receiver
        power = {j: weight * leaky_relu(h[j] @ sender + own, 0.2).exp() for j, weight in heard.items()}
        out.append(sum(power[j] * h[j] for j in heard) / sum(power.values()))
    return out


def naive_layer(layer: GATLayer, x: list[Tensor], weights: dict[tuple[int, int], float]) -> list[Tensor]:
    parts = []
    for head, columns in enumerate(layer.weight.chunk(layer.sender.shape[1], dim=1)):
        h = [row @ columns for row in x]
        parts.append(naive_attention(h, weights, layer.sender[0, head], layer.receiver[0, head]))
    return [torch.cat(heads) + layer.bias for heads in zip(*parts, strict=True)]


def edge_weights(graph: Graph, weight: Tensor | None) -> dict[tuple[int, int], float]:
    """By (sender, receiver)."""
    values = torch.ones(graph.num_edges) if weight is None else weight
    return dict(zip(map(tuple, graph.edge_index.T.tolist()), values.tolist(), strict=True))


def naive_loss(method: GraphMAE, graph: Graph) -> Tensor:
    config, generator = method.config, CLOCK.generator(graph.device)
    mask = draw_feature_mask(graph.num_nodes, config.mask_rate, config.replace_rate, generator)
    visible = edge_weights(graph, thinned(graph, config.edge_drop, generator))
    z = list(graph.x)
    for node in mask.covered.tolist():
        z[node] = method.token[0]
    for node, donor in zip(mask.replaced.tolist(), mask.donors.tolist(), strict=True):
        z[node] = graph.x[donor]
    for layer, activation in zip(method.encoder.layers, method.encoder.activations, strict=True):
        z = [prelu(row, activation.weight) for row in naive_layer(layer, z, visible)]
    codes = [method.bridge.weight @ row for row in z]
    hidden = mask.nodes.tolist()
    for node in hidden:
        codes[node] = torch.zeros_like(codes[node])
    decoder = method.decoder
    decoded = naive_attention(
        [code @ decoder.weight for code in codes], edge_weights(graph, graph.weight), decoder.sender.flatten(), None
    )
    errors = []
    for node in hidden:
        x, y = graph.x[node], decoded[node] + decoder.bias
        errors.append((1 - x @ y / (x.norm() * y.norm())) ** config.exponent)
    return sum(errors) / len(errors)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "changes", [{}, {"replace_rate": 0.0}, {"exponent": 1.0}, {"mask_rate": 0.5}, {"edge_drop": 0.5}]
)
@pytest.mark.parametrize("kind", [{}, {"directed": True, "weighted": True}])
def test_loss_and_gradients_are_the_papers(
    hand_graph: GraphFactory, kind: dict[str, bool], changes: dict[str, float]
) -> None:
    graph = hand_graph(**kind)
    method = build(graph, replace(SMALL, **changes))
    loss, expected = method.loss(Batch(graph, graph.links), CLOCK), naive_loss(method, graph)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    parameters = list(method.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    # In loops, a node that hears itself alone has a share of exactly one, which may leave a parameter out altogether.
    wanted = torch.autograd.grad(expected, parameters, allow_unused=True, materialize_grads=True)
    for gradient, want in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, want, rtol=1e-9, atol=1e-11)


def test_the_token_starts_at_zero_and_learns(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = GraphMAE(SMALL, GraphSpec.of(graph))
    assert not method.token.any()
    method.loss(Batch(graph, graph.links), CLOCK).backward()
    assert method.token.grad is not None
    assert bool(method.token.grad.any())


def test_the_decoder_never_sees_a_hidden_nodes_code(
    random_graph: GraphFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = random_graph(50, 150)
    method = build(graph)
    seen: list[tuple[Tensor, Tensor]] = []
    decode = method.decoder.loss

    def watch(codes: Tensor, graph: Graph, nodes: Tensor, *rest: Any) -> Tensor:
        seen.append((codes, nodes))
        return decode(codes, graph, nodes, *rest)

    monkeypatch.setattr(method.decoder, "loss", watch)
    method.loss(Batch(graph, graph.links), CLOCK)
    [(codes, nodes)] = seen
    assert nodes.numel() == 40
    assert not codes[nodes].any()
    assert int(codes.any(1).sum()) == 10


def test_an_embedding_is_the_last_layer_on_the_whole_graph(random_graph: GraphFactory) -> None:
    graph = random_graph(weighted=True)
    noisy = replace(SMALL, edge_drop=0.5, encoder=replace(SMALL.encoder, feature_dropout=0.5, attention_dropout=0.5))
    method = build(graph, noisy)
    assert method.embed(graph).equal(method.encoder(graph.x, graph.structure, graph.weight))
    assert method.embed(graph).shape == (30, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask_rate": 0.0}, "mask_rate: must lie in"),
        ({"mask_rate": 1.0}, "mask_rate: must lie in"),
        ({"replace_rate": -0.1}, "replace_rate: must lie in"),
        ({"edge_drop": 1.0}, "edge_drop: must lie in"),
        ({"exponent": 0.5}, "exponent: must be at least 1"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        GraphMAEConfig(**changes)
