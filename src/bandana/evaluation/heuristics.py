"""Floors for link prediction: scores that count shared neighbours and learn nothing.

A method that does not beat these has learned no more than its training graph shows at first sight. What a shared
neighbour is, `bandana.evaluation.shared_neighbours` says.
"""

from bandana.data.splits import Pairs
from bandana.evaluation.metrics import ranking_metrics
from bandana.evaluation.shared_neighbours import shared_neighbours
from bandana.graph import Graph


def heuristic_floors(graph: Graph, pairs: Pairs) -> dict[str, dict[str, float]]:
    """Ranking metrics of each heuristic by name.

    Args:
        graph: The training graph; held-out links must not be in it.
        pairs: Held-out links and non-links.
    """
    positive, negative = shared_neighbours(graph, pairs.positive), shared_neighbours(graph, pairs.negative)
    names = ("common neighbours", "Adamic-Adar", "resource allocation")
    return {name: ranking_metrics(positive[i], negative[i]) for i, name in enumerate(names)}
