"""Graph attention: every node mixes its in-neighbours and itself by a softmax of learned scores, head by head.

Written plainly, attention holds one message of full width per edge. Here the mixing of a head is a CSR product, whose
values are the shares of the softmax; only the shares, one number per head and edge, are ever stored along edges. Their
gradient is a dot product at every edge, taken over a few edges at a time. Nothing is scattered: sums over a node's
edges run over rows of the structure or of its transpose, so that results repeat bit for bit. On CUDA kernels do the
same with one gathered vector per edge and head and pass (`kernels.attention`, `kernels.attention_shares`).
"""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu

from bandana.engine import kernels
from bandana.engine.dropout import dropout
from bandana.engine.propagate import propagate
from bandana.engine.structure import Structure

SLOPE = 0.2
"""Of the leaky ReLU on the scores, as in the paper that introduced graph attention (Veličković et al., ICLR 2018)."""

_CPU_CHUNK = 1 << 19  # elements of the rows gathered at once: what stays in a core's cache
_CUDA_CHUNK = 1 << 25  # enough to fill the card


class Shares(NamedTuple):
    """How much each node takes from whom: ``edges [heads, edges]``, and ``loop [heads, nodes]`` from itself.

    For a head, the shares of a node's in-edges and its own add up to one.
    """

    edges: Tensor
    loop: Tensor


def attend(
    structure: Structure,
    h: Tensor,
    shares: Shares,
    drop: float = 0.0,
    generator: torch.Generator | None = None,
    chunk: int | None = None,
) -> Tensor:
    """Mix the nodes' vectors by `shares`, with gradients for both.

    Args:
        structure: Edges by receiving node.
        h: ``[nodes, heads · width]``, the heads side by side.
        shares: Of every head.
        drop: Chance that a share is dropped; the others are scaled up.
        generator: Randomness for the dropping; None for evaluation.
        chunk: Edges whose vectors are gathered at once in the backward pass, where no kernel does without.

    Returns:
        ``[nodes, heads · width]``.
    """
    if kernels.usable(h.device, h.dtype):
        from bandana.engine.kernels.attention import attend as attend_by_kernels

        return attend_by_kernels(structure, h, shares, drop, generator)
    return attend_plainly(structure, h, shares, drop, generator, chunk)


def attend_plainly(
    structure: Structure,
    h: Tensor,
    shares: Shares,
    drop: float = 0.0,
    generator: torch.Generator | None = None,
    chunk: int | None = None,
) -> Tensor:
    """What `attend` computes, on any device and in any precision."""
    edges, loop = (dropout(values, drop, generator) for values in shares)
    heads = h.unflatten(1, (loop.shape[0], -1))
    by_head = zip(edges.detach(), heads.unbind(1), loop.detach(), strict=True)
    mixed = torch.stack([propagate(structure, values, part, own) for values, part, own in by_head], dim=1)
    size = chunk or _edges_at_once(h)
    out: Tensor = _GradientOfShares.apply(mixed, edges, loop, heads.detach(), structure, size)  # type: ignore[no-untyped-call]
    return out.flatten(1)


def attention_shares(structure: Structure, sender: Tensor, receiver: Tensor, weight: Tensor | None = None) -> Shares:
    """The softmax of ``leaky_relu(sender[j] + receiver[i])`` over the edges ``j -> i`` into each node and its loop.

    Args:
        structure: Edges by receiving node.
        sender: ``[heads, nodes]`` score of each node as the one that is heard.
        receiver: ``[heads, nodes]`` score of each node as the one that hears.
        weight: ``[edges]`` an edge of weight ``w`` counts as ``w`` edges, one of weight zero as none; None means ones.
            It gets no gradient.
    """
    if kernels.usable(sender.device, sender.dtype):
        from bandana.engine.kernels.attention_shares import attention_shares as shares_by_kernels

        return shares_by_kernels(structure, sender, receiver, weight)
    return attention_shares_plainly(structure, sender, receiver, weight)


