# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""Long rows of a structure, cut into parts that different programs take, and the sums of the parts without atomics.

Parts of a cut row are written below each other and added up by a kernel of their own, always in the same order, so that
results repeat bit for bit.
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from triton import language as tl

_LONGEST = 64  # entries of a part
_SLOTS, _COLUMNS = 8, 256  # parts and columns added up at once


class Parts(NamedTuple):
    """The rows of a structure, of which the long ones are cut.

    Attributes:
        row: ``[parts]`` row of each part, ascending; every row has at least one.
        start: ``[parts]`` first entry of each part.
        slot: ``[parts]`` number of each part among those of cut rows; -1 for a row that is whole.
        cut_row: ``[cut]`` the rows that have several parts.
        cut_slot: ``[cut + 1]`` the first slot of each of them, and the number of all slots.
        slots: How many there are: the last of `cut_slot`, known to the host.
        length: The most entries of a part.
    """

    row: Tensor
    start: Tensor
    slot: Tensor
    cut_row: Tensor
    cut_slot: Tensor
    slots: int
    length: int


_known: "WeakIdKeyDictionary" = WeakIdKeyDictionary()


def cut_rows(rowptr: Tensor) -> Parts:
    """Cut what ``[rows + 1]`` `rowptr` bounds. The answer is kept as long as `rowptr` lives.

    The first call for a structure waits for the device; the calls of a recorded step find the answer. A structure that
    is made anew within a recorded step cannot be waited for, so its rows stay whole.
    """
    if rowptr not in _known:
        if rowptr.is_cuda and torch.cuda.is_current_stream_capturing():
            return _whole_rows(rowptr)
        counts = (rowptr.diff() + _LONGEST - 1).div(_LONGEST, rounding_mode="floor").clamp(min=1)
        row = torch.repeat_interleave(counts)
        nth = torch.arange(row.numel(), device=row.device) - (counts.cumsum(0) - counts)[row]
        several = counts > 1
        of_cut_row = several[row]
        cut_row = several.nonzero().squeeze(1)
        cut_slot = torch.cat([counts.new_zeros(1), counts[cut_row].cumsum(0)])
        slot = torch.where(of_cut_row, of_cut_row.cumsum(0) - 1, -1)
        start = rowptr[row] + nth * _LONGEST
        _known[rowptr] = Parts(row, start, slot, cut_row, cut_slot, int(cut_slot[-1]), _LONGEST)
    parts: Parts = _known[rowptr]
    return parts


def _whole_rows(rowptr: Tensor) -> Parts:
    every = torch.arange(rowptr.numel() - 1, device=rowptr.device)
    none = every[:0]
    return Parts(every, rowptr[:-1], torch.full_like(every, -1), none, none, 0, torch.iinfo(torch.int32).max)


def add_up(parts: Parts, partial: Tensor, out: Tensor) -> None:
    """Write the sums of the cut rows' parts.

    Args:
        parts: Of the structure.
        partial: ``[slots, width]`` one row for each part of a cut row.
        out: ``[rows, width]``, contiguous as well, whose cut rows are written.
    """
    width = out.shape[1]
    if parts.slots and width:
        columns = min(triton.next_power_of_2(width), _COLUMNS)
        with torch.cuda.device_of(out):
            _add_up[(parts.cut_row.numel(), triton.cdiv(width, columns))](
                parts.cut_row, parts.cut_slot, partial, out, width, SLOTS=_SLOTS, COLUMNS=columns, num_warps=2
            )


@triton.jit
def _add_up(cut_row, cut_slot, partial, out, width, SLOTS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.load(cut_row + tl.program_id(0))
    end = tl.load(cut_slot + tl.program_id(0) + 1)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = column < width
    total = tl.zeros([SLOTS, COLUMNS], tl.float32)
    for first in range(tl.load(cut_slot + tl.program_id(0)), end, SLOTS):
        slot = first + tl.arange(0, SLOTS)
        inside = (slot < end)[:, None] & real[None, :]
        total += tl.load(partial + slot[:, None] * width + column[None, :], mask=inside, other=0.0)
    tl.store(out + row * width + column, tl.sum(total, 0), mask=real)
