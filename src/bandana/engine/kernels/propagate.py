# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""A CSR product: no copy of the values in another order, and dropout that is never stored.

A program takes a row, or a part of a long one: the hubs of a graph would otherwise keep the whole card waiting. Only
the parts of long rows are added up with atomics, and none are where torch was asked for repeatable results.
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from triton import language as tl

from bandana.engine.kernels.hashing import LEVELS, keeps_entry

_WARP_TILE = 1024  # elements of the dense operand that a program, one warp, has in flight: no sum crosses warps
_MOST_ENTRIES, _MOST_COLUMNS = 32, 256
_LONGEST = 64  # entries of a part


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
    parts = _parts(rowptr)
    out = dense.new_zeros(rows, width) if parts.split else dense.new_empty(rows, width)
    if out.numel() == 0:
        return out
    columns = min(triton.next_power_of_2(width), _MOST_COLUMNS)
    with torch.cuda.device_of(dense):
        _row_parts[(parts.row.numel(), triton.cdiv(width, columns))](
            rowptr,
            parts.row,
            parts.start,
            col,
            values,
            entry,
            dense,
            loop,
            seed,
            out,
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
    return out


class _Parts(NamedTuple):
    """Rows ``[parts]``, first entries ``[parts]``, the most entries of a part, and whether any row has several."""

    row: Tensor
    start: Tensor
    length: int
    split: bool


_known: "WeakIdKeyDictionary" = WeakIdKeyDictionary()


def _parts(rowptr: Tensor) -> _Parts:
    """Cut long rows. The answer is kept as long as `rowptr` lives: a structure is used in every step of a training.

    One that is made anew within a recorded step must not wait for its answer, so its rows stay whole.
    """
    made_in_recording = rowptr.is_cuda and rowptr not in _known and torch.cuda.is_current_stream_capturing()
    if made_in_recording or torch.are_deterministic_algorithms_enabled():
        every = torch.arange(rowptr.numel() - 1, device=rowptr.device)
        return _Parts(every, rowptr[:-1], torch.iinfo(torch.int32).max, split=False)
    if rowptr not in _known:
        counts = (rowptr.diff() + _LONGEST - 1).div(_LONGEST, rounding_mode="floor").clamp(min=1)
        row = torch.repeat_interleave(counts)
        place = torch.arange(row.numel(), device=row.device) - (counts.cumsum(0) - counts)[row]
        _known[rowptr] = _Parts(row, rowptr[row] + place * _LONGEST, _LONGEST, split=row.numel() > counts.numel())
    parts: _Parts = _known[rowptr]
    return parts


@triton.jit
def _row_parts(
    rowptr,
    part_row,
    part_start,
    col,
    values,
    entry,
    dense,
    loop,
    seed,
    out,
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
    whole_start = tl.load(rowptr + row)
    whole_end = tl.load(rowptr + row + 1)
    end = tl.minimum(start + length, whole_end)
    for first in range(start, end, SLOTS):
        place = first + tl.arange(0, SLOTS)
        inside = place < end
        slot = tl.load(entry + place, mask=inside, other=0) if PERMUTED else place
        value = tl.load(values + slot, mask=inside, other=0.0)
        if DROPOUT:
            value = tl.where(keeps_entry(seed, slot, kept), value, 0.0)
        source = tl.load(col + place, mask=inside, other=0).to(tl.int64)
        used = (value != 0.0)[:, None] & real[None, :]  # rows that count for nothing are not even read
        block = tl.load(dense + source[:, None] * width + column[None, :], mask=used, other=0.0)
        total += tl.sum(value[:, None] * block, 0)
    if LOOP:
        own = tl.load(loop + row) * tl.load(dense + row * width + column, mask=real, other=0.0)
        total += tl.where(start == whole_start, own, 0.0)
    if whole_end - whole_start <= length:
        tl.store(out + row * width + column, total, mask=real)
    else:
        tl.atomic_add(out + row * width + column, total, mask=real, sem="relaxed")
