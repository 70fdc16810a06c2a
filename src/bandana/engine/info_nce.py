"""InfoNCE over all pairs of nodes, exact, in row blocks, with its gradient taken in the forward pass.

Each row of two views is told from every other row by its cosine to its partner. Written plainly this keeps the square
matrices of similarities and of their exponentials until the backward pass. Here a block of rows is multiplied with all
keys, exponentiated in place, multiplied back for both sides of its gradient, and forgotten: memory is
O(rows·width + block), and nearly all of the time is spent in three matrix products.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import normalize

LOWEST_TEMPERATURE = 0.02
"""Cosines over a temperature stay within ±50, so their exponentials need no shift to fit into single precision."""

_CPU_BLOCK = 1 << 20  # similarities at once: what stays in a core's cache
_CUDA_BLOCK = 1 << 26  # enough to fill the card


def info_nce(u: Tensor, v: Tensor, temperature: float, *, intra: bool, block_rows: int | None = None) -> Tensor:
    """How badly each row finds its partner in the other view, averaged over the rows of both views.

    With ``s(a, b) = exp(cos(a, b) / temperature)`` the loss of row ``u_i`` is ``-log s(u_i, v_i) / Σ``, where the sum
    runs over ``s(u_i, v_j)`` for all j, and if `intra` over ``s(u_i, u_j)`` for all j ≠ i too; that of ``v_i`` is its
    mirror image.

    Args:
        u: ``[n, width]`` rows of the first view.
        v: ``[n, width]`` rows of the second.
        temperature: At least `LOWEST_TEMPERATURE`; lower ones punish the closest wrong rows harder.
        intra: Whether the other rows of its own view stand against a row as well.
        block_rows: Rows handled at once.

    Returns:
        The scalar loss, with gradients for `u` and `v`.

    Raises:
        ValueError: The temperature is too low.
    """
    check_temperature(temperature)
    z = torch.stack([normalize(u), normalize(v)])
    size = block_rows or _rows_at_once(z, intra)
    out: Tensor = _InfoNCE.apply(z, temperature, intra, size)  # type: ignore[no-untyped-call]
    return out


def check_temperature(temperature: float) -> None:
    """Raise ValueError for a temperature that `info_nce` cannot take."""
    if not temperature >= LOWEST_TEMPERATURE:
        raise ValueError(f"temperature: must be at least {LOWEST_TEMPERATURE}, got {temperature}")


def _rows_at_once(z: Tensor, intra: bool) -> int:
    elements = _CPU_BLOCK if z.device.type == "cpu" else _CUDA_BLOCK
    num_keys = z.shape[1] * (2 if intra else 1)
    return max(elements // num_keys, 1)


class _InfoNCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, temperature: float, intra: bool, size: int) -> Tensor:
        loss, grad = _loss_and_gradient(z, temperature, intra, size)
        ctx.save_for_backward(grad)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (saved,) = ctx.saved_tensors
        return saved * grads[0], None, None, None


def _loss_and_gradient(z: Tensor, temperature: float, intra: bool, size: int) -> tuple[Tensor, Tensor]:
    """Loss and gradient for ``z [2, n, width]``, the rows of unit length of both views."""
    num_rows = z.shape[1]
    size = min(size, num_rows)
    pulled, totals = torch.zeros_like(z), z.new_empty(2, num_rows)
    buffer = z.new_empty(size, num_rows * (2 if intra else 1))
    for view in (0, 1):
        keys, key_pull = (z.flatten(0, 1), pulled.view(-1, z.shape[2])) if intra else (z[1 - view], pulled[1 - view])
        for start in range(0, num_rows, size):
            block = slice(start, start + size)
            rows, total = z[view, block], totals[view, block]
            powers = torch.mm(rows / temperature, keys.t(), out=buffer[: rows.shape[0]]).exp_()
            if intra:
                powers.diagonal(offset=view * num_rows + start).zero_()  # a row is no wrong answer to itself
            torch.sum(powers, dim=1, out=total)
            # Softmax weights are powers over totals; dividing the thin factor spares a pass over the block.
            scale = total.unsqueeze(1)
            pulled[view, block] += (powers @ keys) / scale
            key_pull.addmm_(powers.t(), rows / scale)
    partner = z.flip(0)
    alignment = (z[0] * z[1]).sum(1).mean()
    grad = pulled.sub_(partner, alpha=2).div_(2 * num_rows * temperature)
    return totals.log().mean() - alignment / temperature, grad
