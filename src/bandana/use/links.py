"""The most likely missing links: the best pairs of all that are not linked, found block by block.

Only the best pairs so far are kept, and a block offers nothing that is worse than the worst of them, so memory is one
block of scores whatever the size of the graph. Equal scores go to the pair that comes first by (source, target). With
faiss installed its exact flat index searches the blocks of float32 vectors on a CPU. It rounds sums in its own way, so
pairs whose scores differ by no more than that may change places.
"""

from collections.abc import Callable, Iterator, Sequence
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
        pairs: ``[2, K]`` (source, target) node numbers; the lower one first, where a score has no direction.
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

    The product of two vectors has no direction, so a pair is considered once, also of a directed graph, and is linked
    if it is either way. Only where `score` judges a directed graph are both directions considered, each by itself.

    Args:
        graph: Its links are left out.
        z: ``[nodes, width]`` embeddings.
        top: How many.
        measure: What a score is, unless `score` says.
        within: 2 or 3 considers only pairs that a path of at most so many steps joins, either way; None considers all
            pairs.
        score: Scores pairs (source, target) in place of `measure`. It is called for few, large blocks of them.

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
    linked = _either_way(graph) if score is None else graph
    if within is None:
        offers = _all_pairs(linked, points, top)
    elif within in (2, 3):
        offers = _near_pairs(graph, linked, within, score or (lambda pairs: _dot_products(points, pairs)))
    else:
        raise UserError(f"within: must be 2 or 3 steps, got {within}; leave it out to consider all pairs.")
    best = Links(torch.empty(2, 0, dtype=torch.long, device=z.device), z.new_empty(0))
    for offer in offers:
        full = best.scores.numel() == top
        best = _merge(best, offer(float(best.scores[-1]) if full else -torch.inf), top)
    return best


def _either_way(graph: Graph) -> Graph:
    """The graph without the directions of its links."""
    return Graph.from_edges(graph.edge_index, num_nodes=graph.num_nodes) if graph.directed else graph


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

    # Lower targets were sources before.
    return (partial(offer, start, low) for start in starts for low in starts if low >= start)


def _leave_out(scores: Tensor, graph: Graph, start: int, low: int) -> None:
    """Make the scores of links, of self-pairs and of pairs the other way round impossible, in place."""
    targets_of = graph.structure.transposed_rowptr[start : start + scores.shape[0] + 1]
    targets = graph.structure.transposed_col[int(targets_of[0]) : int(targets_of[-1])] - low
    rows = torch.arange(scores.shape[0], device=scores.device)
    linked = rows.repeat_interleave(targets_of.diff())
    inside = (targets >= 0) & (targets < scores.shape[1])
    scores[linked[inside], targets[inside]] = -torch.inf
    if start == low:
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


def _near_pairs(graph: Graph, linked: Graph, within: int, score: PairScore) -> Offers:
    """Pairs that paths of `graph` join; where `linked` has lost its directions, the paths may lead either way."""
    forth = _steps(graph.structure.transposed_rowptr, graph.structure.transposed_col)
    both_ways = graph.directed and not linked.directed
    ways = [forth, _steps(graph.structure.rowptr, graph.structure.col)] if both_ways else [forth]

    def offer(block: slice, above: float) -> Links:
        found = sum((_reached(steps, block, within) for steps in ways[1:]), _reached(forth, block, within))
        found.sort_indices()
        source = np.repeat(np.arange(block.start, block.stop), np.diff(found.indptr))
        pairs = torch.from_numpy(np.stack([source, found.indices.astype(np.int64)])).to(graph.device)
        pairs = pairs[:, _unlinked(linked, pairs)]
        scores = score(pairs)
        better = scores > above
        return Links(pairs[:, better], scores[better])

    return (partial(offer, block) for block in _blocks_of_walks(ways, within))


def _steps(rowptr: Tensor, col: Tensor) -> Any:
    """``[nodes, nodes]`` where one step leads from each node."""
    nodes, targets = rowptr.numel() - 1, col.cpu().numpy()
    return csr_array((np.ones(targets.size, dtype=np.float32), targets, rowptr.cpu().numpy()), shape=(nodes, nodes))


def _reached(steps: Any, block: slice, within: int) -> Any:
    """``[sources, nodes]`` where two steps lead from some sources, or two and three."""
    two_steps = steps[block] @ steps
    return two_steps if within == 2 else two_steps + two_steps @ steps


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


def _blocks_of_walks(ways: Sequence[Any], within: int) -> Iterator[slice]:
    """Consecutive slices of sources with about `SCORES_PER_BLOCK` walks of `within` steps from them, or one source."""
    walks = sum(_walks(steps, within) for steps in ways)
    ends = np.flatnonzero(np.diff(np.cumsum(walks) // SCORES_PER_BLOCK, append=-1)) + 1
    starts = np.concatenate([[0], ends])[:-1]
    return (slice(int(start), int(end)) for start, end in zip(starts, ends, strict=True))


def _walks(steps: Any, within: int) -> Any:
    """``[nodes]`` how many walks of `within` steps begin at each node."""
    walks = np.ones(steps.shape[0])
    for _ in range(within):
        walks = steps @ walks
    return walks
