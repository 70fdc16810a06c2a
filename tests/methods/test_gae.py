"""GAE's loss against the equations on dense matrices, and its embeddings."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
from torch.nn.functional import elu, relu

from bandana.engine.negatives import sample_negatives
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.gae import GAE, GAEConfig
from bandana.parts.autoencoder import LayersConfig, ReconstructionConfig

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, step=7)
KIPF = GAEConfig(encoder=LayersConfig(widths=(4, 3), bias=False), reconstruction=ReconstructionConfig(loss="dense"))
WIDE = GAEConfig(
    encoder=LayersConfig(widths=(4, 4), batch_norm=True, activation="elu"),
    activate_last=True,
    reconstruction=ReconstructionConfig(decoder="mlp", decoder_width=5, decoder_dropout=0.0),
)


def build(graph: Graph, config: GAEConfig) -> GAE:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = GAE(config, GraphSpec.of(graph))
        for parameter in method.parameters():
            torch.nn.init.normal_(parameter)
    return method


def dense_gcn(graph: Graph) -> Tensor:
    adjacency = torch.eye(graph.num_nodes)
    adjacency[graph.structure.row, graph.structure.col] = 1.0 if graph.weight is None else graph.weight
    scale = adjacency.sum(1).rsqrt().diag()
    return scale @ adjacency @ scale


def check(method: GAE, loss: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    parameters = list(method.parameters())
    ours, theirs = (torch.autograd.grad(value, parameters) for value in (loss, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [{}, {"weighted": True}, {"directed": True}])
def test_the_papers_variant_is_two_layers_and_a_balanced_cross_entropy(
    hand_graph: GraphFactory, kind: dict[str, Any]
) -> None:
    graph = hand_graph(**kind)
    method = build(graph, KIPF)
    first, second = method.encoder.weights
    z = dense_gcn(graph) @ relu(dense_gcn(graph) @ graph.x @ first) @ second
    target = torch.eye(5)
    target[graph.structure.row, graph.structure.col] = 1
    e = graph.num_edges
    expected = 25 / (2 * (25 - e)) * cross_entropy(z @ z.T, target, pos_weight=torch.tensor((25 - e) / e))
    check(method, method.loss(Batch(graph, graph.links), CLOCK), expected)
    with torch.no_grad():
        torch.testing.assert_close(method.embed(graph), z)


@pytest.mark.usefixtures("float64")
def test_the_wide_variant_normalises_activates_and_decodes_by_a_perceptron(hand_graph: GraphFactory) -> None:
    graph = hand_graph()
    method = build(graph, WIDE)
    z = graph.x
    for weight, norm in zip(method.encoder.weights, method.encoder.norms, strict=True):
        mixed = dense_gcn(graph) @ z @ weight
        centred = mixed - mixed.mean(0)
        z = elu(centred / (mixed.var(0, correction=0) + norm.eps).sqrt() * norm.weight + norm.bias)
    negatives = sample_negatives(graph.edge_keys, 5, 4, CLOCK.generator(graph.device))
    positives = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])
    logits = [method.reconstruction.logits(z, pairs) for pairs in (positives, negatives)]
    expected = cross_entropy(logits[0], torch.ones(4)) + cross_entropy(logits[1], torch.zeros(4))
    check(method, method.loss(Batch(graph, graph.links), CLOCK), expected)


def test_scores_are_dot_products_of_the_embeddings(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = build(graph, replace(KIPF, reconstruction=ReconstructionConfig())).eval()
    pairs = torch.randint(30, (2, 50), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        z = method.embed(graph)
        torch.testing.assert_close(method.score_edges(graph, pairs), (z @ z.T)[pairs[0], pairs[1]])


def test_a_batch_asks_for_its_own_links(random_graph: GraphFactory) -> None:
    """Another batch of links changes the sampled loss; the dense one always asks for all pairs."""
    graph = random_graph()
    batches = [Batch(graph, graph.links[:5]), Batch(graph, graph.links[5:10])]
    sampled = build(graph, replace(KIPF, reconstruction=ReconstructionConfig()))
    dense = build(graph, KIPF)
    assert not sampled.loss(batches[0], CLOCK).equal(sampled.loss(batches[1], CLOCK))
    assert dense.loss(batches[0], CLOCK).equal(dense.loss(batches[1], CLOCK))
