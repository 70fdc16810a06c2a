"""Attention layers against PyG's, the stack of them written out, and masks against features masked by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, prelu
from torch_geometric.nn import GATConv

from bandana.engine.dropout import keep_mask, keep_scale
from bandana.graph import Graph, compact
from bandana.parts.attention import GATConfig, GATEncoder, GATLayer, thinned
from bandana.parts.feature_masks import draw_feature_mask

GraphFactory = Callable[..., Graph]
SMALL = GATConfig(num_layers=2, heads=3, head_width=4, feature_dropout=0.0, attention_dropout=0.0)


def build(config: GATConfig, num_features: int = 6, seed: int = 0) -> GATEncoder:
    """With every parameter away from its tidy initial value."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = GATEncoder(config, num_features)
        for parameter in encoder.parameters():
            torch.nn.init.normal_(parameter)
    return encoder


def as_pyg(layer: GATLayer) -> GATConv:
    """The same layer of PyG, sharing no memory."""
    _, heads, head_width = layer.sender.shape
    conv = GATConv(layer.weight.shape[0], head_width, heads)
    with torch.no_grad():
        conv.lin.weight.copy_(layer.weight.t())
        conv.att_src.copy_(layer.sender)
        conv.att_dst.copy_(layer.receiver)
        conv.bias.copy_(layer.bias)
    return conv


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [{}, {"isolated": 5}, {"directed": True}])
def test_a_layer_is_pygs_in_value_and_gradient(random_graph: GraphFactory, kind: dict[str, Any]) -> None:
    graph = random_graph(**kind)
    layer = build(SMALL).layers[0]
    conv = as_pyg(layer)
    x, same = (graph.x.clone().requires_grad_() for _ in range(2))
    out = layer.mix(layer.project(x, None), graph.structure, None, None)
    expected = conv(same, graph.edge_index)
    torch.testing.assert_close(out, expected)
    pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    ours = torch.autograd.grad(out, (x, layer.weight, layer.sender, layer.receiver, layer.bias), pull)
    theirs = torch.autograd.grad(expected, (same, conv.lin.weight, conv.att_src, conv.att_dst, conv.bias), pull)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other.t() if other.shape != mine.shape else other)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("skip", [False, True])
def test_the_stack_is_attention_norm_and_prelu_in_turn(random_graph: GraphFactory, norm: bool, skip: bool) -> None:
    graph = random_graph()
    encoder = build(replace(SMALL, layer_norm=norm, linear_skip=skip))
    hidden = graph.x
    for depth, layer in enumerate(encoder.layers):
        mixed = as_pyg(layer)(hidden, graph.edge_index)
        if skip and depth == 0:  # the next layer is as wide as its input
            mixed = mixed + hidden @ layer.skip
        if norm:
            mixed = layer_norm(mixed, (12,), encoder.norms[depth].weight, encoder.norms[depth].bias)
        hidden = prelu(mixed, encoder.activations[depth].weight)
    assert [layer.skip is not None for layer in encoder.layers] == [skip, False]
    torch.testing.assert_close(encoder(graph.x, graph.structure), hidden)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_masking_rows_is_masking_features(random_graph: GraphFactory, skip: bool, sparse: bool) -> None:
    graph = random_graph()
    mask = draw_feature_mask(30, 0.6, 0.3, torch.Generator().manual_seed(2))
    encoder, token = build(replace(SMALL, linear_skip=skip)), torch.randn(1, 6, requires_grad=True)
    by_hand = graph.x.clone()
    by_hand[mask.replaced] = graph.x[mask.donors]
    by_hand = by_hand.index_fill(0, mask.covered, 0)
    by_hand = by_hand + torch.zeros(30, 1).index_fill(0, mask.covered, 1) * token
    expected = encoder(by_hand, graph.structure)
    x = compact(torch.cat([graph.x, torch.zeros(30, 200)], dim=1)) if sparse else graph.x
    if sparse:
        wide = build(replace(SMALL, linear_skip=skip), num_features=206)
        state = encoder.state_dict()
        for name in ("layers.0.weight", "layers.0.skip"):
            if name in state:
                state[name] = torch.cat([state[name], torch.randn(200, 12)])
        wide.load_state_dict(state)
        assert not isinstance(x, Tensor)
        out = wide(x, graph.structure, None, None, mask, torch.cat([token, torch.zeros(1, 200)], dim=1))
    else:
        out = encoder(x, graph.structure, None, None, mask, token)
    torch.testing.assert_close(out, expected)
    (gradient,), (wanted,) = (torch.autograd.grad(z.square().sum(), token) for z in (out, expected))
    torch.testing.assert_close(gradient, wanted)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("skip", [False, True])
