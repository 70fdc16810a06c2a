"""Random combinations of rows that keep inner products of columns in expectation, without storing the random matrix.

The matrix has ``rows x nodes`` normal entries, far more than anything it is multiplied with. An entry is a hash of
(seed, step, its place), so that blocks of rows can be drawn when they are needed, and again by the backward pass:
memory is that of one block, and the size of the blocks changes nothing.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bandana.engine import kernels
from bandana.engine.streams import hash_within, stream_on, unit

_CPU_BLOCK = 1 << 20  # entries drawn at once: what stays in a core's cache
_CUDA_BLOCK = 1 << 23  # enough to fill the card


def sketch(x: Tensor, num_rows: int, *, seed: int, step: int | Tensor, block_rows: int | None = None) -> Tensor:
    """``P @ x`` with ``P [num_rows, n]`` of independent normal entries with variance ``1 / num_rows``.

    As ``E[PᵀP]`` is the identity, ``E[(P @ x)ᵀ(P @ x)]`` is ``xᵀx``.

    Args:
        x: ``[n, width]``; whatever must see the same P stands side by side in it.
        num_rows: Rows of the result.
        seed: Of the run.
        step: Of the training; a scalar tensor is read on the device.
        block_rows: Rows of P drawn at once.

    Returns:
        ``[num_rows, width]``, with gradients for `x`.
    """
    elements = _CPU_BLOCK if x.device.type == "cpu" else _CUDA_BLOCK
    size = block_rows or max(elements // max(x.shape[0], 1), 1)
    out: Tensor = _Sketch.apply(x, num_rows, stream_on(x.device, seed, step), size)  # type: ignore[no-untyped-call]
    return out


class _Sketch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, num_rows: int, stream: Tensor, size: int) -> Tensor:
        ctx.num_columns, ctx.stream, ctx.size = x.shape[0], stream, size
        out = x.new_empty(num_rows, x.shape[1])
        for index, rows in enumerate(out.split(size)):
            torch.mm(_block(index * size, rows, x.shape[0], stream), x, out=rows)
        return out.mul_(num_rows**-0.5)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (grad,) = grads
        out = grad.new_zeros(ctx.num_columns, grad.shape[1])
        for index, rows in enumerate(grad.split(ctx.size)):
            out.addmm_(_block(index * ctx.size, rows, ctx.num_columns, ctx.stream).t(), rows)
        return out.mul_(grad.shape[0] ** -0.5), None, None, None


def _block(start: int, rows: Tensor, num_columns: int, stream: Tensor) -> Tensor:
    """The standard normal rows of P that belong to `rows` of the result, of which `start` is the first."""
    if kernels.usable(rows.device, rows.dtype):
        from bandana.engine.kernels.normal import normal_rows

        return normal_rows(start, rows.shape[0], num_columns, stream)
    return _normal_rows(start, rows.shape[0], num_columns, stream, rows.dtype)


def _normal_rows(start: int, num_rows: int, num_columns: int, stream: Tensor, dtype: torch.dtype) -> Tensor:
    """By the Box-Muller transform of one 64-bit hash for two entries, which stand half a row apart."""
    half = (num_columns + 1) // 2
    keys = torch.arange(start * half, (start + num_rows) * half, device=stream.device)
    bits = hash_within(stream, keys).view(-1, half)
    radius = unit(bits >> 32, dtype).log_().mul_(-2).sqrt_()
    angle = unit(bits, dtype).mul_(2 * torch.pi)
    return torch.cat([radius * angle.cos(), radius.mul_(angle.sin_())], dim=1)[:, :num_columns]
