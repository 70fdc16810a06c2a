"""VGAE's loss against the equations on dense matrices; the mean is what it embeds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
from torch.nn.functional import relu

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.vgae import VGAE, VGAEConfig
from bandana.parts.autoencoder import LayersConfig, ReconstructionConfig

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, step=7)
KIPF = VGAEConfig(encoder=LayersConfig(widths=(4, 3), bias=False), reconstruction=ReconstructionConfig(loss="dense"))


def build(graph: Graph, config: VGAEConfig = KIPF) -> VGAE:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = VGAE(config, GraphSpec.of(graph))
        for parameter in method.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return method


def posterior(method: VGAE, graph: Graph) -> tuple[Tensor, Tensor]:
    adjacency = torch.eye(graph.num_nodes)
    adjacency[graph.structure.row, graph.structure.col] = 1
    scale = adjacency.sum(1).rsqrt().diag()
    mix = scale @ adjacency @ scale
    hidden = mix @ relu(mix @ graph.x @ method.encoder.hidden.weights[0])
    mean, log_std = (hidden @ head.weights[0] for head in method.encoder.heads)
    return mean, log_std


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
def test_loss_and_gradients_are_those_of_the_equations(hand_graph: GraphFactory, directed: bool) -> None:
    graph = hand_graph(directed=directed)
    method = build(graph)
    mean, log_std = posterior(method, graph)
    z = mean + torch.empty(5, 3).normal_(generator=CLOCK.generator(graph.device)) * log_std.exp()
    target = torch.eye(5)
    target[graph.structure.row, graph.structure.col] = 1
    e = graph.num_edges
    reconstruction = 25 / (2 * (25 - e)) * cross_entropy(z @ z.T, target, pos_weight=torch.tensor((25 - e) / e))
    divergence = -0.5 / 5 * (1 + 2 * log_std - mean**2 - (2 * log_std).exp()).sum()
    expected = reconstruction + divergence / 5
    loss = method.loss(Batch(graph, graph.links), CLOCK)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    parameters = list(method.parameters())
    ours, theirs = (torch.autograd.grad(value, parameters) for value in (loss, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.usefixtures("float64")
def test_embeddings_are_means_and_scores_their_dot_products(hand_graph: GraphFactory) -> None:
    graph = hand_graph()
    method = build(graph).eval()
    mean, _ = posterior(method, graph)
    torch.testing.assert_close(method.embed(graph), mean)
    pairs = torch.tensor([[0, 1, 4], [3, 1, 2]])
    torch.testing.assert_close(method.score_edges(graph, pairs), (mean @ mean.T)[pairs[0], pairs[1]])
