"""SIG-VAE's loss against loops over samples, nodes and pairs, on a graph of five nodes."""

from collections.abc import Callable
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from bandana.engine.adjacency_loss import kipf_balance
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.sig_vae import SIGVAE, SIGVAEConfig
from bandana.parts.semi_implicit import bernoulli_noise

GraphFactory = Callable[..., Graph]
SMALL = SIGVAEConfig(hidden_width=4, width=3, noise_width=2, num_samples=3, num_others=2)


def build(graph: Graph, config: SIGVAEConfig = SMALL) -> SIGVAE:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SIGVAE(config, GraphSpec.of(graph))


def normalised(graph: Graph) -> Tensor:
    """Dense GCN weights: rows receive."""
    adjacency = torch.eye(graph.num_nodes)
    adjacency[graph.structure.row, graph.structure.col] = 1.0 if graph.weight is None else graph.weight
    scale = adjacency.sum(1).rsqrt().diag()
    return scale @ adjacency @ scale


def naive_loss(method: SIGVAE, graph: Graph, clock: Clock) -> Tensor:
    config, nodes, draw = method.config, graph.num_nodes, clock.generator(graph.device)
    assert isinstance(graph.x, Tensor)
    messages = normalised(graph)
    noise = bernoulli_noise(nodes, config.num_samples + config.num_others, config.noise_width, draw)

    def encode(x: Tensor, weights: Any) -> Tensor:
        return messages @ (messages @ x @ weights[0]).relu() @ weights[1]

    means = [encode(torch.cat([e, graph.x], dim=1), method.mean.weights) for e in noise.unbind(1)]
    log_variance = encode(graph.x, method.log_variance.weights)
    eps = torch.randn(nodes, config.num_samples, config.width, generator=draw)
    linked = set(map(tuple, graph.edge_index.flip(0).T.tolist())) | {(i, i) for i in range(nodes)}
    weight, scale = kipf_balance(nodes, graph.num_edges)
    share = min((clock.epoch - 1) / 300, 1.0)
    bounds = []
    for k in range(config.num_samples):
        z = means[k] + eps[:, k] * (log_variance / 2).exp()
        terms = []
        for i in range(nodes):
            for j in range(nodes):
                s = z[i] @ z[j]
                terms.append(weight * softplus(-s) if (i, j) in linked else softplus(s))
        likelihood = -scale * sum(terms) / nodes**2
        prior, mixture = 0.0, 0.0
        for i in range(nodes):
            spread = (log_variance[i] / 2).exp() + 1e-10
            centres = [means[k], *means[config.num_samples :]]
            kernels = [torch.exp(-0.5 * ((z[i] - centre[i]) / spread).square().sum()) for centre in centres]
            mixture += (torch.log(sum(kernels) / len(kernels) + 1e-10) - 0.5 * log_variance[i].sum()) / nodes
            prior += -0.5 * z[i].square().sum() / nodes
        bounds.append(likelihood + (prior - mixture) * share / nodes)
    return log(config.num_samples) - torch.stack(bounds).logsumexp(0)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("epoch", [1, 151, 1000])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_gradients_are_the_importance_weighted_bound(
    hand_graph: GraphFactory, epoch: int, directed: bool, weighted: bool
) -> None:
    graph = hand_graph(directed=directed, weighted=weighted)
    method, clock = build(graph), Clock(seed=3, epoch=epoch, step=7)
    loss, expected = method.loss(Batch(graph, graph.links), clock), naive_loss(method, graph, clock)
    torch.testing.assert_close(loss, expected)
    parameters = list(method.parameters())
    for grad, wanted in zip(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(grad, wanted)


@pytest.mark.usefixtures("float64")
def test_embeddings_are_the_means_at_average_noise(hand_graph: GraphFactory) -> None:
    graph = hand_graph()
    method = build(graph).eval()
    assert isinstance(graph.x, Tensor)
    messages, (first, second) = normalised(graph), method.mean.weights
    x = torch.cat([torch.full((5, 2), 0.5), graph.x], dim=1)
    z = messages @ (messages @ x @ first).relu() @ second
    torch.testing.assert_close(method.embed(graph), z)
    pairs = torch.tensor([[0, 1, 4], [2, 1, 3]])
    torch.testing.assert_close(method.score_edges(graph, pairs), torch.stack([z[0] @ z[2], z[1] @ z[1], z[4] @ z[3]]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width: must be at least 1"),
        ({"hidden_width": 0}, "hidden_width: must be at least 1"),
        ({"noise_width": 0}, "noise_width: must be at least 1"),
        ({"num_samples": 0}, "num_samples: must be at least 1"),
        ({"num_others": -1}, "num_others: must not be negative"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        SIGVAEConfig(**changes)
