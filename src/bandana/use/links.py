"""The most likely missing links: the best pairs of all that are not linked, found block by block.

Only the best pairs so far are kept, and a block offers nothing that is worse than the worst of them, so memory is one
block of scores whatever the size of the graph. Equal scores go to the pair that comes first by (source, target). With
faiss installed its exact flat index searches the blocks of float32 vectors on a CPU. It rounds sums in its own way, so
pairs whose scores differ by no more than that may change places.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from bandana.engine.structure import entry_keys
from bandana.errors import UserError
from bandana.evaluation.neighbours import SCORES_PER_BLOCK
from bandana.graph import Graph
from bandana.use.similar import Measure, comparable

PairScore = Callable[[Tensor], Tensor]
"""``[P]`` scores of ``[2, P]`` pairs, such as a method's own decoder gives."""


class Links(NamedTuple):
    """Pairs of nodes, the likeliest first.

    Attributes:
        pairs: ``[2, K]`` (source, target) node numbers; of an undirected pair the lower one first.
        scores: ``[K]``, falling.
    """

    pairs: Tensor
    scores: Tensor


Offers = Iterator[Callable[[float], Links]]
"""One function per block of pairs: those that belong among the best, if no other than what reaches a bound does."""


@torch.no_grad()
def missing_links(
    graph: Graph,
    z: Tensor,
    top: int = 100,
    *,
    measure: Measure = "dot",
    within: int | None = None,
    score: PairScore | None = None,
) -> Links:
    """The `top` pairs of different nodes with the highest score that are not linked; fewer if there are no more.

    An undirected pair is considered once; of a directed graph both directions are, each by itself.

    Args:
        graph: Its links are left out.
        z: ``[nodes, width]`` embeddings.
        top: How many.
        measure: What a score is, unless `score` says.
        within: 2 or 3 considers only pairs that a path of at most so many steps joins; None considers all pairs.
        score: Scores pairs in place of `measure`. It is called for few, large blocks of them.

    Raises:
        UserError: An option is out of range, or `score` is asked to judge all pairs.
    """
    if top < 1:
        raise UserError(f"top: must be at least 1, got {top}; ask for one link or more.")
    if z.shape[0] != graph.num_nodes:
        raise UserError(f"Links: there are {z.shape[0]} vectors for {graph.num_nodes} nodes; embed this very graph.")
    points = comparable(z, measure)
    if within is None and score is not None:
        raise UserError("Links: a decoder scores pair by pair, too slow for all pairs; choose within 2 or 3 steps.")
    if within is None:
        offers = _all_pairs(graph, points, top)
    elif within in (2, 3):
        offers = _near_pairs(graph, within, score or (lambda pairs: _dot_products(points, pairs)))
    else:
        raise UserError(f"within: must be 2 or 3 steps, got {within}; leave it out to consider all pairs.")
    best = Links(torch.empty(2, 0, dtype=torch.long, device=z.device), z.new_empty(0))
    for offer in offers:
        full = best.scores.numel() == top
        best = _merge(best, offer(float(best.scores[-1]) if full else -torch.inf), top)
    return best


def _merge(best: Links, offer: Links, top: int) -> Links:
    pairs = torch.cat([best.pairs, offer.pairs], dim=1)
    scores = torch.cat([best.scores, offer.scores.to(best.scores.dtype)])
    if scores.numel() > top:
        good = scores >= scores.topk(top).values[-1]
        pairs, scores = pairs[:, good], scores[good]
    order = pairs[1].argsort(stable=True)
    order = order[pairs[0, order].argsort(stable=True)]
    order = order[scores[order].argsort(descending=True, stable=True)][:top]
    return Links(pairs[:, order], scores[order])


def _all_pairs(graph: Graph, points: Tensor, top: int) -> Offers:
    side = max(1, isqrt(SCORES_PER_BLOCK))
    starts = range(0, graph.num_nodes, side)
    with_faiss = points.device.type == "cpu" and points.dtype == torch.float32 and find_spec("faiss") is not None

    def offer(start: int, low: int, above: float) -> Links:
        sources, targets = points[start : start + side], points[low : low + side]
        if with_faiss and above > -torch.inf:
            found = _reaching_by_faiss(sources, targets, above)
            pairs = found.pairs + torch.tensor([[start], [low]])
            unlinked = _unlinked(graph, pairs)
            return Links(pairs[:, unlinked], found.scores[unlinked])
        scores = sources @ targets.T
        _leave_out(scores, graph, start, low)
        if above == -torch.inf:  # nothing bounds the first blocks but their own best
            above = float(scores.flatten().topk(min(top, scores.numel())).values[-1])
        source, target = (scores >= max(above, torch.finfo(scores.dtype).min)).nonzero(as_tuple=True)
        return Links(torch.stack([source + start, target + low]), scores[source, target])

    # The lower targets of undirected pairs were sources before.
    return (partial(offer, start, low) for start in starts for low in starts if graph.directed or low >= start)


