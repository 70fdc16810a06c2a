"""The step of masked edge autoencoders against Python loops, with masks laid by hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import elu, relu

from bandana.config import to_table
from bandana.engine.negatives import sample_negatives
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.parts.edge_masks import EdgeMask
from bandana.parts.edge_reconstruction import (
    DegreeHead,
    EdgeReconstruction,
    MaskedEdgesConfig,
    both_directions,
    side_by_side,
    tell_apart,
)

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, epoch=2, step=7)
SMALL = MaskedEdgesConfig(
    width=4, out_width=3, dropout=0.0, decoder_width=5, decoder_dropout=0.0, degree_weight=0.3, readout="last"
)


class EveryThird(EdgeReconstruction):
    """Hides entries 0, 3, 6, … and shows those whose number is odd: they overlap, and some are neither."""

    def hide(self, graph: Graph, generator: torch.Generator) -> EdgeMask:
        number = torch.arange(graph.num_edges)
        return EdgeMask(*((number % step == rest).to(torch.get_default_dtype()) for step, rest in ((2, 1), (3, 0))))


def build(graph: Graph, config: MaskedEdgesConfig = SMALL) -> EveryThird:
    """With every parameter away from its tidy initial value, so that no term is zero by chance."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = EveryThird(config, GraphSpec.of(graph))
        for parameter in method.parameters():
            nn.init.normal_(parameter)
    return method


