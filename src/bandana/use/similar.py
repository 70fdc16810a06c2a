"""The nearest neighbours of nodes by their vectors: exact, with faiss where it is installed."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bandana.errors import UserError
from bandana.evaluation.neighbours import Neighbours, in_order, nearest_by_blocks

Measure = Literal["cosine", "dot"]


@torch.no_grad()
def nearest(z: Tensor, queries: Tensor | None = None, k: int = 10, *, measure: Measure = "cosine") -> Neighbours:
    """The `k` nodes most similar to each query, itself left out.

    Equal scores are told apart by the lower node number. With faiss installed its exact flat index searches, which may
    choose others of several nodes that share the last place.

    Args:
        z: ``[nodes, width]`` embeddings.
        queries: ``[queries]`` node numbers; None asks for all nodes.
        k: How many; at most all other nodes.
        measure: Cosine, in which a vector of zeros is similar to nothing (0), or dot product.

    Raises:
        UserError: There are no other nodes, or fewer than one is asked for.
    """
    if k < 1:
        raise UserError(f"k: must be at least 1, got {k}; ask for one neighbour or more.")
    if z.shape[0] < 2:
        raise UserError(f"Neighbours: there must be at least two vectors, got {z.shape[0]}.")
    k = min(k, z.shape[0] - 1)
    queries = torch.arange(z.shape[0], device=z.device) if queries is None else queries.to(z.device)
    points = comparable(z, measure)
    if z.device.type == "cpu" and find_spec("faiss") is not None:
        return _by_faiss(points, queries, k)
    return nearest_by_blocks(points, queries, k)


def comparable(z: Tensor, measure: Measure) -> Tensor:
    """Vectors whose dot product is the measure."""
    return normalize(z) if measure == "cosine" else z


def _by_faiss(points: Tensor, queries: Tensor, k: int) -> Neighbours:
    faiss: Any = import_module("faiss")
    vectors = points.float().contiguous().numpy()
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    found_scores, found_rows = index.search(vectors[queries.numpy()], k + 1)
    scores, rows = torch.from_numpy(found_scores), torch.from_numpy(found_rows)
    # A query need not be its own best match by dot product: without it among the k + 1, the last one goes.
    dropped = rows == queries.unsqueeze(1)
    dropped[:, -1] |= ~dropped.any(1)
    return in_order(rows[~dropped].view(-1, k), scores[~dropped].view(-1, k).to(points.dtype))
