"""Negative pairs of a graph, or of a group of its parts as if they were drawn from all of it."""

import torch
from torch import Tensor

from bandana.engine.negatives import sample_negatives
from bandana.graph import Graph

SPARE = 1.5
"""How many more pairs are drawn than are wanted, per pair that is expected to be kept."""


def draw_negatives(graph: Graph, count: int, generator: torch.Generator) -> Tensor:
    """``[2, count]`` pairs that are no edges, each pair of the whole graph as likely as any other.

    In a group of parts, two nodes of one part meet whenever their part comes, those of two parts only when both come
    together. Parts are communities, so that plain draws would ask too often to tell members of one community apart,
    and what they share would be unlearned. Pairs of one part are therefore kept as seldom as other pairs meet.

    Args:
        graph: Whole, or a group of parts.
        count: Number of pairs.
        generator: Source of randomness, on the graph's device.

    Raises:
        UserError: Every pair is an edge.
    """
    origin = graph.origin
    if origin is None or origin.part_starts is None or not 0 < origin.meeting < 1:
        return sample_negatives(graph.edge_keys, graph.num_nodes, count, generator)
    kept = graph.edge_keys.new_empty(2, 0)
    while kept.shape[1] < count:
        drawn = sample_negatives(graph.edge_keys, graph.num_nodes, int(SPARE * count) + 1, generator)
        first, second = torch.searchsorted(origin.part_starts, drawn, right=True)
        luck = torch.rand(drawn.shape[1], generator=generator, device=drawn.device)
        kept = torch.cat([kept, drawn[:, (first != second) | (luck < origin.meeting)]], dim=1)
    # Draws may come sorted, so the first ones would not be a fair choice.
    chosen = torch.randperm(kept.shape[1], generator=generator, device=kept.device)[:count]
    return kept[:, chosen.sort().values]
