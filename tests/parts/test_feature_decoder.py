"""The decoder against PyG's attention and a loop over nodes, and the scaled cosine error at its corners."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.nn import GATConv

from bandana.graph import Features, Graph, SparseFeatures, compact, identity_features
from bandana.parts.attention import GATConfig
from bandana.parts.feature_decoder import FeatureDecoder, cosines, cosines_with_features, scaled_cosine_error

GraphFactory = Callable[..., Graph]
CONFIG = GATConfig(heads=1, head_width=5, feature_dropout=0.0, attention_dropout=0.0)


def build(num_features: int, *, blind: bool) -> FeatureDecoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        decoder = FeatureDecoder(CONFIG, num_features, blind=blind)
        for parameter in decoder.parameters():
            torch.nn.init.normal_(parameter)
    return decoder


def as_pyg(decoder: FeatureDecoder) -> GATConv:
    conv = GATConv(*decoder.weight.shape, 1)
    with torch.no_grad():
        conv.lin.weight.copy_(decoder.weight.t())
        conv.att_src.copy_(decoder.sender)
        conv.att_dst.copy_(torch.randn(conv.att_dst.shape) if decoder.receiver is None else decoder.receiver)
        conv.bias.copy_(decoder.bias)
    return conv


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_loss_and_gradients_are_those_of_pygs_layer_and_a_loop(
    random_graph: GraphFactory, blind: bool, sparse: bool
) -> None:
    graph = random_graph(num_features=0 if sparse else 6, isolated=3)
    assert isinstance(graph.x, SparseFeatures) == sparse
    nodes = torch.tensor([3, 17, 0, 28, 9])
    codes = torch.randn(30, 5)
    if blind:
        codes[nodes] = 0
    codes.requires_grad_()
    decoder = build(graph.num_features, blind=blind)
    conv = as_pyg(decoder)
    x = graph.x.dense() if isinstance(graph.x, SparseFeatures) else graph.x
    predictions = conv(codes, graph.edge_index)
    errors = [
        (1 - torch.dot(predictions[i], x[i]) / predictions[i].norm() / x[i].norm()) ** 2.5 for i in nodes.tolist()
    ]
    expected = sum(errors) / 5
    loss = decoder.loss(codes, graph, nodes, 2.5, None)
    torch.testing.assert_close(loss, expected)

    ours = [codes, decoder.weight, decoder.sender, decoder.bias]
    theirs = [codes, conv.lin.weight, conv.att_src, conv.bias]
    if decoder.receiver is not None:
        ours, theirs = [*ours, decoder.receiver], [*theirs, conv.att_dst]
    for mine, other in zip(torch.autograd.grad(loss, ours), torch.autograd.grad(expected, theirs), strict=True):
        wanted = other.t() if other.shape != mine.shape else other
        if mine.shape == codes.shape and blind:  # a blanked code passes nothing on, so its own gradient is not needed
            seen = torch.ones(30, 1).index_fill(0, nodes, 0)
            mine, wanted = mine * seen, wanted * seen
        torch.testing.assert_close(mine, wanted)


@pytest.mark.usefixtures("float64")
@given(seed=st.integers(0, 1000), num_features=st.integers(1, 9), zeros=st.booleans())
def test_sparse_features_are_met_as_dense_ones_are(seed: int, num_features: int, zeros: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(100, num_features, generator=generator)
    dense[torch.rand(dense.shape, generator=generator) > 0.03] = 0
    sparse = compact(dense)
    nodes = torch.randperm(100, generator=generator)[:40]
    mixed, weight, bias = inputs = [
        torch.randn(shape, generator=generator) for shape in ((40, 4), (4, num_features), (num_features,))
    ]
    if zeros:
        mixed[:7], bias[:] = 0, 0
    lengths = torch.addmm(bias, mixed, weight).norm(dim=1)
    # Terms of a squared length that cancel leave few of its digits, and gradients divide by the length once more.
    assume(bool((lengths[lengths > 0] > 0.02).all()))
    for tensor in inputs:
        tensor.requires_grad_()
    results = [cosines_with_features(mixed, weight, bias, x, nodes) for x in (sparse, dense)]
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)
    first, second = (torch.autograd.grad(cosine.pow(2).sum(), inputs, allow_unused=True) for cosine in results)
    for mine, wanted in zip(first, second, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("exponent", [1.0, 3.0])
def test_error_is_nothing_for_parallel_and_a_power_of_two_for_opposite_vectors(exponent: float) -> None:
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    scale = torch.logspace(-3, 3, 8).unsqueeze(1)

    def error(y: Tensor) -> float:
        return float(scaled_cosine_error(cosines(y, x), exponent))

    assert error(scale * x) == pytest.approx(0, abs=1e-6)
    assert error(-scale * x) == pytest.approx(2**exponent, rel=1e-5)
    other = torch.randn(8, 5, generator=torch.Generator().manual_seed(1))
    assert error(scale * other) == pytest.approx(error(other), rel=1e-5)


def test_a_vector_without_length_is_met_as_by_torchs_normalisation() -> None:
    first = torch.tensor([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [1.0, 2.0]], requires_grad=True)
    second = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [2.0, 1.0]])
    results = [cosines(first, second), (normalize(first) * normalize(second)).sum(1)]
    torch.testing.assert_close(*results)
    mine, wanted = (torch.autograd.grad(cosine.sum(), first)[0] for cosine in results)
    torch.testing.assert_close(mine, wanted)
    torch.testing.assert_close(mine[:3], torch.tensor([[0.6e12, 0.8e12], [0.0, 0.0], [0.0, 0.0]]))


@pytest.mark.parametrize("convert", [compact, Tensor.clone])
def test_a_prediction_without_length_moves_the_bias_alone(convert: Callable[[Tensor], Features]) -> None:
    x = torch.eye(100)
    mixed, bias = torch.zeros(3, 4), torch.zeros(100, requires_grad=True)
    weight = torch.randn(4, 100, generator=torch.Generator().manual_seed(0)).requires_grad_()
    cosine = cosines_with_features(mixed, weight, bias, convert(x), torch.arange(3))
    to_weight, to_bias = torch.autograd.grad(cosine.sum(), (weight, bias))
    torch.testing.assert_close(to_bias, 1e12 * x[:3].sum(0))
    assert not to_weight.any()


def test_predictions_are_never_written_out_against_sparse_features() -> None:
    """A million nodes with a million features each: four terabytes, which no allocator grants."""
    size = 1_000_000
    x = identity_features(size)
    generator = torch.Generator().manual_seed(0)
    mixed, weight = torch.randn(size, 2, generator=generator), torch.randn(2, size, generator=generator)
    cosine = cosines_with_features(mixed, weight, torch.zeros(size), x, torch.arange(size))
    one = mixed[3] @ weight
    assert float(cosine[3]) == pytest.approx(float(one[3] / one.norm()), abs=1e-6)
