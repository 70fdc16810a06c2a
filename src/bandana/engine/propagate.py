"""Weighted propagation over a fixed structure: a CSR product whose backward pass is a CSR product too.

Only the values change from layer to layer and step to step, so nothing is ever sorted or scattered here: the gradient
with respect to the dense operand multiplies by the transpose, whose order was found once by `build_structure`.
The values get no gradient, because bandwidths are drawn, not learned.
"""

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bandana.engine import kernels
from bandana.engine.dropout import dropout, keep_mask, keep_scale
from bandana.engine.structure import Structure

warnings.filterwarnings("ignore", message="Sparse (CSR tensor support is in beta|invariant checks are implicitly)")


class EdgeWeights(NamedTuple):
    """What each message is multiplied with: ``values [edges]`` along edges, ``loop [nodes]`` from a node to itself."""

    values: Tensor
    loop: Tensor


def propagate(structure: Structure, values: Tensor, dense: Tensor, loop: Tensor | None = None) -> Tensor:
    """``A @ dense``, or ``(A + diag(loop)) @ dense``, with gradients for `dense`.

    Args:
        structure: Pattern of ``A [rows, columns]``.
        values: ``[entries]`` values of ``A`` in the structure's order.
        dense: ``[columns, width]``.
        loop: ``[rows]`` diagonal to add, for a square structure.

    Returns:
        ``[rows, width]``.
    """
    out: Tensor = _Propagate.apply(dense, values, loop, structure)  # type: ignore[no-untyped-call]
    return out


def propagate_with_dropout(
    structure: Structure, values: Tensor, dense: Tensor, probability: float, generator: torch.Generator | None
) -> Tensor:
    """``dropout(A) @ dense``, with gradients for `dense`: the first layer over sparse features.

    Dropped entries are left out of the product instead of multiplied by zero: at a rate of 0.8, four of five. Where
    neither a CPU nor our kernel does the product, a length that depends on the draw would make the host wait, so there
    zeros are multiplied.

    Args:
        structure: Pattern of ``A [rows, columns]``.
        values: ``[entries]`` values of ``A`` in the structure's order.
        dense: ``[columns, width]``.
        probability: Share of the entries that is dropped.
        generator: Source of randomness; None drops nothing.

    Returns:
        ``[rows, width]``.
    """
    if generator is None or probability == 0:
        return propagate(structure, values, dense)
    if kernels.usable(dense.device, dense.dtype):
        scaled = values * keep_scale(probability)
        product: Tensor = _PropagateDropped.apply(dense, scaled, generator, 1 - 1 / keep_scale(probability), structure)  # type: ignore[no-untyped-call]
        return product
    if values.device.type != "cpu":
        return propagate(structure, dropout(values, probability, generator), dense)
    keep = keep_mask(values.shape, probability, generator).bool()
    out: Tensor = _PropagateKept.apply(dense, values * keep_scale(probability), keep, structure)  # type: ignore[no-untyped-call]
    return out


def gcn_weights(structure: Structure, values: Tensor | None = None, loop: Tensor | None = None) -> EdgeWeights:
    """Symmetric GCN normalisation ``D^-1/2 (A + I) D^-1/2`` with ``D`` the row sums, self-loop included.

    Args:
        structure: Square pattern.
        values: ``[edges]`` edge weights; None means ones.
        loop: ``[nodes]`` self-loop weights; None means ones.
    """
    degree = structure.row_sizes.to(torch.get_default_dtype()) if values is None else row_sums(structure, values)
    loop = torch.ones_like(degree) if loop is None else loop
    scale = (degree + loop).clamp(min=torch.finfo(degree.dtype).tiny).rsqrt()
    weights = scale.index_select(0, structure.row).mul_(scale.index_select(0, structure.col))
    return EdgeWeights(weights if values is None else weights.mul_(values), scale.square().mul_(loop))


