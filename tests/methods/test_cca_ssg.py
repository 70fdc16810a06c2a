"""CCA-SSG's loss against loops over dimensions, and its two encoders."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.cca_ssg import CCASSG, CCASSGConfig
from bandana.parts.agreement import disagreement, standardise
from bandana.parts.views import two_views

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, step=7)


def naive(h1: Tensor, h2: Tensor, decorrelation: float) -> Tensor:
    num_nodes, width = h1.shape

    def column(h: Tensor, k: int) -> Tensor:
        mean = sum(h[:, k]) / num_nodes
        variance = sum((value - mean) ** 2 for value in h[:, k]) / (num_nodes - 1)
        return (h[:, k] - mean) / variance**0.5

    def correlation(a: Tensor, k: int, b: Tensor, m: int) -> Tensor:
        return (column(a, k) * column(b, m)).sum() / num_nodes

    total = -sum(correlation(h1, k, h2, k) for k in range(width))
    for h in (h1, h2):
        for k in range(width):
            for m in range(width):
                total = total + decorrelation * (float(k == m) - correlation(h, k, h, m)) ** 2
    return total


@pytest.mark.usefixtures("float64")
def test_loss_and_gradients_are_those_of_the_equations() -> None:
    generator = torch.Generator().manual_seed(0)
    h1, h2 = (torch.randn(6, 3, generator=generator).requires_grad_() for _ in range(2))
    loss, expected = disagreement(h1, h2, 0.07), naive(h1, h2, 0.07)
    torch.testing.assert_close(loss, expected)
    gradients, references = (torch.autograd.grad(value, (h1, h2)) for value in (loss, expected))
    for gradient, reference in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient, reference)


@pytest.mark.usefixtures("float64")
def test_equal_uncorrelated_views_give_the_lowest_loss() -> None:
    num_nodes, width, decorrelation = 20, 5, 0.01
    noise = torch.randn(num_nodes, width, generator=torch.Generator().manual_seed(0))
    h = torch.linalg.qr(noise - noise.mean(0)).Q
    lowest = -width * (num_nodes - 1) / num_nodes + 2 * decorrelation * width / num_nodes**2
    torch.testing.assert_close(disagreement(h, h, decorrelation), torch.tensor(lowest))
    assert float(disagreement(h, noise, decorrelation)) > lowest


def test_a_dimension_without_spread_says_nothing() -> None:
    h = torch.stack([torch.full((5,), 0.1), torch.arange(5.0)], dim=1).requires_grad_()
    z = standardise(h)
    assert bool((z[:, 0].abs() < 1e-3).all())
    z.square().sum().backward()
    assert bool(h.grad.isfinite().all())


def build(graph: Graph, config: CCASSGConfig) -> CCASSG:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CCASSG(config, GraphSpec.of(graph))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_the_gcn_is_linear_at_its_end(random_graph: GraphFactory, num_layers: int) -> None:
    graph = random_graph()
    method = build(graph, CCASSGConfig(num_layers=num_layers, width=4, decorrelation=0.1))
    assert (method.embed(graph) < 0).any()

    def encode(view: object) -> Tensor:
        x, structure, edges = view  # type: ignore[misc]
        adjacency = torch.zeros(30, 30)
        adjacency[structure.row, structure.col] = edges.values
        adjacency += edges.loop.diag()
        if method.inner is not None:
            for weight, bias in zip(method.inner.weights, method.inner.biases, strict=True):
                x = (adjacency @ x @ weight + bias).relu()
        return adjacency @ x @ method.last.weights[0]

    first, second = two_views(graph, method.config.views, CLOCK.generator(graph.device))
    loss = method.loss(Batch(graph, graph.links), CLOCK)
    torch.testing.assert_close(loss, disagreement(encode(first), encode(second), 0.1))


def test_the_perceptron_reads_no_edges(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = build(graph, CCASSGConfig(encoder="mlp")).eval()
    alone = graph.keep_edges(torch.empty(0, dtype=torch.long))
    assert method.embed(alone).equal(method.embed(graph))
    assert method.inner is not None
    assert len(method.inner.norms) == 1
    assert not method.last.norms


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width: must be at least 1"),
        ({"num_layers": 0}, "num_layers: must be at least 1"),
        ({"decorrelation": -1.0}, "decorrelation: must not be negative"),
    ],
)
def test_rules(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        CCASSGConfig(**changes)  # type: ignore[arg-type]
