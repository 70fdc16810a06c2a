# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""``Σ softplus(z_i·z_j)`` over all pairs of rows and its gradient, of several matrices, in one kernel.

The gradient needs no normaliser that only a whole row knows, so one walk over the keys gives both.
"""

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
    products,
    tiling_for,
)

_TILINGS: Tilings = {
    "highest": {128: Tiling(128, 64, 8, 2)},
    "high": {128: Tiling(128, 64, 8, 2)},
    "medium": {256: Tiling(128, 64, 8, 2), 512: Tiling(64, 32, 8, 2)},
}


def fits(z: Tensor) -> bool:
    """Whether the kernel takes matrices like these, on this card."""
    return tiling_for(_TILINGS, z) is not None


def sums_and_pull(z: Tensor) -> tuple[Tensor, Tensor]:
    """The sums ``[batch]`` in double precision, and half of their gradients ``[batch, rows, width]``.

    The twin of the plain function in `engine.adjacency_loss`; products are as precise as torch's are set to be.

    Args:
        z: ``[batch, rows, width]``, each matrix by itself, which must fit.
    """
    batch, num_rows, width = z.shape
    ours, tiling = operand(z), tiling_for(_TILINGS, z)
    assert tiling is not None, "matrices that do not fit"
    num_parts, _, length, span = ours.parts.shape
    ranges, tiles = key_ranges(batch * length // tiling.rows, length // tiling.keys, z.device)
    sums, pulled = z.new_empty(ranges, batch, length), z.new_empty(ranges, batch, length, span)
    with torch.cuda.device_of(z):
        _costs_and_pull[(length // tiling.rows, ranges, batch)](
            ours.parts,
            ours.parts.stride(0),
            ours.transposed,
            sums,
            pulled,
            num_rows,
            length,
            tiles,
            PARTS=num_parts,
            WIDTH=span,
            **tiling.options,
        )
    total = sums[:, :, :num_rows].sum((0, 2), dtype=torch.float64)
    return total, pulled[:, :, :num_rows, :width].sum(0)


@triton.jit
def _costs_and_pull(
    parts,
    stride,
    transposed,
    sums,
    pulled,
    num_rows,
    length,
    tiles,
    PARTS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Over a range of keys, what a tile of rows costs, and the keys weighted by the slope of that."""
    first = tl.program_id(0) * ROWS
    matrix = tl.program_id(2).to(tl.int64) * length * WIDTH
    parts += matrix
    if transposed is not None:
        transposed += matrix
    mine, mine_middle, mine_fine = load_tile(parts, stride, first, PARTS, ROWS, WIDTH)
    cost = tl.zeros([ROWS], tl.float32)
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    start = tl.program_id(1) * tiles * KEYS
    for key in range(start, tl.minimum(start + tiles * KEYS, length), KEYS):
        keys, middle, fine = load_tile(parts, stride, key, PARTS, KEYS, WIDTH)
        logits = products(mine, mine_middle, mine_fine, keys, middle, fine, PARTS)
        tiny = tl.exp(-tl.abs(logits))  # never overflows, and gives both softplus and sigmoid
        softplus = tl.maximum(logits, 0.0) + _log1p(tiny)
        cost += tl.sum(tl.where((key + tl.arange(0, KEYS) < num_rows)[None, :], softplus, 0.0), 1)
        slope = tl.where(logits >= 0, 1.0, tiny) / (1.0 + tiny)  # of padding it multiplies zeros
        total = add_weighted(total, slope, keys, middle, fine, transposed, length, key, PARTS, KEYS, WIDTH)
    row = (tl.program_id(1) * tl.num_programs(2) + tl.program_id(2)).to(tl.int64) * length + first + tl.arange(0, ROWS)
    tl.store(sums + row, cost)
    tl.store(pulled + row[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], total)


@triton.jit
def _log1p(x):
    """``log(1 + x)`` for x in [0, 1] to single precision, relative to itself even where it is tiny.

    ``2 artanh(x / (2 + x))`` as its series, whose terms fall by nine; the hardware's logarithm near one has an error
    that does not shrink with the result.
    """
    y = x / (2.0 + x)
    square = y * y
    series = 1.0 / 11 + square * (1.0 / 13)
    series = 1.0 / 9 + square * series
    series = 1.0 / 7 + square * series
    series = 1.0 / 5 + square * series
    series = 1.0 / 3 + square * series
    return 2.0 * y * (1.0 + square * series)