def naive_encode(method: EveryThird, graph: Graph, visible: list[float]) -> list[Tensor]:
    """Dense adjacency of what is visible, its GCN normalisation, batch norm over all nodes, ELU."""
    adjacency = torch.eye(graph.num_nodes)
    for number, (sender, receiver) in enumerate(graph.edge_index.T.tolist()):
        weight = 1.0 if graph.weight is None else float(graph.weight[number])
        adjacency[receiver, sender] = visible[number] * weight
    scale = adjacency.sum(1).rsqrt().diag()
    z = graph.x
    assert isinstance(z, Tensor)
    for weight, norm in zip(method.encoder.weights, method.encoder.norms, strict=True):
        mixed = scale @ adjacency @ scale @ z @ weight
        variance, mean = torch.var_mean(mixed, dim=0, correction=0)
        z = elu((mixed - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias)
    return list(z)


def perceptron(layers: nn.ModuleList, x: Tensor) -> Tensor:
    *inner, last = layers
    for layer in inner:
        x = relu(layer.weight @ x + layer.bias)
    return (last.weight @ x + last.bias).squeeze()


def naive_loss(method: EveryThird, graph: Graph, links: Tensor) -> Tensor:
    """P1 over the hidden entries of the links and as many negatives, plus the error of the hidden in-degrees."""
    hidden = [number for number in range(graph.num_edges) if number % 3 == 0]
    z = naive_encode(method, graph, [float(number % 2) for number in range(graph.num_edges)])
    edges = graph.edge_index.T.tolist()
    named = {tuple(edges[link]) for link in links.tolist()}
    if not graph.directed:
        named |= {(receiver, sender) for sender, receiver in named}
    asked = [edges[number] for number in hidden if tuple(edges[number]) in named]

    generator = CLOCK.generator(graph.device)
    candidates = sample_negatives(graph.edge_keys, graph.num_nodes, len(named), generator).T.tolist()
    entries = both_directions(graph, links).tolist()
    matching = torch.randperm(len(named), generator=generator).tolist()
    negatives = [pair for pair, place in zip(candidates, matching, strict=True) if entries[place] in hidden]
    assert len(negatives) == len(asked)

    def log_odds(pair: list[int]) -> Tensor:
        return perceptron(method.decoder.layers, z[pair[0]] * z[pair[1]])

    loss = -sum(torch.log(torch.sigmoid(log_odds(pair))) for pair in asked) / len(asked)
    loss = loss - sum(torch.log(torch.sigmoid(-log_odds(pair))) for pair in negatives) / len(negatives)
    if method.degree_head is not None:
        for node in range(graph.num_nodes):
            degree = sum(edges[number][1] == node for number in hidden)
            guess = relu(perceptron(method.degree_head.layers, z[node]))
            loss = loss + method.config.degree_weight * (guess - degree) ** 2 / graph.num_nodes
    assert isinstance(loss, Tensor)
    return loss


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"degree_weight": 0.0, "decoder_layers": 4}, {"num_layers": 1}])
@pytest.mark.parametrize("some", [False, True])
def test_loss_and_gradients_are_those_of_the_equation(
    hand_graph: GraphFactory, directed: bool, weighted: bool, options: dict[str, Any], some: bool
) -> None:
    graph = hand_graph(directed=directed, weighted=weighted)
    method = build(graph, replace(SMALL, **options))
    links = graph.links[:2] if some else graph.links
    loss, expected = method.loss(Batch(graph, links), CLOCK), naive_loss(method, graph, links)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    parameters = list(method.parameters())
    references = torch.autograd.grad(expected, parameters)
    for gradient, reference in zip(torch.autograd.grad(loss, parameters), references, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("directed", [False, True])
def test_the_directions_of_links_are_all_entries_once(random_graph: GraphFactory, directed: bool) -> None:
    graph = random_graph(directed=directed)
    assert sorted(both_directions(graph, graph.links).tolist()) == list(range(graph.num_edges))
    pair = both_directions(graph, graph.links[:1])
    assert graph.edge_index[:, pair].T.tolist()[-1] == graph.edge_index[:, pair[0]].tolist()[:: 1 if directed else -1]


def test_as_many_negatives_as_hidden_entries_and_both_are_means(random_graph: GraphFactory) -> None:
    graph = random_graph()
    entries = both_directions(graph, graph.links)[:50]
    hidden = (torch.arange(graph.num_edges) % 3 == 0).float()
    negatives = torch.randint(30, (2, 50), generator=torch.Generator().manual_seed(0))
    pairs, weight = tell_apart(graph, entries, hidden, negatives, torch.Generator().manual_seed(0))
    assert pairs.equal(torch.cat([graph.edge_index[:, entries], negatives], dim=1))
    assert weight[:50].sign().equal(hidden[entries])
    assert int((weight < 0).sum()) == int((weight > 0).sum()) == int(hidden[entries].sum())
    assert float(weight.clamp(min=0).sum()) == pytest.approx(1)
    assert float(weight.clamp(max=0).sum()) == pytest.approx(-1)
    nothing = tell_apart(graph, entries, torch.zeros_like(hidden), negatives, torch.Generator().manual_seed(0))
    assert not bool(nothing[1].any())


def test_every_negative_is_equally_likely_to_count_wherever_the_hidden_entries_lie(random_graph: GraphFactory) -> None:
    graph = random_graph()
    entries, negatives = torch.arange(40), torch.zeros(2, 40, dtype=torch.long)
    hidden = (torch.arange(graph.num_edges) < 10).float()
    generator = torch.Generator().manual_seed(0)
    counted = torch.stack([tell_apart(graph, entries, hidden, negatives, generator)[1][40:] < 0 for _ in range(1000)])
    torch.testing.assert_close(counted.float().mean(0), torch.full((40,), 0.25), atol=0.07, rtol=0)


def test_degrees_are_never_negative_and_drop_in_training_only() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        head = DegreeHead(4, 8, 3, 0.5)
    z = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    degrees = head(z, None)
    assert degrees.shape == (50,)
    assert float(degrees.detach().min()) >= 0
    assert degrees.equal(head(z, None))
    assert not degrees.equal(head(z, torch.Generator().manual_seed(0)))


def test_an_undecided_decoder_pays_two_logarithms_of_two(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = build(graph, replace(SMALL, degree_weight=0.0))
    for parameter in method.decoder.parameters():
        nn.init.zeros_(parameter)
    assert float(method.loss(Batch(graph, graph.links), CLOCK).detach()) == pytest.approx(2 * math.log(2))


@pytest.mark.usefixtures("float64")
def test_embeddings_and_scores_come_from_the_whole_graph(random_graph: GraphFactory) -> None:
    graph = random_graph(weighted=True)
    method = build(graph)
    z = torch.stack(naive_encode(method, graph, [1.0] * graph.num_edges))
    torch.testing.assert_close(method.embed(graph), z)  # batch statistics, as the naive encoder takes them
    pairs = torch.tensor([[0, 1, 2], [5, 6, 7]])
    expected = [perceptron(method.decoder.layers, z[u] * z[v]) for u, v in pairs.T.tolist()]
    torch.testing.assert_close(method.score_edges(graph, pairs), torch.stack(expected))
    concat = build(graph, replace(SMALL, readout="concat"))
    assert concat.embed(graph).shape == (30, SMALL.width + SMALL.out_width)
    torch.testing.assert_close(concat.embed(graph)[:, SMALL.width :], z)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers: must be at least 1"),
        ({"out_width": 0}, "out_width: must be at least 1"),
        ({"decoder_layers": 0}, "decoder_layers: must be at least 1"),
        ({"dropout": 1.0}, "dropout: must lie in"),
        ({"decoder_dropout": -0.1}, "decoder_dropout: must lie in"),
        ({"degree_weight": -1.0}, "degree_weight: must not be negative"),
        ({"node_embedding": -1}, "node_embedding: must be 0 or a width"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        MaskedEdgesConfig(**changes)


# As on the links of OGB: SAGE layers, learned vectors per node, dot products and the squared AUC loss.

RANKED = replace(SMALL, layer="sage", node_embedding=6, objective="squared_auc")


def naive_sage(method: EveryThird, graph: Graph, visible: list[float]) -> list[Tensor]:
    """The mean of visible neighbours through one map, the node through another, a bias, ELU; layer by layer."""
    edges = graph.edge_index.T.tolist()
    weights = [1.0] * len(edges) if graph.weight is None else graph.weight.tolist()
    z = list(graph.x if method.node_vectors is None else method.node_vectors)
    encoder = method.encoder
    for to_neighbours, to_own, bias in zip(encoder.neighbours, encoder.own, encoder.biases, strict=True):
        following = []
        for node in range(graph.num_nodes):
            heard = [(visible[n] * weights[n], s) for n, (s, receiver) in enumerate(edges) if receiver == node]
            total = sum(weight for weight, _ in heard)
            mean = sum((w * z[s] for w, s in heard), torch.zeros_like(z[0])) / (total or 1)
            following.append(elu(mean @ to_neighbours + z[node] @ to_own + bias))
        z = following
    return z


def naive_ranked_loss(method: EveryThird, graph: Graph, links: Tensor) -> Tensor:
    """Σ (1 - (score of a hidden entry - score of its negative))², plus the error of the hidden in-degrees."""
    visible = [float(number % 2) for number in range(graph.num_edges)]
    z = naive_sage(method, graph, visible)
    edges = graph.edge_index.T.tolist()
    entries = both_directions(graph, links).tolist()
    generator = CLOCK.generator(graph.device)
    drawn = sample_negatives(graph.edge_keys, graph.num_nodes, len(entries), generator).T.tolist()
    matching = torch.randperm(len(entries), generator=generator).tolist()
    loss = torch.zeros(())
    for place, entry in enumerate(entries):
        if entry % 3 == 0:
            (u, v), (a, b) = edges[entry], drawn[matching[place]]
            loss = loss + (1 - (z[u] @ z[v] - z[a] @ z[b])) ** 2
    assert method.degree_head is not None
    for node in range(graph.num_nodes):
        degree = sum(edges[number][1] == node for number in range(0, graph.num_edges, 3))
        guess = relu(perceptron(method.degree_head.layers, z[node]))
        loss = loss + method.config.degree_weight * (guess - degree) ** 2 / graph.num_nodes
    return loss


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"node_embedding": None}, {"num_layers": 1}])
@pytest.mark.parametrize("some", [False, True])
def test_the_ranked_loss_and_its_gradients_are_those_of_the_equation(
    hand_graph: GraphFactory, directed: bool, weighted: bool, options: dict[str, Any], some: bool
) -> None:
    graph = hand_graph(directed=directed, weighted=weighted)
    method = build(graph, replace(RANKED, **options))
    links = graph.links[:2] if some else graph.links
    loss, expected = method.loss(Batch(graph, links), CLOCK), naive_ranked_loss(method, graph, links)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    parameters = list(method.parameters())
    references = torch.autograd.grad(expected, parameters)
    for gradient, reference in zip(torch.autograd.grad(loss, parameters), references, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-7, atol=1e-9)


