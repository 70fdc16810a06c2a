"""Sparse features taken as vectors, which are never laid out with all their zeros."""

import torch
from scipy.sparse import csr_array
from torch import Tensor

from bandana.graph import SparseFeatures

PAIRS_PER_BLOCK = 10_000


def sparse_rows(x: SparseFeatures) -> csr_array:
    """The features as SciPy has them."""
    pattern = x.structure
    return csr_array((x.values.float().numpy(), pattern.col.numpy(), pattern.rowptr.numpy()), shape=x.shape)


def sparse_pair_scores(x: SparseFeatures, pairs: Tensor) -> Tensor:
    """``[P]`` dot products of the features of ``[2, P]`` pairs of nodes, on the CPU."""
    rows = sparse_rows(x)
    blocks = (block.numpy() for block in pairs.split(PAIRS_PER_BLOCK, dim=1))
    return torch.cat([torch.from_numpy(rows[left].multiply(rows[right]).sum(axis=1)) for left, right in blocks])
