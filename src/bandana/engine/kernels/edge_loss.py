# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""The loss of a pair decoder with its element-wise work in three kernels; the products of matrices stay torch's.

Dropout is never stored: whether an element is kept is a function of (seed, pair, column), computed again where the
gradient comes back. One Philox call decides eight elements with 16 bits each. They stand an eighth of the row apart, so
that every eighth is loaded whole.
"""

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.dropout import keep_scale
from bandana.engine.edge_loss import DecoderWeights, margin_layer

_LEVELS = 1 << 16
_TILE = 1024  # elements of an eighth of the rows that one program handles
_HEAD_TILE = 2048
_HEAD_PROGRAMS = 1024


def loss_and_gradients(
    z: Tensor,
    decoder: DecoderWeights,
    pairs: Tensor,
    weight: Tensor,
    rate: float,
    generator: torch.Generator | None,
    size: int,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The loss and the gradients of `z` and the decoder; the twin of the plain function in `engine.edge_loss`."""
    slope, offset = margin_layer(decoder)
    scale = keep_scale(rate) if rate else 1.0
    hidden_weight = decoder.hidden_weight * scale
    pairs, weight, size = pairs.contiguous(), weight.contiguous(), min(size, pairs.shape[1])
    seed = draw_seed(generator) if generator is not None and rate else None
    grad_z, grad_hidden = torch.zeros_like(z), torch.zeros_like(hidden_weight)
    sums = z.new_zeros(_HEAD_PROGRAMS, 2 * slope.numel() + 2)
    products, hidden_rows = z.new_empty(size, z.shape[1]), z.new_empty(size, slope.numel())

    for start in range(0, pairs.shape[1], max(size, 1)):
        u, v = pairs[:, start : start + size]
        n = u.numel()
        product = hadamard(z, u, v, rate, seed, start, out=products[:n])
        hidden = torch.addmm(decoder.hidden_bias, product, hidden_weight.t(), out=hidden_rows[:n])
        grad = decoder_head(hidden, slope, offset, weight[start : start + size], sums)
        grad_hidden.addmm_(grad.t(), product)
        grad_product = torch.mm(grad, hidden_weight, out=product)
        scatter_hadamard(grad_product, z, u, v, rate, seed, start, grad_z)

    grad_slope, grad_bias, (grad_offset, total) = sums.sum(0).split([slope.numel(), slope.numel(), 2])
    grads = (
        grad_z,
        grad_hidden.mul_(scale),
        grad_bias,
        torch.stack([grad_slope, -grad_slope]),
        torch.stack([grad_offset, -grad_offset]),
    )
    return total.clone(), grads  # a result of its own, not a view that autograd would guard


def draw_seed(generator: torch.Generator) -> Tensor:
    """``[1]`` the next seed of a generator. It stays on the device: reading it would make the host wait."""
    return torch.randint(1 << 62, (1,), generator=generator, device=generator.device)


def hadamard(
    z: Tensor, u: Tensor, v: Tensor, rate: float, seed: Tensor | None, first: int, out: Tensor | None = None
) -> Tensor:
    """``z[u] * z[v]`` with dropout, unscaled.

    Args:
        z: ``[nodes, d]`` contiguous.
        u: ``[pairs]`` contiguous, the first nodes.
        v: ``[pairs]`` contiguous, the second nodes.
        rate: Share of the elements that is dropped.
        seed: ``[1]`` integer on the device; None for no dropout.
        first: Number of the first pair within the call of the loss, to tell the chunks apart.
        out: ``[pairs, d]`` contiguous.

    Returns:
        ``[pairs, d]``.
    """
    product = z.new_empty(u.numel(), z.shape[1]) if out is None else out
    _launch_over_pairs(_hadamard, z, u, v, rate, seed, first, product)
    return product


def scatter_hadamard(
    grad_product: Tensor, z: Tensor, u: Tensor, v: Tensor, rate: float, seed: Tensor | None, first: int, grad_z: Tensor
) -> None:
    """Add the gradient of `hadamard` to ``grad_z [nodes, d]``, with the same dropout."""
    _launch_over_pairs(_scatter_hadamard, z, u, v, rate, seed, first, grad_product, grad_z)