def _leave_out(scores: Tensor, graph: Graph, start: int, low: int) -> None:
    """Make the scores of links, of self-pairs and of undirected pairs the other way round impossible, in place."""
    targets_of = graph.structure.transposed_rowptr[start : start + scores.shape[0] + 1]
    targets = graph.structure.transposed_col[int(targets_of[0]) : int(targets_of[-1])] - low
    rows = torch.arange(scores.shape[0], device=scores.device)
    linked = rows.repeat_interleave(targets_of.diff())
    inside = (targets >= 0) & (targets < scores.shape[1])
    scores[linked[inside], targets[inside]] = -torch.inf
    if start == low and graph.directed:
        scores.fill_diagonal_(-torch.inf)
    elif start == low:
        scores.masked_fill_(rows <= rows.unsqueeze(1), -torch.inf)


def _reaching_by_faiss(sources: Tensor, targets: Tensor, bound: float) -> Links:
    """All pairs (row of `sources`, row of `targets`) whose product is `bound` or more."""
    faiss: Any = import_module("faiss")
    index = faiss.IndexFlatIP(targets.shape[1])
    index.add(targets.contiguous().numpy())
    below = np.nextafter(np.float32(bound), np.float32(-np.inf))  # what equals the radius is not found
    ends, scores, found = index.range_search(sources.contiguous().numpy(), float(below))
    rows = np.repeat(np.arange(sources.shape[0]), np.diff(ends.astype(np.int64)))
    return Links(torch.from_numpy(np.stack([rows, found])), torch.from_numpy(scores))


def _near_pairs(graph: Graph, within: int, score: PairScore) -> Offers:
    structure, nodes = graph.structure, graph.num_nodes
    rowptr, col = structure.transposed_rowptr.cpu().numpy(), structure.transposed_col.cpu().numpy()
    steps = csr_array((np.ones(col.size, dtype=np.float32), col, rowptr), shape=(nodes, nodes))

    def offer(block: slice, above: float) -> Links:
        two_steps = steps[block] @ steps
        found = two_steps if within == 2 else two_steps + two_steps @ steps
        found.sort_indices()
        source = np.repeat(np.arange(block.start, block.stop), np.diff(found.indptr))
        pairs = torch.from_numpy(np.stack([source, found.indices.astype(np.int64)])).to(structure.col.device)
        pairs = pairs[:, _unlinked(graph, pairs)]
        scores = score(pairs)
        better = scores > above
        return Links(pairs[:, better], scores[better])

    return (partial(offer, block) for block in _blocks_of_walks(steps, within))


def _unlinked(graph: Graph, pairs: Tensor) -> Tensor:
    """Which of ``[2, P]`` (source, target) pairs are candidates: no self-pair, no link, an undirected pair once."""
    source, target = pairs
    allowed: Tensor = source != target if graph.directed else source < target
    if not graph.num_edges:
        return allowed
    # The keys of an undirected graph are symmetric, and these are asked in ascending order, which is far quicker.
    row, col = (target, source) if graph.directed else (source, target)
    wanted = entry_keys(row, col, graph.num_nodes)
    place = torch.searchsorted(graph.edge_keys, wanted).clamp_(max=graph.num_edges - 1)
    return allowed & (graph.edge_keys[place] != wanted)


def _dot_products(points: Tensor, pairs: Tensor) -> Tensor:
    """``[P]`` products of pairs in the order of their sources: no rows are copied, which takes most of the time."""
    source, target = pairs
    if not source.numel():
        return points.new_empty(0)
    first, last = int(source[0]), int(source[-1]) + 1
    sizes = torch.bincount(source - first, minlength=last - first)
    rowptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    asked = torch.sparse_csr_tensor(
        rowptr, target, points.new_zeros(target.numel()), (last - first, points.shape[0]), check_invariants=False
    )
    products: Tensor = torch.sparse.sampled_addmm(asked, points[first:last], points.T, beta=0.0).values()
    return products


def _blocks_of_walks(steps: Any, within: int) -> Iterator[slice]:
    """Consecutive slices of sources with about `SCORES_PER_BLOCK` walks of `within` steps from them, or one source."""
    walks = np.ones(steps.shape[0])
    for _ in range(within):
        walks = steps @ walks
    ends = np.flatnonzero(np.diff(np.cumsum(walks) // SCORES_PER_BLOCK, append=-1)) + 1
    starts = np.concatenate([[0], ends])[:-1]
    return (slice(int(start), int(end)) for start, end in zip(starts, ends, strict=True))
