# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""Matrix products on tensor cores: exact to single precision if asked for, though these multiply eleven bits at a time.

Every factor is the sum of two such numbers, and of their four products three count. Tensor cores cut off what does not
fit their sums, so a sum is taken from them after every few terms and added up by ordinary, rounding additions.
"""

import triton
from triton import language as tl

PRECISIONS = {"highest": "tf32x3", "high": "tf32", "medium": "bf16"}
"""What products inside kernels are made of, by what torch is set to."""


@triton.jit
def dot(a, b, PRECISION: tl.constexpr):
    """``a @ b`` in the precision that is named."""
    if PRECISION == "bf16":
        product = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    elif PRECISION == "tf32":
        product = tl.dot(a, b, input_precision="tf32")
    else:
        a_high, a_low = halves(a)
        b_high, b_low = halves(b)
        product = dot_of_halves(a_high, a_low, b_high, b_low)
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
def dot_of_halves(a_high, a_low, b_high, b_low):
    """``(a_high + a_low) @ (b_high + b_low)`` without the product of what is low in both, small terms first."""
    small = tl.dot(a_high, b_low, tl.dot(a_low, b_high, input_precision="tf32"), input_precision="tf32")
    return tl.dot(a_high, b_high, small, input_precision="tf32")


@triton.jit
def halves(x):
    """The nearest number with eleven bits, and what is missing to `x`."""
    high = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return high, x - high
