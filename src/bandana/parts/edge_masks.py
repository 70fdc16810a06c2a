"""Edges that are hidden outright: what the encoder still sees, and what it is asked for.

The ways to hide differ in what they count (directed entries or undirected links), in how they draw (independently, an
exact number, along walks), and in whether an edge whose reverse is visible is visible too. None of these differences is
a detail: each makes another task. All results have the graph's shape, so that a sub-graph is a vector of weights.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from bandana.engine.walks import STUCK, random_walks
from bandana.graph import Graph

WalkStart = Literal["node", "edge"]


class EdgeMask(NamedTuple):
    """``visible [edges]``, one for each entry that passes messages; ``hidden [edges]``, one for each to be predicted.

    The two may overlap: an entry that is to be predicted can be visible through its reverse.
    """

    visible: Tensor
    hidden: Tensor


def hide_entries(graph: Graph, rate: float, generator: torch.Generator) -> EdgeMask:
    """Hide every directed entry with probability `rate`; an undirected link stays visible by either of its entries."""
    drawn = torch.rand(graph.num_edges, generator=generator, device=graph.device) < rate
    return _visible_either_way(graph, drawn.to(torch.get_default_dtype()))


def hide_walks(graph: Graph, rate: float, length: int, start: WalkStart, generator: torch.Generator) -> EdgeMask:
    """Hide the entries that random walks pass over; an undirected link stays visible by either of its entries.

    Args:
        graph: The graph to walk on, along its edges.
        rate: Share of the nodes, or of the entries, from which a walk starts.
        length: Steps of each walk.
        start: ``"node"``: different nodes, rounded to the nearest number. ``"edge"``: the sender of every entry,
            independently, so that a node starts walks in proportion to its edges.
        generator: Source of randomness, on the graph's device.
    """
    if start == "node":
        order = torch.randperm(graph.num_nodes, generator=generator, device=graph.device)
        walked = random_walks(graph.structure, order[: round(rate * graph.num_nodes)], length, generator)
    else:
        sets_out = torch.rand(graph.num_edges, generator=generator, device=graph.device) < rate
        walked = random_walks(graph.structure, graph.structure.col, length, generator)
        walked = walked.where(sets_out, STUCK)
    hidden = torch.zeros(graph.num_edges + 1, device=graph.device)  # the last place takes what was STUCK
    hidden.index_fill_(0, walked.flatten(), 1)
    return _visible_either_way(graph, hidden[:-1])


def hide_entries_by_count(graph: Graph, rate: float, generator: torch.Generator) -> EdgeMask:
    """Hide ⌊rate · entries⌋ directed entries; the reverse of a hidden one is visible unless it was drawn too."""
    order = torch.randperm(graph.num_edges, generator=generator, device=graph.device)
    hidden = _indicator(graph, order[: int(rate * graph.num_edges)])
    return EdgeMask(1 - hidden, hidden)


def hide_links_by_count(graph: Graph, rate: float, generator: torch.Generator) -> EdgeMask:
    """Hide ⌊rate · links⌋ links in both directions; each is to be predicted once, as `Graph.links` names it."""
    links = graph.links
    order = torch.randperm(links.numel(), generator=generator, device=graph.device)
    hidden = _indicator(graph, links[order[: int(rate * links.numel())]])
    if graph.directed:
        return EdgeMask(1 - hidden, hidden)
    return EdgeMask(1 - hidden - hidden[graph.structure.transposed_entry], hidden)


def visible_weights(graph: Graph, mask: EdgeMask) -> Tensor:
    """``[edges]`` the graph's own edge weights, zero where an entry is not visible."""
    return mask.visible if graph.weight is None else mask.visible * graph.weight


def _visible_either_way(graph: Graph, hidden: Tensor) -> EdgeMask:
    visible = 1 - hidden
    if not graph.directed:
        visible = torch.maximum(visible, visible[graph.structure.transposed_entry])
    return EdgeMask(visible, hidden)


def _indicator(graph: Graph, entries: Tensor) -> Tensor:
    return torch.zeros(graph.num_edges, device=graph.device).index_fill_(0, entries, 1)
