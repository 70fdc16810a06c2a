# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""The loss of a pair decoder with many hidden units, in kernels that write no number that is pairs times width.

The first gathers the embeddings of a tile of pairs, multiplies them into the hidden layer, and leaves for every pair
its gradient at the logit, and for every hidden unit a bit: whether it passed the ReLU. The second gathers again and
adds up the gradient of the weights, the third takes it to the nodes. The weights between hidden units and logit are
folded into those before, so that both multiply with zeros and ones; what else adds up over pairs follows from the
gradient of the weights. Dropout is a function of (seed, pair, column), computed three times instead of stored.
"""

import torch
import triton
from torch import Tensor
from triton import language as tl
from triton.runtime import driver

from bandana.engine.dropout import keep_scale
from bandana.engine.edge_loss import DecoderWeights, margin_layer
from bandana.engine.kernels.hashing import LEVELS, draw_seed, keeps, row_key
from bandana.engine.kernels.logits import cross_entropy
from bandana.engine.kernels.product import PRECISIONS, dot_of_halves, halves
from bandana.engine.kernels.wide_edge_back import (
    OVER_PAIRS,
    WORD,
    Pairs,
    Passed,
    Tiling,
    sizes,
    to_bias,
    to_nodes,
    to_weights,
)

_SPLIT_TILE = 1024
_FACTORS = {"tf32x3": 2, "tf32": 1, "bf16": 1}  # tensors that hold the weights on the way there
_ADDENDS = {"tf32x3": 3, "tf32": 2, "bf16": 1}  # and on the way back, in bfloat16
_STORED = {"bf16": torch.bfloat16}  # what is multiplied as such anyway is half as much to gather
_SMALL = Tiling(64, 128, 32, 4, 2)
_THERE = {"tf32x3": _SMALL, "tf32": Tiling(128, 256, 32, 8, 3), "bf16": Tiling(128, 256, 64, 8, 3)}
_ROOMY = 160 << 10  # bytes of shared memory that a program must be able to have for those that are not small


def loss_and_gradients(
    z: Tensor, decoder: DecoderWeights, pairs: Tensor, weight: Tensor, rate: float, generator: torch.Generator | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The loss and the gradients of `z` and the decoder; the twin of the plain function in `engine.edge_loss`."""
    slope, offset = margin_layer(decoder)
    scale = keep_scale(rate) if rate else 1.0
    hidden_weight, hidden_bias = decoder.hidden_weight.contiguous(), decoder.hidden_bias.contiguous()
    seed = draw_seed(generator) if generator is not None and rate else None
    precision = PRECISIONS[torch.get_float32_matmul_precision()]
    u, v = pairs.contiguous()
    given = Pairs(z.contiguous(), u, v, seed, round(LEVELS / scale), precision)
    factors = given._replace(z=given.z.to(_STORED.get(precision, z.dtype)))

    with torch.cuda.device_of(z):
        there, back, powers = _split(hidden_weight, slope, scale, precision)
        bits, grad, sums = _to_hidden(factors, weight.contiguous(), there, hidden_bias, slope, offset)
        passed = Passed(bits, powers, grad)
        products, passes = to_weights(factors, passed, slope.numel()), to_bias(passed, slope.numel())
        grad_z = to_nodes(given, passed, back)

    # Σ hidden · gradient, with hidden written out as weights · product + bias where it passed the ReLU.
    grad_slope = torch.linalg.vecdot(products, hidden_weight).mul_(scale).addcmul_(passes, hidden_bias)
    total, grad_offset = sums.sum(0)
    gradients = (
        grad_z,
        products.mul_(slope.unsqueeze(1) * scale),
        passes * slope,
        torch.stack([grad_slope, -grad_slope]),
        torch.stack([grad_offset, -grad_offset]),
    )
    return total.clone(), gradients  # a result of its own, not a view that autograd would guard


def _split(weight: Tensor, slope: Tensor, scale: float, precision: str) -> tuple[Tensor, Tensor, Tensor]:
    """``[…, h, width]`` addends of the scaled weights, ready to be multiplied with there and, upright, back."""
    there = weight.new_empty(_FACTORS[precision], *weight.shape, dtype=_STORED.get(precision, weight.dtype))
    back = weight.new_empty(_ADDENDS[precision], *weight.shape, dtype=torch.bfloat16)
    powers = weight.new_empty(WORD, dtype=torch.int32)
    _split_weights[(triton.cdiv(weight.numel(), _SPLIT_TILE),)](
        *(weight, slope, there, back, powers, scale, weight.numel(), weight.shape[1]),
        PRECISION=precision,
        ADDENDS=back.shape[0],
        SIZE=_SPLIT_TILE,
    )
    return there, back, powers


