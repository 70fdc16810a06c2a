"""The sketch against the random matrix written out: a sketch of the identity."""

import pytest
import torch
from torch import Tensor

from bandana.engine.sketch import sketch

pytestmark = pytest.mark.usefixtures("float64")
SEED, STEP = 3, 7


def matrix(num_rows: int, n: int, block_rows: int | None = None, step: int | Tensor = STEP) -> Tensor:
    return sketch(torch.eye(n), num_rows, seed=SEED, step=step, block_rows=block_rows)


@pytest.mark.parametrize("block_rows", [None, 1, 3, 4, 100])
@pytest.mark.parametrize("n", [1, 8, 9])
def test_product_and_gradient_are_those_of_one_matrix_whatever_the_blocks(n: int, block_rows: int | None) -> None:
    x = torch.randn(n, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    upstream = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    p, out = matrix(7, n), sketch(x, 7, seed=SEED, step=STEP, block_rows=block_rows)
    torch.testing.assert_close(out, p @ x)
    (grad,) = torch.autograd.grad(out, x, upstream)
    torch.testing.assert_close(grad, p.T @ upstream)


def test_whatever_stands_side_by_side_sees_the_same_matrix() -> None:
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    left, right = sketch(torch.cat([x, x], dim=1), 6, seed=SEED, step=STEP).chunk(2, dim=1)
    torch.testing.assert_close(left, right, rtol=0, atol=1e-14)


def test_every_entry_of_every_step_and_seed_is_another() -> None:
    assert matrix(6, 9).equal(matrix(6, 9))
    others = [matrix(6, 9, step=8), sketch(torch.eye(9), 6, seed=4, step=STEP)]
    entries = torch.stack([matrix(6, 9), *others]).flatten().tolist()
    assert len(set(entries)) == 3 * 6 * 9


def test_a_step_on_the_device_is_the_same_step() -> None:
    assert matrix(6, 9, step=torch.tensor(STEP)).equal(matrix(6, 9))


def test_inner_products_of_columns_are_kept_on_average() -> None:
    """The entries of PᵀP have mean I and standard deviation at most √(2 / rows), here 0.01."""
    p = matrix(20_000, 6)
    torch.testing.assert_close(p.T @ p, torch.eye(6), rtol=0, atol=0.05)


def test_entries_are_normal() -> None:
    """Mean, kurtosis and tails of 240,000 entries, within five standard deviations of what chance allows."""
    p = matrix(20_000, 12).mul(20_000**0.5)
    assert float(p.mean().abs()) < 5 / 240_000**0.5
    assert float(p.square().square().mean() - 3) == pytest.approx(0, abs=5 * (96 / 240_000) ** 0.5)
    assert float((p.abs() > 1.959964).double().mean()) == pytest.approx(0.05, abs=5 * (0.05 * 0.95 / 240_000) ** 0.5)
    # Two entries share a hash: squares of normal numbers that do not depend on each other have no correlation.
    squares = torch.corrcoef(p.square().T)
    torch.testing.assert_close(squares, torch.eye(12), rtol=0, atol=5 / 20_000**0.5)
