"""The weighted cross entropy of ``z zᵀ`` against a whole adjacency matrix, exactly and in bounded memory.

The loss has a term for each of the N² pairs, but only the links ask for more than ``softplus(s)``. So that is summed
over all pairs, block of rows by block of rows with the gradient taken on the way, and the links' terms are put right
afterwards. The logits are symmetric, so a block needs no column left of its own square: half the work. Memory is
O(block·nodes) where the plain loss keeps several N x N matrices alive. Several draws of the embeddings can be asked for
at once, which spares a GPU the launches.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from bandana.engine import kernels
from bandana.engine.pair_loss import EXACT_BELOW
from bandana.engine.structure import Structure

_CPU_BLOCK = 1 << 19  # logits of a block: what stays in a core's cache
_CUDA_BLOCK = 1 << 26  # enough to fill the card


def adjacency_loss(
    z: Tensor,
    structure: Structure,
    *,
    positive_weight: float,
    scale: float,
    block: int | None = None,
) -> Tensor:
    """``scale · mean over all N² pairs of w·y·softplus(-s) + (1 - y)·softplus(s)``, with ``s = z_i·z_j``.

    Args:
        z: ``[nodes, width]`` embeddings, or ``[draws, nodes, width]`` several of them.
        structure: Square pattern of the pairs with ``y = 1``, without a diagonal: every node is linked to itself too.
        positive_weight: ``w``.
        scale: Factor of the mean.
        block: Rows, or links, handled at once.

    Returns:
        The scalar loss, or ``[draws]`` one for each, with gradients for `z`.
    """
    num_nodes = z.shape[-2]
    itself = torch.arange(num_nodes, device=z.device).expand(2, -1)
    links = torch.cat([torch.stack([structure.row, structure.col]), itself], dim=1)
    draws = z if z.dim() == 3 else z.unsqueeze(0)
    everywhere: Tensor = _SumSoftplus.apply(draws, block)  # type: ignore[no-untyped-call]
    correction: Tensor = _LinkCorrection.apply(draws, links, positive_weight, block)  # type: ignore[no-untyped-call]
    loss = (everywhere + correction) * (scale / max(num_nodes, 1) ** 2)
    return loss if z.dim() == 3 else loss.squeeze(0)


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


class _SumSoftplus(torch.autograd.Function):
    """``[draws]`` sums of ``softplus(z_i·z_j)`` over all ordered pairs of the rows of ``z [draws, rows, width]``."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, block: int | None) -> Tensor:
        kernel, z = _kernel_for(z), z.contiguous()
        totals, pulled = kernel(z) if kernel else _sums_and_pull(z, block or _rows_at_once(z))
        ctx.save_for_backward(pulled.mul_(2))
        return totals.to(z.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (saved,) = ctx.saved_tensors
        return saved * grads[0][:, None, None], None


def _rows_at_once(z: Tensor) -> int:
    logits = _CPU_BLOCK if z.device.type == "cpu" else _CUDA_BLOCK
    return max(logits // max(z.shape[1], 1), 1)


def _kernel_for(z: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]] | None:
    if not kernels.usable(z.device, z.dtype):
        return None
    from bandana.engine.kernels.pair_likelihood import fits, sums_and_pull

    return sums_and_pull if fits(z) else None


def _sums_and_pull(z: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The sums ``[draws]`` in double precision, and half of their gradients ``[draws, rows, width]``."""
    totals, pulled = z.new_zeros(z.shape[0], dtype=torch.float64), torch.zeros_like(z)
    for draw, total, pull in zip(z, totals, pulled, strict=True):
        for start in range(0, draw.shape[0], size):
            here, onwards = draw[start : start + size], draw[start:]
            logits = here @ onwards.T
            # Every pair right of the square stands for two. Those of the square are met both ways round.
            beyond = here.shape[0]
            cost = softplus(logits, threshold=EXACT_BELOW)
            total += 2 * cost.sum() - cost[:, :beyond].sum()
            slope = logits.sigmoid_()
            pull[start : start + size].addmm_(slope, onwards)
            pull[start + beyond :].addmm_(slope[:, beyond:].T, here)
    return totals, pulled


class _LinkCorrection(torch.autograd.Function):
    """``[draws]`` sums of ``w·softplus(-s) - softplus(s)`` over links: their cost less what was counted for them."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, links: Tensor, weight: float, block: int | None) -> Tensor:
        by_node = z.transpose(0, 1).contiguous()  # every draw of a node at once
        grad, totals = torch.zeros_like(by_node), z.new_zeros(z.shape[0])
        for u, v in zip(*(side.split(block or _links_at_once(z)) for side in links), strict=True):
            left, right = by_node.index_select(0, u), by_node.index_select(0, v)
            logits = (left * right).sum(2)
            doubt, belief = softplus(-logits, threshold=EXACT_BELOW), softplus(logits, threshold=EXACT_BELOW)
            totals += (weight * doubt - belief).sum(0)
            slope = logits.neg().sigmoid_().mul_(-weight).sub_(logits.sigmoid()).unsqueeze_(2)
            grad.index_add_(0, u, right.mul_(slope))
            grad.index_add_(0, v, left.mul_(slope))
        ctx.save_for_backward(grad.transpose(0, 1))
        return totals

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (saved,) = ctx.saved_tensors
        return saved * grads[0][:, None, None], None, None, None


def _links_at_once(z: Tensor) -> int:
    elements = _CPU_BLOCK if z.device.type == "cpu" else _CUDA_BLOCK
    return max(elements // max(z.shape[0] * z.shape[2], 1), 1)
