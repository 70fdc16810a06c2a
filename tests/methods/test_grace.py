"""GRACE's loss against Python loops over the kept edges and all pairs of nodes, on a graph of five nodes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, elu, relu

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.grace import GRACE, GRACEConfig
from bandana.parts.heads import ContrastConfig
from bandana.parts.views import View, two_views

CLOCK = Clock(seed=3, step=7)
SMALL = GRACEConfig(contrast=ContrastConfig(width=4, projection_width=3, temperature=0.6))


def build(graph: Graph) -> GRACE:
    """With every parameter away from its tidy initial value, so that no term is zero by chance."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = GRACE(SMALL, GraphSpec.of(graph))
        for parameter in method.parameters():
            torch.nn.init.normal_(parameter)
    return method


def naive_encoder(method: GRACE, graph: Graph, view: View) -> list[Tensor]:
    """Two GCN layers over the edges that the view kept, node by node."""
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    kept = [
        (sender, receiver, float(weight[e]))
        for e, (sender, receiver) in enumerate(graph.edge_index.T.tolist())
        if view.edges.values[e] != 0
    ]
    degree = [1 + sum(w for _, receiver, w in kept if receiver == i) for i in range(graph.num_nodes)]
    z = list(view.x)
    for layer_weight, bias in zip(method.contrast.encoder.weights, method.contrast.encoder.biases, strict=True):
        mixed = []
        for i in range(graph.num_nodes):
            total = z[i] / degree[i]
            for sender, receiver, w in kept:
                if receiver == i:
                    total = total + w * z[sender] / (degree[i] * degree[sender]) ** 0.5
            mixed.append(relu(total @ layer_weight + bias))
        z = mixed
    return z


def naive_loss(method: GRACE, graph: Graph) -> Tensor:
    head, images = method.contrast.head, []
    for view in two_views(graph, method.config.views, CLOCK.generator(graph.device)):
        z = naive_encoder(method, graph, view)
        images.append([head[2].weight @ elu(head[0].weight @ h + head[0].bias) + head[2].bias for h in z])

    def s(a: Tensor, b: Tensor) -> Tensor:
        return (cosine_similarity(a, b, dim=0) / 0.6).exp()

    losses = []
    for mine, other in (images, images[::-1]):
        for i in range(graph.num_nodes):
            wrong = sum(s(mine[i], mine[j]) for j in range(graph.num_nodes) if j != i)
            losses.append(-(s(mine[i], other[i]) / (sum(s(mine[i], b) for b in other) + wrong)).log())
    return torch.stack(losses).mean()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [{}, {"directed": True}, {"weighted": True}], ids=["plain", "directed", "weighted"])
def test_loss_and_gradients_are_those_of_the_equations(hand_graph: Callable[..., Graph], kind: dict[str, bool]) -> None:
    graph = hand_graph(**kind)
    method = build(graph)
    loss, expected = method.loss(Batch(graph, graph.links), CLOCK), naive_loss(method, graph)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    parameters = list(method.parameters())
    gradients, references = (torch.autograd.grad(value, parameters) for value in (loss, expected))
    for gradient, reference in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-8, atol=1e-9)


def test_embeddings_come_from_the_encoder_not_from_the_head(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph()
    method = build(graph).eval()
    z = method.embed(graph)
    assert z.shape == (30, 4)
    torch.nn.init.zeros_(method.contrast.head[0].weight)
    assert method.embed(graph).equal(z)
