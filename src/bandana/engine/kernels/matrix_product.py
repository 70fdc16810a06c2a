# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""A product of two matrices in single precision on tensor cores (see `product`), its result dropped if asked for.

Torch multiplies single precision without them, at a third of the rate that three of their products reach.
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.kernels.hashing import LEVELS, keeps, row_key
from bandana.engine.kernels.product import dot


class Tiling(NamedTuple):
    """The tile of the result that a program makes, terms at a time, warps, and tiles loaded ahead."""

    rows: int
    columns: int
    terms: int
    warps: int
    ahead: int


_ALONG_TERMS, _ACROSS = Tiling(128, 64, 32, 8, 3), Tiling(32, 64, 32, 4, 3)
"""By how the second factor lies in memory."""


def multiply(a: Tensor, b: Tensor, seed: Tensor | None = None, scale: float = 1.0) -> Tensor:
    """``a @ b``, or ``drop(a @ b, scale, seed)`` with a seed; see `dropout.drop`."""
    (rows, terms), columns, tiling = a.shape, b.shape[1], _ALONG_TERMS if b.stride(0) == 1 else _ACROSS
    out = a.new_empty(rows, columns)
    if out.numel():
        with torch.cuda.device_of(a):
            _tile[(triton.cdiv(columns, tiling.columns) * triton.cdiv(rows, tiling.rows),)](
                *(a, b, out, seed, scale, round(LEVELS / scale), rows, columns, terms, *a.stride(), *b.stride()),
                DROPPED=seed is not None,
                ROWS=tiling.rows,
                COLUMNS=tiling.columns,
                TERMS=tiling.terms,
                num_warps=tiling.warps,
                num_stages=tiling.ahead,
            )
    return out


@triton.jit
def _tile(
    a,
    b,
    out,
    seed,
    scale,
    kept,
    rows,
    columns,
    terms,
    a_row,
    a_term,
    b_term,
    b_column,
    DROPPED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TERMS: tl.constexpr,
):
    tiles = tl.cdiv(columns, COLUMNS)  # of the same rows: these follow each other, so that the rows are read once
    column = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    row = (tl.program_id(0) // tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    left = a + row[:, None] * a_row
    right = b + column[None, :].to(tl.int64) * b_column
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, terms, TERMS):
        term = (start + tl.arange(0, TERMS)).to(tl.int64)
        known = term < terms
        one = tl.load(left + term[None, :] * a_term, mask=(row < rows)[:, None] & known[None, :], other=0.0)
        other = tl.load(right + term[:, None] * b_term, mask=known[:, None] & (column < columns)[None, :], other=0.0)
        total += dot(one, other, "tf32x3")
    if DROPPED:
        total = tl.where(keeps(row_key(seed, row)[:, None], column[None, :], kept), total * scale, 0.0)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    tl.store(out + row[:, None] * columns + column[None, :], total, mask=inside)
