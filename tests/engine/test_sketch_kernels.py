"""The kernel that draws normal numbers against its plain twin, and the sketch that is made with it.

Compiled where there is CUDA, elsewhere through triton's interpreter.
"""

import os
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from bandana.engine import kernels
from bandana.engine.sketch import _normal_rows, sketch
from bandana.engine.streams import stream_on

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")
SEED, STEP = 3, 7
SINGLE = 2e-6
"""Relative error that single precision may have against double precision, over a whole tensor."""

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")


@pytest.mark.parametrize("start", [0, 1, 5, 1 << 33])
@pytest.mark.parametrize(("num_rows", "num_columns"), [(1, 1), (3, 2), (2, 7), (5, 2049), (2, 4100)])
def test_entries_are_those_of_the_twin(start: int, num_rows: int, num_columns: int) -> None:
    from bandana.engine.kernels.normal import normal_rows

    stream = stream_on(DEVICE, SEED, STEP)
    ours = normal_rows(start, num_rows, num_columns, stream)
    exact = _normal_rows(start, num_rows, num_columns, stream, torch.float64)
    assert ours.shape == exact.shape
    assert ours.dtype is torch.float32
    assert float((ours - exact).norm() / exact.norm()) < SINGLE


def test_no_rows_and_no_columns() -> None:
    from bandana.engine.kernels.normal import normal_rows

    stream = stream_on(DEVICE, SEED, STEP)
    assert normal_rows(0, 0, 5, stream).shape == (0, 5)
    assert normal_rows(0, 5, 0, stream).shape == (5, 0)


@pytest.mark.parametrize("block_rows", [None, 3])
def test_the_sketch_chooses_it_and_its_backward_pass_draws_the_same(
    block_rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bandana.engine.kernels import normal

    calls: list[int] = []
    original = normal.normal_rows

    def watched(start: int, *args: Any) -> Any:
        calls.append(start)
        return original(start, *args)

    monkeypatch.setattr(normal, "normal_rows", watched)
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: dtype is torch.float32)
    x = torch.randn(9, 5, generator=torch.Generator().manual_seed(0)).to(DEVICE).requires_grad_()
    upstream = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    step = torch.tensor(STEP, device=DEVICE)
    out = sketch(x, 7, seed=SEED, step=step, block_rows=block_rows)
    (grad,) = torch.autograd.grad(out, x, upstream)
    assert calls == ([0, 0] if block_rows is None else [0, 3, 6, 0, 3, 6])

    p = sketch(torch.eye(9, dtype=torch.float64, device=DEVICE), 7, seed=SEED, step=STEP)
    torch.testing.assert_close(out, (p @ x.double()).float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grad, (p.T @ upstream.double()).float(), rtol=1e-5, atol=1e-5)
