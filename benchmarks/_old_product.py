# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""Matrix products on tensor cores: exact to single precision if asked for, though these multiply eleven bits at a time.

Every factor is the sum of two such numbers, and of their four products three count. Tensor cores cut off what does not
fit their sums, so a sum is taken from them after every few terms and added up by ordinary, rounding additions.
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor
from triton import language as tl

PRECISIONS = {"highest": "tf32x3", "high": "tf32", "medium": "bf16"}
"""What products inside kernels are made of, by what torch is set to."""
_ROWS, _COLUMNS, _TERMS, _WARPS, _STAGES = 64, 128, 32, 4, 3


class Factor(NamedTuple):
    """A right factor ``[columns, terms]`` as two addends of eleven bits; one alone, as it is, for torch to multiply."""

    high: Tensor
    low: Tensor | None


def factor(b: Tensor) -> Factor:
    """Make ``[columns, terms]`` ready to be multiplied with, in the precision that torch is set to."""
    b = b.contiguous()
    if b.dtype is not torch.float32 or torch.get_float32_matmul_precision() != "highest":
        return Factor(b, None)
    high = ((b.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
    return Factor(high, b - high)


def multiply(a: Tensor, b: Factor, out: Tensor, bias: Tensor | None = None) -> None:
    """``out = a @ b.t() + bias``.

    Args:
        a: ``[rows, terms]`` contiguous.
        b: ``[columns, terms]`` from `factor`.
        out: ``[rows, columns]`` contiguous.
        bias: ``[columns]`` contiguous.
    """
    (rows, terms), columns = a.shape, out.shape[1]
    if b.low is None:
        torch.mm(a, b.high.t(), out=out) if bias is None else torch.addmm(bias, a, b.high.t(), out=out)
    elif out.numel():
        with torch.cuda.device_of(a):
            _multiply[(triton.cdiv(rows, _ROWS), triton.cdiv(columns, _COLUMNS))](
                a,
                *b,
                bias,
                out,
                rows,
                columns,
                terms,
                BIAS=bias is not None,
                ROWS=_ROWS,
                COLUMNS=_COLUMNS,
                TERMS=_TERMS,
                num_warps=_WARPS,
                num_stages=_STAGES,
            )


@triton.jit(do_not_specialize=["rows"])
def _multiply(
    a,
    high,
    low,
    bias,
    out,
    rows,
    columns,
    terms,
    BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TERMS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, terms, TERMS):
        term = first + tl.arange(0, TERMS)
        known = (row < rows)[:, None] & (term < terms)[None, :]
        a_high, a_low = _halves(tl.load(a + row[:, None] * terms + term[None, :], mask=known, other=0.0))
        place = column[None, :] * terms + term[:, None]
        inside = (column < columns)[None, :] & (term < terms)[:, None]
        b_high = tl.load(high + place, mask=inside, other=0.0)
        b_low = tl.load(low + place, mask=inside, other=0.0)
        total += _dot_of_halves(a_high, a_low, b_high, b_low)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    if BIAS:
        total += tl.load(bias + column, mask=column < columns, other=0.0)[None, :]
    tl.store(out + row[:, None] * columns + column[None, :], total, mask=inside)


@triton.jit
def dot(a, b, PRECISION: tl.constexpr):
    """``a @ b`` in the precision that is named."""
    if PRECISION == "bf16":
        product = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    elif PRECISION == "tf32":
        product = tl.dot(a, b, input_precision="tf32")
    else:
        a_high, a_low = _halves(a)
        b_high, b_low = _halves(b)
        product = _dot_of_halves(a_high, a_low, b_high, b_low)
    return product


@triton.jit
def chosen_sum(chosen, x, PRECISION: tl.constexpr):
    """``chosen @ x``, with zeros and ones in `chosen`: bfloat16 holds them, and `x` in as many addends as count."""
    chosen = chosen.to(tl.float32).to(tl.bfloat16)
    high = x.to(tl.bfloat16)
    if PRECISION == "bf16":
        total = tl.dot(chosen, high)
    else:
        rest = x - high.to(tl.float32)
        middle = rest.to(tl.bfloat16)
        if PRECISION == "tf32":
            total = tl.dot(chosen, middle)
        else:
            total = tl.dot(chosen, middle, tl.dot(chosen, (rest - middle.to(tl.float32)).to(tl.bfloat16)))
        total = tl.dot(chosen, high, total)
    return total


@triton.jit
def _dot_of_halves(a_high, a_low, b_high, b_low):
    """``(a_high + a_low) @ (b_high + b_low)`` without the product of what is low in both, small terms first."""
    small = tl.dot(a_high, b_low, tl.dot(a_low, b_high, input_precision="tf32"), input_precision="tf32")
    return tl.dot(a_high, b_high, small, input_precision="tf32")


@triton.jit
def _halves(x):
    """The nearest number with eleven bits, and what is missing to `x`; the twin of `factor`."""
    high = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return high, x - high
