# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""Attention's mixing in one kernel each way: a vector is gathered once per edge and head, and none is written there.

Forward, a program takes one head of a receiving node and adds up its senders. Backward, it takes one head of a sending
node, whose vector stays in registers while the gradients at its receivers come by: each is added to the sender's
gradient, and its product with the sender's vector is the gradient of the share. Long rows are cut (`row_parts`).
"""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable
from triton import language as tl

from bandana.engine.attention import Shares
from bandana.engine.dropout import keep_scale
from bandana.engine.kernels.hashing import LEVELS, draw_seed, keeps_entry
from bandana.engine.kernels.row_parts import Parts, add_up, cut_rows
from bandana.engine.structure import Structure

# Eight entries or more of 128 columns to a warp: enough in flight, and no sum over entries crosses warps.
_WARP_COLUMNS, _WARP_ELEMENTS = 128, 1024
_FEWEST_ENTRIES, _MOST_ENTRIES, _MOST_COLUMNS = 8, 32, 1024


def attend(
    structure: Structure, h: Tensor, shares: Shares, drop: float = 0.0, generator: torch.Generator | None = None
) -> Tensor:
    """``[nodes, heads · width]``; the twin of the plain function in `engine.attention`, with gradients for all tensors.

    Which shares are dropped is a function of (seed, edge or node, head), worked out again on the way back.
    """
    seed = draw_seed(generator) if generator is not None and drop else None
    out: Tensor = _Attend.apply(h, *shares, seed, keep_scale(drop) if seed is not None else 1.0, structure)  # type: ignore[no-untyped-call]
    return out


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, edges: Tensor, loop: Tensor, seed: Tensor | None, scale: float, structure: Structure
    ) -> Tensor:
        ctx.save_for_backward(h, edges, loop, seed)
        ctx.structure, ctx.scale = structure, scale
        rows = h.contiguous()
        out = torch.empty_like(rows)
        parts, tiling = cut_rows(structure.rowptr), _tiling(structure, rows, loop.shape[0])
        partial = rows.new_empty(parts.slots, rows.shape[1])
        tensors = structure.col, edges.t().contiguous(), loop.t().contiguous(), rows, seed, out, partial
        _launch(_mix, structure.rowptr, parts, tensors, structure.num_entries, scale, tiling)
        add_up(parts, partial, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, edges, loop, seed = ctx.saved_tensors
        structure: Structure = ctx.structure
        rows, grad = h.contiguous(), grads[0].contiguous()
        grad_rows = torch.empty_like(rows)
        parts, tiling = cut_rows(structure.transposed_rowptr), _tiling(structure, rows, loop.shape[0])
        partial = rows.new_empty(parts.slots, rows.shape[1])
        # Edges first, then loops: the numbers that dropout knows them by. A head wider than a block has several terms.
        grad_shares = rows.new_empty(structure.num_entries + loop.shape[1], loop.shape[0], tiling["BLOCKS"])
        where = structure.transposed_col, structure.transposed_entry
        given = edges.t().contiguous(), loop.t().contiguous(), rows, grad, seed
        tensors = *where, *given, grad_rows, partial, grad_shares
        _launch(_mix_back, structure.transposed_rowptr, parts, tensors, structure.num_entries, ctx.scale, tiling)
        add_up(parts, partial, grad_rows)
        summed = grad_shares.squeeze(2) if tiling["BLOCKS"] == 1 else grad_shares.sum(2)
        grad_edges, grad_loop = summed.split([structure.num_entries, loop.shape[1]])
        return grad_rows, grad_edges.t(), grad_loop.t(), None, None, None


def _tiling(structure: Structure, h: Tensor, heads: int) -> dict[str, int]:
    """A whole head per program, if it is not too wide; the narrower it is, the more entries, but not above the mean."""
    width = h.shape[1] // heads
    columns = min(triton.next_power_of_2(max(width, 1)), _MOST_COLUMNS)
    mean = triton.next_power_of_2(-(-structure.num_entries // max(structure.num_rows, 1)) or 1)
    return {
        "heads": heads,
        "width": width,
        "BLOCKS": triton.cdiv(width, columns),
        "SLOTS": max(min(_WARP_ELEMENTS // columns, mean, _MOST_ENTRIES), _FEWEST_ENTRIES),
        "COLUMNS": columns,
        "num_warps": max(columns // _WARP_COLUMNS, 1),
    }


def _launch(
    kernel: triton.JITFunction,
    rowptr: Tensor,
    parts: Parts,
    tensors: tuple[Tensor | None, ...],
    entries: int,
    scale: float,
    tiling: dict[str, int],
) -> None:
    if rowptr.numel() > 1 and tiling["BLOCKS"]:
        with torch.cuda.device_of(rowptr):
            kernel[(parts.row.numel(), tiling["heads"] * tiling["BLOCKS"])](
                rowptr,
                parts.row,
                parts.start,
                parts.slot,
                *tensors,
                scale,
                round(LEVELS / scale),
                entries,
                parts.length,
                **tiling,
                DROPOUT=scale > 1,
            )


@triton.jit
def _mix(
    rowptr,
    part_row,
    part_start,
    part_slot,
    col,
    edges,
    loop,
    h,
    seed,
    out,
    partial,
    scale,
    kept,
    entries,
    length,
    heads,
    width,
    BLOCKS: tl.constexpr,
    SLOTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DROPOUT: tl.constexpr,
):
    row = tl.load(part_row + tl.program_id(0))
    start = tl.load(part_start + tl.program_id(0))
    head = tl.program_id(1) // BLOCKS
    column = (tl.program_id(1) % BLOCKS) * COLUMNS + tl.arange(0, COLUMNS)
    real = column < width
    column += head * width
    end = tl.minimum(start + length, tl.load(rowptr + row + 1))
    total = tl.zeros([COLUMNS], tl.float32)
    for first in range(start, end, SLOTS):
        place = first + tl.arange(0, SLOTS)
        inside = place < end
        share = tl.load(edges + place * heads + head, mask=inside, other=0.0)
        if DROPOUT:
            share = tl.where(keeps_entry(seed, place * heads + head, kept), share, 0.0)
        sender = tl.load(col + place, mask=inside, other=0)
        used = (share != 0.0)[:, None] & real[None, :]  # vectors that count for nothing are not even read
        vectors = tl.load(h + sender[:, None] * (heads * width) + column[None, :], mask=used, other=0.0)
        total += tl.sum(share[:, None] * vectors, 0)
    if start == tl.load(rowptr + row):
        share = tl.load(loop + row * heads + head)
        if DROPOUT:
            share = tl.where(keeps_entry(seed, (entries + row) * heads + head, kept), share, 0.0)
        total += share * tl.load(h + row * (heads * width) + column, mask=real, other=0.0)
    slot = tl.load(part_slot + tl.program_id(0))
    if slot < 0:
        tl.store(out + row * (heads * width) + column, total * scale, mask=real)
    else:
        tl.store(partial + slot * (heads * width) + column, total * scale, mask=real)


@triton.jit
def _mix_back(
    rowptr,
    part_row,
    part_start,
    part_slot,
    col,
    entry,
    edges,
    loop,
    h,
    grad,
    seed,
    grad_h,
    partial,
    grad_shares,
    scale,
    kept,
    entries,
    length,
    heads,
    width,
    BLOCKS: tl.constexpr,
    SLOTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DROPOUT: tl.constexpr,
):
    """Over the transpose: its rows are senders, and `col` are their receivers."""
    row = tl.load(part_row + tl.program_id(0))
    start = tl.load(part_start + tl.program_id(0))
    head = tl.program_id(1) // BLOCKS
    block = tl.program_id(1) % BLOCKS
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    real = column < width
    column += head * width
    end = tl.minimum(start + length, tl.load(rowptr + row + 1))
    mine = tl.load(h + row * (heads * width) + column, mask=real, other=0.0)
    total = tl.zeros([COLUMNS], tl.float32)
    for first in range(start, end, SLOTS):
        place = first + tl.arange(0, SLOTS)
        inside = place < end
        number = tl.load(entry + place, mask=inside, other=0) * heads + head
        stays = inside & keeps_entry(seed, number, kept) if DROPOUT else inside
        share = tl.load(edges + number, mask=stays, other=0.0)
        receiver = tl.load(col + place, mask=inside, other=0)
        used = stays[:, None] & real[None, :]
        pull = tl.load(grad + receiver[:, None] * (heads * width) + column[None, :], mask=used, other=0.0)
        total += tl.sum(share[:, None] * pull, 0)
        tl.store(grad_shares + number * BLOCKS + block, tl.sum(pull * mine[None, :], 1) * scale, mask=inside)
    if start == tl.load(rowptr + row):
        number = (entries + row) * heads + head
        share = tl.load(loop + row * heads + head)
        pull = tl.load(grad + row * (heads * width) + column, mask=real, other=0.0)
        if DROPOUT:
            pull = tl.where(keeps_entry(seed, number, kept), pull, 0.0)
        total += share * pull
        tl.store(grad_shares + number * BLOCKS + block, tl.sum(pull * mine, 0) * scale)
    slot = tl.load(part_slot + tl.program_id(0))
    if slot < 0:
        tl.store(grad_h + row * (heads * width) + column, total * scale, mask=real)
    else:
        tl.store(partial + slot * (heads * width) + column, total * scale, mask=real)