@pytest.mark.usefixtures("float64")
def test_ranked_scores_are_dot_products_of_the_whole_graph(random_graph: GraphFactory) -> None:
    graph = random_graph(weighted=True)
    method = build(graph, RANKED)
    z = torch.stack(naive_sage(method, graph, [1.0] * graph.num_edges))
    torch.testing.assert_close(method.embed(graph), z)
    pairs = torch.tensor([[0, 1, 2], [5, 6, 7]])
    torch.testing.assert_close(method.score_edges(graph, pairs), (z[pairs[0]] * z[pairs[1]]).sum(1))
    assert method.decoder is None


def test_learned_vectors_take_the_place_of_features(random_graph: GraphFactory) -> None:
    graph = random_graph()
    for config in (RANKED, replace(SMALL, node_embedding=6)):
        method = build(graph, config)
        assert method.node_vectors is not None
        assert method.node_vectors.shape == (30, 6)
        assert method.embed(graph).equal(method.embed(replace(graph, x=graph.x + 1)))


def test_every_entry_has_a_negative_of_its_own_wherever_both_lie(random_graph: GraphFactory) -> None:
    graph = random_graph()
    entries, negatives = torch.arange(40), torch.arange(80).view(2, 40)
    hidden = (torch.arange(graph.num_edges) < 10).float()
    generator = torch.Generator().manual_seed(0)
    met = torch.zeros(40, 40)
    for _ in range(1000):
        positives, others, weight = side_by_side(graph, entries, hidden, negatives, generator)
        assert positives.equal(graph.edge_index[:, entries])
        assert others.sort(dim=1).values.equal(negatives)
        assert (others[1] - others[0]).unique().tolist() == [40]
        assert weight.equal(hidden[:40])
        met[entries, others[0]] += 1
    assert float(met.max()) < 60  # 25 expected
    assert int(met.sum()) == 40_000


def test_what_is_usual_counts_as_not_set() -> None:
    """So that settings, and what tells them apart, are those from before there was a choice."""
    named = MaskedEdgesConfig(layer="gcn", node_embedding=0, objective="cross_entropy")
    assert named == MaskedEdgesConfig()
    assert to_table(named).keys().isdisjoint({"layer", "node_embedding", "objective"})
    assert to_table(RANKED).items() >= {"layer": "sage", "node_embedding": 6, "objective": "squared_auc"}.items()
