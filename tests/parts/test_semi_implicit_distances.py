"""Distances of many samples to many centres, from products, against the differences themselves."""

import pytest
import torch
from torch import Tensor

from bandana.parts import semi_implicit
from bandana.parts.semi_implicit import squared_distances


def problem(num_samples: int, num_centres: int, offset: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, num_samples, 5), (4, num_centres, 5), (4, 1, 5)]
    z, centres, spread = (torch.randn(shape, generator=generator) for shape in shapes)
    return z + offset, centres + offset, spread.exp()


def naive(z: Tensor, centres: Tensor, spread: Tensor) -> Tensor:
    distances = [
        [[((sample - centre) / width[0]).square().sum() for centre in there] for sample in here]
        for here, there, width in zip(z, centres, spread, strict=True)
    ]
    return torch.stack([torch.stack([torch.stack(row) for row in rows]) for rows in distances])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("num_samples", "num_centres"), [(9, 11), (30, 5), (1, 1), (3, 2)])
def test_values_and_gradients(num_samples: int, num_centres: int) -> None:
    inputs = [tensor.requires_grad_() for tensor in problem(num_samples, num_centres)]
    distances, expected = squared_distances(*inputs), naive(*inputs)
    torch.testing.assert_close(distances, expected)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    ours, theirs = (torch.autograd.grad((value * weights).sum(), inputs) for value in (distances, expected))
    torch.testing.assert_close(ours, theirs)


def test_both_ways_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = problem(3, 2), problem(9, 11)
    expected = squared_distances(*few)
    monkeypatch.setattr(torch, "baddbmm", lambda *args, **kwargs: pytest.fail("a product was asked for"))
    assert squared_distances(*few).equal(expected)
    with pytest.raises(pytest.fail.Exception):
        squared_distances(*many)
    assert squared_distances(*problem(3, 0)).shape == (4, 3, 0)


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_products_lose_nothing_far_from_the_origin(precision: str) -> None:
    """A thousand standard deviations away, and whatever precision torch's products of floats have."""
    z, centres, spread = problem(9, 11, offset=1000.0)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        distances = squared_distances(z, centres, spread)
    finally:
        torch.set_float32_matmul_precision(before)
    assert distances.dtype is torch.float32
    exact = naive(z.double(), centres.double(), spread.double())
    torch.testing.assert_close(distances.double(), exact, rtol=1e-6, atol=1e-6)
    assert semi_implicit._FEW_PAIRS * (9 + 11) < 9 * 11
