"""The loss of a pair decoder in chunks, with its gradients taken in the forward pass.

For each pair the decoder reads the Hadamard product of two embeddings and gives two logits (edge, no edge) through a
two-layer perceptron. Written plainly this keeps several ``pairs x width`` tensors alive until the backward pass. Here a
chunk's loss and gradients are computed together and the chunk is forgotten: memory is O(nodes·width + chunk·width)
and the buffers are reused, which on a CPU saves more time in page faults than the arithmetic costs.

Where torch may multiply in bfloat16 and the CPU has instructions for it, rows are kept and multiplied so. Logits,
losses and whatever is added up over pairs stay in the precision of the embeddings.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, softplus

from bandana.engine import kernels
from bandana.engine.dropout import keep_mask, keep_scale

_CPU_CHUNK = 1 << 19  # elements of a chunk's rows: what stays in a core's cache
_CUDA_CHUNK = 1 << 25  # enough to fill the card
_BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")  # without either, bfloat16 is only imitated


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
    size = chunk or _pairs_at_once(z)
    out: Tensor = _EdgeLoss.apply(z, *decoder, pairs, weight, rate, generator, size)  # type: ignore[no-untyped-call]
    return out


def edge_logits(z: Tensor, decoder: DecoderWeights, pairs: Tensor) -> Tensor:
    """``[pairs]`` log-odds that each pair is an edge, in evaluation mode."""
    slope, offset = margin_layer(decoder)
    size = _pairs_at_once(z)
    scores = [
        linear(z[u] * z[v], decoder.hidden_weight, decoder.hidden_bias).relu_() @ slope + offset
        for u, v in zip(pairs[0].split(size), pairs[1].split(size), strict=True)
    ]
    return torch.cat(scores)


def _pairs_at_once(z: Tensor) -> int:
    elements = _CPU_CHUNK if z.device.type == "cpu" else _CUDA_CHUNK
    return max(elements // max(z.shape[1], 1), 1)


def margin_layer(decoder: DecoderWeights) -> tuple[Tensor, Tensor]:
    """Two logits under a softmax are one log-odds: the difference of the two rows."""
    return decoder.out_weight[0] - decoder.out_weight[1], decoder.out_bias[0] - decoder.out_bias[1]


class _EdgeLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, *rest: Any) -> Tensor:
        *weights, pairs, weight, rate, generator, size = rest
        decoder, z = DecoderWeights(*weights), z.contiguous()
        # The kernels add up in any order: whoever asked torch for repeatable results gets the plain function.
        if kernels.usable(z.device, z.dtype) and not torch.are_deterministic_algorithms_enabled():
            total, grads = _kernel_for(decoder)(z, decoder, pairs, weight, rate, generator)
        else:
            total, grads = _loss_and_gradients(z, decoder, pairs, weight, rate, generator, size)
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*torch._foreach_mul(ctx.saved_tensors, grads[0]), None, None, None, None, None)


def _kernel_for(decoder: DecoderWeights) -> Callable[..., tuple[Tensor, tuple[Tensor, ...]]]:
    if decoder.hidden_bias.numel() <= kernels.FEW_HIDDEN_UNITS:
        from bandana.engine.kernels.edge_loss import loss_and_gradients
    else:
        from bandana.engine.kernels.wide_edge_loss import loss_and_gradients
    return loss_and_gradients


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
    # The gradient of a hidden unit is its slope times that of the logit: the slope is folded into the weights, so that
    # what comes back through the ReLU is the gradient of the logit itself, or zero.
    backward_weight = hidden_weight * slope.unsqueeze(1)
    rows, forward_weight, backward_weight = (x.to(_row_type(z)) for x in (z, hidden_weight, backward_weight))
    num_pairs, size = pairs.shape[1], min(size, pairs.shape[1])
    grad_z, passed, passed_products = torch.zeros_like(z), torch.zeros_like(slope), torch.zeros_like(hidden_weight)
    left_rows, right_rows, products = (rows.new_empty(size, z.shape[1]) for _ in range(3))
    hidden_rows, ones, offsets = rows.new_empty(size, slope.numel()), z.new_ones(size), offset.expand(size)
    misfits, grad_logits = z.new_empty(num_pairs), z.new_empty(num_pairs)
    against, minus_weight = weight.sign().neg_(), weight.neg()

    for start in range(0, num_pairs, max(size, 1)):
        chunk = slice(start, start + size)
        u, v = pairs[:, chunk]
        n = u.numel()
        left = torch.index_select(rows, 0, u, out=left_rows[:n])
        right = torch.index_select(rows, 0, v, out=right_rows[:n])
        product = torch.mul(left, right, out=products[:n])
        mask = keep_mask(product.shape, rate, generator).to(rows.dtype) if rate and generator is not None else None
        if mask is not None:
            product.mul_(mask)
        hidden = torch.mm(product, forward_weight.t(), out=hidden_rows[:n]).to(z.dtype)
        hidden.add_(decoder.hidden_bias).relu_()
        misfit = torch.addmv(offsets[:n], hidden, slope, out=misfits[chunk]).mul_(against[chunk])
        grad_logit = torch.sigmoid(misfit, out=grad_logits[chunk]).mul_(minus_weight[chunk])

        grad = grad_logit.unsqueeze(1).expand_as(hidden)
        grad = torch.ops.aten.threshold_backward.grad_input(grad, hidden, 0, grad_input=hidden)
        passed.addmv_(grad.t(), ones[:n])
        grad = grad.to(rows.dtype)
        _add_product(passed_products, grad.t(), product)
        grad_product = torch.mm(grad, backward_weight, out=product)
        if mask is not None:
            grad_product.mul_(mask)
        grad_z.index_add_(0, u, right.mul_(grad_product).to(z.dtype))
        grad_z.index_add_(0, v, left.mul_(grad_product).to(z.dtype))

    # Σ hidden · gradient, with hidden written out as weights · product + bias where it passed the ReLU.
    grad_slope = (passed_products * hidden_weight).sum(1).addcmul_(passed, decoder.hidden_bias)
    grad_offset = grad_logits.sum()
    grads = (
        grad_z,
        passed_products.mul_(slope.unsqueeze(1)).mul_(scale),
        passed * slope,
        torch.stack([grad_slope, -grad_slope]),
        torch.stack([grad_offset, -grad_offset]),
    )
    return torch.dot(weight.abs(), softplus(misfits)), grads


def _row_type(z: Tensor) -> torch.dtype:
    """What rows of pairs are kept in, as torch's matmul precision and the device allow."""
    allowed = torch.get_float32_matmul_precision() == "medium" and z.dtype is torch.float32
    return torch.bfloat16 if allowed and z.device.type == "cpu" and _cpu_multiplies_bfloat16() else z.dtype


@cache
def _cpu_multiplies_bfloat16() -> bool:
    has: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older torch does not tell
    return any(has.get(name, False) for name in _BFLOAT16_INSTRUCTIONS)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """``total += left @ right``; torch rounds a product of bfloat16 factors once more before it is added."""
    if left.dtype is total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(torch.mm(left, right))
