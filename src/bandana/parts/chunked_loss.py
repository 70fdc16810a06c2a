"""The cross entropy of a pair decoder in chunks, each with its gradients, so that no chunk outlives its turn.

Autograd would keep what every pair carries through every layer; here memory is that of one chunk.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from bandana.engine.pair_loss import EXACT_BELOW

RowLogits = Callable[[Tensor, Tensor], Tensor]
"""From the vectors of both ends, ``[pairs, …]`` each, to ``[pairs]`` log-odds of a link."""


def chunked_loss(
    z: Tensor, pairs: Tensor, weight: Tensor, size: int, logits: RowLogits, parameters: Iterable[nn.Parameter]
) -> Tensor:
    """Weighted cross entropy over pairs: ``Σ |w| · -log p(link if w > 0, no link if w < 0)``.

    Args:
        z: ``[nodes, …]`` vectors, or several codes, of each node.
        pairs: ``[2, pairs]`` nodes.
        weight: ``[pairs]`` signed: positive for links, negative for pairs that are none. It gets no gradient.
        size: Pairs handled at once.
        logits: The decoder.
        parameters: All that it is made of.

    Returns:
        The scalar loss, with gradients for `z` and the parameters.
    """
    out: Tensor = _ChunkedLoss.apply(z, pairs, weight, size, logits, *parameters)  # type: ignore[no-untyped-call]
    return out


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, *rest: Any) -> Tensor:
        pairs, weight, size, logits, *parameters = rest
        total, grad_z = z.new_zeros(()), torch.zeros_like(z)
        grads = [torch.zeros_like(parameter) for parameter in parameters]
        for (u, v), signed in zip(pairs.split(size, dim=1), weight.split(size), strict=True):
            left, right = z[u].requires_grad_(), z[v].requires_grad_()
            with torch.enable_grad():
                misfit = -signed.sign() * logits(left, right)
                loss = torch.dot(signed.abs(), softplus(misfit, threshold=EXACT_BELOW))
            ours, theirs, *of_decoder = torch.autograd.grad(loss, [left, right, *parameters])
            total += loss.detach()
            grad_z.index_add_(0, u, ours).index_add_(0, v, theirs)
            torch._foreach_add_(grads, of_decoder)
        ctx.save_for_backward(grad_z, *grads)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_z, *of_decoder = (saved * grads[0] for saved in ctx.saved_tensors)
        return (grad_z, None, None, None, None, *of_decoder)
