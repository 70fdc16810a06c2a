# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""The softmax of attention: scores, maximum, sum and shares of a row in one kernel, all heads at once.

Scores are functions of two nodes and are worked out wherever they are needed; along edges only the shares are stored,
and on the way back the gradients of the scores. Both lie edge by edge with the heads of an edge side by side. Most rows
fit one block and one warp; long rows get more warps and a launch of their own, so that nothing waits for them.
"""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable
from triton import language as tl

from bandana.engine.attention import SLOPE, Shares
from bandana.engine.kernels.row_parts import cut_rows
from bandana.engine.structure import Structure

_WARP_TILE = 256  # scores that a warp takes at once
_LONG_TILE, _LONG_WARPS = 2048, 8  # the same for a row that is long, and the warps that do it

_LEAK = tl.constexpr(SLOPE)
_NO_SCORE = tl.constexpr(float("-inf"))


def attention_shares(structure: Structure, sender: Tensor, receiver: Tensor, weight: Tensor | None = None) -> Shares:
    """The twin of the plain function in `engine.attention`, with gradients for both scores."""
    return Shares(*_Softmax.apply(sender, receiver, weight, structure))  # type: ignore[no-untyped-call]


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, sender: Tensor, receiver: Tensor, weight: Tensor | None, structure: Structure
    ) -> tuple[Tensor, Tensor]:
        scores = sender.t().contiguous(), receiver.t().contiguous()
        edges, loop = scores[0].new_empty(structure.num_entries, sender.shape[0]), torch.empty_like(scores[0])
        weights = None if weight is None else weight.to(edges.dtype).contiguous()
        tensors = structure.col, weights, *scores, edges, loop
        _over_rows(_row_shares, structure.rowptr, tensors, sender.shape[0], WEIGHTED=weight is not None)
        shares = edges.t(), loop.t()
        ctx.save_for_backward(sender, receiver, *shares)
        ctx.structure = structure
        return shares

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        structure: Structure = ctx.structure
        sender, receiver, edges, loop, grad_edges, grad_loop = (
            tensor.t().contiguous() for tensor in (*ctx.saved_tensors, *grads)
        )
        along, own, grad_sender, grad_receiver = (torch.empty_like(like) for like in (edges, loop, loop, loop))
        given = structure.col, sender, receiver, edges, loop, grad_edges, grad_loop
        _over_rows(_row_gradients, structure.rowptr, (*given, along, own, grad_receiver), loop.shape[1])
        outgoing = structure.transposed_entry, along, own, grad_sender
        _over_rows(_row_sums, structure.transposed_rowptr, outgoing, loop.shape[1])
        return grad_sender.t(), grad_receiver.t(), None, None


def _over_rows(
    kernel: triton.JITFunction, rowptr: Tensor, tensors: tuple[Tensor | None, ...], heads: int, **kind: bool
) -> None:
    """One program for each row that fits a block, then one for each that does not."""
    parts, columns = cut_rows(rowptr), triton.next_power_of_2(heads)
    measured = parts.length <= _LONG_TILE  # of rows that were left whole, any may be long
    rows, long_row = (rowptr.numel() - 1, parts.cut_row) if measured else (0, parts.row)
    slots = parts.length if measured else 1
    long = max(_LONG_TILE // columns, slots)
    warps = min(max(slots * columns // _WARP_TILE, 1), _LONG_WARPS)
    common = {"HEADS": columns, **kind}
    with torch.cuda.device_of(rowptr):
        if rows:
            kernel[(rows,)](rowptr, None, *tensors, heads, SLOTS=slots, LONG=False, num_warps=warps, **common)
        if long_row.numel():
            kernel[(long_row.numel(),)](
                rowptr, long_row, *tensors, heads, SLOTS=long, LONG=True, num_warps=_LONG_WARPS, **common
            )


@triton.jit
def _row_shares(
    rowptr,
    cut_row,
    col,
    weight,
    sender,
    receiver,
    edges,
    loop,
    heads,
    WEIGHTED: tl.constexpr,
    HEADS: tl.constexpr,
    SLOTS: tl.constexpr,
    LONG: tl.constexpr,
):
    row, start, end = _bounds(rowptr, cut_row, LONG)
    if LONG or end - start <= SLOTS:
        head = tl.arange(0, HEADS)
        real = head < heads
        heard = tl.load(receiver + row * heads + head, mask=real, other=0.0)
        own = _leaky(tl.load(sender + row * heads + head, mask=real, other=0.0) + heard)
        if LONG:
            highest = tl.zeros([SLOTS, HEADS], tl.float32) + own[None, :]
            total = tl.zeros([SLOTS, HEADS], tl.float32)
            for first in range(start, end, SLOTS):
                place = first + tl.arange(0, SLOTS)
                inside = place < end
                score, count = _scores(col, weight, sender, heard, place, inside, heads, WEIGHTED, HEADS)
                top = tl.maximum(highest, score)
                total = total * tl.exp(highest - top) + count[:, None] * tl.exp(score - top)
                highest = top
            row_top = tl.max(highest, 0)
            sum_of_row = tl.sum(total * tl.exp(highest - row_top[None, :]), 0) + tl.exp(own - row_top)
            for first in range(start, end, SLOTS):  # scoring again costs less than writing and reading
                place = first + tl.arange(0, SLOTS)
                inside = place < end
                score, count = _scores(col, weight, sender, heard, place, inside, heads, WEIGHTED, HEADS)
                share = count[:, None] * tl.exp(score - row_top[None, :]) / sum_of_row[None, :]
                _store(edges, place, inside, heads, share, HEADS)
        else:
            place = start + tl.arange(0, SLOTS)
            inside = place < end
            score, count = _scores(col, weight, sender, heard, place, inside, heads, WEIGHTED, HEADS)
            row_top = tl.maximum(tl.max(score, 0), own)
            power = count[:, None] * tl.exp(score - row_top[None, :])
            sum_of_row = tl.sum(power, 0) + tl.exp(own - row_top)
            _store(edges, place, inside, heads, power / sum_of_row[None, :], HEADS)
        tl.store(loop + row * heads + head, tl.exp(own - row_top) / sum_of_row, mask=real)


@triton.jit
def _row_gradients(
    rowptr,
    cut_row,
    col,
    sender,
    receiver,
    edges,
    loop,
    grad_edges,
    grad_loop,
    along,
    own,
    grad_receiver,
    heads,
    HEADS: tl.constexpr,
    SLOTS: tl.constexpr,
    LONG: tl.constexpr,
):
    """Gradients before the leaky ReLU: of every edge, of the loop, and their sum, the receiver's."""
    row, start, end = _bounds(rowptr, cut_row, LONG)
    if LONG or end - start <= SLOTS:
        head = tl.arange(0, HEADS)
        real = head < heads
        mine = row * heads + head
        heard = tl.load(receiver + mine, mask=real, other=0.0)
        loop_share = tl.load(loop + mine, mask=real, other=0.0)
        loop_grad = tl.load(grad_loop + mine, mask=real, other=0.0)
        loop_score = tl.load(sender + mine, mask=real, other=0.0) + heard
        if LONG:
            products = tl.zeros([SLOTS, HEADS], tl.float32)
            for first in range(start, end, SLOTS):
                place = first + tl.arange(0, SLOTS)
                inside = place < end
                products += _load(edges, place, inside, heads, HEADS) * _load(grad_edges, place, inside, heads, HEADS)
            mean = tl.sum(products, 0) + loop_share * loop_grad
            sums = tl.zeros([SLOTS, HEADS], tl.float32)
            for first in range(start, end, SLOTS):
                place = first + tl.arange(0, SLOTS)
                inside = place < end
                share, pull = _load(edges, place, inside, heads, HEADS), _load(grad_edges, place, inside, heads, HEADS)
                score = _gather(sender, col, place, inside, heads, HEADS) + heard[None, :]
                grad = _before_leak(share * (pull - mean[None, :]), score)
                _store(along, place, inside, heads, grad, HEADS)
                sums += grad
            total = tl.sum(sums, 0)
        else:
            place = start + tl.arange(0, SLOTS)
            inside = place < end
            share, pull = _load(edges, place, inside, heads, HEADS), _load(grad_edges, place, inside, heads, HEADS)
            mean = tl.sum(share * pull, 0) + loop_share * loop_grad
            score = _gather(sender, col, place, inside, heads, HEADS) + heard[None, :]
            grad = _before_leak(share * (pull - mean[None, :]), score)
            _store(along, place, inside, heads, grad, HEADS)
            total = tl.sum(grad, 0)
        loop_grad = _before_leak(loop_share * (loop_grad - mean), loop_score)
        tl.store(own + mine, loop_grad, mask=real)
        tl.store(grad_receiver + mine, total + loop_grad, mask=real)


