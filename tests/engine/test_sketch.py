"""The sketch against the random matrix written out: a sketch of the identity."""

import pytest
import torch
from torch import Tensor

from bandana.engine.sketch import sketch

pytestmark = pytest.mark.usefixtures("float64")
WORDS = (3, 7)


def matrix(num_rows: int, n: int, block_rows: int | None = None) -> Tensor:
    return sketch(torch.eye(n), num_rows, WORDS, block_rows)


@pytest.mark.parametrize("block_rows", [None, 1, 3, 4, 100])
def test_product_and_gradient_are_those_of_one_matrix(block_rows: int | None) -> None:
    x = torch.randn(9, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    upstream = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    p, out = matrix(7, 9, block_rows), sketch(x, 7, WORDS, block_rows)
    torch.testing.assert_close(out, p @ x)
    (grad,) = torch.autograd.grad(out, x, upstream)
    torch.testing.assert_close(grad, p.T @ upstream)


def test_whatever_stands_side_by_side_sees_the_same_matrix() -> None:
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    left, right = sketch(torch.cat([x, x], dim=1), 6, WORDS).chunk(2, dim=1)
    torch.testing.assert_close(left, right, rtol=0, atol=1e-14)


def test_streams_and_blocks_have_their_own_numbers() -> None:
    x = torch.eye(9)
    assert sketch(x, 6, WORDS).equal(sketch(x, 6, WORDS))
    assert not sketch(x, 6, (3, 8)).equal(sketch(x, 6, WORDS))
    p = matrix(6, 9, block_rows=2)
    assert len({tuple(row) for row in p.tolist()}) == 6


def test_inner_products_of_columns_are_kept_on_average() -> None:
    """The entries of PᵀP have mean I and standard deviation at most √(2 / rows), here 0.01."""
    p = matrix(20_000, 6)
    torch.testing.assert_close(p.T @ p, torch.eye(6), rtol=0, atol=0.05)
