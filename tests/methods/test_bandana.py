"""Bandana's loss against Python loops written from equations 5, 6, 8 and 9 of the paper, on a graph of five nodes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import elu, log_softmax, relu

from bandana.engine.bandwidth import gaussian_noise
from bandana.engine.edge_loss import edge_loss
from bandana.engine.negatives import sample_negatives
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.parts.bandwidth_targets import released_order
from bandana.parts.encoders import EncoderConfig
from bandana.parts.masks import MaskConfig, draw_masks, mean_bandwidth

GraphFactory = Callable[..., Graph]
Bandwidths = dict[tuple[int, int], float]
CLOCK = Clock(seed=3, step=7)
SMALL = BandanaConfig(
    encoder=EncoderConfig(num_layers=3, width=4, dropout=0.0), decoder_width=5, decoder_dropout=0.0, target="aligned"
)


def build(graph: Graph, config: BandanaConfig = SMALL, seed: int = 0) -> Bandana:
    """With every parameter away from its tidy initial value, so that no term is zero by chance."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        method = Bandana(config, GraphSpec.of(graph))
        for parameter in method.parameters():
            torch.nn.init.normal_(parameter)
    method.prepare(graph)
    return method


def full_batch(graph: Graph) -> Batch:
    return Batch(graph, graph.links)


def naive_bandwidths(graph: Graph, config: MaskConfig, layer: int) -> tuple[Bandwidths, list[float]]:
    """Equation 5: the softmax of the noise over the edges into each node; the second value is the node's own share."""
    noise_layer = layer if config.per_layer else 0

    def power(sender: int, receiver: int) -> float:
        key = torch.tensor([receiver * graph.num_nodes + sender])
        noise = gaussian_noise(key, seed=CLOCK.seed, step=CLOCK.step, layer=noise_layer)
        return float((noise / config.temperature_of(layer)).exp())

    edges = [tuple(edge) for edge in graph.edge_index.T.tolist()]
    bandwidths, own = {}, []
    for receiver in range(graph.num_nodes):
        senders = [k for k, j in edges if j == receiver]
        inside = power(receiver, receiver) if config.self_loop == "inside" else 0.0
        total = sum(power(k, receiver) for k in senders) + inside
        bandwidths |= {(k, receiver): power(k, receiver) / total for k in senders}
        own.append(inside / total if config.self_loop == "inside" else 1.0)
    return bandwidths, own


