"""The shape of a cloud of vectors: directions used, who is near whom, and whether the graph shows in it.

Nearness between vectors is their cosine. All functions work in blocks, on the CPU.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bandana.engine.structure import entry_keys
from bandana.evaluation.neighbours import nearest_by_blocks
from bandana.evaluation.samples import sample
from bandana.evaluation.shared_neighbours import contains, neighbour_counts
from bandana.graph import Graph

ROWS_FOR_RANK = 50_000
ROWS_PER_BLOCK = 8_192


@dataclass(frozen=True, kw_only=True)
class Hubness:
    """How evenly nodes are among the nearest of others.

    Attributes:
        k: Nearest of each node.
        skewness: Of how often each node is one of them; near 0 if all are about as often.
        orphans: Share of nodes that are nobody's neighbour.
        most: How often the most frequent neighbour is one.
    """

    k: int
    skewness: float
    orphans: float
    most: int


@dataclass(frozen=True, kw_only=True)
class Preservation:
    """Whether neighbours in the graph are near as vectors.

    Attributes:
        k: Nearest of each node.
        found: Share of a node's graph neighbours among its `k` nearest, of as many as could be; mean over nodes.
        by_chance: What `k` nodes drawn at random would hold.
    """

    k: int
    found: float
    by_chance: float


def effective_rank(z: Tensor, *, seed: int = 0) -> float:
    """Count the directions that ``[nodes, width]`` vectors use.

    This is exp of the entropy of the singular values after centring (Roy and Vetterli, 2007). It lies between 1, all
    vectors on a line, and the width, all directions used alike; it is 0 if all vectors are equal. Of more than
    `ROWS_FOR_RANK` nodes a sample is taken.
    """
    rows = z[sample(z.shape[0], ROWS_FOR_RANK, seed)].double()
    centred = rows - rows.mean(0)
    if float(centred.square().sum()) <= 1e-12 * float(rows.square().sum()):
        return 0.0
    size = torch.linalg.eigvalsh(centred.T @ centred).clamp(min=0).sqrt()
    return float(torch.special.entr(size / size.sum()).sum().exp())


def spread(z: Tensor) -> float:
    """Share of the mean squared length of ``[nodes, width]`` vectors that their mean does not account for."""
    total = sum(float(block.double().square().sum()) for block in z.split(ROWS_PER_BLOCK)) / z.shape[0]
    mean = z.mean(0, dtype=torch.float64)
    return max(1 - float(mean.square().sum()) / total, 0.0) if total else 0.0


def nearest(z: Tensor, queries: Tensor, k: int) -> Tensor:
    """The nodes with the most similar vectors by cosine, exactly.

    Args:
        z: ``[nodes, width]``.
        queries: ``[Q]`` node numbers.
        k: Neighbours wanted; there are at most nodes - 1.

    Returns:
        ``[Q, k]`` node numbers, nearest first, without the node itself.
    """
    return nearest_by_blocks(normalize(z), queries, min(k, z.shape[0] - 1)).rows


def hubness(near: Tensor) -> Hubness:
    """Count how often each node is a neighbour in ``[nodes, k]``, the nearest of every node."""
    times = torch.bincount(near.flatten(), minlength=near.shape[0]).double()
    deviation = times - times.mean()
    variance = float(deviation.square().mean())
    return Hubness(
        k=near.shape[1],
        skewness=float(deviation.pow(3).mean()) / variance**1.5 if variance else 0.0,
        orphans=float((times == 0).double().mean()),
        most=int(times.max()),
    )


def preservation(graph: Graph, queries: Tensor, near: Tensor) -> Preservation | None:
    """How many graph neighbours of some nodes, in whichever direction, are among their nearest vectors.

    A node with more than k neighbours is fully preserved if all of its k nearest are among them. Isolated nodes are
    left out.

    Args:
        graph: The graph.
        queries: ``[Q]`` node numbers.
        near: ``[Q, k]`` their nearest.

    Returns:
        None if all queries are isolated.
    """
    degree, here = neighbour_counts(graph)[queries], queries.unsqueeze(1)
    linked, k = degree > 0, near.shape[1]
    if not bool(linked.any()):
        return None
    is_neighbour = contains(graph.edge_keys, entry_keys(here, near, graph.num_nodes))
    if graph.directed:
        is_neighbour |= contains(graph.edge_keys, entry_keys(near, here, graph.num_nodes))
    possible = degree[linked].clamp(max=k).double()
    chance = degree[linked] * k / (graph.num_nodes - 1)
    found = is_neighbour.sum(1)[linked] / possible
    return Preservation(k=k, found=float(found.mean()), by_chance=float((chance / possible).mean()))