def decoder_head(hidden: Tensor, slope: Tensor, offset: Tensor, weight: Tensor, sums: Tensor) -> Tensor:
    """Everything between two matrix products: ReLU, log-odds, loss, and the gradient back to before the ReLU.

    Args:
        hidden: ``[pairs, h]`` contiguous values before the ReLU. Their gradient is written in their place.
        slope: ``[h]`` contiguous weights of the log-odds.
        offset: Scalar tensor, the bias of the log-odds.
        weight: ``[pairs]`` contiguous signed weights.
        sums: ``[programs, 2h + 2]``, to whose columns is added, by any of the rows: the gradient of the slope, of the
            bias before the ReLU, of the offset, and the loss.

    Returns:
        `hidden`.
    """
    pairs, width = hidden.shape
    columns = triton.next_power_of_2(width)
    rows = max(_HEAD_TILE // columns, 1)
    programs = min(triton.cdiv(pairs, rows), sums.shape[0])
    if programs:
        with torch.cuda.device_of(hidden):
            _decoder_head[(programs,)](hidden, slope, offset, weight, sums, pairs, width, ROWS=rows, COLUMNS=columns)
    return hidden


def _launch_over_pairs(
    kernel: triton.JITFunction,
    z: Tensor,
    u: Tensor,
    v: Tensor,
    rate: float,
    seed: Tensor | None,
    first: int,
    *tensors: Tensor,
) -> None:
    pairs, width = u.numel(), z.shape[1]
    span = max(triton.next_power_of_2(width), 32) // 8
    rows = max(_TILE // span, 1)
    kept = round(_LEVELS / keep_scale(rate)) if seed is not None else _LEVELS
    if pairs:
        with torch.cuda.device_of(z):
            kernel[(triton.cdiv(pairs, rows),)](
                z, u, v, *tensors, seed, first, kept, pairs, width, DROPOUT=seed is not None, ROWS=rows, SPAN=span
            )


# Chunks differ in number, size and alignment: none of them may compile a kernel of its own.
_OVER_PAIRS = {"do_not_specialize": ["first", "pairs"], "do_not_specialize_on_alignment": ["u", "v"]}


@triton.jit(**_OVER_PAIRS)
def _hadamard(
    z, u, v, product, seed, first, kept, pairs, width, DROPOUT: tl.constexpr, ROWS: tl.constexpr, SPAN: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    left = tl.load(u + row, mask=row < pairs, other=0)[:, None].to(tl.int64) * width
    right = tl.load(v + row, mask=row < pairs, other=0)[:, None].to(tl.int64) * width
    if DROPOUT:
        words = _words(seed, first + row, ROWS, SPAN)
    for part in tl.static_range(8):
        column = (part * SPAN + tl.arange(0, SPAN))[None, :]
        inside = (row[:, None] < pairs) & (column < width)
        value = tl.load(z + left + column, mask=inside, other=0.0) * tl.load(z + right + column, mask=inside, other=0.0)
        if DROPOUT:
            value = tl.where(_keeps(words[part // 2], part % 2, kept), value, 0.0)
        tl.store(product + row[:, None] * width + column, value, mask=inside)


@triton.jit(**_OVER_PAIRS)
def _scatter_hadamard(
    z,
    u,
    v,
    grad_product,
    grad_z,
    seed,
    first,
    kept,
    pairs,
    width,
    DROPOUT: tl.constexpr,
    ROWS: tl.constexpr,
    SPAN: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    left = tl.load(u + row, mask=row < pairs, other=0)[:, None].to(tl.int64) * width
    right = tl.load(v + row, mask=row < pairs, other=0)[:, None].to(tl.int64) * width
    if DROPOUT:
        words = _words(seed, first + row, ROWS, SPAN)
    for part in tl.static_range(8):
        column = (part * SPAN + tl.arange(0, SPAN))[None, :]
        inside = (row[:, None] < pairs) & (column < width)
        grad = tl.load(grad_product + row[:, None] * width + column, mask=inside, other=0.0)
        if DROPOUT:  # zeros are added too: a mask would forbid adding four elements at once, which saves more
            grad = tl.where(_keeps(words[part // 2], part % 2, kept), grad, 0.0)
        from_right = grad * tl.load(z + right + column, mask=inside, other=0.0)
        from_left = grad * tl.load(z + left + column, mask=inside, other=0.0)
        tl.atomic_add(grad_z + left + column, from_right, mask=inside, sem="relaxed")
        tl.atomic_add(grad_z + right + column, from_left, mask=inside, sem="relaxed")


@triton.jit
def _words(seed, pair, ROWS: tl.constexpr, SPAN: tl.constexpr):
    """Four blocks ``[ROWS, SPAN]`` of random 32-bit words. Seven rounds of Philox pass the known test batteries."""
    zero = tl.zeros([ROWS, SPAN], tl.uint32)
    column = zero + tl.arange(0, SPAN)[None, :].to(tl.uint32)
    low = zero + pair[:, None].to(tl.uint32)
    high = zero + (pair >> 32)[:, None].to(tl.uint32)
    return tl.philox(tl.load(seed), column, low, high, zero, 7)


@triton.jit
def _keeps(word, half: tl.constexpr, kept):
    return ((word >> (16 * half)) & 0xFFFF).to(tl.int32) < kept


@triton.jit(do_not_specialize=["pairs"], do_not_specialize_on_alignment=["weight"])
def _decoder_head(hidden, slope, offset, weight, sums, pairs, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    real = column < width
    direction = tl.load(slope + column, mask=real, other=0.0)
    bias = tl.load(offset)
    mine = sums + tl.program_id(0) * (2 * width + 2)
    grad_slope = tl.load(mine + column, mask=real, other=0.0)
    grad_bias = tl.load(mine + width + column, mask=real, other=0.0)
    grad_offset = tl.load(mine + 2 * width)
    total = tl.load(mine + 2 * width + 1)

    for block in range(tl.program_id(0), tl.cdiv(pairs, ROWS), tl.num_programs(0)):
        row = tl.full([ROWS], block, tl.int64) * ROWS + tl.arange(0, ROWS)
        place = hidden + row[:, None] * width + column[None, :]
        inside = (row[:, None] < pairs) & real[None, :]
        before = tl.load(place, mask=inside, other=0.0)
        active = tl.where(before <= 0, 0.0, before)  # unlike a maximum, lets NaN through
        w = tl.load(weight + row, mask=row < pairs, other=0.0)
        sign = (w > 0).to(tl.float32) - (w < 0).to(tl.float32)
        margin = (tl.sum(active * direction[None, :], 1) + bias) * sign

        tiny = tl.exp(-tl.abs(margin))  # never overflows, and gives both softplus and sigmoid
        total += tl.sum(tl.abs(w) * (tl.maximum(-margin, 0.0) + _log1p(tiny)), 0)
        grad_logit = -w * tl.where(margin >= 0, tiny, 1.0) / (1.0 + tiny)

        grad_offset += tl.sum(grad_logit, 0)
        grad_slope += tl.sum(active * grad_logit[:, None], 0)
        grad = grad_logit[:, None] * direction[None, :] * (active > 0).to(tl.float32)
        grad_bias += tl.sum(grad, 0)
        tl.store(place, grad, mask=inside)

    tl.store(mine + column, grad_slope, mask=real)
    tl.store(mine + width + column, grad_bias, mask=real)
    tl.store(mine + 2 * width, grad_offset)
    tl.store(mine + 2 * width + 1, total)


@triton.jit
def _log1p(x):
    """``log(1 + x)`` for x in [0, 1], exact to rounding: the quotient undoes what the addition rounded away."""
    rounded = 1.0 + x
    gap = rounded - 1.0
    return tl.where(gap == 0, x, tl.log(rounded) * x / tl.where(gap == 0, 1.0, gap))
