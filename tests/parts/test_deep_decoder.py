"""The chunked loss against pair-by-pair loops, for every variant of the decoder, gradients included."""

from typing import get_args

import pytest
import torch
from torch.nn.functional import layer_norm, logsigmoid

from bandana.parts.deep_decoder import DecoderActivation, DeepHadamardMLP

WIDTH, NODES = 6, 9
CURVES = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": lambda x: x * x.sigmoid()}


def make(**options) -> DeepHadamardMLP:
    torch.manual_seed(0)
    return DeepHadamardMLP(WIDTH, 4, **options)


def problem() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    z = torch.randn(NODES, WIDTH, requires_grad=True)
    pairs = torch.randint(NODES, (2, 13))
    return z, pairs, torch.randn(13)


def naive_logit(decoder: DeepHadamardMLP, name: str, z_u: torch.Tensor, z_v: torch.Tensor) -> torch.Tensor:
    """One pair, written from the class docstring."""
    product = torch.stack([a * b for a, b in zip(z_u, z_v, strict=True)])
    hidden = product
    for layer, norm in zip(decoder.hidden, decoder.norms, strict=True):
        mixed = layer.weight @ hidden + layer.bias
        if decoder.residual:
            mixed = mixed + product
        if isinstance(norm, torch.nn.LayerNorm):
            mixed = layer_norm(mixed, (WIDTH,), norm.weight, norm.bias)
        hidden = CURVES[name](mixed)
    return (decoder.out.weight[0] * hidden).sum() + decoder.out.bias[0]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", get_args(DecoderActivation))
@pytest.mark.parametrize(("residual", "norm"), [(True, True), (False, True), (True, False)])
def test_loss_and_gradients_are_those_of_loops_over_pairs(name: str, residual: bool, norm: bool) -> None:
    decoder = make(activation=name, residual=residual, layer_norm=norm)
    z, pairs, weight = problem()
    logits = [naive_logit(decoder, name, z[u], z[v]) for u, v in pairs.T]
    expected = sum(-abs(w) * logsigmoid(w.sign() * logit) for w, logit in zip(weight, logits, strict=True))
    found = decoder.loss(z, pairs, weight, torch.Generator(), chunk=4)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(decoder.logits(z, pairs, chunk=5), torch.stack(logits))
    leaves = [z, *decoder.parameters()]
    torch.testing.assert_close(torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * expected, leaves))


@pytest.mark.usefixtures("float64")
def test_chunks_change_memory_and_nothing_else() -> None:
    decoder = make(dropout=0.0)
    z, pairs, weight = problem()
    whole = decoder.loss(z, pairs, weight, torch.Generator())
    cut = decoder.loss(z, pairs, weight, torch.Generator(), chunk=1)
    torch.testing.assert_close(cut, whole)
    torch.testing.assert_close(torch.autograd.grad(cut, z), torch.autograd.grad(whole, z))


def test_two_logits_of_zero_cost_two_times_log_two() -> None:
    decoder = make()
    torch.nn.init.zeros_(decoder.out.weight)
    torch.nn.init.zeros_(decoder.out.bias)
    z, pairs, _ = problem()
    weight = torch.cat([torch.full((5,), 1 / 5), torch.full((8,), -1 / 8)])
    assert float(decoder.loss(z, pairs, weight, torch.Generator()).detach()) == pytest.approx(1.3862944)


def test_dropout_follows_the_generator_and_is_off_in_evaluation() -> None:
    decoder = make(dropout=0.5)
    z, pairs, weight = problem()
    losses = [float(decoder.loss(z, pairs, weight, torch.Generator().manual_seed(s)).detach()) for s in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]
    assert decoder.logits(z, pairs).equal(decoder.logits(z, pairs))


def test_no_pairs_no_loss() -> None:
    decoder = make()
    z, pairs, weight = problem()
    assert float(decoder.loss(z, pairs[:, :0], weight[:0], torch.Generator()).detach()) == 0
