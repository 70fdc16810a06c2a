# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""The loss of a pair decoder with few hidden units: two kernels, which write nothing that is pairs times width.

Pairs are taken in chunks. The first kernel gathers the embeddings of a tile of pairs, multiplies them into the hidden
layer, and leaves for every pair its gradient at the logit, and a byte for every hidden unit: whether it passed the
ReLU. The second kernel gathers again, for a block of columns, and takes the gradient to the weights and to the nodes;
the weights between hidden units and logit are folded into those before, so that it multiplies with zeros and ones.
Gathering twice costs less than storing once. Dropout is a function of (seed, pair, column) and is computed twice too.
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.dropout import keep_scale
from bandana.engine.edge_loss import DecoderWeights, margin_layer
from bandana.engine.kernels.hashing import LEVELS, draw_seed, keeps, row_key
from bandana.engine.kernels.logits import cross_entropy
from bandana.engine.kernels.product import PRECISIONS, chosen_sum, dot

_CHUNK_BYTES = 16 << 20  # of what passed the hidden layer: it stays in the card's cache beside the embeddings


class Tiling(NamedTuple):
    """How a kernel cuts its work: pairs and columns per tile, warps, tiles loaded ahead, and programs per core."""

    pairs: int
    columns: int
    warps: int
    stages: int
    programs: int


_THERE = Tiling(64, 32, 4, 2, 4)
_BACK = {"tf32x3": Tiling(64, 32, 4, 3, 4), "tf32": Tiling(64, 32, 4, 3, 4), "bf16": Tiling(64, 64, 4, 2, 2)}


