# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""A CSR product: no copy of the values in another order, and dropout that is never stored.

A program takes a row, or a part of a long one: the hubs of a graph would otherwise keep the whole card waiting. The
parts of a row are added up afterwards, in their order, so that results repeat bit for bit.
"""

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.kernels.hashing import LEVELS, keeps_entry
from bandana.engine.kernels.row_parts import add_up, cut_rows

_WARP_TILE = 1024  # elements of the dense operand that a program, one warp, has in flight: no sum crosses warps
_MOST_ENTRIES, _MOST_COLUMNS = 32, 256


def spmm(
    rowptr: Tensor,
    col: Tensor,
    values: Tensor,
    dense: Tensor,
    *,
    loop: Tensor | None = None,
    entry: Tensor | None = None,
    seed: Tensor | None = None,
    drop: float = 0.0,
) -> Tensor:
    """``[rows, width]``: the matrix, plus ``diag(loop)``, times `dense`.

    Args:
        rowptr: ``[rows + 1]`` first entry of each row.
        col: ``[entries]`` column of each entry.
        values: ``[entries]`` values.
        dense: ``[columns, width]``.
        loop: ``[rows]`` diagonal.
        entry: ``[entries]`` where the value of each entry stands; None where `values` are in the matrix's order.
        seed: ``[1]`` integer on the device that decides which values are dropped; None drops none.
        drop: Share of the values that is dropped, a multiple of 1/65,536. The others are not scaled here.
    """
    rows, width = rowptr.numel() - 1, dense.shape[1]
    # A kernel steps from one element to the next, whatever the strides: one head of attention's shares has others.
    values, dense, loop = values.contiguous(), dense.contiguous(), None if loop is None else loop.contiguous()
    parts, out = cut_rows(rowptr), dense.new_empty(rows, width)
    if out.numel() == 0:
        return out
    partial = dense.new_empty(parts.slots, width)
    columns = min(triton.next_power_of_2(width), _MOST_COLUMNS)
    with torch.cuda.device_of(dense):
        _row_parts[(parts.row.numel(), triton.cdiv(width, columns))](
            rowptr,
            parts.row,
            parts.start,
            parts.slot,
            col,
            values,
            entry,
            dense,
            loop,
            seed,
            out,
            partial,
            round((1 - drop) * LEVELS),
            width,
            parts.length,
            PERMUTED=entry is not None,
            LOOP=loop is not None,
            DROPOUT=seed is not None,
            SLOTS=min(_WARP_TILE // columns, _MOST_ENTRIES),
            COLUMNS=columns,
            num_warps=1,
        )
    add_up(parts, partial, out)
    return out


@triton.jit
def _row_parts(
    rowptr,
    part_row,
    part_start,
    part_slot,
    col,
    values,
    entry,
    dense,
    loop,
    seed,
    out,
    partial,
    kept,
    width,
    length,
    PERMUTED: tl.constexpr,
    LOOP: tl.constexpr,
    DROPOUT: tl.constexpr,
    SLOTS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.load(part_row + tl.program_id(0))
    start = tl.load(part_start + tl.program_id(0))
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = column < width
    total = tl.zeros([COLUMNS], tl.float32)
    end = tl.minimum(start + length, tl.load(rowptr + row + 1))
    for first in range(start, end, SLOTS):
        place = first + tl.arange(0, SLOTS)
        inside = place < end
        where = tl.load(entry + place, mask=inside, other=0) if PERMUTED else place
        value = tl.load(values + where, mask=inside, other=0.0)
        if DROPOUT:
            value = tl.where(keeps_entry(seed, where, kept), value, 0.0)
        source = tl.load(col + place, mask=inside, other=0).to(tl.int64)
        used = (value != 0.0)[:, None] & real[None, :]  # rows that count for nothing are not even read
        block = tl.load(dense + source[:, None] * width + column[None, :], mask=used, other=0.0)
        total += tl.sum(value[:, None] * block, 0)
    if LOOP:
        own = tl.load(loop + row) * tl.load(dense + row * width + column, mask=real, other=0.0)
        total += tl.where(start == tl.load(rowptr + row), own, 0.0)
    slot = tl.load(part_slot + tl.program_id(0))
    if slot < 0:
        tl.store(out + row * width + column, total, mask=real)
    else:
        tl.store(partial + slot * width + column, total, mask=real)
