"""Random combinations of rows that keep inner products of columns in expectation, without storing the random matrix.

The matrix has ``rows x nodes`` normal entries, far more than anything it is multiplied with. It is drawn in blocks from
named streams, and the backward pass draws the same blocks again: memory is that of one block.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bandana.engine.streams import generator

_BLOCK = 1 << 24  # entries drawn at once; one number for all devices, since it decides which stream an entry is from


def sketch(x: Tensor, num_rows: int, words: tuple[int, ...], block_rows: int | None = None) -> Tensor:
    """``P @ x`` with ``P [num_rows, n]`` of independent normal entries with variance ``1 / num_rows``.

    As ``E[PᵀP]`` is the identity, ``E[(P @ x)ᵀ(P @ x)]`` is ``xᵀx``.

    Args:
        x: ``[n, width]``; whatever must see the same P stands side by side in it.
        num_rows: Rows of the result.
        words: Name of the stream that P is drawn from.
        block_rows: Rows of P drawn at once.

    Returns:
        ``[num_rows, width]``, with gradients for `x`.
    """
    size = block_rows or max(_BLOCK // max(x.shape[0], 1), 1)
    out: Tensor = _Sketch.apply(x, num_rows, words, size)  # type: ignore[no-untyped-call]
    return out


class _Sketch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, num_rows: int, words: tuple[int, ...], size: int) -> Tensor:
        ctx.num_columns, ctx.words, ctx.size = x.shape[0], words, size
        out = x.new_empty(num_rows, x.shape[1])
        for index, rows in enumerate(out.split(size)):
            torch.mm(_block(rows, x.shape[0], words, index), x, out=rows)
        return out.mul_(num_rows**-0.5)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (grad,) = grads
        out = grad.new_zeros(ctx.num_columns, grad.shape[1])
        for index, rows in enumerate(grad.split(ctx.size)):
            out.addmm_(_block(rows, ctx.num_columns, ctx.words, index).t(), rows)
        return out.mul_(grad.shape[0] ** -0.5), None, None, None


def _block(rows: Tensor, num_columns: int, words: tuple[int, ...], index: int) -> Tensor:
    """The standard normal rows of P that belong to `rows` of the result."""
    source = generator(rows.device, *words, index)
    return torch.randn(rows.shape[0], num_columns, generator=source, device=rows.device, dtype=rows.dtype)