def attention_shares_plainly(
    structure: Structure, sender: Tensor, receiver: Tensor, weight: Tensor | None = None
) -> Shares:
    """What `attention_shares` computes, on any device and in any precision."""
    bonus = None if weight is None else weight.log()
    return Shares(*_Softmax.apply(sender, receiver, bonus, structure))  # type: ignore[no-untyped-call]


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, sender: Tensor, receiver: Tensor, bonus: Tensor | None, structure: Structure
    ) -> tuple[Tensor, Tensor]:
        along = sender.index_select(1, structure.col).add_(receiver.index_select(1, structure.row))
        own = sender + receiver
        on_slope, own_on_slope = along <= 0, own <= 0
        edges, loop = leaky_relu(along, SLOPE, inplace=True), leaky_relu(own, SLOPE, inplace=True)
        if bonus is not None:
            edges += bonus
        highest = torch.maximum(_over_rows("max", edges, structure.rowptr), loop)
        edges.sub_(highest.index_select(1, structure.row)).exp_()
        loop.sub_(highest).exp_()
        total = _over_rows("sum", edges, structure.rowptr).add_(loop)
        edges.div_(total.index_select(1, structure.row))
        loop.div_(total)
        ctx.save_for_backward(edges, loop, on_slope, own_on_slope)
        ctx.structure = structure
        return edges, loop

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_edges, grad_loop = grads
        edges, loop, on_slope, own_on_slope = ctx.saved_tensors
        structure: Structure = ctx.structure
        mean = _over_rows("sum", edges * grad_edges, structure.rowptr).addcmul_(loop, grad_loop)
        along = (grad_edges - mean.index_select(1, structure.row)).mul_(edges)
        along = torch.where(on_slope, along * SLOPE, along)
        own = (grad_loop - mean).mul_(loop)
        own = torch.where(own_on_slope, own * SLOPE, own)
        outgoing = along.index_select(1, structure.transposed_entry)
        grad_sender = _over_rows("sum", outgoing, structure.transposed_rowptr).add_(own)
        return grad_sender, _over_rows("sum", along, structure.rowptr).add_(own), None, None


class _GradientOfShares(torch.autograd.Function):
    """Leaves a mixture as it is, and gives the shares that it was made with the gradient that `propagate` does not."""

    @staticmethod
    def forward(
        ctx: Any, mixed: Tensor, edges: Tensor, loop: Tensor, heads: Tensor, structure: Structure, chunk: int
    ) -> Tensor:
        ctx.save_for_backward(heads)
        ctx.structure, ctx.chunk = structure, chunk
        return mixed.view_as(mixed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        (heads,) = ctx.saved_tensors
        structure: Structure = ctx.structure
        at_edges = heads.new_empty(heads.shape[1], structure.num_entries)
        for start in range(0, structure.num_entries, ctx.chunk):
            some = slice(start, start + ctx.chunk)
            products = grad.index_select(0, structure.row[some]).mul_(heads.index_select(0, structure.col[some]))
            at_edges[:, some] = products.sum(2).t()
        return grad, at_edges, torch.linalg.vecdot(grad, heads).t(), None, None, None


def _over_rows(how: Literal["sum", "max"], values: Tensor, rowptr: Tensor) -> Tensor:
    """``[heads, rows]`` sum or maximum of each row of ``[heads, entries]``: all heads as one long list of segments."""
    heads, entries = values.shape
    starts = rowptr[:-1] + entries * torch.arange(heads, device=rowptr.device).unsqueeze(1)
    offsets = torch.cat([starts.flatten(), rowptr.new_full((1,), heads * entries)])
    initial = 0 if how == "sum" else None
    reduced = torch.segment_reduce(values.flatten(), how, offsets=offsets, unsafe=True, initial=initial)
    return reduced.view(heads, rowptr.numel() - 1)


def _edges_at_once(h: Tensor) -> int:
    elements = _CPU_CHUNK if h.device.type == "cpu" else _CUDA_CHUNK
    return max(elements // max(h.shape[1], 1), 1)
