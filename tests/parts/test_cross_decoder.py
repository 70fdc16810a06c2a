"""The cross-layer decoder against plain autograd over all pairs at once, in double precision."""

import math

import pytest
import torch
from torch import Tensor, nn

from bandana.engine.dropout import dropout
from bandana.parts.cross_decoder import CrossDecoder, cross_products

NODES, CODES, WIDTH, PAIRS = 9, 3, 4, 40


def build(num_codes: int = CODES, num_layers: int = 3, rate: float = 0.0, drop: str = "outputs") -> CrossDecoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CrossDecoder(num_codes, WIDTH, 5, num_layers, rate, drop)  # type: ignore[arg-type]


def example(num_codes: int = CODES) -> tuple[Tensor, Tensor, Tensor]:
    """Codes, pairs (some of a node with itself, some twice) and signed weights, some of them zero."""
    generator = torch.Generator().manual_seed(1)
    codes = torch.randn(NODES, num_codes, WIDTH, generator=generator).requires_grad_()
    pairs = torch.randint(NODES, (2, PAIRS), generator=generator)
    weight = torch.randn(PAIRS, generator=generator)
    return codes, pairs, weight.where(torch.rand(PAIRS, generator=generator) < 0.8, 0)


def plain_logit(decoder: CrossDecoder, left: list[Tensor], right: list[Tensor]) -> Tensor:
    """Code by code, the left one outside, then a perceptron with ReLUs between its layers."""
    hidden = torch.cat([a * b for a in left for b in right])
    *inner, last = decoder.layers
    for layer in inner:
        hidden = (layer.weight @ hidden + layer.bias).clamp(min=0)
    return (last.weight @ hidden + last.bias).squeeze()


def test_products_are_ordered_by_the_left_code_then_the_right() -> None:
    left, right = torch.randn(2, 6, CODES, WIDTH, generator=torch.Generator().manual_seed(0))
    products = cross_products(left, right)
    assert products.shape == (6, CODES**2 * WIDTH)
    expected = [left[:, a] * right[:, b] for a in range(CODES) for b in range(CODES)]
    assert products.equal(torch.cat(expected, dim=1))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("num_layers", [1, 2, 4])
@pytest.mark.parametrize("num_codes", [1, 3])
@pytest.mark.parametrize("chunk", [1, 7, None])
def test_loss_and_gradients_are_those_of_the_equation(num_layers: int, num_codes: int, chunk: int | None) -> None:
    decoder = build(num_codes, num_layers)
    codes, pairs, weight = example(num_codes)
    expected = torch.zeros(())
    for u, v, w in zip(*pairs.tolist(), weight.tolist(), strict=True):
        odds = plain_logit(decoder, list(codes[u]), list(codes[v]))
        expected = expected - abs(w) * torch.log(torch.sigmoid(odds if w > 0 else -odds))
    loss = decoder.loss(codes, pairs, weight, None, chunk)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    inputs = [codes, *decoder.parameters()]
    for mine, theirs in zip(
        torch.autograd.grad(3 * loss, inputs), torch.autograd.grad(3 * expected, inputs), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("drop", ["inputs", "outputs"])
def test_dropout_sits_before_or_behind_the_hidden_layers(drop: str) -> None:
    decoder = build(rate=0.5, drop=drop)
    codes, pairs, _ = example()
    weight = torch.linspace(-1, 1, PAIRS)
    generator = torch.Generator().manual_seed(4)
    hidden = cross_products(codes[pairs[0]], codes[pairs[1]])
    for layer in decoder.layers[:-1]:
        if drop == "inputs":
            hidden = layer(dropout(hidden, 0.5, generator)).relu()
        else:
            hidden = dropout(layer(hidden).relu(), 0.5, generator)
    misfit = -weight.sign() * decoder.layers[-1](hidden).squeeze(1)
    expected = (weight.abs() * nn.functional.softplus(misfit)).sum()
    loss = decoder.loss(codes, pairs, weight, torch.Generator().manual_seed(4))
    torch.testing.assert_close(loss, expected)
    assert not decoder.loss(codes, pairs, weight, None).equal(loss)


def test_logits_are_one_per_pair_and_know_the_direction() -> None:
    decoder, (codes, pairs, _) = build(), example()
    expected = [plain_logit(decoder, list(codes[u]), list(codes[v])) for u, v in pairs.T.tolist()]
    torch.testing.assert_close(decoder.logits(codes, pairs), torch.stack(expected), rtol=1e-4, atol=1e-6)
    assert not torch.allclose(decoder.logits(codes, pairs.flip(0)), torch.stack(expected))
    one, (codes, pairs, _) = build(num_codes=1), example(1)
    assert one.logits(codes, pairs).equal(one.logits(codes, pairs.flip(0)))


def test_a_decoder_that_knows_nothing_pays_two_logarithms_of_two() -> None:
    decoder, (codes, pairs, _) = build(), example()
    for parameter in decoder.parameters():
        nn.init.zeros_(parameter)
    weight = torch.cat([torch.full((PAIRS // 2,), 2 / PAIRS), torch.full((PAIRS // 2,), -2 / PAIRS)])
    assert float(decoder.loss(codes, pairs, weight, None).detach()) == pytest.approx(2 * math.log(2))


@pytest.mark.parametrize("kept", [slice(0, 0), slice(0, 5)])
def test_without_pairs_or_weights_the_loss_is_zero_and_pulls_at_nothing(kept: slice) -> None:
    decoder, (codes, pairs, _) = build(rate=0.5), example()
    pairs = pairs[:, kept]
    loss = decoder.loss(codes, pairs, torch.zeros(pairs.shape[1]), torch.Generator().manual_seed(0))
    assert float(loss.detach()) == 0
    loss.backward()
    assert not any(bool(tensor.grad.any()) for tensor in (codes, *decoder.parameters()))
