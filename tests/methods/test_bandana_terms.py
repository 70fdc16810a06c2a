"""The two terms that may stand beside Bandana's own loss, against loops over nodes and dimensions on five nodes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bandana.config import to_table
from bandana.engine.propagate import gcn_weights
from bandana.errors import UserError
from bandana.graph import Graph, Origin
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig, _beside
from bandana.parts.agreement import AgreementConfig
from bandana.parts.copies import Copies
from bandana.parts.encoders import EncoderConfig
from bandana.parts.feature_masks import draw_nodes
from bandana.parts.feature_recovery import FeatureRecovery, RecoveryConfig
from bandana.parts.masks import draw_masks

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, step=7)
PLAIN = BandanaConfig(
    encoder=EncoderConfig(num_layers=2, width=4, dropout=0.0), decoder_width=5, decoder_dropout=0.0, target="constant"
)


def build(graph: Graph, config: BandanaConfig) -> Bandana:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Bandana(config, GraphSpec.of(graph))


def loss_of(method: Bandana, graph: Graph, clock: Clock = CLOCK) -> Tensor:
    return method.loss(Batch(graph, graph.links), clock)


def naive_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Of two dimensions, with the deviations over n - 1 and the product over n nodes, as the standardisation has it."""
    n = len(a)
    product = sum((x - a.mean()) * (y - b.mean()) for x, y in zip(a, b, strict=True)) / n
    return product / (a.std() * b.std())


def naive_error(rows: list[Tensor], graph: Graph, nodes: list[int], decoder: FeatureRecovery) -> Tensor:
    """Codes through the bridge, blank for hidden nodes, mixed as a GCN mixes them, decoded and compared."""
    edges, x = graph.edge_index.T.tolist(), graph.x
    assert isinstance(x, Tensor)
    degree = [1 + sum(receiver == j for _, receiver in edges) for j in range(graph.num_nodes)]
    codes = [torch.zeros_like(row) if j in nodes else row @ decoder.bridge for j, row in enumerate(rows)]
    total = torch.zeros(())
    for j in nodes:
        heard = codes[j] / degree[j]
        for sender, receiver in edges:
            if receiver == j:
                heard = heard + codes[sender] / (degree[sender] * degree[j]) ** 0.5
        told = heard @ decoder.weight + decoder.bias
        total = total + 1 - told.dot(x[j]) / (told.norm() * x[j].norm())
    return total / len(nodes)


@pytest.mark.usefixtures("float64")
def test_agreement_adds_how_little_two_draws_correlate(random_graph: GraphFactory) -> None:
    graph = random_graph(5, 8)
    config = replace(PLAIN, agreement=AgreementConfig(weight=0.7, decorrelation=0.2))
    method, plain = build(graph, config), build(graph, PLAIN)
    views = []
    for clock in (CLOCK, _beside(CLOCK, 1)):
        messages = [mask.messages for mask in draw_masks(config.mask, graph, clock, 2)]
        views.append(torch.cat(method.encoder(graph.x, graph.structure, messages), dim=1))
    width = views[0].shape[1]
    expected = -sum(naive_correlation(views[0][:, k], views[1][:, k]) for k in range(width))
    for view in views:
        for k in range(width):
            for m in range(width):
                expected = expected + 0.2 * (float(k == m) - naive_correlation(view[:, k], view[:, m])) ** 2
    torch.testing.assert_close(loss_of(method, graph), loss_of(plain, graph) + 0.7 * expected)


