"""Products of single precision on tensor cores against double precision; torch multiplies where less will do."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(params=["highest", "high"])
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(before)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[0])).to(DEVICE)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("rows", "terms", "columns"), [(1, 1, 1), (70, 33, 130), (65, 256, 128), (0, 5, 3)])
def test_products_are_exact_to_single_precision(
    rows: int, terms: int, columns: int, biased: bool, precision: str
) -> None:
    from bandana.engine.kernels.product import factor, multiply

    a, b, bias = drawn(rows + 1, terms)[:rows], drawn(columns, terms), drawn(columns) if biased else None
    ready, out = factor(b), torch.full((rows, columns), torch.nan, device=DEVICE)
    assert (ready.low is None) == (precision == "high")
    multiply(a, ready, out, bias)
    exact = a.double() @ b.double().t() + (0 if bias is None else bias.double())
    terms_size = a.double().abs() @ b.double().abs().t()
    assert bool(((out - exact).abs() <= (6e-7 if precision == "highest" else 1e-3) * (terms_size + 1)).all())


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_a_factor_is_split_into_two_addends_of_eleven_bits(size: float) -> None:
    from bandana.engine.kernels.product import factor

    b = drawn(20, 30) * size
    high, low = factor(b)
    assert low is not None
    assert (high + low).equal(b)
    assert not bool((high.view(torch.int32) & 0x1FFF).any())
    assert bool((low.abs() <= high.abs() * 2**-11 * 1.001).all())
