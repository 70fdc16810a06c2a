"""SeeGera's loss against dense matrices and loops written from the definition, on a graph of five nodes."""

from dataclasses import replace
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from bandana.engine.dropout import dropout
from bandana.graph import Graph, SparseFeatures, dense
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.seegera import SeeGera, SeeGeraConfig
from bandana.parts.feature_matrix import hide_features, hide_share
from bandana.parts.semi_implicit import bernoulli_noise

CLOCK = Clock(seed=3, epoch=200, step=7)
SMALL = SeeGeraConfig(hidden_width=4, width=3, noise_width=2, num_samples=2, num_others=2, edge_mask=0.5)


def example(*, sparse: bool = False, directed: bool = False) -> Graph:
    """A triangle with a tail and a lone node; of the four features the last belongs to nobody."""
    x = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])
    graph = Graph.from_edges(edge_index, num_nodes=5, x=x, directed=directed)
    return replace(graph, x=SparseFeatures.of(x)) if sparse else graph


def build(graph: Graph, config: SeeGeraConfig = SMALL) -> SeeGera:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SeeGera(config, GraphSpec.of(graph))


def naive_mask(graph: Graph, config: SeeGeraConfig, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Dense adjacency and features as the encoders see them."""
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes)
    shown = hide_share(torch.ones(graph.links.shape), config.edge_mask, draw)
    for entry, kept in zip(graph.links, shown, strict=True):
        i, j = graph.structure.row[entry], graph.structure.col[entry]
        adjacency[i, j] = kept
        if not graph.directed:
            adjacency[j, i] = kept
    return adjacency, dense(hide_features(graph.x, config.feature_mask, draw))


def log_h(z: Tensor, means: list[Tensor], log_variance: Tensor, floor: float) -> Tensor:
    spread = (log_variance / 2).exp() + floor
    kernels = [torch.exp(-0.5 * ((z - mean) / spread).square().sum(1)) for mean in means]
    return torch.log(sum(kernels) / len(kernels) + floor) - 0.5 * log_variance.sum(1)


def balance(total: Tensor, size: int) -> tuple[Tensor, Tensor]:
    return (size - total) / total, size / (2 * (size - total))


def naive_loss(method: SeeGera, graph: Graph) -> Tensor:
    """Random numbers come in the order of the method; with dropout that holds for dense features."""
    config, draw, nodes = method.config, CLOCK.generator(graph.device), graph.num_nodes
    adjacency, x = naive_mask(graph, config, draw)
    scale = (adjacency + torch.eye(nodes)).sum(1).rsqrt().diag()
    messages = scale @ (adjacency + torch.eye(nodes)) @ scale

    def drop(h: Tensor) -> Tensor:
        return dropout(h, config.dropout, draw)

    def graph_net(h: Tensor, weights: list[Tensor]) -> Tensor:
        for depth, weight in enumerate(weights):
            h = torch.tensordot(messages, (drop(h) if depth else h) @ weight, dims=1)
            h = h if depth == len(weights) - 1 and depth > 0 else h.relu()
        return h

    def perceptron(h: Tensor, net: Any) -> Tensor:
        for depth, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
            h = (drop(h) if depth else h) @ weight + bias
            h = h.tanh() if depth < len(net.weights) - 1 else h
        return h

    def encode(h: Tensor, net: Any) -> Tensor:
        return graph_net(h, list(net.weights)) if config.encoder == "gcn" else perceptron(h, net)

    samples, features = config.num_samples, x.shape[1]
    noise = bernoulli_noise(nodes, samples + config.num_others, config.noise_width, draw)
    first = torch.cat([drop(noise), torch.stack([drop(x) for _ in noise.unbind(1)], dim=1)], dim=2)
    means = encode(first, method.node_mean).unbind(1)
    log_variance = encode(drop(x), method.node_log_variance)
    columns = normalize(x.T, p=1, dim=1)
    feature_means = perceptron(drop(torch.stack([columns @ mean for mean in means], dim=1)), method.attribute_mean)
    feature_means = feature_means.unbind(1)
    feature_log_variance = perceptron(drop(columns @ log_variance), method.attribute_log_variance)
    eps = torch.randn(nodes, samples, config.width, generator=draw)
    feature_eps = torch.randn(features, samples, config.width, generator=draw)

    labels = torch.eye(nodes)
    labels[graph.structure.row, graph.structure.col] = 1.0
    pos_weight, norm = balance(adjacency.sum(), nodes**2)
    feature_pos_weight, feature_norm = balance(x.sum(), x.numel())
    share, bounds = CLOCK.epoch / 300, []
    for k in range(samples):
        z = means[k] + eps[:, k] * (log_variance / 2).exp()
        a = feature_means[k] + feature_eps[:, k] * (feature_log_variance / 2).exp()
        decoded, decoded_a = drop(z), drop(a)
        links = norm * binary_cross_entropy_with_logits(decoded @ decoded.T, labels, pos_weight=pos_weight)
        both = torch.cat([decoded, normalize(x, p=1, dim=1) @ decoded_a], dim=1)
        output = graph_net(drop(both), [*method.decoder.weights, method.decoder_out])
        if config.attribute_loss == "bce":
            entries = feature_norm * binary_cross_entropy_with_logits(output, x, pos_weight=feature_pos_weight)
        else:
            entries = feature_norm * (output - x).square().mean()
        mixture = torch.cat(
            [
                log_h(z, [means[k], *means[samples:]], log_variance, config.kernel_floor),
                log_h(a, [feature_means[k], *feature_means[samples:]], feature_log_variance, config.kernel_floor),
            ]
        ).mean()
        priors = -0.5 * z.square().sum(1).mean() / nodes - 0.5 * a.square().sum(1).mean() / features
        bounds.append(-links - entries + share * (priors - mixture / (nodes + features)))
    return log(samples) - torch.stack(bounds).logsumexp(0)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"encoder_layers": 1, "decoder_layers": 1},
        {"attribute_loss": "bce", "decoder_layers": 3},
        {"attribute_loss": "bce", "encoder": "mlp", "decoder_layers": 1, "feature_mask": 0.4},
        {"edge_mask": 0.0, "feature_mask": 0.0, "num_samples": 1, "num_others": 0, "kernel_floor": 1e-3},
    ],
)
def test_loss_and_gradients_are_the_importance_weighted_bound(changes: dict[str, Any], sparse: bool) -> None:
    graph = example(sparse=sparse)
    assert_as_defined(build(graph, replace(SMALL, **changes)), graph)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("changes", [{}, {"encoder": "mlp", "attribute_loss": "bce"}])
def test_draws_are_dropped_before_they_are_decoded_and_not_where_they_are_weighed(changes: dict[str, Any]) -> None:
    """Both draws, as the input of every layer: links and features are explained by what is left of them."""
    graph = example()
    assert_as_defined(build(graph, replace(SMALL, dropout=0.4, **changes)), graph)


def assert_as_defined(method: SeeGera, graph: Graph) -> None:
    loss, expected = method.loss(Batch(graph, graph.links), CLOCK), naive_loss(method, graph)
    torch.testing.assert_close(loss, expected)
    parameters = list(method.parameters())
    for grad, wanted in zip(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(grad, wanted)


@pytest.mark.usefixtures("float64")
def test_directed_links_are_hidden_one_way() -> None:
    graph = example(directed=True)
    method = build(graph)
    torch.testing.assert_close(method.loss(Batch(graph, graph.links), CLOCK), naive_loss(method, graph))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("encoder", ["gcn", "mlp"])
def test_one_graph_layer_ends_in_a_relu(encoder: str) -> None:
    graph = example()
    z = build(graph, replace(SMALL, encoder=encoder, encoder_layers=1)).eval().embed(graph)
    assert bool((z >= 0).all()) == (encoder == "gcn")


def test_a_step_after_preparation_does_not_ask_where_blocks_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for in every step cannot be recorded."""
    graph = example(sparse=True)
    method = build(graph, replace(SMALL, attribute_loss="bce"))
    method.prepare(graph)
    expected = method.loss(Batch(graph, graph.links), CLOCK)
    monkeypatch.setattr("bandana.engine.attribute_loss.row_blocks", None)
    assert method.loss(Batch(graph, graph.links), CLOCK).equal(expected)


def test_dropout_acts_on_training_alone() -> None:
    graph = example()
    plain, dropped = build(graph), build(graph, replace(SMALL, dropout=0.5))
    batch = Batch(graph, graph.links)
    assert not dropped.loss(batch, CLOCK).equal(plain.loss(batch, CLOCK))
    assert dropped.eval().embed(graph).equal(plain.eval().embed(graph))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_layers": 0}, "encoder_layers: must be at least 1"),
        ({"num_samples": 0}, "num_samples: must be at least 1"),
        ({"num_others": -1}, "num_others: must not be negative"),
        ({"dropout": 1.0}, "dropout: must lie in"),
        ({"edge_mask": 1.0}, "edge_mask: must lie in"),
        ({"feature_mask": -0.1}, "feature_mask: must lie in"),
        ({"kernel_floor": 0.0}, "kernel_floor: must be positive"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        SeeGeraConfig(**changes)