def naive_layer(
    method: Bandana, graph: Graph, z: list[Tensor], layer: int, bandwidths: Bandwidths, own: list[float]
) -> list[Tensor]:
    """Equation 6 in the GCN form of appendix D: normalised messages, batch norm over the nodes, ELU."""
    weight = dict.fromkeys(bandwidths, 1.0)
    if graph.weight is not None:
        weight = dict(zip(map(tuple, graph.edge_index.T.tolist()), graph.weight.tolist(), strict=True))
    message = {edge: bandwidths[edge] * weight[edge] for edge in bandwidths}
    degree = [own[j] + sum(value for (_, receiver), value in message.items() if receiver == j) for j in range(len(z))]
    mixed = []
    for j in range(len(z)):
        total = own[j] / degree[j] * z[j]
        for (sender, receiver), value in message.items():
            if receiver == j:
                total = total + value / (degree[sender] ** 0.5 * degree[j] ** 0.5) * z[sender]
        mixed.append(total @ method.encoder.weights[layer])
    norm = method.encoder.norms[layer]
    mean = sum(mixed) / len(mixed)
    variance = sum((row - mean) ** 2 for row in mixed) / len(mixed)
    return [elu((row - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias) for row in mixed]


def log_probabilities(method: Bandana, z_u: Tensor, z_v: Tensor) -> Tensor:
    """Logarithms of r: that the pair is an edge, and that it is none."""
    decoder = method.decoder
    hidden = relu(decoder.hidden.weight @ (z_u * z_v) + decoder.hidden.bias)
    return log_softmax(decoder.out.weight @ hidden + decoder.out.bias, dim=0)


def naive_loss(method: Bandana, graph: Graph, layers: list[int]) -> Tensor:
    """Equation 8 for each predicting layer, edge by edge in each direction, and their mean by equation 9."""
    generator = CLOCK.generator(graph.device)
    count = round(method.config.negatives_per_edge * graph.num_edges)
    negatives = sample_negatives(graph.edge_keys, graph.num_nodes, count, generator).T.tolist()
    z = list(graph.x)
    losses = []
    for layer in range(method.config.encoder.num_layers):
        bandwidths, own = naive_bandwidths(graph, method.config.mask, layer)
        z = naive_layer(method, graph, z, layer, bandwidths, own)
        if layer not in layers:
            continue
        targets = naive_targets(graph, method.config.target, bandwidths, generator)
        positive = sum(-target * log_probabilities(method, z[i], z[j])[0] for (i, j), target in targets.items())
        negative = sum(-log_probabilities(method, z[i], z[j])[1] for i, j in negatives)
        losses.append(positive / len(targets) + negative / len(negatives))
    return sum(losses) / len(losses)


def naive_targets(graph: Graph, target: str, bandwidths: Bandwidths, generator: torch.Generator) -> Bandwidths:
    edges = [tuple(edge) for edge in graph.edge_index.T.tolist()]
    if target == "constant":
        receivers = {receiver for _, receiver in edges}
        return {edge: len(receivers) / len(edges) for edge in edges}
    if target == "shuffled":
        order = torch.randperm(len(edges), generator=generator).tolist()
        return {edge: bandwidths[edges[other]] for edge, other in zip(edges, order, strict=True)}
    return {edge: bandwidths[edge] for edge in edges}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[int]]] = {
    # name: options, kind of graph, layers that predict
    "aligned": ({}, {}, [0, 1, 2]),
    "constant target": ({"target": "constant"}, {}, [0, 1, 2]),
    "shuffled target": ({"target": "shuffled"}, {}, [0, 1, 2]),
    "excluded layers": ({"excluded_layers": (1, 2)}, {}, [2]),
    "one excluded layer": ({"excluded_layers": (2,)}, {}, [0, 2]),
    "last layer only": ({"predict": "last"}, {}, [2]),
    "one mask": ({"mask": MaskConfig(per_layer=False)}, {}, [0, 1, 2]),
    "cold": ({"mask": MaskConfig(temperature=0.1)}, {}, [0, 1, 2]),
    "a temperature per layer": ({"mask": MaskConfig(temperature=(0.2, 1.0, 5.0))}, {}, [0, 1, 2]),
    "self-loop inside": ({"mask": MaskConfig(self_loop="inside")}, {}, [0, 1, 2]),
    "more negatives": ({"negatives_per_edge": 2.5}, {}, [0, 1, 2]),
    "directed": ({}, {"directed": True}, [0, 1, 2]),
    "weighted": ({}, {"weighted": True}, [0, 1, 2]),
    "directed, weighted, inside": (
        {"mask": MaskConfig(self_loop="inside")},
        {"directed": True, "weighted": True},
        [0, 1, 2],
    ),
}


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_are_those_of_the_equations(hand_graph: GraphFactory, case: str) -> None:
    options, kind, layers = CASES[case]
    graph = hand_graph(**kind)
    method = build(graph, replace(SMALL, **options))
    loss, expected = method.loss(full_batch(graph), CLOCK), naive_loss(method, graph, layers)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    parameters = dict(method.named_parameters())
    gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    references = torch.autograd.grad(expected, list(parameters.values()), allow_unused=True)
    for name, gradient, reference in zip(parameters, gradients, references, strict=True):
        assert gradient is not None, name
        assert reference is not None, name
        torch.testing.assert_close(gradient, reference, rtol=1e-8, atol=1e-9, msg=lambda text, n=name: f"{n}: {text}")


def recorded_calls(method: Bandana) -> list[tuple[Tensor, Tensor, Tensor]]:
    """From now on, what the method gives its decoder for each layer: embeddings, pairs, signed weights."""
    calls: list[tuple[Tensor, Tensor, Tensor]] = []
    original = method.decoder.loss

    def loss(z: Tensor, pairs: Tensor, weight: Tensor, generator: torch.Generator | None) -> Tensor:
        calls.append((z, pairs, weight))
        return original(z, pairs, weight, generator)

    method.decoder.loss = loss  # type: ignore[method-assign]
    return calls


