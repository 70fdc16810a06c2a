# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""The way back of the wide edge loss: from what passed the hidden layer to the gradients of weights and nodes.

Two kernels gather the pairs again and multiply with zeros and ones, which they unpack where tensor cores want them. A
third, far smaller one adds up what passed: inside the first, a product of its own under a condition was miscompiled
(triton 3.6).
"""

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.kernels.hashing import keeps, row_key
from bandana.engine.kernels.product import chosen_sum

WORD = 32  # bits


class Tiling(NamedTuple):
    """How a kernel cuts its work: sizes of a tile, warps, tiles loaded ahead, programs per core, registers at most."""

    pairs: int
    units: int
    columns: int
    warps: int
    stages: int
    programs: int = 1
    registers: int | None = None


_NARROW = Tiling(32, 128, 64, 4, 3, 3, 168)
_WIDE = Tiling(32, 256, 64, 8, 3, 2, 128)
_WEIGHTS = {"tf32x3": _NARROW, "tf32": _WIDE, "bf16": Tiling(32, 256, 128, 8, 3)}
_WEIGHTS_OF_FEW = dict.fromkeys(_WEIGHTS, _NARROW)  # up to 128 units
_NODES = {
    "tf32x3": Tiling(64, 256, 32, 4, 1, 3, 168),
    "tf32": Tiling(64, 256, 32, 4, 1, 3, 168),
    "bf16": Tiling(64, 256, 64, 4, 1, 2),
}
_PASSES = Tiling(16, 256, 16, 4, 1, 8)


class Pairs(NamedTuple):
    """Embeddings, the nodes of every pair, the seed of the dropout, how much it keeps, and how to multiply."""

    z: Tensor
    u: Tensor
    v: Tensor
    seed: Tensor | None
    kept: int
    precision: str


class Passed(NamedTuple):
    """``[pairs, words]`` bits of what passed the ReLU, the powers of two of a word, and ``[pairs]`` gradients."""

    bits: Tensor
    powers: Tensor
    grad: Tensor


def to_weights(pairs: Pairs, passed: Passed, units: int) -> Tensor:
    """``bitsᵀ · (grad · product)``, ``[h, width]``."""
    (number, words), width = passed.bits.shape, pairs.z.shape[1]
    tiling = (_WEIGHTS if units > _NARROW.units else _WEIGHTS_OF_FEW)[pairs.precision]
    tile = sizes(tiling, units, width)
    blocks = triton.cdiv(width, tile["COLUMNS"]), triton.cdiv(units, tile["UNITS"])
    splits = _programs(pairs.z, tiling, blocks, triton.cdiv(number, tiling.pairs))
    products = passed.grad.new_empty(splits, units, width)
    _weights_back[(*blocks, splits)](
        *(*pairs[:5], *passed, products, number, units, width, words),
        DROPOUT=pairs.seed is not None,
        PRECISION=pairs.precision,
        **tile,
    )
    return products.sum(0)


def to_bias(passed: Passed, units: int) -> Tensor:
    """``bitsᵀ · grad``, ``[h]``."""
    (number, words), tile = passed.bits.shape, sizes(_PASSES, units, 1)
    blocks = 1, triton.cdiv(units, tile["UNITS"])
    programs = _programs(passed.grad, _PASSES, blocks, triton.cdiv(number, _PASSES.pairs))
    passes = passed.grad.new_empty(programs, units)
    del tile["COLUMNS"]
    _bias_back[(programs, blocks[1])](*passed, passes, number, units, words, **tile)
    return passes.sum(0)


def to_nodes(pairs: Pairs, passed: Passed, back: Tensor) -> Tensor:
    """The gradients of both nodes of every pair, ``grad · bits · back`` times the embedding of the other."""
    (number, words), (addends, units, width), tiling = passed.bits.shape, back.shape, _NODES[pairs.precision]
    tile, grad_z = sizes(tiling, units, width), torch.zeros_like(pairs.z)
    blocks = triton.cdiv(width, tile["COLUMNS"]), triton.cdiv(units, tile["UNITS"])
    programs = _programs(pairs.z, tiling, blocks, triton.cdiv(number, tiling.pairs))
    _nodes_back[(*blocks, programs)](
        *(*pairs[:5], *passed, back, grad_z, number, units, width, words),
        DROPOUT=pairs.seed is not None,
        ADDENDS=addends,
        **tile,
    )
    return grad_z


def sizes(tiling: Tiling, units: int, width: int) -> dict[str, Any]:
    """No tile is larger than what there is to do."""
    return {
        "PAIRS": tiling.pairs,
        "UNITS": min(max(triton.next_power_of_2(units), WORD), tiling.units),
        "COLUMNS": min(max(triton.next_power_of_2(width), 16), tiling.columns),
        "num_warps": tiling.warps,
        "num_stages": tiling.stages,
        "maxnreg": tiling.registers,
    }


def _programs(z: Tensor, tiling: Tiling, blocks: tuple[int, int], tiles: int) -> int:
    """Programs that share the pairs of a block of columns and units, so that all blocks together fill the card."""
    cores = torch.cuda.get_device_properties(z.device).multi_processor_count if z.is_cuda else 2
    return max(min(tiling.programs * cores // (blocks[0] * blocks[1]), tiles), 1)


# Batches differ in number and alignment: none of them may compile a kernel of its own.
OVER_PAIRS = {"do_not_specialize": ["pairs"], "do_not_specialize_on_alignment": ["u", "v", "weight"]}
"""What every kernel over pairs is compiled with."""


@triton.jit(**OVER_PAIRS)
def _weights_back(
    z,
    u,
    v,
    seed,
    kept,
    passed,
    powers,
    grad,
    products,
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
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    power = tl.load(powers + tl.arange(0, 32))
    total = tl.zeros([UNITS, COLUMNS], tl.float32)
    for tile in range(tl.program_id(2), tl.cdiv(pairs, PAIRS), tl.num_programs(2)):
        row = tl.full([PAIRS], tile, tl.int64) * PAIRS + tl.arange(0, PAIRS)
        known = row < pairs
        inside = known[:, None] & (column < width)[None, :]
        left = tl.load(u + row, mask=known, other=0)[:, None] * width + column[None, :]
        right = tl.load(v + row, mask=known, other=0)[:, None] * width + column[None, :]
        one = tl.load(z + left, mask=inside, other=0.0).to(tl.float32)
        product = one * tl.load(z + right, mask=inside, other=0.0)
        if DROPOUT:
            product = tl.where(keeps(row_key(seed, row)[:, None], column[None, :], kept), product, 0.0)
        pull = tl.load(grad + row, mask=known, other=0.0)[:, None]
        through = tl.trans(_unpacked(passed, row, known, words, power, PAIRS, UNITS).to(tl.bfloat16))
        product *= pull
        if PRECISION == "tf32x3":
            total += chosen_sum(through, product, PRECISION)
        else:  # sums that stay in the tensor cores are precise enough, and take half the registers
            largest = product.to(tl.bfloat16)
            if PRECISION == "tf32":
                total = tl.dot(through, (product - largest.to(tl.float32)).to(tl.bfloat16), total)
            total = tl.dot(through, largest, total)

    square = (unit < hidden)[:, None] & (column < width)[None, :]
    mine = products + (tl.program_id(2) * hidden + unit[:, None]).to(tl.int64) * width + column[None, :]
    tl.store(mine, total, mask=square)


@triton.jit(**OVER_PAIRS)
def _nodes_back(
    z,
    u,
    v,
    seed,
    kept,
    passed,
    powers,
    grad,
    back,
    grad_z,
    pairs,
    hidden,
    width,
    words,
    DROPOUT: tl.constexpr,
    ADDENDS: tl.constexpr,
    PAIRS: tl.constexpr,
    UNITS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The weights stay on the chip, in addends, while pairs pass by."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    power = tl.load(powers + tl.arange(0, 32))
    square = (unit < hidden)[:, None] & (column < width)[None, :]
    place = back + unit[:, None] * width + column[None, :]
    upright = column[None, :, None]
    high = tl.load(place, mask=square, other=0.0)
    if ADDENDS > 1:
        middle = tl.load(place + hidden * width, mask=square, other=0.0)
    if ADDENDS > 2:
        low = tl.load(place + 2 * hidden * width, mask=square, other=0.0)
    for tile in range(tl.program_id(2), tl.cdiv(pairs, PAIRS), tl.num_programs(2)):
        row = tl.full([PAIRS], tile, tl.int64) * PAIRS + tl.arange(0, PAIRS)
        known = row < pairs
        inside = known[:, None, None] & (upright < width)
        left = tl.load(u + row, mask=known, other=0)[:, None, None] * width + upright
        right = tl.load(v + row, mask=known, other=0)[:, None, None] * width + upright
        one = tl.load(z + left, mask=inside, other=0.0)  # on their way while the dots are computed
        other = tl.load(z + right, mask=inside, other=0.0)
        pull = tl.load(grad + row, mask=known, other=0.0)[:, None, None]
        through = _unpacked(passed, row, known, words, power, PAIRS, UNITS).to(tl.bfloat16)
        total = tl.zeros([PAIRS, COLUMNS], tl.float32)
        if ADDENDS > 2:
            total = tl.dot(through, low, total)
        if ADDENDS > 1:
            total = tl.dot(through, middle, total)
        total = tl.dot(through, high, total)[:, :, None] * pull
        if DROPOUT:  # zeros are added too: a mask would forbid adding several elements at once, which saves more
            total = tl.where(keeps(row_key(seed, row)[:, None, None], upright, kept), total, 0.0)
        tl.atomic_add(grad_z + left, total * other, mask=inside, sem="relaxed")
        tl.atomic_add(grad_z + right, total * one, mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=["pairs"])
def _bias_back(passed, powers, grad, passes, pairs, hidden, words, PAIRS: tl.constexpr, UNITS: tl.constexpr):
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    power = tl.load(powers + tl.arange(0, 32))
    total = tl.zeros([PAIRS, UNITS], tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(pairs, PAIRS), tl.num_programs(0)):
        row = tl.full([PAIRS], tile, tl.int64) * PAIRS + tl.arange(0, PAIRS)
        known = row < pairs
        pull = tl.load(grad + row, mask=known, other=0.0)[:, None]
        total += _unpacked(passed, row, known, words, power, PAIRS, UNITS) * pull
    tl.store(passes + tl.program_id(0) * hidden + unit, tl.sum(total, 0), mask=unit < hidden)


@triton.jit
def _unpacked(passed, row, known, words, power, PAIRS: tl.constexpr, UNITS: tl.constexpr):
    """``[PAIRS, UNITS]`` ones where a unit of this program's block passed, and zeros."""
    word = tl.program_id(1) * (UNITS // 32) + tl.arange(0, UNITS // 32)
    inside = known[:, None] & (word < words)[None, :]
    packed = tl.load(passed + row[:, None] * words + word[None, :], mask=inside, other=0)
    bits = packed[:, :, None] & power[None, None, :]
    return tl.where(tl.reshape(bits, [PAIRS, UNITS]) != 0, 1.0, 0.0)
