"""Floors for link prediction: scores that count shared neighbours and learn nothing.

A method that does not beat these has learned no more than its training graph shows at first sight. What a shared
neighbour is, `bandana.evaluation.shared_neighbours` says.
"""

from collections.abc import Sequence

from torch import Tensor

from bandana.data.splits import Pairs
from bandana.evaluation.metrics import DEFAULT_KS, ranking_metrics
from bandana.evaluation.shared_neighbours import shared_neighbours
from bandana.graph import Graph


def common_neighbours(graph: Graph, pairs: Tensor) -> Tensor:
    """Number of shared neighbours of each of ``[2, P]`` pairs: ``[P]``."""
    return shared_neighbours(graph, pairs).number


def adamic_adar(graph: Graph, pairs: Tensor) -> Tensor:
    """Sum of 1 / log(degree) over the shared neighbours of each of ``[2, P]`` pairs: ``[P]``."""
    return shared_neighbours(graph, pairs).adamic_adar


def resource_allocation(graph: Graph, pairs: Tensor) -> Tensor:
    """Sum of 1 / degree over the shared neighbours of each of ``[2, P]`` pairs: ``[P]``."""
    return shared_neighbours(graph, pairs).allocation


def heuristic_floors(graph: Graph, pairs: Pairs, ks: Sequence[int] = DEFAULT_KS) -> dict[str, dict[str, float]]:
    """Ranking metrics of each heuristic by name.

    Args:
        graph: The training graph; held-out links must not be in it.
        pairs: Held-out links and non-links.
        ks: Ranks for hits@K.
    """
    positive, negative = shared_neighbours(graph, pairs.positive), shared_neighbours(graph, pairs.negative)
    names = ("common neighbours", "Adamic-Adar", "resource allocation")
    return {name: ranking_metrics(positive[i], negative[i], ks) for i, name in enumerate(names)}
