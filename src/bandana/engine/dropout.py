"""Dropout that takes its randomness from a given generator, and on a CPU makes it six times faster than torch does.

Torch draws one double per element. Here one 64-bit draw decides four elements with 16 bits each; the probability is
rounded to 1/65536 and the survivors are scaled by the rounded value, so that the expectation stays exact.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bandana.engine import kernels

_LEVELS = 1 << 16
_ROUND = 16  # elements between addresses that matrices are read from fastest


def dropout(x: Tensor, probability: float, generator: torch.Generator | None) -> Tensor:
    """Zero each element with `probability` and scale the others up; without a generator, return `x` as it is."""
    if generator is None or probability == 0:
        return x
    scale = keep_scale(probability)
    if x.dim() == 2 and kernels.usable(x.device, x.dtype):
        dropped: Tensor = _DropoutByKernel.apply(x, scale, generator)  # type: ignore[no-untyped-call]
        return dropped
    out: Tensor = _Dropout.apply(x, keep_mask(x.shape, probability, generator), scale)  # type: ignore[no-untyped-call]
    return out


def dropped_product(x: Tensor, weight: Tensor, probability: float, generator: torch.Generator | None) -> Tensor:
    """``dropout(x) @ weight``; where a kernel drops, the dropped matrix is made again on the way back, not kept."""
    if generator is None or probability == 0 or not kernels.usable(x.device, x.dtype):
        return dropout(x, probability, generator) @ weight
    product: Tensor = _DroppedProduct.apply(x, weight, keep_scale(probability), generator)  # type: ignore[no-untyped-call]
    return product


def keep_mask(shape: torch.Size | tuple[int, ...], probability: float, generator: torch.Generator) -> Tensor:
    """A tensor on the generator's device, one where an element survives and zero elsewhere.

    On a CPU the ones are float32, which multiply a float tensor several times faster than booleans do.
    """
    threshold = _threshold(probability)
    if generator.device.type != "cpu":
        return torch.rand(shape, generator=generator, device=generator.device) >= threshold / _LEVELS
    size = torch.Size(shape).numel()
    words = torch.empty((size + 3) // 4, dtype=torch.int64)
    words.random_(-(1 << 63), None, generator=generator)
    mask = torch.empty(shape, dtype=torch.float32)
    torch.ge(words.view(torch.int16)[:size], threshold - (_LEVELS >> 1), out=mask.view(-1))
    return mask


def keep_scale(probability: float) -> float:
    """What the survivors of `keep_mask` are multiplied with."""
    return _LEVELS / (_LEVELS - _threshold(probability))


def _threshold(probability: float) -> int:
    return min(round(probability * _LEVELS), _LEVELS - 1)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return torch.mul(x, mask).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return torch.mul(grads[0], mask).mul_(ctx.scale), None, None


class _DropoutByKernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        from bandana.engine.kernels.dropout import drop
        from bandana.engine.kernels.hashing import draw_seed

        seed = draw_seed(generator)
        ctx.save_for_backward(seed)
        ctx.scale = scale
        return drop(x.contiguous(), scale, seed)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        from bandana.engine.kernels.dropout import drop

        (seed,) = ctx.saved_tensors
        return drop(grads[0].contiguous(), ctx.scale, seed), None, None


class _DroppedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        from bandana.engine.kernels.hashing import draw_seed
        from bandana.engine.kernels.matrix_product import multiply

        seed = draw_seed(generator)
        ctx.save_for_backward(x, weight, seed)
        ctx.scale = scale
        dropped = _dropped_factor(x, scale, seed)
        return multiply(dropped, weight) if _in_single_precision() else dropped @ weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        from bandana.engine.kernels.dropout import drop
        from bandana.engine.kernels.matrix_product import multiply

        (grad,) = grads
        x, weight, seed = ctx.saved_tensors
        grad_weight, grad_x = _dropped_factor(x, ctx.scale, seed).t() @ grad, None
        if ctx.needs_input_grad[0]:
            if _in_single_precision():
                grad_x = multiply(grad, weight.t(), seed, ctx.scale)
            else:
                grad_x = drop(grad @ weight.t(), ctx.scale, seed)
        return grad_x, grad_weight, None, None


def _dropped_factor(x: Tensor, scale: float, seed: Tensor) -> Tensor:
    from bandana.engine.kernels.dropout import drop

    return drop(x.contiguous(), scale, seed, _ROUND)


def _in_single_precision() -> bool:
    """Whether products are exact, for which torch does without tensor cores; in lower precisions it is the faster."""
    return torch.get_float32_matmul_precision() == "highest"
