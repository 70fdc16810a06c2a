# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""What logits cost, inside kernels."""

import triton
from triton import language as tl


@triton.jit
def cross_entropy(logit, weight):
    """What logits cost, and their gradients. Positive weights are those of links, negative ones those of non-links."""
    margin = logit * ((weight > 0).to(tl.float32) - (weight < 0).to(tl.float32))
    tiny = tl.exp(-tl.abs(margin))  # never overflows, and gives both softplus and sigmoid
    loss = tl.abs(weight) * (tl.maximum(-margin, 0.0) + log1p(tiny))
    return loss, -weight * tl.where(margin >= 0, tiny, 1.0) / (1.0 + tiny)


@triton.jit
def log1p(x):
    """``log(1 + x)`` for x in [0, 1], exact to rounding: the quotient undoes what the addition rounded away."""
    rounded = 1.0 + x
    gap = rounded - 1.0
    return tl.where(gap == 0, x, tl.log(rounded) * x / tl.where(gap == 0, 1.0, gap))
