"""Floors for link prediction: scores that count shared neighbours and learn nothing.

A method that does not beat these has learned no more than its training graph shows at first sight. For an undirected
graph a shared neighbour of u and v is adjacent to both; for a directed one it lies on a path u → w → v, that is among
the out-neighbours of the sender and the in-neighbours of the receiver. The degree of w counts its distinct neighbours
in either direction, so that it is at least two on any such path. Edge weights are not used.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from bandana.data.splits import Pairs
from bandana.evaluation.metrics import DEFAULT_KS, ranking_metrics
from bandana.graph import Graph

ENTRIES_PER_BLOCK = 4_000_000
"""Neighbour entries copied at a time, about 50 MB; a block always holds at least one pair."""


def common_neighbours(graph: Graph, pairs: Tensor) -> Tensor:
    """Number of shared neighbours of each of ``[2, P]`` pairs: ``[P]``."""
    return _scores(graph, pairs)[0]


def adamic_adar(graph: Graph, pairs: Tensor) -> Tensor:
    """Sum of 1 / log(degree) over the shared neighbours of each of ``[2, P]`` pairs: ``[P]``."""
    return _scores(graph, pairs)[1]


def resource_allocation(graph: Graph, pairs: Tensor) -> Tensor:
    """Sum of 1 / degree over the shared neighbours of each of ``[2, P]`` pairs: ``[P]``."""
    return _scores(graph, pairs)[2]


def heuristic_floors(graph: Graph, pairs: Pairs, ks: Sequence[int] = DEFAULT_KS) -> dict[str, dict[str, float]]:
    """Ranking metrics of each heuristic by name.

    Args:
        graph: The training graph; held-out links must not be in it.
        pairs: Held-out links and non-links.
        ks: Ranks for hits@K.
    """
    positive, negative = _scores(graph, pairs.positive), _scores(graph, pairs.negative)
    names = ("common neighbours", "Adamic-Adar", "resource allocation")
    return {name: ranking_metrics(positive[i], negative[i], ks) for i, name in enumerate(names)}


def _scores(graph: Graph, pairs: Tensor) -> Tensor:
    """``[3, P]`` scores by the three heuristics, which differ only in what a shared neighbour is worth."""
    incoming = _in_neighbours(graph)
    outgoing = incoming.T.tocsr() if graph.directed else incoming
    either_way = incoming + outgoing if graph.directed else incoming
    worth = _worth_of_sharing(np.diff(either_way.indptr))
    senders, receivers = pairs.cpu().numpy()
    entries = np.diff(outgoing.indptr)[senders] + np.diff(incoming.indptr)[receivers]
    scores = np.zeros((worth.shape[1], pairs.shape[1]))
    for block in _blocks(entries):
        shared = outgoing[senders[block]].multiply(incoming[receivers[block]])
        scores[:, block] = (shared @ worth).T
    # Sums of the same numbers in another order differ in the last bits; float32 makes them the tie that they are.
    return torch.from_numpy(scores).float().to(pairs.device)


def _in_neighbours(graph: Graph) -> Any:
    """The 0/1 matrix whose row v marks the nodes that send to v."""
    rowptr, col = graph.structure.rowptr.cpu().numpy(), graph.structure.col.cpu().numpy()
    return csr_array((np.ones(col.size), col, rowptr), shape=(graph.num_nodes, graph.num_nodes))


def _worth_of_sharing(degree: Any) -> Any:
    """``[nodes, 3]`` what each node adds to the three scores of the pairs that share it."""
    # Two different nodes share only what has degree two or more; the bounds keep all other nodes finite.
    return np.stack([np.ones(degree.size), 1 / np.log(np.maximum(degree, 2)), 1 / np.maximum(degree, 1)], axis=1)


def _blocks(entries: Any) -> Iterator[slice]:
    """Consecutive slices of pairs with about `ENTRIES_PER_BLOCK` neighbour entries each."""
    ends = np.flatnonzero(np.diff(np.cumsum(entries) // ENTRIES_PER_BLOCK, append=-1)) + 1
    starts = np.concatenate([[0], ends])[:-1]
    return (slice(start, end) for start, end in zip(starts, ends, strict=True))