@pytest.mark.usefixtures("float64")
def test_released_targets_are_other_edges_bandwidths_paired_once_for_all(random_graph: GraphFactory) -> None:
    graph = random_graph(60, 300, directed=True)
    method = build(graph, replace(SMALL, target="released"))
    calls = recorded_calls(method)
    pairings = []
    for step in range(2):
        method.loss(full_batch(graph), replace(CLOCK, step=step))
        masks = draw_masks(method.config.mask, graph, replace(CLOCK, step=step), 3)
        for (_, _, weight), mask in zip(calls[-3:], masks, strict=True):
            assert mask.bandwidths.unique().numel() == graph.num_edges  # so that a value tells its edge
            distance = (weight[weight > 0].unsqueeze(1) * graph.num_edges - mask.bandwidths).abs()
            assert float(distance.min(1).values.max()) < 1e-12
            pairings.append(distance.argmin(1).tolist())
    assert all(pairing == pairings[0] for pairing in pairings)
    assert sorted(pairings[0]) == list(range(graph.num_edges))
    assert sum(edge == partner for edge, partner in enumerate(pairings[0])) < 0.05 * graph.num_edges


def test_released_order_lists_all_links_and_then_their_reverses(random_graph: GraphFactory) -> None:
    graph = random_graph()
    partner = released_order(graph)
    links, reverse = graph.links, graph.structure.transposed_entry[graph.links]
    assert sorted(partner[links].tolist()) == list(range(links.numel()))
    assert partner[reverse].equal(partner[links] + links.numel())
    assert partner.equal(released_order(graph))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("target", ["aligned", "released", "shuffled", "constant"])
@pytest.mark.parametrize("directed", [False, True])
def test_every_target_hands_out_the_same_mass(random_graph: GraphFactory, target: str, directed: bool) -> None:
    graph = random_graph(directed=directed)
    method = build(graph, replace(SMALL, target=target))  # type: ignore[arg-type]
    calls = recorded_calls(method)
    method.loss(full_batch(graph), CLOCK)
    for _, pairs, weight in calls:
        assert pairs.shape[1] == weight.numel() == graph.links.numel() + graph.num_edges
        assert float(weight[weight > 0].sum()) == pytest.approx(float(mean_bandwidth(graph.structure)))
        assert float(weight[weight < 0].sum()) == pytest.approx(-1)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sizes", [[1, 2, 5], [4, 4], [7]])
def test_positive_terms_of_edge_batches_add_up_to_the_full_batch(
    random_graph: GraphFactory, directed: bool, sizes: list[int]
) -> None:
    """With equal masks, the batches' positive terms weighted by size are the full one: exactly, not on average."""
    graph = random_graph(directed=directed)
    method = build(graph)
    calls = recorded_calls(method)

    def positive_terms(links: Tensor) -> Tensor:
        calls.clear()
        method.loss(Batch(graph, links), CLOCK)
        terms = [
            edge_loss(z, method.decoder._weights, pairs[:, weight > 0], weight[weight > 0])
            for z, pairs, weight in calls
        ]
        return torch.stack(terms)

    order = torch.randperm(graph.links.numel(), generator=torch.Generator().manual_seed(0))
    shares = torch.tensor(sizes) / sum(sizes)
    batches = graph.links[order].tensor_split((shares.cumsum(0)[:-1] * graph.links.numel()).long().tolist())
    total = sum(positive_terms(links) * links.numel() for links in batches) / graph.links.numel()
    torch.testing.assert_close(total, positive_terms(graph.links), rtol=1e-10, atol=1e-12)


