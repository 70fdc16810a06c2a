"""The loss of a pair decoder in chunks, with its gradients taken in the forward pass.

For each pair the decoder reads the Hadamard product of two embeddings and gives two logits (edge, no edge) through a
two-layer perceptron. Written plainly this keeps several ``pairs x width`` tensors alive until the backward pass. Here a
chunk's loss and gradients are computed together and the chunk is forgotten: memory is O(nodes·width + chunk·width)
and the buffers are reused, which on a CPU saves more time in page faults than the arithmetic costs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, softplus

from bandana.engine import kernels
from bandana.engine.dropout import keep_mask, keep_scale

_CPU_CHUNK = 2048
_CUDA_CHUNK = 1 << 17


class DecoderWeights(NamedTuple):
    """``hidden_weight [h, d]``, ``hidden_bias [h]``, ``out_weight [2, h]``, ``out_bias [2]``."""

    hidden_weight: Tensor
    hidden_bias: Tensor
    out_weight: Tensor
    out_bias: Tensor


def edge_loss(
    z: Tensor,
    decoder: DecoderWeights,
    pairs: Tensor,
    weight: Tensor,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
    chunk: int | None = None,
) -> Tensor:
    """Weighted cross entropy of the decoder over pairs: ``Σ |w| · -log p(edge if w > 0, no edge if w < 0)``.

    Args:
        z: ``[nodes, d]`` embeddings.
        decoder: The perceptron.
        pairs: ``[2, pairs]`` nodes.
        weight: ``[pairs]`` signed: positive for edges, negative for pairs that are none. It gets no gradient.
        dropout: Share of the Hadamard product that is dropped, when there is a generator.
        generator: Randomness for the dropout; None for evaluation.
        chunk: Pairs handled at once.

    Returns:
        The scalar loss, with gradients for `z` and the decoder.
    """
    rate = dropout if generator is not None else 0.0
    size = chunk or (_CPU_CHUNK if z.device.type == "cpu" else _CUDA_CHUNK)
    out: Tensor = _EdgeLoss.apply(z, *decoder, pairs, weight, rate, generator, size)  # type: ignore[no-untyped-call]
    return out


def edge_logits(z: Tensor, decoder: DecoderWeights, pairs: Tensor) -> Tensor:
    """``[pairs]`` log-odds that each pair is an edge, in evaluation mode."""
    slope, offset = margin_layer(decoder)
    size = _CPU_CHUNK if z.device.type == "cpu" else _CUDA_CHUNK
    scores = [
        linear(z[u] * z[v], decoder.hidden_weight, decoder.hidden_bias).relu_() @ slope + offset
        for u, v in zip(pairs[0].split(size), pairs[1].split(size), strict=True)
    ]
    return torch.cat(scores)


def margin_layer(decoder: DecoderWeights) -> tuple[Tensor, Tensor]:
    """Two logits under a softmax are one log-odds: the difference of the two rows."""
    return decoder.out_weight[0] - decoder.out_weight[1], decoder.out_bias[0] - decoder.out_bias[1]


class _EdgeLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, *rest: Any) -> Tensor:
        *weights, pairs, weight, rate, generator, size = rest
        decoder = DecoderWeights(*weights)
        total, grads = _implementation(z)(z.contiguous(), decoder, pairs, weight, rate, generator, size)
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*(saved * grads[0] for saved in ctx.saved_tensors), None, None, None, None, None)


def _implementation(z: Tensor) -> Callable[..., tuple[Tensor, tuple[Tensor, ...]]]:
    # The kernels add up in any order: whoever asked torch for repeatable results gets the plain function.
    if kernels.usable(z.device, z.dtype) and not torch.are_deterministic_algorithms_enabled():
        from bandana.engine.kernels.edge_loss import loss_and_gradients

        return loss_and_gradients
    return _loss_and_gradients


def _loss_and_gradients(
    z: Tensor,
    decoder: DecoderWeights,
    pairs: Tensor,
    weight: Tensor,
    rate: float,
    generator: torch.Generator | None,
    size: int,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    slope, offset = margin_layer(decoder)
    scale = keep_scale(rate) if rate else 1.0
    hidden_weight = decoder.hidden_weight * scale
    total, grad_z = z.new_zeros(()), torch.zeros_like(z)
    grad_hidden, grad_bias = torch.zeros_like(hidden_weight), torch.zeros_like(decoder.hidden_bias)
    grad_slope, grad_offset = torch.zeros_like(slope), torch.zeros_like(offset)
    size = min(size, pairs.shape[1])
    left_rows, right_rows, products = (z.new_empty(size, z.shape[1]) for _ in range(3))
    hidden_rows, hidden_grads = (z.new_empty(size, slope.numel()) for _ in range(2))

    for start in range(0, pairs.shape[1], max(size, 1)):
        u, v = pairs[:, start : start + size]
        w = weight[start : start + size]
        n = w.numel()
        left = torch.index_select(z, 0, u, out=left_rows[:n])
        right = torch.index_select(z, 0, v, out=right_rows[:n])
        product = torch.mul(left, right, out=products[:n])
        mask = keep_mask(product.shape, rate, generator) if rate and generator is not None else None
        if mask is not None:
            product.mul_(mask)
        hidden = torch.addmm(decoder.hidden_bias, product, hidden_weight.t(), out=hidden_rows[:n]).relu_()

        sign = w.sign()
        margin = torch.mv(hidden, slope).add_(offset).mul_(sign)
        total += torch.dot(w.abs(), softplus(-margin))
        grad_logit = torch.sigmoid(-margin).mul_(w).neg_()

        grad_offset += grad_logit.sum()
        grad_slope.addmv_(hidden.t(), grad_logit)
        grad = torch.mul(grad_logit.unsqueeze(1), slope, out=hidden_grads[:n])
        grad = grad.mul_(hidden.sign_())  # the derivative of ReLU: hidden is 0 or positive
        grad_bias += grad.sum(0)
        grad_hidden.addmm_(grad.t(), product)
        grad_product = torch.mm(grad, hidden_weight, out=product)
        if mask is not None:
            grad_product.mul_(mask)
        grad_z.index_add_(0, u, right.mul_(grad_product))
        grad_z.index_add_(0, v, left.mul_(grad_product))

    grads = (
        grad_z,
        grad_hidden.mul_(scale),
        grad_bias,
        torch.stack([grad_slope, -grad_slope]),
        torch.stack([grad_offset, -grad_offset]),
    )
    return total, grads
