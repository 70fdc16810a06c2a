"""Losses of dot products over node pairs in chunks: their cross entropy, and the squared AUC loss.

Written plainly, the two gathered rows of every pair stay alive until the backward pass: O(pairs·width). Here a chunk of
the cross entropy is forgotten once its loss and gradient are computed together, and rows of the other loss are gathered
once more on the way back, which leaves O(nodes·width + chunk·width + pairs).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from bandana.engine import kernels

_CPU_CHUNK = 1 << 19  # elements of a chunk's rows: what stays in a core's cache
_CUDA_CHUNK = 1 << 25  # enough to fill the card
EXACT_BELOW = 40.0
"""Where torch may take ``softplus(s) = s``: e^-40 is lost in a double. Its own limit of 20 is right in floats only."""


def pair_loss(z: Tensor, positives: Tensor, negatives: Tensor, chunk: int | None = None) -> Tensor:
    """``-mean log σ(z_u·z_v)`` over the positive pairs plus ``-mean log(1 - σ(z_u·z_v))`` over the negative ones.

    Args:
        z: ``[nodes, width]`` embeddings.
        positives: ``[2, pairs]`` linked nodes; without any, their term is zero.
        negatives: ``[2, pairs]`` nodes that are not linked; likewise.
        chunk: Pairs handled at once.

    Returns:
        The scalar loss, with gradients for `z`.
    """
    linked = dot_product_loss(z, positives, 1 / max(positives.shape[1], 1), 0.0, chunk)
    return linked + dot_product_loss(z, negatives, 0.0, 1 / max(negatives.shape[1], 1), chunk)


def dot_product_loss(z: Tensor, pairs: Tensor, link: float, no_link: float, chunk: int | None = None) -> Tensor:
    """``Σ link · -log σ(s) + no_link · -log(1 - σ(s))`` over pairs with the logits ``s = z_u·z_v``.

    Args:
        z: ``[nodes, width]`` embeddings.
        pairs: ``[2, pairs]`` nodes.
        link: What it costs to doubt a link.
        no_link: What it costs to see a link; may be negative, to take such terms out of a larger sum.
        chunk: Pairs handled at once.

    Returns:
        The scalar loss, with gradients for `z`.
    """
    size = chunk or _pairs_at_once(z)
    out: Tensor = _DotProductLoss.apply(z, pairs, link, no_link, size)  # type: ignore[no-untyped-call]
    return out


def squared_auc_loss(
    z: Tensor, positives: Tensor, negatives: Tensor, weight: Tensor, chunk: int | None = None
) -> Tensor:
    """``Σ weight · (1 - (z_u·z_v - z_a·z_b))²``: each positive pair is to score higher than its negative by one.

    Args:
        z: ``[nodes, width]`` embeddings.
        positives: ``[2, pairs]`` linked nodes ``u, v``.
        negatives: ``[2, pairs]`` nodes ``a, b``, one pair for each positive.
        weight: ``[pairs]``. It gets no gradient.
        chunk: Pairs handled at once.

    Returns:
        The scalar loss, with gradients for `z`.
    """
    size = chunk or _pairs_at_once(z)
    ahead: Tensor = _DotProducts.apply(z, positives, size) - _DotProducts.apply(z, negatives, size)  # type: ignore[no-untyped-call]
    return torch.dot(weight.detach(), (1 - ahead).square())


def dot_products(z: Tensor, pairs: Tensor) -> Tensor:
    """``[pairs]`` logits ``z_u·z_v``, for evaluation."""
    return _logits(z, pairs, _pairs_at_once(z))


def _logits(z: Tensor, pairs: Tensor, size: int) -> Tensor:
    return torch.cat([(z[u] * z[v]).sum(1) for u, v in zip(*(side.split(size) for side in pairs), strict=True)])


def _pairs_at_once(z: Tensor) -> int:
    elements = _CPU_CHUNK if z.device.type == "cpu" else _CUDA_CHUNK
    return max(elements // max(z.shape[1], 1), 1)


class _DotProductLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, pairs: Tensor, link: float, no_link: float, size: int) -> Tensor:
        # The kernel adds up in any order: whoever asked torch for repeatable results gets the plain function.
        if kernels.usable(z.device, z.dtype) and not torch.are_deterministic_algorithms_enabled():
            from bandana.engine.kernels.pair_loss import loss_and_gradient

            loss, grad = loss_and_gradient(z, pairs, link, no_link)
        else:
            loss, grad = _loss_and_gradient(z, pairs, link, no_link, size)
        ctx.save_for_backward(grad)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        (saved,) = ctx.saved_tensors
        return saved * grads[0], None, None, None, None


class _DotProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, pairs: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(z, pairs)
        ctx.size = size
        return _logits(z, pairs, size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        z, pairs = ctx.saved_tensors
        grad = torch.zeros_like(z)
        for u, v, slope in zip(*(values.split(ctx.size) for values in (*pairs, grads[0].unsqueeze(1))), strict=True):
            grad.index_add_(0, u, z.index_select(0, v).mul_(slope))
            grad.index_add_(0, v, z.index_select(0, u).mul_(slope))
        return grad, None, None


def _loss_and_gradient(z: Tensor, pairs: Tensor, link: float, no_link: float, size: int) -> tuple[Tensor, Tensor]:
    grad = torch.zeros_like(z)
    logits = z.new_empty(pairs.shape[1])
    for start in range(0, pairs.shape[1], size):
        chunk = slice(start, start + size)
        u, v = pairs[:, chunk]
        left, right = z.index_select(0, u), z.index_select(0, v)
        logit = torch.sum(left * right, 1, out=logits[chunk])
        slope = logit.sigmoid().mul_(no_link).sub_(logit.neg().sigmoid_(), alpha=link).unsqueeze_(1)
        grad.index_add_(0, u, right.mul_(slope))
        grad.index_add_(0, v, left.mul_(slope))
    doubt, belief = softplus(-logits, threshold=EXACT_BELOW), softplus(logits, threshold=EXACT_BELOW)
    return link * doubt.sum() + no_link * belief.sum(), grad
