# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""The cross entropy of dot products over node pairs with its gradient, in one kernel.

A program owns a tile of pairs. It walks their rows twice, a block of columns at a time: first to add up the logits,
then to add each row, times the slope of the loss, to the gradient of the other node. Rows are gathered twice,
and nothing of size pairs times width is written.
"""

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.kernels.logits import log1p

_TILE = 4096  # elements of pairs times columns at once
_COLUMNS = 128  # of them at most in a row: a warp with four to a thread
_WARPS = 8  # sixteen elements to a thread: with more, widths that are no multiple of 16 do not fit the registers


def loss_and_gradient(z: Tensor, pairs: Tensor, link: float, no_link: float) -> tuple[Tensor, Tensor]:
    """The loss and the gradient of `z`; the twin of the plain function in `engine.pair_loss`."""
    z, pairs = z.contiguous(), pairs.contiguous()
    count, width = pairs.shape[1], z.shape[1]
    columns = min(triton.next_power_of_2(max(width, 1)), _COLUMNS)
    rows = _TILE // columns
    grad, sums = torch.zeros_like(z), z.new_empty(triton.cdiv(count, rows))
    if count:
        with torch.cuda.device_of(z):
            _dot_product_loss[(sums.numel(),)](
                z, *pairs, grad, sums, link, no_link, count, width, ROWS=rows, COLUMNS=columns, num_warps=_WARPS
            )
    return sums.sum(), grad


# Losses differ in costs, number and alignment of pairs: none of them may compile a kernel of its own.
@triton.jit(do_not_specialize=["link", "no_link", "pairs"], do_not_specialize_on_alignment=["u", "v"])
def _dot_product_loss(z, u, v, grad, sums, link, no_link, pairs, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    known = row < pairs
    left = tl.load(u + row, mask=known, other=0).to(tl.int64)[:, None] * width
    right = tl.load(v + row, mask=known, other=0).to(tl.int64)[:, None] * width

    products = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, width, COLUMNS):
        column = start + tl.arange(0, COLUMNS)[None, :]
        inside = known[:, None] & (column < width)
        one = tl.load(z + left + column, mask=inside, other=0.0)
        other = tl.load(z + right + column, mask=inside, other=0.0)
        products += one * other

    logit = tl.sum(products, 1)
    tiny = tl.exp(-tl.abs(logit))  # never overflows, and gives both softplus and sigmoid
    doubt = tl.maximum(-logit, 0.0) + log1p(tiny)
    belief = tl.maximum(logit, 0.0) + log1p(tiny)
    tl.store(sums + tl.program_id(0), tl.sum(tl.where(known, link * doubt + no_link * belief, 0.0), 0))
    linked = tl.where(logit >= 0, 1.0, tiny)
    unlinked = tl.where(logit >= 0, tiny, 1.0)
    slope = ((no_link * linked - link * unlinked) / (1.0 + tiny))[:, None]

    for start in range(0, width, COLUMNS):
        column = start + tl.arange(0, COLUMNS)[None, :]
        inside = known[:, None] & (column < width)
        one = tl.load(z + left + column, mask=inside, other=0.0)
        other = tl.load(z + right + column, mask=inside, other=0.0)
        tl.atomic_add(grad + left + column, slope * other, mask=inside, sem="relaxed")
        tl.atomic_add(grad + right + column, slope * one, mask=inside, sem="relaxed")
