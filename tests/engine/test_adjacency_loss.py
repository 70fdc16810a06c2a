"""The blockwise loss over all pairs against the whole matrix, and the balance of links and non-links."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from bandana.engine.adjacency_loss import adjacency_loss, kipf_balance
from bandana.engine.structure import Structure, build_structure

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def problem(num_nodes: int = 11, share: float = 0.3, seed: int = 0, size: float = 1.0) -> tuple[Tensor, Structure]:
    """Embeddings and a directed pattern without a diagonal."""
    generator = torch.Generator().manual_seed(seed)
    linked = torch.rand(num_nodes, num_nodes, generator=generator).fill_diagonal_(1) < share
    structure, _ = build_structure(*linked.nonzero().unbind(1), num_nodes, num_nodes)
    z = torch.randn(num_nodes, 4, generator=generator, dtype=torch.float64) * size
    return z.requires_grad_(), structure


def plain_loss(z: Tensor, structure: Structure, weight: float, scale: float) -> Tensor:
    target = torch.eye(z.shape[0], dtype=z.dtype)
    target[structure.row, structure.col] = 1
    return scale * cross_entropy(z @ z.T, target, pos_weight=torch.tensor(weight, dtype=z.dtype))


@pytest.mark.parametrize("block", [1, 3, 4, 11, 100, None])
def test_value_and_gradient(block: int | None) -> None:
    z, structure = problem(size=3.0)
    loss = adjacency_loss(z, structure, positive_weight=6.5, scale=0.7, block=block)
    expected = plain_loss(z, structure, 6.5, 0.7)
    torch.testing.assert_close(loss, expected, **EXACT)
    ours, theirs = (torch.autograd.grad(value * 3, z) for value in (loss, expected))
    torch.testing.assert_close(ours, theirs, **EXACT)


@given(st.integers(1, 8), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 9), st.integers(0, 50))
def test_any_graph_and_block(num_nodes: int, share: float, block: int, seed: int) -> None:
    z, structure = problem(num_nodes, share, seed)
    weight, scale = kipf_balance(num_nodes, structure.num_entries)
    loss = adjacency_loss(z, structure, positive_weight=weight, scale=scale, block=block)
    expected = plain_loss(z, structure, weight, scale)
    torch.testing.assert_close(loss, expected, **EXACT)
    torch.testing.assert_close(torch.autograd.grad(loss, z), torch.autograd.grad(expected, z), **EXACT)


@pytest.mark.parametrize("block", [3, None])
def test_several_draws_are_what_each_is_alone(block: int | None) -> None:
    """Values and gradients, each draw weighted differently, and laid out as a sampler leaves them."""
    first, structure = problem(size=2.0)
    draws = torch.stack([first.detach() * factor for factor in (1.0, -0.3, 2.0)], dim=1).requires_grad_()
    options = {"positive_weight": 6.5, "scale": 0.7, "block": block}
    losses = adjacency_loss(draws.transpose(0, 1), structure, **options)
    alone = torch.stack([adjacency_loss(draw, structure, **options) for draw in draws.unbind(1)])
    torch.testing.assert_close(losses, alone, **EXACT)
    weights = torch.tensor([1.0, 5.0, -2.0], dtype=torch.float64)
    ours, theirs = (torch.autograd.grad(values @ weights, draws) for values in (losses, alone))
    torch.testing.assert_close(ours, theirs, **EXACT)


def test_gradcheck() -> None:
    z, structure = problem(5)
    assert torch.autograd.gradcheck(
        lambda leaf: adjacency_loss(leaf, structure, positive_weight=2, scale=3, block=2), z
    )


def test_knowing_nothing_costs_a_bit() -> None:
    """Balanced, links and non-links share it equally; the positive diagonal is what the balance does not count."""
    z, structure = problem()
    weight, scale = kipf_balance(11, structure.num_entries)
    loss = adjacency_loss(torch.zeros_like(z), structure, positive_weight=weight, scale=scale)
    extra = (weight - 1) * scale / 11
    assert float(loss) == pytest.approx(math.log(2) * (1 + extra), rel=1e-12)


@pytest.mark.parametrize("num_edges", [0, 1, 6, 12])
def test_balance_is_finite_and_gives_both_kinds_half(num_edges: int) -> None:
    """Four nodes, up to the complete graph."""
    weight, scale = kipf_balance(4, num_edges)
    assert 0 < weight < math.inf
    assert 0 < scale < math.inf
    if num_edges:
        assert scale / 16 * weight * num_edges == pytest.approx(0.5)
        assert scale / 16 * (16 - num_edges) == pytest.approx(0.5)


def test_a_single_node_has_a_balance_and_a_loss() -> None:
    z, structure = problem(1, share=0.0)
    weight, scale = kipf_balance(1, 0)
    loss = adjacency_loss(z, structure, positive_weight=weight, scale=scale)
    assert bool(loss.isfinite())


def test_extreme_logits_stay_finite_in_single_precision() -> None:
    z, structure = problem(size=1e6)
    single = z.detach().float().requires_grad_()
    loss = adjacency_loss(single, structure, positive_weight=3.0, scale=1.0)
    assert bool(loss.isfinite())
    assert bool(torch.autograd.grad(loss, single)[0].isfinite().all())


def test_single_precision_and_the_default_block() -> None:
    """More rows than one block holds, in the precision of training."""
    z, structure = problem(1500, share=0.01)
    weight, scale = kipf_balance(1500, structure.num_entries)
    single = z.detach().float().requires_grad_()
    loss = adjacency_loss(single, structure, positive_weight=weight, scale=scale)
    expected = plain_loss(z, structure, weight, scale)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    gradient, reference = torch.autograd.grad(loss, single)[0].double(), torch.autograd.grad(expected, z)[0]
    assert float((gradient - reference).norm() / reference.norm()) < 1e-5


def test_inputs_are_left_alone_and_second_derivatives_refused() -> None:
    z, structure = problem()
    before = z.detach().clone()
    loss = adjacency_loss(z, structure, positive_weight=2.0, scale=1.0)
    (gradient,) = torch.autograd.grad(loss.square(), z, create_graph=True)
    assert z.detach().equal(before)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