def _to_hidden(
    pairs: Pairs, weight: Tensor, there: Tensor, hidden_bias: Tensor, slope: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Bits of what passed the ReLU, ``[pairs]`` gradients at the logit, and addends of the loss and of their sum."""
    (units, width), number, tiling = there.shape[1:], pairs.u.numel(), _tiling(pairs)
    words, programs = triton.cdiv(units, WORD), max(triton.cdiv(number, tiling.pairs), 1)
    bits, grad = weight.new_empty(number, words, dtype=torch.int32), weight.new_empty(number)
    sums = weight.new_empty(programs, 2)
    _hidden_there[(programs,)](
        *(*pairs[:5], weight, there, hidden_bias, slope, offset, bits, grad, sums, number, units, width, words),
        DROPOUT=pairs.seed is not None,
        PRECISION=pairs.precision,
        **sizes(tiling, units, width),
    )
    return bits, grad, sums


def _tiling(pairs: Pairs) -> Tiling:
    """What the card has room for."""
    if not pairs.z.is_cuda:  # an interpreter has
        return _THERE[pairs.precision]
    room = driver.active.utils.get_device_properties(pairs.z.get_device())["max_shared_mem"]
    return _THERE[pairs.precision] if room >= _ROOMY else _SMALL


@triton.jit
def _split_weights(
    weight,
    slope,
    there,
    back,
    powers,
    scale,
    size,
    width,
    PRECISION: tl.constexpr,
    ADDENDS: tl.constexpr,
    SIZE: tl.constexpr,
):
    bit = tl.arange(0, 32)
    tl.store(powers + bit, tl.full([32], 1, tl.int32) << bit)
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = place < size
    value = tl.load(weight + place, mask=inside, other=0.0) * scale
    high, low = halves(value)
    if PRECISION == "bf16":
        tl.store(there + place, value, mask=inside)
    else:
        tl.store(there + place, tl.where(value == value, high, value), mask=inside)  # rounding may lose a NaN
    if PRECISION == "tf32x3":
        tl.store(there + size + place, low, mask=inside)
    rest = value * tl.load(slope + place // width, mask=inside, other=0.0)
    for addend in tl.static_range(ADDENDS):
        largest = rest.to(tl.bfloat16)
        tl.store(back + addend * size + place, largest, mask=inside)
        rest -= largest.to(tl.float32)


@triton.jit(**OVER_PAIRS)
def _hidden_there(
    z,
    u,
    v,
    seed,
    kept,
    weight,
    there,
    hidden_bias,
    slope,
    offset,
    passed,
    grad,
    sums,
    pairs,
    hidden,
    width,
    words,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    PAIRS: tl.constexpr,
    UNITS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    known = row < pairs
    left = z + tl.load(u + row, mask=known, other=0)[:, None] * width
    right = z + tl.load(v + row, mask=known, other=0)[:, None] * width
    key = row_key(seed, row) if DROPOUT else row
    logit = tl.zeros([PAIRS], tl.float32)
    for first in range(0, hidden, UNITS):
        unit = first + tl.arange(0, UNITS)
        real = unit < hidden
        before = tl.zeros([PAIRS, UNITS], tl.float32)
        for start in range(0, width, COLUMNS):
            column = start + tl.arange(0, COLUMNS)
            inside = known[:, None] & (column < width)[None, :]
            one = tl.load(left + column[None, :], mask=inside, other=0.0).to(tl.float32)
            other = tl.load(right + column[None, :], mask=inside, other=0.0)
            product = one * other
            if DROPOUT:
                product = tl.where(keeps(key[:, None], column[None, :], kept), product, 0.0)
            square = real[None, :] & (column < width)[:, None]
            place = there + unit[None, :] * width + column[:, None]
            weights = tl.load(place, mask=square, other=0.0)
            if PRECISION == "tf32x3":
                product_high, product_low = halves(product)
                weights_low = tl.load(place + hidden * width, mask=square, other=0.0)
                before += dot_of_halves(product_high, product_low, weights, weights_low)
            elif PRECISION == "tf32":
                before = tl.dot(product, weights, before, input_precision="tf32")
            else:
                before = tl.dot(product.to(tl.bfloat16), weights, before)

        before += tl.load(hidden_bias + unit, mask=real, other=0.0)[None, :]
        active = tl.where(before <= 0, 0.0, before)  # unlike a maximum, lets NaN through
        logit += tl.sum(active * tl.load(slope + unit, mask=real, other=0.0)[None, :], 1)
        bits = tl.where(active > 0, tl.full([UNITS], 1, tl.int32)[None, :] << (unit % 32)[None, :], 0)
        word = first // 32 + tl.arange(0, UNITS // 32)
        packed = tl.sum(tl.reshape(bits, [PAIRS, UNITS // 32, 32]), 2)
        tl.store(passed + row[:, None] * words + word[None, :], packed, mask=known[:, None] & (word < words)[None, :])

    loss, grad_logit = cross_entropy(logit + tl.load(offset), tl.load(weight + row, mask=known, other=0.0))
    tl.store(grad + row, grad_logit, mask=known)
    tl.store(sums + 2 * tl.program_id(0), tl.sum(loss, 0))
    tl.store(sums + 2 * tl.program_id(0) + 1, tl.sum(grad_logit, 0))