def test_every_copy_of_a_row_has_its_own_dropout(skip: bool) -> None:
    layer = GATLayer(6, 2, 4, feature_dropout=0.4, attention_dropout=0.0, skip=skip)
    row = torch.randn(1, 6, requires_grad=True)
    out = layer.project_copies(row, 20, torch.Generator().manual_seed(3))
    kept = keep_mask((20, 8), 0.4, torch.Generator().manual_seed(3)).double()[:, :6]  # two columns are alignment
    maps = layer.weight if layer.skip is None else torch.cat([layer.weight, layer.skip], dim=1)
    expected = (row.expand(20, -1) * kept * keep_scale(0.4)) @ maps
    assert len(set(map(tuple, out.tolist()))) == len(set(map(tuple, kept.tolist()))) > 1
    torch.testing.assert_close(out, expected)
    parameters = [row, layer.weight, *([] if layer.skip is None else [layer.skip])]
    gradients, wanted = (torch.autograd.grad(z.pow(3).sum(), parameters) for z in (out, expected))
    torch.testing.assert_close(gradients, wanted)
    torch.testing.assert_close(layer.project_copies(row, 20, None), (row @ maps).expand(20, -1))


def test_dropout_acts_in_training_only(random_graph: GraphFactory) -> None:
    graph = random_graph()
    plain = build(SMALL)(graph.x, graph.structure)
    for option in ("feature_dropout", "attention_dropout"):
        encoder = build(replace(SMALL, **{option: 0.5}))
        assert encoder(graph.x, graph.structure).equal(plain)
        assert not encoder(graph.x, graph.structure, None, torch.Generator().manual_seed(0)).equal(plain)


def test_initial_weights_are_xavier_normal_with_gain_root_two() -> None:
    torch.manual_seed(0)
    layer = GATLayer(300, 8, 50, feature_dropout=0.0, attention_dropout=0.0)
    assert float(layer.weight.detach().std()) == pytest.approx((2 * 2 / (300 + 400)) ** 0.5, rel=0.02)
    for scorer in (layer.sender, layer.receiver):  # all heads lead in, one leads out
        assert float(scorer.detach().std()) == pytest.approx((2 * 2 / (400 + 50)) ** 0.5, rel=0.15)
    assert not layer.bias.any()


@pytest.mark.parametrize("weighted", [False, True])
def test_thinning_drops_directed_edges_and_leaves_the_others_as_they_are(
    random_graph: GraphFactory, weighted: bool
) -> None:
    graph = random_graph(100, 2000, weighted=weighted)
    generator = torch.Generator().manual_seed(0)
    assert thinned(graph, 0.0, generator) is graph.weight
    weight = thinned(graph, 0.3, generator)
    assert weight is not None
    kept = weight > 0
    assert float(kept.float().mean()) == pytest.approx(0.7, abs=0.03)
    assert weight[kept].equal(torch.ones(int(kept.sum())) if graph.weight is None else graph.weight[kept])
    assert not kept.equal(kept[graph.structure.transposed_entry])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers: must be at least 1"),
        ({"heads": 0}, "heads: must be at least 1"),
        ({"head_width": 0}, "head_width: must be at least 1"),
        ({"feature_dropout": 1.0}, "feature_dropout: must lie in"),
        ({"attention_dropout": -0.1}, "attention_dropout: must lie in"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        GATConfig(**changes)
