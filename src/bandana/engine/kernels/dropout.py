# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""Dropout of a matrix in one kernel. What is kept is a function of (seed, row, column), so no mask is stored."""

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.kernels.hashing import LEVELS, keeps, row_key

_TILE = 4096


def drop(x: Tensor, scale: float, seed: Tensor, multiple: int = 1) -> Tensor:
    """``[rows, width]`` each element times `scale` or zero, the latter with probability ``1 - 1/scale``.

    Args:
        x: ``[rows, width]`` contiguous.
        scale: At least one.
        seed: ``[1]`` integer on the device.
        multiple: Of how many elements rows lie apart; products read rows faster that begin at round addresses.
    """
    rows, width = x.shape
    apart = triton.cdiv(width, multiple) * multiple
    out = x.new_empty(rows, apart)[:, :width]
    columns = min(triton.next_power_of_2(max(width, 1)), 512)
    height = _TILE // columns
    if out.numel():
        with torch.cuda.device_of(x):
            _drop[(triton.cdiv(rows, height), triton.cdiv(width, columns))](
                x, out, seed, scale, round(LEVELS / scale), rows, width, apart, ROWS=height, COLUMNS=columns
            )
    return out


@triton.jit
def _drop(x, out, seed, scale, kept, rows, width, apart, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    value = tl.load(x + row[:, None] * width + column[None, :], mask=inside, other=0.0)
    stays = keeps(row_key(seed, row)[:, None], column[None, :], kept)
    tl.store(out + row[:, None] * apart + column[None, :], tl.where(stays, value * scale, 0.0), mask=inside)
