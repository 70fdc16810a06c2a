"""The chunked loss and its hand-written gradients, against the plain equation differentiated by torch."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.functional import log_softmax, relu

from bandana.engine.dropout import keep_mask, keep_scale
from bandana.engine.edge_loss import DecoderWeights, edge_logits, edge_loss

NODES, WIDTH, HIDDEN, PAIRS = 9, 5, 4, 20
CHUNKS = [1, 3, 7, 20, 1000, None]
EXACT = {"rtol": 1e-10, "atol": 1e-10}


class Problem(NamedTuple):
    z: Tensor
    decoder: DecoderWeights
    pairs: Tensor
    weight: Tensor

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        return self.z, *self.decoder


def problem(seed: int = 0, num_pairs: int = PAIRS, dtype: torch.dtype = torch.float64) -> Problem:
    """Positive, negative and weightless pairs, some nodes in many of them, some pairs of a node with itself."""
    generator = torch.Generator().manual_seed(seed)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    decoder = DecoderWeights(leaf(HIDDEN, WIDTH), leaf(HIDDEN), leaf(2, HIDDEN), leaf(2))
    weight = torch.randn(num_pairs, generator=generator, dtype=torch.float64).to(dtype)
    weight[::7] = 0
    pairs = torch.randint(NODES - 1, (2, num_pairs), generator=generator)  # the last node is in no pair
    return Problem(leaf(NODES, WIDTH), decoder, pairs, weight)


def plain_loss(given: Problem, mask: Tensor | None = None) -> Tensor:
    """Two logits, a log-softmax, and the negative log-probability of what each pair is."""
    z, decoder, (left, right), weight = given
    product = z[left] * z[right]
    if mask is not None:
        product = product * mask
    hidden = relu(product @ decoder.hidden_weight.T + decoder.hidden_bias)
    log_p = log_softmax(hidden @ decoder.out_weight.T + decoder.out_bias, dim=1)
    is_edge, is_none = weight.clamp(min=0), (-weight).clamp(min=0)
    return -(is_edge * log_p[:, 0]).sum() - (is_none * log_p[:, 1]).sum()


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("sign", ["both", "positive", "negative"])
def test_value_and_all_gradients(chunk: int | None, sign: str) -> None:
    given = problem()
    if sign != "both":
        given = given._replace(weight=given.weight.abs() * (1 if sign == "positive" else -1))
    loss = edge_loss(*given, chunk=chunk)
    expected = plain_loss(given)
    torch.testing.assert_close(loss, expected, **EXACT)
    ours, theirs = (torch.autograd.grad(value * 3, given.leaves) for value in (loss, expected))
    for gradient, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, reference, **EXACT)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("rate", [0.2, 0.7])
def test_dropout_is_that_of_the_same_masks(chunk: int | None, rate: float) -> None:
    given = problem()
    generator = torch.Generator().manual_seed(5)
    sizes = [part.numel() for part in given.weight.split(chunk or PAIRS)]
    masks = torch.cat([keep_mask((size, WIDTH), rate, generator) for size in sizes])
    assert 0 < int(masks.sum()) < masks.numel()

    loss = edge_loss(*given, dropout=rate, generator=torch.Generator().manual_seed(5), chunk=chunk)
    expected = plain_loss(given, masks.double() * keep_scale(rate))
    torch.testing.assert_close(loss, expected, **EXACT)
    ours, theirs = (torch.autograd.grad(value, given.leaves) for value in (loss, expected))
    for gradient, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, reference, **EXACT)


def test_gradcheck() -> None:
    given = problem(seed=3, num_pairs=6)

    def loss(z: Tensor, *decoder: Tensor) -> Tensor:
        return edge_loss(z, DecoderWeights(*decoder), given.pairs, given.weight, chunk=4)

    assert torch.autograd.gradcheck(loss, given.leaves)


def test_dropout_without_a_generator_is_off() -> None:
    given = problem()
    assert edge_loss(*given, dropout=0.5).equal(edge_loss(*given))


def test_gradients_reach_only_what_asks_for_them() -> None:
    given = problem()
    frozen = DecoderWeights(*(weight.detach() for weight in given.decoder))
    (gradient,) = torch.autograd.grad(edge_loss(given.z, frozen, given.pairs, given.weight), given.z)
    (expected,) = torch.autograd.grad(plain_loss(given), given.z)
    torch.testing.assert_close(gradient, expected, **EXACT)
    constant = edge_loss(given.z.detach(), frozen, given.pairs, given.weight)
    assert not constant.requires_grad


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    given = problem()
    (gradient,) = torch.autograd.grad(edge_loss(*given).square(), given.z, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_no_pairs_no_loss() -> None:
    given = problem(num_pairs=0)
    loss = edge_loss(*given)
    assert loss == 0
    assert not any(gradient.any() for gradient in torch.autograd.grad(loss, given.leaves))


def test_inputs_are_left_alone() -> None:
    given = problem()
    before = [tensor.detach().clone() for tensor in (*given.leaves, given.pairs, given.weight)]
    edge_loss(*given, dropout=0.3, generator=torch.Generator().manual_seed(0), chunk=6).backward()
    after = (*given.leaves, given.pairs, given.weight)
    assert all(tensor.equal(copy) for tensor, copy in zip(after, before, strict=True))


def test_single_precision_and_the_default_chunk() -> None:
    """More pairs than one chunk holds, in the precision of training."""
    given = problem(num_pairs=5000, dtype=torch.float32)
    double = Problem(given.z.double(), DecoderWeights(*(w.double() for w in given.decoder)), given.pairs, given.weight)
    torch.testing.assert_close(edge_loss(*given).double(), plain_loss(double), rtol=1e-5, atol=0)


def test_extreme_margins_stay_finite() -> None:
    given = problem(dtype=torch.float32)
    huge = DecoderWeights(*(weight * 1e6 for weight in given.decoder))
    loss = edge_loss(given.z, huge, given.pairs, given.weight)
    gradients = torch.autograd.grad(loss, given.leaves)
    assert bool(loss.isfinite())
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_layout_of_the_embeddings_does_not_matter() -> None:
    given = problem()
    transposed = given._replace(z=given.z.detach().T.contiguous().T)
    assert edge_loss(*transposed).equal(edge_loss(*given))


@pytest.mark.parametrize("num_pairs", [0, 1, 5000])
def test_logits_are_the_log_odds_of_the_two_classes(num_pairs: int) -> None:
    z, decoder, pairs, _ = problem(num_pairs=num_pairs)
    hidden = relu((z[pairs[0]] * z[pairs[1]]) @ decoder.hidden_weight.T + decoder.hidden_bias)
    log_p = log_softmax(hidden @ decoder.out_weight.T + decoder.out_bias, dim=1)
    torch.testing.assert_close(edge_logits(z, decoder, pairs), log_p[:, 0] - log_p[:, 1], **EXACT)