@pytest.mark.usefixtures("float64")
def test_recovery_adds_the_error_of_hidden_features(random_graph: GraphFactory) -> None:
    graph = random_graph(5, 8)
    assert isinstance(graph.x, Tensor)
    config = replace(PLAIN, recovery=RecoveryConfig(weight=0.7, hidden=0.4))
    method, plain = build(graph, config), build(graph, PLAIN)
    method.decoder.load_state_dict(plain.decoder.state_dict())
    assert method.recovery is not None
    torch.nn.init.normal_(method.recovery.bias, generator=torch.Generator().manual_seed(1))

    generator = CLOCK.generator(graph.device)
    masks = plain._draw(graph, CLOCK)
    layers = plain._encode_masked(graph, masks, generator)
    plain._bandwidth_loss(Batch(graph, graph.links), masks, layers, generator)  # has the generator first
    nodes = draw_nodes(5, 2, generator)
    seen = graph.x.index_fill(0, nodes, 0)
    messages = [mask.messages for mask in draw_masks(config.mask, graph, _beside(CLOCK, 2), 2)]
    rows = list(method.encoder(seen, graph.structure, messages)[-1])
    expected = naive_error(rows, graph, nodes.tolist(), method.recovery)
    torch.testing.assert_close(loss_of(method, graph), loss_of(plain, graph) + 0.7 * expected)


def test_hidden_nodes_say_nothing_of_themselves_and_hear_their_neighbours(random_graph: GraphFactory) -> None:
    graph = random_graph(6, 10, num_features=7)
    method, nodes = build(graph, PLAIN), torch.tensor([1, 4])
    plain = [gcn_weights(graph.structure)] * 2
    hidden = method.encoder(graph.x, graph.structure, plain, None, nodes)
    blank = method.encoder(graph.x.index_fill(0, nodes, 0), graph.structure, plain)
    for one, other in zip(hidden, blank, strict=True):
        torch.testing.assert_close(one, other)


def test_terms_that_are_not_asked_for_leave_settings_weights_and_loss_alone(random_graph: GraphFactory) -> None:
    graph = random_graph(5, 8)
    zero = replace(PLAIN, agreement=AgreementConfig(weight=0.0), recovery=RecoveryConfig(weight=0.0))
    assert to_table(zero) == to_table(PLAIN)
    assert not {"agreement", "recovery"} & set(to_table(PLAIN))
    assert loss_of(build(graph, zero), graph).equal(loss_of(build(graph, PLAIN), graph))


def test_copies_draw_other_bandwidths_beside_their_own(random_graph: GraphFactory) -> None:
    graph = random_graph(5, 8)
    config = replace(PLAIN, agreement=AgreementConfig(weight=1.0), recovery=RecoveryConfig(weight=1.0))
    seeds: list[int] = []
    method = Copies([build(graph, config) for _ in range(2)])
    for copy in method._each:
        assert isinstance(copy, Bandana)
        draw = copy._draw
        copy._draw = lambda graph, clock, draw=draw: (seeds.append(clock.seed), draw(graph, clock))[1]  # type: ignore[method-assign]
    method.loss(Batch(graph, graph.links), CLOCK)
    assert len(seeds) == len(set(seeds)) == 6


def test_features_that_are_not_there_cannot_be_recovered(random_graph: GraphFactory) -> None:
    bare = Graph.from_edges(random_graph(5, 8).edge_index, num_nodes=5)
    with pytest.raises(UserError, match="no features to recover"):
        loss_of(build(bare, replace(PLAIN, recovery=RecoveryConfig(weight=1.0))), bare)
    with pytest.raises(ValueError, match="nothing to recover"):
        replace(PLAIN, recovery=RecoveryConfig(weight=1.0), encoder=EncoderConfig(node_embedding=3))


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"weight": -1.0}, "weight"), ({"hidden": 1.0}, "hidden")],
)
def test_bad_settings_of_recovery_are_refused(options: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RecoveryConfig(**options)


def test_bad_settings_of_agreement_are_refused() -> None:
    with pytest.raises(ValueError, match="decorrelation"):
        AgreementConfig(decorrelation=-1.0)


@pytest.mark.parametrize(
    "terms", [{"agreement": AgreementConfig(weight=1.0)}, {"recovery": RecoveryConfig(weight=1.0)}]
)
def test_parts_of_a_store_have_no_further_terms(random_graph: GraphFactory, terms: dict[str, Any]) -> None:
    part = replace(random_graph(5, 8), origin=Origin(torch.arange(5), 9))
    with pytest.raises(UserError, match="Leave them out with a store"):
        loss_of(build(part, replace(PLAIN, **terms)), part)
