"""The chunked losses of dot products and their hand-written gradients, against torch's own and plain loops."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from bandana.engine.pair_loss import dot_product_loss, dot_products, pair_loss, squared_auc_loss

NODES, WIDTH = 9, 5
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def problem(num_positives: int = 20, num_negatives: int = 13, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, positive and negative pairs: some twice, some of a node with itself, one node in none."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(NODES, WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    positives, negatives = (
        torch.randint(NODES - 1, (2, n), generator=generator) for n in (num_positives, num_negatives)
    )
    return z, positives, negatives


def plain_loss(z: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    total = torch.zeros((), dtype=z.dtype)
    for pairs, target in ((positives, 1.0), (negatives, 0.0)):
        for u, v in pairs.T.tolist():
            total = total + cross_entropy(z[u] @ z[v], torch.tensor(target, dtype=z.dtype)) / pairs.shape[1]
    return total


@pytest.mark.parametrize("chunk", [1, 3, 20, None])
def test_value_and_gradient(chunk: int | None) -> None:
    z, positives, negatives = problem()
    loss, expected = pair_loss(z, positives, negatives, chunk), plain_loss(z, positives, negatives)
    torch.testing.assert_close(loss, expected, **EXACT)
    ours, theirs = (torch.autograd.grad(value * 3, z) for value in (loss, expected))
    torch.testing.assert_close(ours, theirs, **EXACT)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 100))
def test_any_number_of_pairs(num_positives: int, num_negatives: int, seed: int) -> None:
    given = problem(num_positives, num_negatives, seed)
    loss = pair_loss(*given)
    torch.testing.assert_close(loss, plain_loss(*given), **EXACT)
    (gradient,) = torch.autograd.grad(loss, given[0])
    assert bool(gradient.isfinite().all())


def test_knowing_nothing_costs_a_bit_for_either_kind() -> None:
    z, positives, negatives = problem()
    assert float(pair_loss(torch.zeros_like(z), positives, negatives)) == pytest.approx(2 * math.log(2), rel=1e-12)


def test_a_negative_cost_takes_terms_out_again() -> None:
    z, pairs, _ = problem()
    both = dot_product_loss(z, pairs, 0.5, 2.0) + dot_product_loss(z, pairs, 0.0, -2.0)
    torch.testing.assert_close(both, dot_product_loss(z, pairs, 0.5, 0.0), **EXACT)


def test_gradcheck() -> None:
    z, positives, negatives = problem(5, 4)
    assert torch.autograd.gradcheck(lambda leaf: pair_loss(leaf, positives, negatives, 3), z)


@pytest.mark.parametrize("size", [5.0, 1e10])
def test_sure_logits_keep_their_last_digits_and_stay_finite(size: float) -> None:
    """From 21 on torch rounds softplus to the identity by default, which a double can see."""
    z = torch.tensor([[size], [size], [-size]], dtype=torch.float64, requires_grad=True)
    right = pair_loss(z, torch.tensor([[0], [1]]), torch.tensor([[0], [2]]))
    wrong = pair_loss(z, torch.tensor([[0], [2]]), torch.tensor([[0], [1]]))
    assert float(right.detach()) == pytest.approx(2 * math.log1p(math.exp(-(size**2))), rel=1e-12)
    assert float(wrong.detach()) == pytest.approx(2 * (size**2 + math.log1p(math.exp(-(size**2)))), rel=1e-15)
    assert bool(torch.autograd.grad(right + wrong, z)[0].isfinite().all())


def test_inputs_are_left_alone_and_second_derivatives_refused() -> None:
    given = problem()
    before = [tensor.detach().clone() for tensor in given]
    (gradient,) = torch.autograd.grad(pair_loss(*given).square(), given[0], create_graph=True)
    assert all(tensor.equal(copy) for tensor, copy in zip(given, before, strict=True))
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("num_pairs", [0, 1, 200_000])
def test_dot_products(num_pairs: int) -> None:
    z, pairs, _ = problem(num_pairs)
    torch.testing.assert_close(dot_products(z, pairs), (z @ z.T)[pairs[0], pairs[1]], **EXACT)


def ranked(num_pairs: int = 12, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings, positives, a negative for each, and weights, some of them zero."""
    weight = torch.rand(num_pairs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return *problem(num_pairs, num_pairs, seed), weight * (torch.arange(num_pairs) % 3 > 0)


def plain_squared_auc(z: Tensor, positives: Tensor, negatives: Tensor, weight: Tensor) -> Tensor:
    total = z.sum() * 0
    for (u, v), (a, b), w in zip(positives.T.tolist(), negatives.T.tolist(), weight.tolist(), strict=True):
        total = total + w * (1 - (z[u] @ z[v] - z[a] @ z[b])) ** 2
    return total


@pytest.mark.parametrize("chunk", [1, 5, 12, None])
def test_squared_auc_value_and_gradient(chunk: int | None) -> None:
    given = ranked()
    loss, expected = squared_auc_loss(*given, chunk), plain_squared_auc(*given)
    torch.testing.assert_close(loss, expected, **EXACT)
    ours, theirs = (torch.autograd.grad(value * 3, given[0]) for value in (loss, expected))
    torch.testing.assert_close(ours, theirs, **EXACT)


@given(st.integers(0, 6), st.integers(0, 100))
def test_squared_auc_of_any_number_of_pairs(num_pairs: int, seed: int) -> None:
    given = ranked(num_pairs, seed)
    loss = squared_auc_loss(*given)
    torch.testing.assert_close(loss, plain_squared_auc(*given), **EXACT)
    assert bool(torch.autograd.grad(loss, given[0])[0].isfinite().all())


def test_squared_auc_leaves_its_inputs_alone_and_pulls_on_no_weight() -> None:
    given = ranked()
    before = [tensor.detach().clone() for tensor in given]
    given[3].requires_grad_()
    squared_auc_loss(*given).backward()
    assert all(tensor.equal(copy) for tensor, copy in zip(given, before, strict=True))
    assert given[3].grad is None


def test_squared_auc_keeps_no_rows_of_pairs() -> None:
    """What is saved for the way back grows with the pairs by their numbers and scores, not by their rows."""
    width, pairs = 64, 5000
    z = torch.randn(10, width, generator=torch.Generator().manual_seed(0), requires_grad=True)
    sides = torch.randint(10, (2, 2, pairs), generator=torch.Generator().manual_seed(0))
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        squared_auc_loss(z, *sides, torch.ones(pairs))
    assert max(kept) == 2 * pairs
