"""The nearest of some points among all by dot product: exact, in blocks, never a matrix of all pairs."""

from typing import NamedTuple

import torch
from torch import Tensor

SCORES_PER_BLOCK = 1 << 22
"""Scores held at a time, 16 MB; a block has at least one query."""


class Neighbours(NamedTuple):
    """The nearest nodes of each query, nearest first.

    Attributes:
        rows: ``[queries, k]`` node numbers.
        scores: ``[queries, k]`` cosines or dot products.
    """

    rows: Tensor
    scores: Tensor


def nearest_by_blocks(points: Tensor, queries: Tensor, k: int) -> Neighbours:
    """The `k` other points with the largest dot products; equal ones are told apart by the lower number.

    Args:
        points: ``[points, width]``; of unit length, if cosines are meant.
        queries: ``[queries]`` numbers of points.
        k: How many, less than there are points.
    """
    size = max(1, SCORES_PER_BLOCK // points.shape[0])
    # Laid out once: small results kept between large blocks would leave holes that no later block fits into.
    rows, scores = queries.new_empty(queries.numel(), k), points.new_empty(queries.numel(), k)
    for start in range(0, queries.numel(), size):
        block = slice(start, start + size)
        rows[block], scores[block] = _search(points, queries[block], k)
    return Neighbours(rows, scores)


def _search(points: Tensor, queries: Tensor, k: int) -> Neighbours:
    scores = points[queries] @ points.T
    scores.scatter_(1, queries.unsqueeze(1), -torch.inf)
    best, rows = scores.topk(k)
    # topk leaves open which of equal scores it takes. Where the last place is shared, sort the whole row instead.
    shared = ((scores >= best[:, -1:]).sum(1) > k).nonzero().squeeze(1)
    if shared.numel():
        ordered = scores[shared].sort(dim=1, descending=True, stable=True)
        best[shared], rows[shared] = ordered.values[:, :k], ordered.indices[:, :k]
    return in_order(rows, best)


def in_order(rows: Tensor, scores: Tensor) -> Neighbours:
    """Each row by falling score, then by node number."""
    by_number = rows.argsort(dim=1)
    rows, scores = rows.gather(1, by_number), scores.gather(1, by_number)
    by_score = scores.argsort(dim=1, descending=True, stable=True)
    return Neighbours(rows.gather(1, by_score), scores.gather(1, by_score))
