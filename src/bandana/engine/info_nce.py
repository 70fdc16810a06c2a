"""InfoNCE over all pairs of nodes, exact, in row blocks, with its gradient taken in the forward pass.

Each row of two views is told from every other row by its cosine to its partner. Written plainly this keeps the square
matrices of similarities and of their exponentials until the backward pass. Here a block of rows is multiplied with the
keys, looked at and forgotten: memory is O(rows·width + block). Similarities are symmetric, so a block meets no key that
an earlier block has met as rows, and what it finds counts for both sides. That takes two walks, one for the totals and
one for the gradient, and still a third fewer products than one walk over all ordered pairs.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import normalize

from bandana.engine import kernels

LOWEST_TEMPERATURE = 0.02
"""Cosines over a temperature stay within ±50, so their exponentials need no shift to fit into single precision."""

_CPU_ROWS = 512  # at once, with four times as many keys: what stays in a core's cache
_CPU_KEYS_PER_ROW = 4
_CUDA_BLOCK = 1 << 25  # similarities at once, with all keys: enough to fill the card


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
    if not LOWEST_TEMPERATURE <= temperature < math.inf:
        raise ValueError(f"temperature: must be at least {LOWEST_TEMPERATURE} and finite, got {temperature}")


def _rows_at_once(z: Tensor, intra: bool) -> int:
    num_keys = z.shape[1] * (2 if intra else 1)
    return _CPU_ROWS if z.device.type == "cpu" else max(_CUDA_BLOCK // max(num_keys, 1), 1)


class _InfoNCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, temperature: float, intra: bool, size: int) -> Tensor:
        kernel = _kernel_for(z)
        totals, pulled = kernel(z, temperature, intra) if kernel else _totals_and_pull(z, temperature, intra, size)
        alignment = (z[0] * z[1]).sum(1).mean()
        ctx.save_for_backward(pulled.sub_(z.flip(0), alpha=2).div_(2 * z.shape[1] * temperature))
        return totals.log().mean() - alignment / temperature

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (saved,) = ctx.saved_tensors
        return saved * grads[0], None, None, None


def _kernel_for(z: Tensor) -> Callable[[Tensor, float, bool], tuple[Tensor, Tensor]] | None:
    if not kernels.usable(z.device, z.dtype):
        return None
    from bandana.engine.kernels.info_nce import fits, totals_and_pull

    return totals_and_pull if fits(z) else None


class _Block(NamedTuple):
    """Some rows, the keys they meet, how many of these are the rows themselves, and the powers ``[rows, keys]``."""

    rows: slice
    keys: slice
    own: int
    powers: Tensor


def _totals_and_pull(z: Tensor, temperature: float, intra: bool, size: int) -> tuple[Tensor, Tensor]:
    """The sums of powers ``T [2, n]`` and `temperature` times the gradient ``[2, n, width]`` of ``Σ log T``.

    A power ``P_ij`` stands in the totals of both its rows, so it pulls them together by ``P_ij (1/T_i + 1/T_j)``.

    Args:
        z: ``[2, n, width]`` rows of unit length of both views.
        temperature: What cosines are divided by.
        intra: Whether a view stands against itself.
        size: Rows handled at once.
    """
    totals, pulled = z.new_zeros(z.shape[:2]), torch.zeros_like(z)
    (rows, keys), (row_totals, key_totals), (row_pull, key_pull) = (_sides(t, intra) for t in (z, totals, pulled))
    for block in _blocks(rows, keys, temperature, intra, size):
        row_totals[block.rows] += block.powers.sum(1)
        key_totals[block.keys][block.own :] += block.powers[:, block.own :].sum(0)
    row_shares, key_shares = row_totals.reciprocal(), key_totals.reciprocal()
    for block in _blocks(rows, keys, temperature, intra, size):
        weights = block.powers.mul_(row_shares[block.rows].unsqueeze(1) + key_shares[block.keys])
        row_pull[block.rows].addmm_(weights, keys[block.keys])
        key_pull[block.keys][block.own :].addmm_(weights[:, block.own :].t(), rows[block.rows])
    return totals, pulled


def _sides(both: Tensor, intra: bool) -> tuple[Tensor, Tensor]:
    """Views of ``[2, n, …]`` as rows and as keys: all of it twice, or one view each."""
    return (both.flatten(0, 1), both.flatten(0, 1)) if intra else (both[0], both[1])


def _blocks(rows: Tensor, keys: Tensor, temperature: float, intra: bool, size: int) -> Iterator[_Block]:
    """Every pair once, except that rows which are keys too meet each other both ways within a block."""
    span = size * _CPU_KEYS_PER_ROW if keys.device.type == "cpu" else max(keys.shape[0], 1)
    buffer = rows.new_empty(min(size, rows.shape[0]) * min(span, keys.shape[0]))
    for start in range(0, rows.shape[0], size):
        mine = slice(start, min(start + size, rows.shape[0]))
        queries = rows[mine] / temperature
        for first in range(start if intra else 0, keys.shape[0], span):
            theirs = slice(first, min(first + span, keys.shape[0]))
            shape = mine.stop - mine.start, theirs.stop - theirs.start
            powers = buffer[: shape[0] * shape[1]].view(shape)
            torch.mm(queries, keys[theirs].t(), out=powers).exp_()
            own = shape[0] if intra and first == start else 0
            powers[:, :own].diagonal().zero_()  # a row is no wrong answer to itself
            yield _Block(mine, theirs, own, powers)
