"""The encoder with heads and the reconstruction of links, against dense matrices and plain sums."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
from torch.nn.functional import relu

from bandana.engine.negatives import sample_negatives
from bandana.graph import Graph
from bandana.method import Batch
from bandana.parts.autoencoder import HeadedGCN, LayersConfig, Reconstruction, ReconstructionConfig

GraphFactory = Callable[..., Graph]


def seeded(build: Callable[[], Any], seed: int = 0) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = build()
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter)
        return module


def dense_gcn(graph: Graph) -> Tensor:
    adjacency = torch.eye(graph.num_nodes)
    adjacency[graph.structure.row, graph.structure.col] = 1.0 if graph.weight is None else graph.weight
    scale = adjacency.sum(1).rsqrt().diag()
    return scale @ adjacency @ scale


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [{}, {"weighted": True}, {"directed": True}])
def test_heads_read_the_last_hidden_layer_and_are_linear(hand_graph: GraphFactory, kind: dict[str, bool]) -> None:
    graph = hand_graph(**kind)
    encoder = seeded(lambda: HeadedGCN(LayersConfig(widths=(4, 2)), 3, num_heads=2))
    mix = dense_gcn(graph)
    hidden = relu(mix @ graph.x @ encoder.hidden.weights[0] + encoder.hidden.biases[0])
    outputs = encoder(graph)
    assert len(outputs) == 2
    for head, output in zip(encoder.heads, outputs, strict=True):
        torch.testing.assert_close(output, mix @ hidden @ head.weights[0] + head.biases[0], rtol=1e-10, atol=1e-10)


def test_without_a_hidden_layer_heads_read_the_features(random_graph: GraphFactory) -> None:
    for num_features in (6, 0):
        graph = random_graph(num_features=num_features)
        encoder = seeded(lambda g=graph: HeadedGCN(LayersConfig(widths=(2,)), g.num_features, num_heads=1, noise=9.0))
        assert encoder(graph)[0].equal(encoder(graph, torch.Generator().manual_seed(0))[0])  # nowhere to put noise


def test_noise_lies_on_the_hidden_layer_in_training_only(random_graph: GraphFactory) -> None:
    graph = random_graph()
    noisy, plain = (
        seeded(lambda n=noise: HeadedGCN(LayersConfig(widths=(4, 2)), 6, num_heads=1, noise=n)) for noise in (0.5, 0.0)
    )
    assert noisy(graph)[0].equal(plain(graph)[0])
    difference = noisy(graph, torch.Generator().manual_seed(0))[0] - plain(graph)[0]
    noise = torch.empty(30, 4).normal_(std=0.5, generator=torch.Generator().manual_seed(0))
    expected = dense_gcn(graph) @ noise @ plain.heads[0].weights[0]
    torch.testing.assert_close(difference, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("decoder", ["dot", "mlp"])
def test_sampled_loss_averages_links_and_non_links_apart(
    hand_graph: GraphFactory, directed: bool, decoder: str
) -> None:
    graph = hand_graph(directed=directed)
    config = ReconstructionConfig(decoder=decoder, decoder_dropout=0.0)  # type: ignore[arg-type]
    reconstruction = seeded(lambda: Reconstruction(config, 3))
    z = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
    loss = reconstruction.loss(z, Batch(graph, graph.links), torch.Generator().manual_seed(2))

    links = [(0, 1), (0, 2), (1, 2), (2, 3)]
    negatives = sample_negatives(graph.edge_keys, 5, 4, torch.Generator().manual_seed(2)).T.tolist()
    expected = torch.zeros(())
    for pairs, target in ((links, 1.0), (negatives, 0.0)):
        for pair in pairs:
            logit = reconstruction.logits(z, torch.tensor(pair).view(2, 1))
            expected = expected + cross_entropy(logit, torch.tensor([target])) / 4
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(torch.autograd.grad(loss, z), torch.autograd.grad(expected, z), rtol=1e-8, atol=1e-10)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
def test_dense_loss_is_the_balanced_cross_entropy_of_the_matrix_with_its_diagonal(
    hand_graph: GraphFactory, directed: bool
) -> None:
    graph = hand_graph(directed=directed)
    reconstruction = Reconstruction(ReconstructionConfig(loss="dense"), 3)
    z = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    target = torch.eye(5)
    target[graph.structure.row, graph.structure.col] = 1
    edges = 4 if directed else 8
    expected = 25 / (2 * (25 - edges)) * cross_entropy(z @ z.T, target, pos_weight=torch.tensor((25 - edges) / edges))
    loss = reconstruction.loss(z, Batch(graph, graph.links), torch.Generator())
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: LayersConfig(widths=()), "widths: must name at least one layer"),
        (lambda: LayersConfig(widths=(32, 0)), r"widths: .*\[32, 0\]"),
        (lambda: LayersConfig(dropout=1.0), "dropout: .*1.0"),
        (lambda: ReconstructionConfig(loss="dense", decoder="mlp"), "decoder: must be 'dot'"),
        (lambda: ReconstructionConfig(decoder_width=0), "decoder_width: .*0"),
        (lambda: ReconstructionConfig(decoder_dropout=-0.1), "decoder_dropout: .*-0.1"),
    ],
)
def test_impossible_options_are_refused(build: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        build()
