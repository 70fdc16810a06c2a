# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""The loss of a pair decoder with many hidden units, where the products are most of the work and done by themselves.

Pairs are taken in chunks, so that memory stays bounded. On the way there a kernel writes the products of the
embeddings, a second one multiplies them into the hidden layer, and a third one leaves for every pair its gradient at
the logit, and a byte for every hidden unit: whether it passed the ReLU. On the way back one kernel adds up the gradient
of the weights, and one takes it to the nodes; the weights between hidden units and logit are folded into those before,
so that both multiply with zeros and ones. Dropout is a function of (seed, pair, column) and is never stored. Where
`torch.set_float32_matmul_precision` allows bfloat16, what stands between the kernels is stored so too: half the bytes.
"""

import torch
import triton
from _old_product import PRECISIONS, chosen_sum, factor, multiply
from torch import Tensor
from triton import language as tl

from bandana.engine.dropout import keep_scale
from bandana.engine.edge_loss import DecoderWeights, margin_layer
from bandana.engine.kernels.hashing import LEVELS, draw_seed, keeps, row_key
from bandana.engine.kernels.logits import cross_entropy

_CHUNK = 1 << 25  # elements of pairs times width at once
_TILE = 4096  # of them in one program
_HEAD_TILE = 2048
_HEAD_PROGRAMS = 512
_SPLITS = 64  # sums over pairs that are taken at the same time, at most
_WEIGHTS_TILING = {"PAIRS": 64, "UNITS": 128, "COLUMNS": 64, "num_warps": 4, "num_stages": 3}
_NODES_TILING = {"PAIRS": 64, "UNITS": 32, "COLUMNS": 64, "num_warps": 4, "num_stages": 3}


def loss_and_gradients(
    z: Tensor, decoder: DecoderWeights, pairs: Tensor, weight: Tensor, rate: float, generator: torch.Generator | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The loss and the gradients of `z` and the decoder; the twin of the plain function in `engine.edge_loss`."""
    slope, offset = margin_layer(decoder)
    scale = keep_scale(rate) if rate else 1.0
    hidden_weight = (decoder.hidden_weight * scale if rate else decoder.hidden_weight).contiguous()
    z, pairs, weight = z.contiguous(), pairs.contiguous(), weight.contiguous()
    units, width = hidden_weight.shape
    size = min(max(_CHUNK // width, 1), pairs.shape[1])
    seed = draw_seed(generator) if generator is not None and rate else None
    kept, precision = round(LEVELS / scale), torch.get_float32_matmul_precision()
    splits = min(_SPLITS, triton.cdiv(size, _WEIGHTS_TILING["PAIRS"]))
    grad_z, grad_hidden = torch.zeros_like(z), z.new_zeros(splits, units, width)
    sums = z.new_zeros(_HEAD_PROGRAMS, 2 * units + 2)
    stored = torch.bfloat16 if precision == "medium" else z.dtype
    there = factor(hidden_weight.to(stored))
    back = hidden_weight * slope.unsqueeze(1)
    hidden_bias = decoder.hidden_bias.to(stored).contiguous()
    products, hidden_rows = z.new_empty(size, width, dtype=stored), z.new_empty(size, units, dtype=stored)
    passed, grads = z.new_empty(size, units, dtype=torch.int8), z.new_empty(size)

    for first in range(0, pairs.shape[1], max(size, 1)):
        u, v = pairs[:, first : first + size]
        product, hidden, through, grad = (rows[: u.numel()] for rows in (products, hidden_rows, passed, grads))
        _to_products(z, u, v, seed, first, kept, product)
        multiply(product, there, hidden, hidden_bias)
        _head(hidden, slope, offset, weight[first : first + size], through, grad, sums)
        _to_weights(through, grad, product, grad_hidden, PRECISIONS[precision])
        _to_nodes(through, grad, back, z, u, v, seed, first, kept, grad_z, PRECISIONS[precision])

    grad_slope, grad_bias, (grad_offset, total) = sums.sum(0).split([units, units, 2])
    gradients = (
        grad_z,
        grad_hidden.sum(0).mul_(slope.unsqueeze(1) * scale),
        grad_bias * slope,
        torch.stack([grad_slope, -grad_slope]),
        torch.stack([grad_offset, -grad_offset]),
    )
    return total.clone(), gradients  # a result of its own, not a view that autograd would guard


def _head(
    hidden: Tensor, slope: Tensor, offset: Tensor, weight: Tensor, passed: Tensor, grad: Tensor, sums: Tensor
) -> None:
    """Everything between two matrix products: ReLU, log-odds, loss, and the gradient of the log-odds.

    Args:
        hidden: ``[pairs, h]`` contiguous values before the ReLU.
        slope: ``[h]`` contiguous weights of the log-odds.
        offset: Scalar tensor, the bias of the log-odds.
        weight: ``[pairs]`` contiguous signed weights.
        passed: ``[pairs, h]`` bytes that are written: whether a value passed the ReLU.
        grad: ``[pairs]`` gradients that are written.
        sums: ``[programs, 2h + 2]``, to whose columns is added, by any of the rows: the gradient of the slope, of the
            bias but for the slope, of the offset, and the loss.
    """
    pairs, width = hidden.shape
    columns = triton.next_power_of_2(width)
    rows = max(_HEAD_TILE // columns, 1)
    programs = min(triton.cdiv(pairs, rows), sums.shape[0])
    if programs:
        with torch.cuda.device_of(hidden):
            _decoder_head[(programs,)](
                hidden, slope, offset, weight, passed, grad, sums, pairs, width, ROWS=rows, COLUMNS=columns, num_warps=4
            )


def _to_weights(passed: Tensor, grad: Tensor, product: Tensor, grad_hidden: Tensor, precision: str) -> None:
    """Add ``passedᵀ · (grad · product)``, in as many addends as ``grad_hidden [splits, h, width]`` has."""
    splits, units, width = grad_hidden.shape
    grid = triton.cdiv(units, _WEIGHTS_TILING["UNITS"]), triton.cdiv(width, _WEIGHTS_TILING["COLUMNS"]), splits
    with torch.cuda.device_of(passed):
        _weights_back[grid](
            passed, grad, product, grad_hidden, passed.shape[0], units, width, PRECISION=precision, **_WEIGHTS_TILING
        )


def _to_nodes(
    passed: Tensor,
    grad: Tensor,
    back: Tensor,
    z: Tensor,
    u: Tensor,
    v: Tensor,
    seed: Tensor | None,
    first: int,
    kept: int,
    grad_z: Tensor,
    precision: str,
) -> None:
    """Add the gradients of both nodes of every pair, ``grad · passed · back`` times the embedding of the other."""
    (pairs, units), width = passed.shape, z.shape[1]
    grid = triton.cdiv(pairs, _NODES_TILING["PAIRS"]), triton.cdiv(width, _NODES_TILING["COLUMNS"])
    with torch.cuda.device_of(z):
        _nodes_back[grid](
            passed,
            grad,
            back,
            z,
            u,
            v,
            seed,
            grad_z,
            first,
            kept,
            pairs,
            units,
            width,
            DROPOUT=seed is not None,
            PRECISION=precision,
            **_NODES_TILING,
        )


def _to_products(z: Tensor, u: Tensor, v: Tensor, seed: Tensor | None, first: int, kept: int, product: Tensor) -> None:
    """Write the products of the embeddings of both nodes of every pair."""
    pairs, width = product.shape
    columns = min(triton.next_power_of_2(width), 256)
    rows = _TILE // columns
    with torch.cuda.device_of(z):
        _hadamard[(triton.cdiv(pairs, rows), triton.cdiv(width, columns))](
            z, u, v, product, seed, first, kept, pairs, width, DROPOUT=seed is not None, ROWS=rows, COLUMNS=columns
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


@triton.jit(do_not_specialize=["pairs"], do_not_specialize_on_alignment=["weight"])
def _decoder_head(
    hidden, slope, offset, weight, passed, grad, sums, pairs, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Sums over pairs are kept as tiles, one element per thread, and added up across threads once, at the end."""
    column = tl.arange(0, COLUMNS)
    real = column < width
    direction = tl.load(slope + column, mask=real, other=0.0)
    bias = tl.load(offset)
    grad_slope = tl.zeros([ROWS, COLUMNS], tl.float32)
    grad_bias = tl.zeros([ROWS, COLUMNS], tl.float32)
    grad_offset = tl.zeros([ROWS], tl.float32)
    total = tl.zeros([ROWS], tl.float32)

    for block in range(tl.program_id(0), tl.cdiv(pairs, ROWS), tl.num_programs(0)):
        row = tl.full([ROWS], block, tl.int64) * ROWS + tl.arange(0, ROWS)
        place = row[:, None] * width + column[None, :]
        inside = (row[:, None] < pairs) & real[None, :]
        before = tl.load(hidden + place, mask=inside, other=0.0).to(tl.float32)
        active = tl.where(before <= 0, 0.0, before)  # unlike a maximum, lets NaN through
        w = tl.load(weight + row, mask=row < pairs, other=0.0)
        loss, grad_logit = cross_entropy(tl.sum(active * direction[None, :], 1) + bias, w)

        total += loss
        grad_offset += grad_logit
        grad_slope += active * grad_logit[:, None]
        grad_bias += tl.where(active > 0, grad_logit[:, None], 0.0)
        tl.store(grad + row, grad_logit, mask=row < pairs)
        tl.store(passed + place, (active > 0).to(tl.int8), mask=inside)

    mine = sums + tl.program_id(0) * (2 * width + 2)
    tl.store(mine + column, tl.load(mine + column, mask=real) + tl.sum(grad_slope, 0), mask=real)
    tl.store(mine + width + column, tl.load(mine + width + column, mask=real) + tl.sum(grad_bias, 0), mask=real)
    tl.store(mine + 2 * width, tl.load(mine + 2 * width) + tl.sum(grad_offset, 0))
    tl.store(mine + 2 * width + 1, tl.load(mine + 2 * width + 1) + tl.sum(total, 0))


@triton.jit(do_not_specialize=["pairs"])
def _weights_back(
    passed,
    grad,
    product,
    grad_hidden,
    pairs,
    hidden,
    width,
    PRECISION: tl.constexpr,
    PAIRS: tl.constexpr,
    UNITS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([UNITS, COLUMNS], tl.float32)
    for tile in range(tl.program_id(2), tl.cdiv(pairs, PAIRS), tl.num_programs(2)):
        row = tl.full([PAIRS], tile, tl.int64) * PAIRS + tl.arange(0, PAIRS)
        known = (row < pairs)[:, None]
        through = tl.load(
            passed + row[:, None] * hidden + unit[None, :], mask=known & (unit < hidden)[None, :], other=0
        )
        pull = tl.load(grad + row, mask=row < pairs, other=0.0)[:, None]
        inside = known & (column < width)[None, :]
        value = tl.load(product + row[:, None] * width + column[None, :], mask=inside, other=0.0).to(tl.float32)
        total += chosen_sum(tl.trans(through), value * pull, PRECISION)
    square = (unit < hidden)[:, None] & (column < width)[None, :]
    mine = grad_hidden + (tl.program_id(2) * hidden + unit[:, None]) * width + column[None, :]
    tl.store(mine, tl.load(mine, mask=square, other=0.0) + total, mask=square)


@triton.jit(**_OVER_PAIRS)
def _nodes_back(
    passed,
    grad,
    weight,
    z,
    u,
    v,
    seed,
    grad_z,
    first,
    kept,
    pairs,
    hidden,
    width,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    PAIRS: tl.constexpr,
    UNITS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    known, real = row < pairs, column < width
    back = tl.zeros([PAIRS, COLUMNS], tl.float32)
    for start in range(0, hidden, UNITS):
        unit = start + tl.arange(0, UNITS)
        whole = known[:, None] & (unit < hidden)[None, :]
        square = (unit < hidden)[:, None] & real[None, :]
        through = tl.load(passed + row[:, None] * hidden + unit[None, :], mask=whole, other=0)
        weights = tl.load(weight + unit[:, None] * width + column[None, :], mask=square, other=0.0)
        back += chosen_sum(through, weights, PRECISION)
    back *= tl.load(grad + row, mask=known, other=0.0)[:, None]
    if DROPOUT:  # zeros are added too: a mask would forbid adding several elements at once, which saves more
        back = tl.where(keeps(row_key(seed, first + row)[:, None], column[None, :], kept), back, 0.0)
    inside = known[:, None] & real[None, :]
    left = tl.load(u + row, mask=known, other=0)[:, None] * width + column[None, :]
    right = tl.load(v + row, mask=known, other=0)[:, None] * width + column[None, :]
    tl.atomic_add(grad_z + left, back * tl.load(z + right, mask=inside, other=0.0), mask=inside, sem="relaxed")
    tl.atomic_add(grad_z + right, back * tl.load(z + left, mask=inside, other=0.0), mask=inside, sem="relaxed")