def test_a_batch_draws_negatives_for_its_own_links_only(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = build(graph, replace(SMALL, negatives_per_edge=1.5))
    calls = recorded_calls(method)
    method.loss(Batch(graph, graph.links[:6]), CLOCK)
    for _, pairs, weight in calls:
        assert int((weight < 0).sum()) == 18  # six links are twelve directed edges
        edges = set(map(tuple, graph.edge_index.T.tolist()))
        assert not edges & set(map(tuple, pairs[:, weight < 0].T.tolist()))
        assert {frozenset(pair) for pair in pairs[:, weight > 0].T.tolist()} == {
            frozenset(pair) for pair in graph.edge_index[:, graph.links[:6]].T.tolist()
        }


def test_dropout_of_the_decoder_and_encoder_act(random_graph: GraphFactory) -> None:
    graph = random_graph()
    plain = build(graph).loss(full_batch(graph), CLOCK)
    for option in ({"decoder_dropout": 0.5}, {"encoder": replace(SMALL.encoder, dropout=0.5)}):
        method = build(graph, replace(SMALL, **option))
        assert not method.loss(full_batch(graph), CLOCK).equal(plain)


def test_mask_ratio_is_what_was_held_back(random_graph: GraphFactory) -> None:
    graph = random_graph(isolated=4)
    method = build(graph)
    method.loss(full_batch(graph), CLOCK)
    assert method.diagnostics()["mask_ratio"] == pytest.approx(1 - float(mean_bandwidth(graph.structure)), abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_embeddings_come_from_the_unmasked_graph(random_graph: GraphFactory, weighted: bool) -> None:
    graph = random_graph(weighted=weighted)
    last = build(graph, replace(SMALL, readout="last")).eval()
    concat = build(graph, replace(SMALL, readout="concat")).eval()
    adjacency = torch.eye(30)
    adjacency[graph.structure.row, graph.structure.col] = 1.0 if graph.weight is None else graph.weight
    scale = adjacency.sum(1).rsqrt().diag()
    z, layers = graph.x, []
    for weight, norm in zip(last.encoder.weights, last.encoder.norms, strict=True):
        z = elu(norm(scale @ adjacency @ scale @ z @ weight))
        layers.append(z)
    with torch.no_grad():
        torch.testing.assert_close(last.embed(graph), layers[-1], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(concat.embed(graph), torch.cat(layers, dim=1), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("float64")
def test_scores_are_the_log_odds_of_the_last_layer(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = build(graph, replace(SMALL, readout="last")).eval()
    pairs = torch.randint(30, (2, 50), generator=torch.Generator().manual_seed(0))
    z = method.embed(graph)
    expected = [log_probabilities(method, z[u], z[v]) for u, v in pairs.T.tolist()]
    scores = method.score_edges(graph, pairs)
    torch.testing.assert_close(scores, torch.stack([log_p[0] - log_p[1] for log_p in expected]))


def test_released_targets_need_the_graph_first(random_graph: GraphFactory) -> None:
    graph = random_graph()
    method = Bandana(replace(SMALL, target="released"), GraphSpec.of(graph))
    with pytest.raises(AssertionError, match="prepare"):
        method.loss(full_batch(graph), CLOCK)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_width": 0}, "decoder_width: must be at least 1"),
        ({"decoder_dropout": 1.0}, "decoder_dropout: must lie in"),
        ({"decoder_dropout": -0.5}, "decoder_dropout: must lie in"),
        ({"negatives_per_edge": 0.0}, "negatives_per_edge: must be positive"),
        ({"negatives_per_edge": float("nan")}, "negatives_per_edge: must be positive"),
        ({"negatives_per_edge": float("inf")}, "negatives_per_edge: must be positive"),
        ({"excluded_layers": (1, 2)}, "excluded_layers: .* leaves no layer"),
        ({"excluded_layers": (2,), "predict": "last"}, "excluded_layers: .* leaves no layer"),
        ({"excluded_layers": (3,)}, "excluded_layers: the layers are 1 to 2"),
        ({"excluded_layers": (0,)}, "excluded_layers: the layers are 1 to 2"),
        ({"mask": MaskConfig(temperature=(1.0,))}, "mask.temperature: give one number or 2"),
        ({"mask": MaskConfig(temperature=(1.0, 1.0, 1.0))}, "mask.temperature: give one number or 2"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        BandanaConfig(**changes)


@pytest.mark.usefixtures("float64")
def test_layers_decoded_at_once_give_the_same_mean(random_graph: GraphFactory) -> None:
    """What a GPU does instead of one call per layer."""
    graph = random_graph()
    method = build(graph)
    layers = [torch.randn(graph.num_nodes, 4, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    pairs = torch.randint(graph.num_nodes, (2, 50), generator=torch.Generator().manual_seed(3))
    weight = torch.randn(3, 50, generator=torch.Generator().manual_seed(4))

    expected = method._mean_loss(layers, pairs, weight, torch.Generator())
    rows = torch.cat([pairs + k * graph.num_nodes for k in range(3)], dim=1)
    at_once = method.decoder.loss(torch.cat(layers), rows, weight.flatten() / 3, torch.Generator())
    torch.testing.assert_close(at_once, expected)
