"""How well a linear layer reconstructs node features, without ever holding the reconstruction.

The reconstruction ``hidden @ weight`` has an entry for every node and feature, while most targets are zero. Its squared
error follows from the small Gram matrix of `hidden` and the targets that are not zero. A cross entropy or a ReLU needs
every entry: rows are then taken block by block, loss and gradients together, and each block is forgotten. It is first
treated as if all its targets were zero; the stored targets correct that.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from bandana.engine.alignment import aligned_rows
from bandana.engine.pair_loss import EXACT_BELOW
from bandana.engine.propagate import propagate
from bandana.engine.structure import Structure

AttributeLoss = Literal["bce", "mse"]

_CPU_BLOCK = 1 << 19  # elements of a block's reconstruction: what stays in a core's cache
_CUDA_BLOCK = 1 << 25  # enough to fill the card


class RowBlocks(NamedTuple):
    """How the stored targets fall into blocks of rows, as the host must know it to cut them.

    Attributes:
        rows: Of each block.
        bounds: First entry of each block, and the number of all entries; dense targets need none.
    """

    rows: int
    bounds: tuple[int, ...] = ()


def row_blocks(pattern: Structure, block: int | None = None) -> RowBlocks:
    """Cut a pattern into blocks; the host waits for the device, so do it once where a step is to be recorded."""
    rows = block or _rows_of(pattern.num_cols, pattern.col.device)
    first = torch.tensor([*range(0, pattern.num_rows, rows), pattern.num_rows], device=pattern.col.device)
    return RowBlocks(rows, tuple(pattern.rowptr[first].tolist()))


def attribute_loss(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    pattern: Structure | None = None,
    *,
    kind: AttributeLoss,
    rectify: bool = False,
    positive_weight: float | Tensor = 1.0,
    block: int | None = None,
    blocks: RowBlocks | None = None,
) -> Tensor:
    """Mean over all entries of the error of ``s = hidden @ weight``, or of its positive part, against targets ``y``.

    Args:
        hidden: ``[nodes, width]``.
        weight: ``[width, features]``.
        targets: ``[nodes, features]``, or with a pattern its ``[entries]`` stored values. They get no gradient.
        pattern: Where the stored targets stand; the others are zero.
        kind: ``mse`` is ``(s - y)²``; ``bce`` is ``positive_weight · y · softplus(-s) + (1 - y) · softplus(s)``.
        rectify: Whether a ReLU ends the layer.
        positive_weight: Weight of the ones; ``mse`` has none.
        block: Rows handled at once.
        blocks: What `row_blocks` says of the pattern, if it is known; it comes before `block`.

    Returns:
        The scalar loss, with gradients for `hidden` and `weight`.
    """
    num_entries = hidden.shape[0] * weight.shape[1]
    if kind == "mse" and not rectify:
        return _squared_error(hidden, weight, targets, pattern) / num_entries
    if blocks is None and pattern is not None:
        blocks = row_blocks(pattern, block)
    cut = blocks or RowBlocks(block or _rows_of(weight.shape[1], hidden.device))
    ones = torch.as_tensor(positive_weight, dtype=hidden.dtype, device=hidden.device)
    total: Tensor = _BlockedLoss.apply(hidden, weight, targets, pattern, kind, rectify, ones, cut)  # type: ignore[no-untyped-call]
    return total / num_entries


def attribute_balance(targets: Tensor, num_entries: int) -> tuple[Tensor, Tensor]:
    """Weight of the ones, and of the whole loss, that make ones and zeros count the same.

    With ``t`` the sum of the targets, which for binary ones is their number, and ``n`` entries in all: ``(n - t) / t``
    and ``n / 2(n - t)``. Sums that no binary targets could have are taken as the nearest that some have.
    """
    size = max(num_entries, 2)
    total = targets.sum().clamp(1, size - 1)
    return (size - total) / total, size / (2 * (size - total))


def _squared_error(hidden: Tensor, weight: Tensor, targets: Tensor, pattern: Structure | None) -> Tensor:
    """``Σ (s - y)² = Σ s² - 2 Σ s·y + Σ y²``, the first as ``<Wᵀ(HᵀH), Wᵀ>`` and the second as ``<H, Y Wᵀ>``."""
    energy = ((hidden.T @ hidden) @ weight * weight).sum()
    read = targets @ weight.T if pattern is None else propagate(pattern, targets, weight.T)
    return energy - 2 * (hidden * read).sum() + targets.square().sum()


class _BlockedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, *rest: Any) -> Tensor:
        total, *grads = _loss_and_gradients(hidden, weight, *rest)
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*(saved * grads[0] for saved in ctx.saved_tensors), *[None] * 6)


def _loss_and_gradients(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    pattern: Structure | None,
    kind: AttributeLoss,
    rectify: bool,
    positive_weight: Tensor,
    cut: RowBlocks,
) -> tuple[Tensor, Tensor, Tensor]:
    total = hidden.new_zeros((), dtype=torch.float64)
    columns = weight.shape[1]
    wide = aligned_rows(weight)
    grad_hidden, grad_wide = torch.empty_like(hidden), torch.zeros_like(wide)
    for start, where, y in _blocks(targets, pattern, cut):
        part = hidden[start : start + cut.rows]
        output = part @ wide
        if rectify:
            output.relu_()
        s = output[where]
        if kind == "mse":
            total += output.square().sum() + (y * (y - 2 * s)).sum()
            grad = 2 * output
            grad[where] -= 2 * y
        else:
            doubt, belief = softplus(-s, threshold=EXACT_BELOW), softplus(s, threshold=EXACT_BELOW)
            everywhere = softplus(output[:, :columns], threshold=EXACT_BELOW).sum()
            total += everywhere + (y * (positive_weight * doubt - belief)).sum()
            grad = output.sigmoid()
            grad[where] -= y * (positive_weight * torch.sigmoid(-s) + torch.sigmoid(s))
        if rectify:
            grad.mul_(output > 0)
        torch.mm(grad, wide.T, out=grad_hidden[start : start + cut.rows])
        grad_wide.addmm_(part.T, grad)
    return total.to(hidden.dtype), grad_hidden, grad_wide[:, :columns]


def _blocks(targets: Tensor, pattern: Structure | None, cut: RowBlocks) -> Iterator[tuple[int, Any, Tensor]]:
    """For each block of rows: its first row, the places of its targets within the block, and the targets."""
    if pattern is None:
        for start in range(0, targets.shape[0], cut.rows):
            yield start, (slice(None), slice(targets.shape[1])), targets[start : start + cut.rows]
        return
    for index, (begin, end) in enumerate(pairwise(cut.bounds)):
        start, entries = index * cut.rows, slice(begin, end)
        yield start, (pattern.row[entries] - start, pattern.col[entries]), targets[entries]


def _rows_of(num_columns: int, device: torch.device) -> int:
    """Rows of a block that the device can handle at once."""
    return max((_CPU_BLOCK if device.type == "cpu" else _CUDA_BLOCK) // num_columns, 1)