@triton.jit
def _row_sums(
    rowptr,
    cut_row,
    entry,
    along,
    own,
    grad_sender,
    heads,
    HEADS: tl.constexpr,
    SLOTS: tl.constexpr,
    LONG: tl.constexpr,
):
    """Over the transpose: what the edges of a sender, and its loop, add up to."""
    row, start, end = _bounds(rowptr, cut_row, LONG)
    if LONG or end - start <= SLOTS:
        head = tl.arange(0, HEADS)
        mine = row * heads + head
        sums = tl.zeros([SLOTS, HEADS], tl.float32)
        for first in range(start, end, SLOTS):
            place = first + tl.arange(0, SLOTS)
            sums += _gather(along, entry, place, place < end, heads, HEADS)
        total = tl.sum(sums, 0) + tl.load(own + mine, mask=head < heads, other=0.0)
        tl.store(grad_sender + mine, total, mask=head < heads)


@triton.jit
def _bounds(rowptr, cut_row, LONG: tl.constexpr):
    row = tl.load(cut_row + tl.program_id(0)) if LONG else tl.program_id(0).to(tl.int64)
    return row, tl.load(rowptr + row), tl.load(rowptr + row + 1)


@triton.jit
def _scores(col, weight, sender, heard, place, inside, heads, WEIGHTED: tl.constexpr, HEADS: tl.constexpr):
    """``[slots, heads]`` scores after the leaky ReLU, and for how many edges each ``[slots]`` counts."""
    count = tl.load(weight + place, mask=inside, other=0.0) if WEIGHTED else inside.to(tl.float32)
    score = _leaky(_gather(sender, col, place, inside, heads, HEADS) + heard[None, :])
    return tl.where((count == 0.0)[:, None], _NO_SCORE, score), count


@triton.jit
def _leaky(score):
    return tl.where(score > 0, score, score * _LEAK)


@triton.jit
def _before_leak(grad, score):
    return tl.where(score > 0, grad, grad * _LEAK)


@triton.jit
def _gather(values, index, place, inside, heads, HEADS: tl.constexpr):
    return _load(values, tl.load(index + place, mask=inside, other=0), inside, heads, HEADS)


@triton.jit
def _load(values, place, inside, heads, HEADS: tl.constexpr):
    """``[slots, heads]`` of values that lie ``[places, heads]``; zero for what is not inside."""
    head = tl.arange(0, HEADS)
    mask = inside[:, None] & (head < heads)[None, :]
    return tl.load(values + place[:, None] * heads + head[None, :], mask=mask, other=0.0)


@triton.jit
def _store(values, place, inside, heads, value, HEADS: tl.constexpr):
    head = tl.arange(0, HEADS)
    mask = inside[:, None] & (head < heads)[None, :]
    tl.store(values + place[:, None] * heads + head[None, :], value, mask=mask)