def loss_and_gradients(
    z: Tensor, decoder: DecoderWeights, pairs: Tensor, weight: Tensor, rate: float, generator: torch.Generator | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The loss and the gradients of `z` and the decoder; the twin of the plain function in `engine.edge_loss`.

    Products are exact to single precision (three TF32 products each) unless `torch.set_float32_matmul_precision` allows
    less.
    """
    slope, offset = margin_layer(decoder)
    scale = keep_scale(rate) if rate else 1.0
    hidden_weight = (decoder.hidden_weight * scale if rate else decoder.hidden_weight).contiguous()
    folded, hidden_bias = hidden_weight * slope.unsqueeze(1), decoder.hidden_bias.contiguous()
    hidden, width = hidden_weight.shape
    units = max(triton.next_power_of_2(hidden), 16)
    precision = PRECISIONS[torch.get_float32_matmul_precision()]
    there, back = _THERE, _BACK[precision]
    columns = min(max(triton.next_power_of_2(width), 16), back.columns)
    cores = torch.cuda.get_device_properties(z.device).multi_processor_count if z.is_cuda else 2
    blocks = triton.cdiv(width, columns)
    splits = max(back.programs * cores // blocks, 1)
    seed = draw_seed(generator) if generator is not None and rate else None
    z, pairs, weight = z.contiguous(), pairs.contiguous(), weight.contiguous()
    shape = {"width": width, "hidden": hidden, "kept": round(LEVELS / scale)}
    kind = {
        "DROPOUT": seed is not None,
        "HIDDEN": units,
        "PRECISION": precision,
    }
    grad_z, grad_hidden = torch.zeros_like(z), z.new_zeros(splits, hidden, width)
    sums = z.new_zeros(there.programs * cores, 2 * hidden + 2)
    size = min(max(_CHUNK_BYTES // hidden, 1), pairs.shape[1])
    passed, grad = z.new_empty(size, hidden, dtype=torch.int8), z.new_empty(size)

    with torch.cuda.device_of(z):
        for first in range(0, pairs.shape[1], max(size, 1)):
            u, v = pairs[:, first : first + size]
            _to_hidden[(sums.shape[0],)](
                *(z, u, v, hidden_weight, seed, passed, grad),
                weight[first : first + size],
                hidden_bias,
                slope,
                offset,
                sums,
                first,
                u.numel(),
                **shape,
                **kind,
                PAIRS=there.pairs,
                COLUMNS=min(columns, there.columns),
                num_warps=there.warps,
                num_stages=there.stages,
            )
            _from_hidden[(splits, blocks)](
                *(z, u, v, folded, seed, passed, grad),
                grad_z,
                grad_hidden,
                first,
                u.numel(),
                **shape,
                **kind,
                PAIRS=back.pairs,
                COLUMNS=columns,
                num_warps=back.warps,
                num_stages=back.stages,
            )
    grad_slope, grad_bias, (grad_offset, total) = sums.sum(0).split([hidden, hidden, 2])
    grads = (
        grad_z,
        grad_hidden.sum(0).mul_(slope.unsqueeze(1) * scale),
        grad_bias * slope,
        torch.stack([grad_slope, -grad_slope]),
        torch.stack([grad_offset, -grad_offset]),
    )
    return total.clone(), grads  # a result of its own, not a view that autograd would guard


# Chunks differ in number, size and alignment: none of them may compile a kernel of its own.
@triton.jit(do_not_specialize=["first", "pairs"], do_not_specialize_on_alignment=["u", "v", "weight"])
def _to_hidden(
    z,
    u,
    v,
    hidden_weight,
    seed,
    passed,
    grad,
    weight,
    hidden_bias,
    slope,
    offset,
    sums,
    first,
    pairs,
    width,
    hidden,
    kept,
    DROPOUT: tl.constexpr,
    HIDDEN: tl.constexpr,
    PRECISION: tl.constexpr,
    PAIRS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Loss of the pairs, its gradient at the logit, and what of it adds up over pairs without further products."""
    unit = tl.arange(0, HIDDEN)
    real = unit < hidden
    direction = tl.load(slope + unit, mask=real, other=0.0)
    bias = tl.load(hidden_bias + unit, mask=real, other=0.0)
    shift = tl.load(offset)
    mine = sums + tl.program_id(0) * (2 * hidden + 2)
    grad_slope = tl.load(mine + unit, mask=real, other=0.0)
    grad_bias = tl.load(mine + hidden + unit, mask=real, other=0.0)
    grad_offset = tl.load(mine + 2 * hidden)
    total = tl.load(mine + 2 * hidden + 1)

    for tile in range(tl.program_id(0), tl.cdiv(pairs, PAIRS), tl.num_programs(0)):
        row = tile * PAIRS + tl.arange(0, PAIRS)
        known = row < pairs
        left = z + tl.load(u + row, mask=known, other=0)[:, None] * width
        right = z + tl.load(v + row, mask=known, other=0)[:, None] * width
        key = row_key(seed, first + row) if DROPOUT else row
        before = tl.zeros([PAIRS, HIDDEN], tl.float32)
        for start in range(0, width, COLUMNS):
            column = start + tl.arange(0, COLUMNS)
            inside = known[:, None] & (column < width)[None, :]
            product = tl.load(left + column[None, :], mask=inside, other=0.0) * tl.load(
                right + column[None, :], mask=inside, other=0.0
            )
            if DROPOUT:
                product = tl.where(keeps(key[:, None], column[None, :], kept), product, 0.0)
            square = real[None, :] & (column < width)[:, None]
            weights = tl.load(hidden_weight + unit[None, :] * width + column[:, None], mask=square, other=0.0)
            before += dot(product, weights, PRECISION)

        before += bias[None, :]
        active = tl.where(before <= 0, 0.0, before)  # unlike a maximum, lets NaN through
        w = tl.load(weight + row, mask=known, other=0.0)
        loss, grad_logit = cross_entropy(tl.sum(active * direction[None, :], 1) + shift, w)
        total += tl.sum(loss, 0)
        grad_offset += tl.sum(grad_logit, 0)
        grad_slope += tl.sum(active * grad_logit[:, None], 0)
        through = (active > 0).to(tl.int8)
        grad_bias += tl.sum(through.to(tl.float32) * grad_logit[:, None], 0)
        tl.store(grad + row, grad_logit, mask=known)
        tl.store(passed + row[:, None] * hidden + unit[None, :], through, mask=known[:, None] & real[None, :])

    tl.store(mine + unit, grad_slope, mask=real)
    tl.store(mine + hidden + unit, grad_bias, mask=real)
    tl.store(mine + 2 * hidden, grad_offset)
    tl.store(mine + 2 * hidden + 1, total)


@triton.jit(do_not_specialize=["first", "pairs"], do_not_specialize_on_alignment=["u", "v"])
def _from_hidden(
    z,
    u,
    v,
    folded_weight,
    seed,
    passed,
    grad,
    grad_z,
    grad_hidden,
    first,
    pairs,
    width,
    hidden,
    kept,
    DROPOUT: tl.constexpr,
    HIDDEN: tl.constexpr,
    PRECISION: tl.constexpr,
    PAIRS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """A block of columns of the gradients: of the weights, added up alone, and of the nodes, added where they are."""
    unit = tl.arange(0, HIDDEN)
    real = unit < hidden
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    square = real[:, None] & (column < width)[None, :]
    place = unit[:, None] * width + column[None, :]
    weights = tl.load(folded_weight + place, mask=square, other=0.0)
    mine = grad_hidden + tl.program_id(0).to(tl.int64) * hidden * width + place
    total = tl.load(mine, mask=square, other=0.0)

    for tile in range(tl.program_id(0), tl.cdiv(pairs, PAIRS), tl.num_programs(0)):
        row = tile * PAIRS + tl.arange(0, PAIRS)
        known = row < pairs
        left = tl.load(u + row, mask=known, other=0)[:, None] * width + column[None, :]
        right = tl.load(v + row, mask=known, other=0)[:, None] * width + column[None, :]
        inside = known[:, None] & (column < width)[None, :]
        one = tl.load(z + left, mask=inside, other=0.0)
        other = tl.load(z + right, mask=inside, other=0.0)
        through = tl.load(passed + row[:, None] * hidden + unit[None, :], mask=known[:, None] & real[None, :], other=0)
        pull = tl.load(grad + row, mask=known, other=0.0)[:, None]
        product = one * other * pull
        back = chosen_sum(through, weights, PRECISION) * pull
        if DROPOUT:
            stays = keeps(row_key(seed, first + row)[:, None], column[None, :], kept)
            product = tl.where(stays, product, 0.0)
            back = tl.where(stays, back, 0.0)
        total += chosen_sum(tl.trans(through), product, PRECISION)
        tl.atomic_add(grad_z + left, back * other, mask=inside, sem="relaxed")
        tl.atomic_add(grad_z + right, back * one, mask=inside, sem="relaxed")

    tl.store(mine, total, mask=square)