def mean_weights(structure: Structure, values: Tensor | None = None) -> Tensor:
    """``[edges]`` edge weights as parts of their row's sum, which make a sum a mean; zero where a row has only zeros.

    Args:
        structure: Any pattern.
        values: ``[edges]`` edge weights, none negative; None means ones.
    """
    if values is None:
        values = torch.ones(structure.num_entries, device=structure.col.device)
    total = row_sums(structure, values).clamp(min=torch.finfo(values.dtype).tiny)
    return values / total.index_select(0, structure.row)


def row_sums(structure: Structure, values: Tensor) -> Tensor:
    """``[rows]`` sum of the values in each row; zero for empty rows."""
    return torch.segment_reduce(values, "sum", offsets=structure.rowptr, unsafe=True, initial=0)


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, values: Tensor, loop: Tensor | None, structure: Structure) -> Tensor:
        ctx.save_for_backward(values, loop)
        ctx.structure = structure
        if kernels.usable(dense.device, dense.dtype):
            from bandana.engine.kernels.propagate import spmm

            return spmm(structure.rowptr, structure.col, values, dense, loop=loop)
        return _add_loop(_spmm(structure.rowptr, structure.col, values, dense), loop, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (grad,) = grads
        values, loop = ctx.saved_tensors
        structure: Structure = ctx.structure
        if kernels.usable(grad.device, grad.dtype):
            from bandana.engine.kernels.propagate import spmm

            where = structure.transposed_rowptr, structure.transposed_col
            return spmm(*where, values, grad, loop=loop, entry=structure.transposed_entry), None, None, None
        transposed = values.index_select(0, structure.transposed_entry)
        out = _spmm(structure.transposed_rowptr, structure.transposed_col, transposed, grad)
        return _add_loop(out, loop, grad), None, None, None


class _PropagateKept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, values: Tensor, keep: Tensor, structure: Structure) -> Tensor:
        ctx.save_for_backward(values, keep)
        ctx.structure = structure
        kept = keep.nonzero().squeeze(1)
        rowptr = torch.searchsorted(kept, structure.rowptr)
        return _spmm(rowptr, structure.col.index_select(0, kept), values.index_select(0, kept), dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        values, keep = ctx.saved_tensors
        structure: Structure = ctx.structure
        kept = keep.index_select(0, structure.transposed_entry).nonzero().squeeze(1)
        rowptr = torch.searchsorted(kept, structure.transposed_rowptr)
        transposed = values.index_select(0, structure.transposed_entry.index_select(0, kept))
        grad = _spmm(rowptr, structure.transposed_col.index_select(0, kept), transposed, grads[0])
        return grad, None, None, None


class _PropagateDropped(torch.autograd.Function):
    """What `_PropagateKept` does, by kernels that draw the mask again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, dense: Tensor, values: Tensor, generator: torch.Generator, drop: float, structure: Structure
    ) -> Tensor:
        from bandana.engine.kernels.hashing import draw_seed
        from bandana.engine.kernels.propagate import spmm

        seed = draw_seed(generator)
        ctx.save_for_backward(values, seed)
        ctx.structure, ctx.drop = structure, drop
        return spmm(structure.rowptr, structure.col, values, dense, seed=seed, drop=drop)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        from bandana.engine.kernels.propagate import spmm

        values, seed = ctx.saved_tensors
        structure: Structure = ctx.structure
        where = structure.transposed_rowptr, structure.transposed_col
        entry = structure.transposed_entry
        return spmm(*where, values, grads[0], entry=entry, seed=seed, drop=ctx.drop), None, None, None, None


def _spmm(rowptr: Tensor, col: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    matrix = torch.sparse_csr_tensor(rowptr, col, values, (rowptr.numel() - 1, dense.shape[0]), check_invariants=False)
    dense = dense.contiguous()
    if dense.device.type == "cpu":
        product: Tensor = torch.sparse.mm(matrix, dense, "sum")  # 1.6 times faster than the operator, row by row
        return product
    return matrix @ dense


def _add_loop(out: Tensor, loop: Tensor | None, dense: Tensor) -> Tensor:
    return out if loop is None else out.addcmul_(loop.unsqueeze(1), dense)
