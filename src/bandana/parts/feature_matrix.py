"""Features as a matrix, dense or sparse: part of it hidden, its rows in shares, and turned around."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bandana.engine.propagate import row_sums
from bandana.engine.structure import Structure
from bandana.graph import Features, SparseFeatures


def hide_share(values: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Set exactly ``⌊rate · count⌋`` of the non-zero values to zero, each as likely as another."""
    if rate == 0:
        return values
    present = (values != 0).flatten()
    keys = torch.rand(present.shape, generator=generator, device=values.device).masked_fill(~present, 2.0)
    hidden = (present.sum().double() * rate).floor()
    places = torch.arange(keys.numel(), device=values.device)
    rank = torch.empty_like(places).scatter_(0, keys.argsort(), places)
    return values.where((rank >= hidden).view_as(values), 0)


def hide_features(x: Features, rate: float, generator: torch.Generator) -> Features:
    """Features without exactly a share of their non-zero entries."""
    if isinstance(x, SparseFeatures):
        return SparseFeatures(x.structure, hide_share(x.values, rate, generator))
    return hide_share(x, rate, generator)


def in_shares(x: Features) -> Features:
    """Rows divided by the sum of their absolute values; rows of zeros stay."""
    if not isinstance(x, SparseFeatures):
        return normalize(x, p=1)
    total = row_sums(x.structure, x.values.abs()).clamp(min=1e-12)
    return SparseFeatures(x.structure, x.values / total[x.structure.row])


def transposed(x: Features) -> Features:
    """Features by node become nodes by feature."""
    if not isinstance(x, SparseFeatures):
        return x.T
    mine = x.structure
    place = torch.empty_like(mine.transposed_entry)
    place[mine.transposed_entry] = torch.arange(mine.num_entries, device=place.device)
    structure = Structure(
        rowptr=mine.transposed_rowptr,
        row=mine.col[mine.transposed_entry],
        col=mine.transposed_col,
        transposed_rowptr=mine.rowptr,
        transposed_col=mine.col,
        transposed_entry=place,
    )
    return SparseFeatures(structure, x.values[mine.transposed_entry])
