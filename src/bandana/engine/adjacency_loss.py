"""The weighted cross entropy of ``z zᵀ`` against a whole adjacency matrix, exactly and in bounded memory.

The loss has a term for each of the N² pairs, but only the links ask for more than ``softplus(s)``. So that is summed
over all pairs, block of rows by block of rows with the gradient taken on the way, and the links' terms are put right
afterwards. The logits are symmetric, so a block needs no column left of its own square: half the work. Memory is
O(block·nodes) where the plain loss keeps several N x N matrices alive.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from bandana.engine.pair_loss import EXACT_BELOW, dot_product_loss
from bandana.engine.structure import Structure

_CPU_BLOCK = 1 << 19  # logits of a block: what stays in a core's cache
_CUDA_BLOCK = 1 << 26  # enough to fill the card


def adjacency_loss(
    z: Tensor,
    structure: Structure,
    *,
    positive_weight: float,
    scale: float,
    include_diagonal: bool = True,
    block: int | None = None,
) -> Tensor:
    """``scale · mean over all N² pairs of w·y·softplus(-s) + (1 - y)·softplus(s)``, with ``s = z_i·z_j``.

    Args:
        z: ``[nodes, width]`` embeddings.
        structure: Square pattern of the pairs with ``y = 1``, without a diagonal.
        positive_weight: ``w``.
        scale: Factor of the mean.
        include_diagonal: Whether each node is linked to itself as well.
        block: Rows handled at once.

    Returns:
        The scalar loss, with gradients for `z`.
    """
    num_pairs = max(z.shape[0], 1) ** 2
    rows = block or _rows_at_once(z)
    everywhere: Tensor = _MeanSoftplus.apply(z, rows)  # type: ignore[no-untyped-call]
    pairs = torch.stack([structure.row, structure.col])
    loss = everywhere + dot_product_loss(z, pairs, positive_weight / num_pairs, -1 / num_pairs)
    if include_diagonal:
        own = z.square().sum(1)
        doubt, belief = softplus(-own, threshold=EXACT_BELOW), softplus(own, threshold=EXACT_BELOW)
        loss = loss + (positive_weight * doubt - belief).sum() / num_pairs
    return scale * loss


def kipf_balance(num_nodes: int, num_edges: int) -> tuple[float, float]:
    """The weight of the positive pairs and the factor of the mean with which links and non-links count the same.

    Args:
        num_nodes: Number of nodes.
        num_edges: Directed edges, self-loops not among them: an undirected edge counts twice. None count as one.

    Returns:
        ``(N² - e) / e`` and ``N² / 2(N² - e)``.
    """
    num_pairs, num_edges = num_nodes**2, max(num_edges, 1)
    without = max(num_pairs - num_edges, 1)
    return without / num_edges, num_pairs / (2 * without)


def _rows_at_once(z: Tensor) -> int:
    logits = _CPU_BLOCK if z.device.type == "cpu" else _CUDA_BLOCK
    return max(logits // max(z.shape[0], 1), 1)


class _MeanSoftplus(torch.autograd.Function):
    """The mean of ``softplus(z_i·z_j)`` over all ordered pairs."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, rows: int) -> Tensor:
        grad = torch.zeros_like(z)
        total = z.new_zeros((), dtype=torch.float64)
        for start in range(0, z.shape[0], rows):
            here, onwards = z[start : start + rows], z[start:]
            logits = here @ onwards.T
            # Every pair right of the square stands for two. Those of the square are met twice, so half of each counts.
            square = slice(here.shape[0])
            cost = softplus(logits, threshold=EXACT_BELOW)
            cost[:, square] *= 0.5
            total += cost.sum()
            slope = logits.sigmoid_()
            slope[:, square] *= 0.5
            grad[start : start + rows].addmm_(slope, onwards)
            grad[start:].addmm_(slope.T, here)
        num_pairs = max(z.shape[0], 1) ** 2
        ctx.save_for_backward(grad.mul_(2 / num_pairs))
        return total.mul_(2 / num_pairs).to(z.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (saved,) = ctx.saved_tensors
        return saved * grads[0], None
