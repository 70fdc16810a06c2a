"""What Bandana's decoder is held against: targets of edges, and the weights of pairs that follow from them."""

from typing import Literal

import torch
from torch import Tensor

from bandana.errors import UserError
from bandana.graph import Graph
from bandana.parts.masks import mean_bandwidth

TargetName = Literal["aligned", "released", "shuffled", "constant"]


def held_against(
    name: TargetName, graph: Graph, bandwidths: Tensor, generator: torch.Generator, pairing: Tensor | None
) -> Tensor:
    """``[edges]`` what each edge's prediction is held against; `pairing` is what `released_order` says of the graph."""
    match name:
        case "aligned":
            return bandwidths
        case "constant":
            return mean_bandwidth(graph.structure).to(bandwidths.dtype).expand_as(bandwidths)
        case "shuffled":
            return bandwidths[torch.randperm(graph.num_edges, generator=generator, device=graph.device)]
        case "released":
            if graph.origin is not None:
                raise UserError("target: 'released' pairs the edges of a whole graph; use another with a store.")
            assert pairing is not None, "prepare() comes before the first loss()"
            return bandwidths[pairing]


def signed_weights(graph: Graph, links: Tensor, targets: Tensor, num_negatives: int) -> Tensor:
    """``[layers, pairs]`` signed weights for `edge_loss`: positives by their target, negatives by minus one, averaged.

    The decoder is symmetric in its two nodes, so the two directions of an undirected link are one pair that carries
    both targets.
    """
    positive = targets.index_select(1, links)
    num_positives = links.numel()
    if not graph.directed:
        positive += targets.index_select(1, graph.structure.transposed_entry[links])
        num_positives *= 2
    negative = positive.new_full((targets.shape[0], num_negatives), -1.0 / num_negatives)
    return torch.cat([positive.div_(max(num_positives, 1)), negative], dim=1)


def released_order(graph: Graph) -> Tensor:
    """``[edges]`` the edge whose bandwidth the released code takes for each edge.

    There the bandwidths come back sorted by node, while the edges they are compared with stay in the order of the link
    splitter: a random order of the undirected links, then the same links reversed. Only the pairing matters, so any
    fixed random order reproduces it.
    """
    shuffle = torch.Generator().manual_seed(2022)
    links = graph.links
    order = links[torch.randperm(links.numel(), generator=shuffle).to(links.device)]
    listed = order if graph.directed else torch.cat([order, graph.structure.transposed_entry[order]])
    partner = torch.empty_like(listed)
    partner[listed] = torch.arange(graph.num_edges, device=listed.device)
    return partner
