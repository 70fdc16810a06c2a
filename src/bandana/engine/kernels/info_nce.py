# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""InfoNCE over all pairs of rows in two kernels, which write nothing of the size of the pairs.

The similarities are symmetric. With ``T_i`` the sum of row i's powers ``P_ij = exp(z_i·z_j / temperature)`` over its
candidates, the gradient of ``Σ log T`` at a row is ``Σ_j P_ij (1/T_i + 1/T_j) z_j``: the first kernel finds the totals,
the second multiplies again and pulls. Three products per pair in all, no atomic additions, and always the same result.
"""

import math

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.kernels.all_pairs import (
    Tiling,
    Tilings,
    add_weighted,
    key_ranges,
    load_tile,
    operand,
    padded_length,
    products,
    tiling_for,
)

_LOG2_E = math.log2(math.e)
_NEVER = tl.constexpr(float("-inf"))

# Wider rows leave no room for tiles that keep tensor cores busy: in TF32, 256 columns were measured as fast as plain.
_TOTALS: Tilings = {
    "highest": {128: Tiling(128, 64, 8, 2, returns=False)},
    "high": {128: Tiling(128, 128, 8, 2, returns=False)},
    "medium": {256: Tiling(128, 128, 8, 2, returns=False), 512: Tiling(64, 64, 4, 2, returns=False)},
}
_PULL: Tilings = {
    "highest": {128: Tiling(128, 64, 8, 2)},
    "high": {128: Tiling(128, 64, 8, 2)},
    "medium": {256: Tiling(128, 64, 8, 2), 512: Tiling(64, 32, 8, 2)},
}


def fits(z: Tensor) -> bool:
    """Whether the kernels take rows like these, on this card."""
    return tiling_for(_TOTALS, z) is not None and tiling_for(_PULL, z) is not None


def totals_and_pull(z: Tensor, temperature: float, intra: bool) -> tuple[Tensor, Tensor]:
    """``[2, n]`` sums of the powers, and ``[2, n, width]`` ``temperature`` times the gradient of the sum of their logs.

    The twin of the plain function in `engine.info_nce`; products are as precise as torch's are set to be.
    """
    (_, num_rows, width), ours = z.shape, operand(z)
    num_parts, _, length, span = ours.parts.shape
    inputs = ours.parts, ours.parts.stride(0), ours.transposed
    sizes = num_rows, length, _LOG2_E / temperature
    kind = {"INTRA": intra, "PARTS": num_parts, "WIDTH": span}
    with torch.cuda.device_of(z):
        grid, tiles, options = _cut(_TOTALS, z, intra)
        totals = z.new_empty(grid[1], 2 * length)
        _totals[grid](*inputs[:2], totals, *sizes, tiles, **kind, **options)
        totals = totals.sum(0)
        grid, tiles, options = _cut(_PULL, z, intra)
        pulled = z.new_empty(grid[1], 2 * length, span)
        _pull[grid](*inputs, totals.reciprocal(), pulled, *sizes, tiles, **kind, **options)
    return totals.view(2, length)[:, :num_rows], pulled.sum(0).view(2, length, span)[:, :num_rows, :width]


def _cut(tilings: Tilings, z: Tensor, intra: bool) -> tuple[tuple[int, int], int, dict[str, int]]:
    """The grid of row tiles and ranges of keys, the key tiles of a range, and the kernel's options."""
    tiling, length = tiling_for(tilings, z), padded_length(z.shape[1])
    assert tiling is not None, "rows that do not fit"
    row_tiles, key_tiles = 2 * length // tiling.rows, length * (2 if intra else 1) // tiling.keys
    ranges, tiles = key_ranges(row_tiles, key_tiles, z.device)
    return (row_tiles, ranges), tiles, tiling.options


@triton.jit
def _totals(
    parts,
    stride,
    totals,
    num_rows,
    length,
    scale,
    tiles,
    INTRA: tl.constexpr,
    PARTS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Sum the powers of a tile of rows over a range of keys."""
    first = tl.program_id(0) * ROWS
    mine, mine_middle, mine_fine = load_tile(parts, stride, first, PARTS, ROWS, WIDTH)
    total = tl.zeros([ROWS], tl.float32)
    start, end = _range(first, length, tiles * KEYS, INTRA)
    for key in range(start, end, KEYS):
        keys, middle, fine = load_tile(parts, stride, key, PARTS, KEYS, WIDTH)
        logits = products(mine, mine_middle, mine_fine, keys, middle, fine, PARTS)
        total += tl.sum(_powers(logits, first, key, num_rows, length, scale, INTRA, ROWS, KEYS), 1)
    tl.store(totals + tl.program_id(1) * 2 * length + first + tl.arange(0, ROWS), total)


@triton.jit
def _pull(
    parts,
    stride,
    transposed,
    inverse,
    pulled,
    num_rows,
    length,
    scale,
    tiles,
    INTRA: tl.constexpr,
    PARTS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Add up the keys of a range, weighted by what both they and the rows of the tile take from each other."""
    first = tl.program_id(0) * ROWS
    mine, mine_middle, mine_fine = load_tile(parts, stride, first, PARTS, ROWS, WIDTH)
    my_share = tl.load(inverse + first + tl.arange(0, ROWS))[:, None]
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    start, end = _range(first, length, tiles * KEYS, INTRA)
    for key in range(start, end, KEYS):
        keys, middle, fine = load_tile(parts, stride, key, PARTS, KEYS, WIDTH)
        logits = products(mine, mine_middle, mine_fine, keys, middle, fine, PARTS)
        weights = _powers(logits, first, key, num_rows, length, scale, INTRA, ROWS, KEYS)
        weights *= my_share + tl.load(inverse + key + tl.arange(0, KEYS))[None, :]
        # The transposed copies of the views stand one after the other, so a column of the second begins a copy later.
        place = key + key // length * length * (WIDTH - 1)
        total = add_weighted(total, weights, keys, middle, fine, transposed, length, place, PARTS, KEYS, WIDTH)
    out = pulled + (tl.program_id(1).to(tl.int64) * 2 * length + first) * WIDTH
    tl.store(out + tl.arange(0, ROWS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], total)


@triton.jit
def _range(first, length, count, INTRA: tl.constexpr):
    """The keys of a program, numbered through both views: of all rows, or of those in the other view."""
    begin = 0 if INTRA else length - first // length * length
    end = begin + (2 * length if INTRA else length)
    start = begin + tl.program_id(1) * count
    return start, tl.minimum(start + count, end)


@triton.jit
def _powers(logits, first, key, num_rows, length, scale, INTRA: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """``exp(logit / temperature)``, or zero where a key is padding or the row itself."""
    number = key + tl.arange(0, KEYS)
    padding = tl.where(number % length < num_rows, 0.0, _NEVER)
    powers = tl.exp2(logits * scale + padding[None, :])
    if INTRA:
        powers = tl.where((first + tl.arange(0, ROWS))[:, None] != number[None, :], powers, 0.0)
    return powers
