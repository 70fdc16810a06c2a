"""The kernels of the losses over all pairs against their plain twins in double precision.

Compiled where there is CUDA, elsewhere through triton's interpreter, with tiles so small that a few dozen rows make
many of them.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from bandana.engine import adjacency_loss as adjacency
from bandana.engine import info_nce as contrast
from bandana.engine import kernels
from bandana.engine.structure import build_structure

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")
HAS_TRITON = find_spec("triton") is not None
SINGLE = 2e-6
"""Relative error that single precision may have against double precision, over a whole tensor."""
ROUNDING = {"high": 2**-11, "medium": 2**-9}
"""What a factor may lose in the lower precisions."""
H100_SHARED_MEMORY = 227 * 1024


def use_small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    from bandana.engine.kernels import all_pairs, info_nce, pair_likelihood

    def everywhere(tiling: Any) -> dict[str, dict[int, Any]]:
        return {precision: {512: tiling} for precision in ("highest", "high", "medium")}

    monkeypatch.setattr(all_pairs, "_LONGEST_TILE", 32)
    monkeypatch.setattr(info_nce, "_TOTALS", everywhere(all_pairs.Tiling(16, 32, 4, 1, returns=False)))
    monkeypatch.setattr(info_nce, "_PULL", everywhere(all_pairs.Tiling(32, 16, 4, 1)))
    monkeypatch.setattr(pair_likelihood, "_TILINGS", everywhere(all_pairs.Tiling(32, 16, 4, 1)))


def multiply_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter keeps bfloat16 numbers as their bits, and would multiply those."""
    from triton import language as tl
    from triton.runtime.interpreter import InterpreterBuilder

    original = InterpreterBuilder.create_dot

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        if a.dtype.scalar == tl.bfloat16:
            a, b = (self.cast_impl(side, tl.float32) for side in (a, b))
        return original(self, a, b, *rest)

    monkeypatch.setattr(InterpreterBuilder, "create_dot", create_dot)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Where the kernels run. Fresh memory holds NaN, so that what a kernel forgets to write is seen."""
    if not HAS_TRITON:
        pytest.skip("triton is not installed")
    if DEVICE.type == "cpu":
        use_small_tiles(monkeypatch)
        multiply_bfloat16(monkeypatch)
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(3, device=DEVICE).isnan().all()
    yield DEVICE
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(before)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """In the norm of the tensor; NaN and infinity are errors too."""
    return float((actual.cpu().double() - expected.double()).norm() / expected.double().norm())


def random(*shape: int, size: float = 1.0, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * size


def assert_same_totals_and_pull(z: Tensor, device: torch.device, precision: str, temperature: float) -> None:
    from bandana.engine.kernels.info_nce import totals_and_pull

    # Two factors are rounded, and an error of a cosine counts by the temperature.
    allowed = SINGLE if precision == "highest" else 2 * ROUNDING[precision] * (1 + 1 / temperature)
    for intra in (True, False):
        totals, pulled = totals_and_pull(z.to(device), temperature, intra)
        exact_totals, exact_pull = contrast._totals_and_pull(z.double(), temperature, intra, 50)
        assert relative_error(totals, exact_totals) < allowed
        assert relative_error(pulled, exact_pull) < allowed


PRECISIONS = pytest.mark.parametrize("precision", ["highest", "high", "medium"], indirect=True)
HIGHEST = pytest.mark.parametrize("precision", ["highest"], indirect=True)


@PRECISIONS
def test_contrast(device: torch.device, precision: str) -> None:
    assert_same_totals_and_pull(normalize(random(2, 37, 16), dim=2), device, precision, 0.5)


@HIGHEST
@pytest.mark.parametrize(("num_rows", "width"), [(1, 3), (32, 1), (20, 100), (20, 512)])
def test_contrast_of_few_rows_and_of_wide_ones(device: torch.device, precision: str, num_rows: int, width: int) -> None:
    if device.type == "cuda" and width > 128:
        pytest.skip("left to the plain function")
    z = normalize(random(2, num_rows, width), dim=2)
    if num_rows == 1:
        from bandana.engine.kernels.info_nce import totals_and_pull

        totals, pulled = totals_and_pull(z.to(device), 0.5, True)  # each has but its partner
        torch.testing.assert_close(totals.cpu(), ((z[0] @ z[1].T) / 0.5).exp().expand(2, 1))
        torch.testing.assert_close(pulled.cpu(), 2 * z.flip(0))
    else:
        assert_same_totals_and_pull(z, device, precision, 0.5)


@HIGHEST
@pytest.mark.parametrize("apart", [True, False])
def test_contrast_at_the_lowest_temperature(device: torch.device, precision: str, apart: bool) -> None:
    """Partners that are opposite or the same: powers between e^-50 and e^50."""
    from bandana.engine.kernels.info_nce import totals_and_pull

    u = normalize(random(20, 8), dim=1)
    z = torch.stack([u, -u if apart else u])
    totals, pulled = totals_and_pull(z.to(device), contrast.LOWEST_TEMPERATURE, True)
    exact_totals, exact_pull = contrast._totals_and_pull(z.double(), contrast.LOWEST_TEMPERATURE, True, 50)
    # A cosine's last bit is multiplied by fifty before the exponential.
    torch.testing.assert_close(totals.cpu().log().double(), exact_totals.log(), rtol=0, atol=50 * SINGLE)
    assert relative_error(pulled, exact_pull) < 50 * SINGLE


@PRECISIONS
@pytest.mark.parametrize(("draws", "num_rows", "width"), [(2, 37, 16), (1, 20, 100)])
def test_likelihood(device: torch.device, precision: str, draws: int, num_rows: int, width: int) -> None:
    from bandana.engine.kernels.pair_likelihood import sums_and_pull

    z = random(draws, num_rows, width, size=2 / width**0.5)
    sums, pulled = sums_and_pull(z.to(device))
    exact_sums, exact_pull = adjacency._sums_and_pull(z.double(), 50)
    largest = float((z @ z.mT).abs().max())
    allowed = SINGLE if precision == "highest" else 2 * ROUNDING[precision] * (1 + largest)
    assert relative_error(sums, exact_sums) < allowed
    assert relative_error(pulled, exact_pull) < allowed


@HIGHEST
@pytest.mark.parametrize("size", [1e-20, 10.0, 1e6])
def test_likelihood_of_extreme_logits(device: torch.device, precision: str, size: float) -> None:
    from bandana.engine.kernels.pair_likelihood import sums_and_pull

    z = random(1, 35, 4, size=size)
    sums, pulled = sums_and_pull(z.to(device))
    exact_sums, exact_pull = adjacency._sums_and_pull(z.double(), 50)
    assert relative_error(sums, exact_sums) < SINGLE
    assert relative_error(pulled, exact_pull) < SINGLE


@pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed")
def test_the_logarithm_keeps_its_digits_where_it_is_tiny() -> None:
    from bandana.engine.kernels.pair_likelihood import _log1p

    x = torch.cat([torch.logspace(-37, 0, 500), torch.zeros(1)])
    # Nothing but arithmetic, so the function inside takes tensors too.
    torch.testing.assert_close(_log1p.fn(x).double(), x.double().log1p(), rtol=SINGLE / 4, atol=0)


@HIGHEST
@pytest.mark.parametrize("intra", [True, False])
def test_the_public_contrast_uses_the_kernels(
    device: torch.device, precision: str, intra: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: dtype is torch.float32)
    u, v = random(20, 5).to(device).requires_grad_(), random(20, 5, seed=1).to(device).requires_grad_()
    exact = [side.detach().cpu().double().requires_grad_() for side in (u, v)]
    assert contrast._kernel_for(u.expand(2, -1, -1)) is not None
    loss = contrast.info_nce(u, v, 0.3, intra=intra) * 3
    expected = contrast.info_nce(*exact, 0.3, intra=intra) * 3
    assert relative_error(loss.detach(), expected.detach()) < SINGLE
    gradients = zip(torch.autograd.grad(loss, (u, v)), torch.autograd.grad(expected, exact), strict=True)
    assert all(relative_error(mine, theirs) < SINGLE for mine, theirs in gradients)


@HIGHEST
@pytest.mark.parametrize("shape", [(35, 5), (3, 35, 5)])
def test_the_public_likelihood_uses_the_kernel(
    device: torch.device, precision: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: dtype is torch.float32)
    linked = (random(35, 35) > 1).fill_diagonal_(False)
    structure, _ = build_structure(*linked.nonzero().unbind(1), 35, 35)
    z = random(*shape).to(device).requires_grad_()
    exact = z.detach().cpu().double().requires_grad_()
    assert adjacency._kernel_for(z.expand(3, -1, -1)) is not None
    arguments = {"positive_weight": 5.0, "scale": 0.6}
    loss = adjacency.adjacency_loss(z, structure.to(device), **arguments)
    expected = adjacency.adjacency_loss(exact, structure, **arguments)
    assert relative_error(loss.detach(), expected.detach()) < SINGLE
    weights = torch.linspace(1, 2, loss.numel()).view_as(loss.cpu())
    (gradient,) = torch.autograd.grad((loss * weights.to(device)).sum(), z)
    (wanted,) = torch.autograd.grad((expected * weights.double()).sum(), exact)
    assert relative_error(gradient, wanted) < SINGLE


@pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed")
@given(rows=st.integers(1, 2000), keys=st.integers(1, 2000))
def test_ranges_cover_all_keys_and_none_is_empty(rows: int, keys: int) -> None:
    from bandana.engine.kernels.all_pairs import key_ranges

    ranges, tiles = key_ranges(rows, keys, torch.device("cpu"))
    assert 1 <= ranges <= 16
    assert (ranges - 1) * tiles < keys <= ranges * tiles


@pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed")
def test_every_tiling_fits_the_cards_it_was_made_for() -> None:
    from bandana.engine.kernels import all_pairs, info_nce, pair_likelihood

    for tilings in (info_nce._TOTALS, info_nce._PULL, pair_likelihood._TILINGS):
        for precision, by_width in tilings.items():
            assert list(by_width) == sorted(by_width)
            for width, tiling in by_width.items():
                assert all_pairs._shared_bytes(tiling, width, precision) + 1024 <= H100_SHARED_MEMORY
                assert all_pairs._LONGEST_TILE % tiling.rows == all_pairs._LONGEST_TILE % tiling.keys == 0


@pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed")
@pytest.mark.parametrize(("major", "kilobytes", "most"), [(8, 100, 98), (8, 164, 162), (9, 228, 226), (10, 228, 0)])
def test_cards_with_less_memory_or_other_instructions_take_less(
    monkeypatch: pytest.MonkeyPatch, major: int, kilobytes: int, most: int
) -> None:
    from bandana.engine.kernels import all_pairs

    card = SimpleNamespace(major=major, shared_memory_per_multiprocessor=kilobytes * 1024)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    runs = [all_pairs._runs(torch.device("cuda"), size * 1024) for size in range(1, 300)]
    assert runs == [size <= most for size in range(1, 300)]


@pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed")
def test_what_does_not_fit_is_left_to_the_plain_functions() -> None:
    from bandana.engine.kernels.info_nce import fits
    from bandana.engine.kernels.pair_likelihood import fits as likelihood_fits

    assert torch.get_float32_matmul_precision() == "highest"
    for accepts in (fits, likelihood_fits):
        assert accepts(torch.empty(2, 5, 128))
        assert not accepts(torch.empty(2, 5, 129))
        assert not accepts(torch.empty(2, 0, 128))
        assert not accepts(torch.empty(1, 1, 1).expand(2, 1 << 23, 128))


@pytest.mark.cuda
@PRECISIONS
@pytest.mark.parametrize("width", [16, 64, 128, 256, 512])
def test_on_cuda_every_width(device: torch.device, precision: str, width: int) -> None:
    from bandana.engine.kernels.info_nce import fits
    from bandana.engine.kernels.pair_likelihood import fits as likelihood_fits

    z = normalize(random(2, 700, width), dim=2)
    if fits(z.to(device)):
        assert_same_totals_and_pull(z, device, precision, 0.4)
    if likelihood_fits(z.to(device)):
        from bandana.engine.kernels.pair_likelihood import sums_and_pull

        sums, pulled = sums_and_pull(2 * z.to(device))
        exact_sums, exact_pull = adjacency._sums_and_pull(2 * z.double(), 1000)
        allowed = SINGLE if precision == "highest" else 10 * ROUNDING[precision]
        assert relative_error(sums, exact_sums) < allowed
        assert relative_error(pulled, exact_pull) < allowed


@pytest.mark.cuda
@HIGHEST
def test_on_cuda_both_can_be_recorded_and_repeat_themselves(device: torch.device, precision: str) -> None:
    structure, _ = build_structure(torch.arange(299), torch.arange(1, 300), 300, 300)
    structure = structure.to(device)
    u, v = (random(300, 64, seed=seed).to(device).requires_grad_() for seed in (0, 1))

    def step() -> Tensor:
        draws = torch.stack([u, v])
        likelihood = adjacency.adjacency_loss(draws / 8, structure, positive_weight=9.0, scale=1.0).sum()
        return torch.stack(torch.autograd.grad(contrast.info_nce(u, v, 0.4, intra=True) + likelihood, (u, v)))

    torch.use_deterministic_algorithms(False)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            recorded = step()
    with torch.no_grad():
        u.copy_(random(300, 64, seed=2))
    graph.replay()
    torch.testing.assert_close(recorded, step())
