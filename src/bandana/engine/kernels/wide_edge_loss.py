# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""The loss of a pair decoder with many hidden units: matrix products, and three kernels for everything between them.

From about a hundred hidden units on, the products are most of the work, and best done by themselves. Pairs are
taken in chunks, so that memory stays bounded. Dropout is a function of (seed, pair, column) and is never stored. Where
`torch.set_float32_matmul_precision` allows bfloat16, what stands between the kernels is stored so too: half the bytes.
"""

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.dropout import keep_scale
from bandana.engine.edge_loss import DecoderWeights, add_product, margin_layer
from bandana.engine.kernels.edge_loss import log1p
from bandana.engine.kernels.hashing import LEVELS, draw_seed, keeps, row_key
from bandana.engine.kernels.product import factor, multiply

_CHUNK = 1 << 25  # elements of pairs times width at once
_TILE = 4096  # of them in one program
_HEAD_TILE = 4096
_HEAD_PROGRAMS = 1024


def loss_and_gradients(
    z: Tensor, decoder: DecoderWeights, pairs: Tensor, weight: Tensor, rate: float, generator: torch.Generator | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The loss and the gradients of `z` and the decoder; the twin of the plain function in `engine.edge_loss`."""
    slope, offset = margin_layer(decoder)
    scale = keep_scale(rate) if rate else 1.0
    hidden_weight = decoder.hidden_weight * scale if rate else decoder.hidden_weight
    z, pairs, weight = z.contiguous(), pairs.contiguous(), weight.contiguous()
    size = min(max(_CHUNK // z.shape[1], 1), pairs.shape[1])
    seed = draw_seed(generator) if generator is not None and rate else None
    kept = round(LEVELS / scale)
    grad_z, grad_hidden = torch.zeros_like(z), torch.zeros_like(hidden_weight)
    sums = z.new_zeros(_HEAD_PROGRAMS, 2 * slope.numel() + 2)
    stored = torch.bfloat16 if torch.get_float32_matmul_precision() == "medium" else z.dtype
    there, back = factor(hidden_weight.to(stored)), factor(hidden_weight.t().to(stored))
    hidden_bias = decoder.hidden_bias.to(stored).contiguous()
    products = z.new_empty(size, z.shape[1], dtype=stored)
    hidden_rows = z.new_empty(size, slope.numel(), dtype=stored)

    for first in range(0, pairs.shape[1], max(size, 1)):
        u, v = pairs[:, first : first + size]
        product, hidden = products[: u.numel()], hidden_rows[: u.numel()]
        _over_pairs(_hadamard, z, u, v, seed, first, kept, product)
        multiply(product, there, hidden, hidden_bias)
        grad = _head(hidden, slope, offset, weight[first : first + size], sums)
        add_product(grad_hidden, grad.t(), product)
        multiply(grad, back, product)
        _over_pairs(_scatter_hadamard, z, u, v, seed, first, kept, product, grad_z)

    grad_slope, grad_bias, (grad_offset, total) = sums.sum(0).split([slope.numel(), slope.numel(), 2])
    grads = (
        grad_z,
        grad_hidden.mul_(scale) if rate else grad_hidden,
        grad_bias,
        torch.stack([grad_slope, -grad_slope]),
        torch.stack([grad_offset, -grad_offset]),
    )
    return total.clone(), grads  # a result of its own, not a view that autograd would guard


def _head(hidden: Tensor, slope: Tensor, offset: Tensor, weight: Tensor, sums: Tensor) -> Tensor:
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
            _decoder_head[(programs,)](
                hidden, slope, offset, weight, sums, pairs, width, ROWS=rows, COLUMNS=columns, num_warps=4
            )
    return hidden


def _over_pairs(
    kernel: triton.JITFunction,
    z: Tensor,
    u: Tensor,
    v: Tensor,
    seed: Tensor | None,
    first: int,
    kept: int,
    *tensors: Tensor,
) -> None:
    pairs, width = u.numel(), z.shape[1]
    columns = min(triton.next_power_of_2(width), 256)
    rows = _TILE // columns
    with torch.cuda.device_of(z):
        kernel[(triton.cdiv(pairs, rows), triton.cdiv(width, columns))](
            z, u, v, *tensors, seed, first, kept, pairs, width, DROPOUT=seed is not None, ROWS=rows, COLUMNS=columns
        )


# Chunks differ in number, size and alignment: none of them may compile a kernel of its own.
_OVER_PAIRS = {"do_not_specialize": ["first", "pairs"], "do_not_specialize_on_alignment": ["u", "v"]}


@triton.jit(**_OVER_PAIRS)
def _hadamard(
    z, u, v, product, seed, first, kept, pairs, width, DROPOUT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """``z[u] * z[v]`` with dropout, unscaled."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < pairs)[:, None] & (column < width)[None, :]
    left = tl.load(u + row, mask=row < pairs, other=0)[:, None] * width + column[None, :]
    right = tl.load(v + row, mask=row < pairs, other=0)[:, None] * width + column[None, :]
    value = tl.load(z + left, mask=inside, other=0.0) * tl.load(z + right, mask=inside, other=0.0)
    if DROPOUT:
        value = tl.where(keeps(row_key(seed, first + row)[:, None], column[None, :], kept), value, 0.0)
    tl.store(product + row[:, None] * width + column[None, :], value, mask=inside)


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
    COLUMNS: tl.constexpr,
):
    """Add the gradient of `_hadamard` to both nodes of each pair, with the same dropout."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < pairs)[:, None] & (column < width)[None, :]
    left = tl.load(u + row, mask=row < pairs, other=0)[:, None] * width + column[None, :]
    right = tl.load(v + row, mask=row < pairs, other=0)[:, None] * width + column[None, :]
    grad = tl.load(grad_product + row[:, None] * width + column[None, :], mask=inside, other=0.0).to(tl.float32)
    if DROPOUT:  # zeros are added too: a mask would forbid adding four elements at once, which saves more
        grad = tl.where(keeps(row_key(seed, first + row)[:, None], column[None, :], kept), grad, 0.0)
    from_right = grad * tl.load(z + right, mask=inside, other=0.0)
    from_left = grad * tl.load(z + left, mask=inside, other=0.0)
    tl.atomic_add(grad_z + left, from_right, mask=inside, sem="relaxed")
    tl.atomic_add(grad_z + right, from_left, mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=["pairs"], do_not_specialize_on_alignment=["weight"])
def _decoder_head(hidden, slope, offset, weight, sums, pairs, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums over pairs are kept as tiles, one element per thread, and added up across threads once, at the end."""
    column = tl.arange(0, COLUMNS)
    real = column < width
    direction = tl.load(slope + column, mask=real, other=0.0)
    bias = tl.load(offset)
    grad_slope = tl.zeros([ROWS, COLUMNS], tl.float32)
    passed = tl.zeros([ROWS, COLUMNS], tl.float32)
    grad_offset = tl.zeros([ROWS], tl.float32)
    total = tl.zeros([ROWS], tl.float32)

    for block in range(tl.program_id(0), tl.cdiv(pairs, ROWS), tl.num_programs(0)):
        row = tl.full([ROWS], block, tl.int64) * ROWS + tl.arange(0, ROWS)
        place = hidden + row[:, None] * width + column[None, :]
        inside = (row[:, None] < pairs) & real[None, :]
        before = tl.load(place, mask=inside, other=0.0).to(tl.float32)
        active = tl.where(before <= 0, 0.0, before)  # unlike a maximum, lets NaN through
        w = tl.load(weight + row, mask=row < pairs, other=0.0)
        sign = (w > 0).to(tl.float32) - (w < 0).to(tl.float32)
        margin = (tl.sum(active * direction[None, :], 1) + bias) * sign

        tiny = tl.exp(-tl.abs(margin))  # never overflows, and gives both softplus and sigmoid
        total += tl.abs(w) * (tl.maximum(-margin, 0.0) + log1p(tiny))
        grad_logit = -w * tl.where(margin >= 0, tiny, 1.0) / (1.0 + tiny)

        grad_offset += grad_logit
        grad_slope += active * grad_logit[:, None]
        through = grad_logit[:, None] * (active > 0).to(tl.float32)
        passed += through
        tl.store(place, through * direction[None, :], mask=inside)

    mine = sums + tl.program_id(0) * (2 * width + 2)
    grad_bias = tl.sum(passed, 0) * direction
    tl.store(mine + column, tl.load(mine + column, mask=real) + tl.sum(grad_slope, 0), mask=real)
    tl.store(mine + width + column, tl.load(mine + width + column, mask=real) + grad_bias, mask=real)
    tl.store(mine + 2 * width, tl.load(mine + 2 * width) + tl.sum(grad_offset, 0))
    tl.store(mine + 2 * width + 1, tl.load(mine + 2 * width + 1) + tl.sum(total, 0))
