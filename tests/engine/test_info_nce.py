"""InfoNCE in blocks against loops over all pairs."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bandana.engine.info_nce import LOWEST_TEMPERATURE, info_nce

pytestmark = pytest.mark.usefixtures("float64")


def two_views(n: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(n, width, generator=generator, dtype=torch.float64) for _ in range(2))
    return u.requires_grad_(), v.requires_grad_()


def naive(u: Tensor, v: Tensor, temperature: float, intra: bool) -> Tensor:
    def s(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b / (a.norm() * b.norm()) / temperature).exp()

    def one_way(mine: Tensor, other: Tensor) -> list[Tensor]:
        losses = []
        for i in range(len(mine)):
            total = sum(s(mine[i], other[j]) for j in range(len(mine)))
            if intra:
                total = total + sum(s(mine[i], mine[j]) for j in range(len(mine)) if j != i)
            losses.append(-(s(mine[i], other[i]) / total).log())
        return losses

    return torch.stack([(a + b) / 2 for a, b in zip(one_way(u, v), one_way(v, u), strict=True)]).mean()


@pytest.mark.parametrize("intra", [True, False])
@given(n=st.integers(1, 7), block=st.integers(1, 8), temperature=st.floats(0.1, 2.0), seed=st.integers(0, 99))
def test_loss_and_gradients_are_those_of_the_loops(
    intra: bool, n: int, block: int, temperature: float, seed: int
) -> None:
    u, v = two_views(n, 3, seed)
    loss = 3 * info_nce(u, v, temperature, intra=intra, block_rows=block)
    expected = 3 * naive(u, v, temperature, intra)
    torch.testing.assert_close(loss, expected)
    for mine, reference in zip(torch.autograd.grad(loss, (u, v)), torch.autograd.grad(expected, (u, v)), strict=True):
        torch.testing.assert_close(mine, reference)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 7.0])
def test_equal_rows_leave_a_guess_among_all_candidates(temperature: float) -> None:
    u = torch.ones(9, 4)
    assert float(info_nce(u, u, temperature, intra=True)) == pytest.approx(math.log(2 * 9 - 1))
    assert float(info_nce(u, u, temperature, intra=False)) == pytest.approx(math.log(9))


@pytest.mark.parametrize("intra", [True, False])
def test_length_of_the_rows_does_not_count(intra: bool) -> None:
    u, v = two_views(6, 4)
    scaled = info_nce(u * torch.arange(1, 7).unsqueeze(1), v * 0.01, 0.3, intra=intra)
    torch.testing.assert_close(scaled, info_nce(u, v, 0.3, intra=intra))


@pytest.mark.parametrize("intra", [True, False])
def test_single_precision_holds_at_the_lowest_temperature(intra: bool) -> None:
    u, _ = two_views(50, 8)
    u32, v32 = (x.detach().float().requires_grad_() for x in (u, -u))  # every partner points the opposite way
    loss, reference = (info_nce(*pair, LOWEST_TEMPERATURE, intra=intra) for pair in ((u32, v32), (u, -u)))
    torch.testing.assert_close(loss.double(), reference, rtol=1e-5, atol=0)
    loss.backward()
    assert bool(u32.grad.isfinite().all())


def test_the_block_size_found_by_itself_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = two_views(40, 5)
    whole = info_nce(u, v, 0.5, intra=True)
    monkeypatch.setattr("bandana.engine.info_nce._CPU_ROWS", 2)
    torch.testing.assert_close(info_nce(u, v, 0.5, intra=True), whole)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 0.01, float("nan")])
def test_temperatures_without_a_floor_are_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"^temperature: must be at least 0\.02"):
        info_nce(*two_views(3, 2), temperature, intra=True)
