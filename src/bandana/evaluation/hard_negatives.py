"""Pairs that look like links and are none, a list of them for each held-out link.

Two nodes drawn at random are far apart, so telling them from a link is easy and says little about choosing among
friends of friends, which is what a recommendation has to do. As in HeaRT (Li et al., 2023), one end of each link is
kept and the other replaced by a node that a heuristic likes. Here the heuristic is a random walk of two steps from the
kept end over the training graph: where it arrives is drawn in proportion to the resource allocation between the two,
and it costs the same beside a hub as anywhere else. In a bipartite graph no link spans two steps, and three are walked.
A sparse graph has few nodes so near; walks two steps longer then go on with the list.

Scores that count shared neighbours like the same nodes as the walk does, so these lists put them at a disadvantage.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bandana.data.splits import EdgeSplit
from bandana.engine.streams import generator
from bandana.engine.structure import entry_keys
from bandana.evaluation.shared_neighbours import contains
from bandana.graph import Graph

WALKS_PER_NEGATIVE = 6
"""Walks of each length for each negative wanted: many come home, meet a link, or end where another did."""
SPARES_PER_NEGATIVE = 2
"""Uniform nodes for each negative wanted, for what the walks do not find."""
CANDIDATES_PER_BLOCK = 2_000_000


class NegativeLists(NamedTuple):
    """For each link its own negatives.

    Attributes:
        pairs: ``[2, links, count]`` (sender, receiver); none of them is a link of any part of the split.
        near: Share of them that the shorter walks arrived at.
        far: Share of them that no walk found, drawn uniformly.
    """

    pairs: Tensor
    near: float
    far: float


def negative_lists(split: EdgeSplit, links: Tensor, count: int, *, steps: int, seed: int) -> NegativeLists:
    """Replace one end of each link, in half of its list the receiver and in the other half the sender.

    Within a half no node comes twice. Where even the longer walks find too few, uniform nodes follow; where a kept end
    is linked to nearly everything, the split's own negatives do, which need have no end in common with the link.

    Args:
        split: Walks go over its `test_graph`; links of all its parts are avoided. On the CPU.
        links: ``[2, L]`` held-out links of the split.
        count: Length of each list, even.
        steps: Length of the shorter walks; 0 draws all nodes uniformly.
        seed: The same seed gives the same lists.
    """
    half, source = count // 2, generator(links.device, seed, steps)
    held_out = torch.cat([split.valid.positive, split.test.positive], dim=1)
    if not split.train.directed:
        held_out = torch.cat([held_out, held_out.flip(0)], dim=1)
    held_out_keys = entry_keys(held_out[1], held_out[0], split.train.num_nodes).sort().values
    known = (split.train.edge_keys, split.test_graph.edge_keys, held_out_keys)
    lengths = (steps, steps + 2) if steps else ()
    width = half * (WALKS_PER_NEGATIVE * len(lengths) + SPARES_PER_NEGATIVE)
    pairs, origin = links.new_empty(2, links.shape[1], 2 * half), links.new_zeros(len(lengths) + 1)
    for block in torch.arange(links.shape[1]).split(max(1, CANDIDATES_PER_BLOCK // max(width, 1))):
        for kept_end, place in ((0, slice(0, half)), (1, slice(half, 2 * half))):
            kept = links[kept_end, block]
            found, came = _other_ends(split.test_graph, known, kept, kept_end, half, lengths, source)
            spare = torch.randint(split.test.negative.shape[1], found.shape, generator=source)
            own = torch.stack([kept.unsqueeze(1).expand_as(found), found])
            own = own if kept_end == 0 else own.flip(0)
            pairs[:, block, place] = torch.where(found >= 0, own, split.test.negative[:, spare])
            origin += came
    shares = (origin.double() / max(pairs[0].numel(), 1)).tolist()
    return NegativeLists(pairs, near=shares[0] if lengths else 0.0, far=1 - sum(shares[:-1]))


def random_walk(graph: Graph, start: Tensor, steps: int, source: torch.Generator) -> Tensor:
    """Where walks from some nodes are after a number of steps along links in any direction, each equally likely.

    Args:
        graph: What is walked over.
        start: Nodes, in any shape.
        steps: Number of steps.
        source: Randomness, on the device of the graph.

    Returns:
        Nodes in the shape of `start`; a node without neighbours stays where it is.
    """
    structure, node = graph.structure, start
    incoming = structure.rowptr.diff()
    outgoing = structure.transposed_rowptr.diff() if graph.directed else torch.zeros_like(incoming)
    for _ in range(steps if graph.num_edges else 0):
        size = (incoming + outgoing)[node]
        chosen = (torch.rand(node.shape, generator=source, dtype=torch.float64, device=node.device) * size).long()
        is_incoming, last = chosen < incoming[node], graph.num_edges - 1
        from_sender = structure.col[(structure.rowptr[node] + chosen).clamp_(max=last)]
        to_receiver = (structure.transposed_rowptr[node] + chosen - incoming[node]).clamp_(0, last)
        neighbour = torch.where(is_incoming, from_sender, structure.transposed_col[to_receiver])
        node = torch.where(size > 0, neighbour, node)
    return node


def _other_ends(
    graph: Graph,
    known: tuple[Tensor, ...],
    kept: Tensor,
    kept_end: int,
    count: int,
    lengths: tuple[int, ...],
    source: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Nodes to pair with each kept one, found by walks of each length and then by chance.

    Returns:
        ``[kept, count]`` nodes, -1 where there are too few; ``[lengths + 1]`` how many came from each of the sources.
    """
    walks = kept.unsqueeze(1).expand(-1, WALKS_PER_NEGATIVE * count)
    sources = [random_walk(graph, walks, steps, source) for steps in lengths]
    sources.append(torch.randint(graph.num_nodes, (kept.numel(), SPARES_PER_NEGATIVE * count), generator=source))
    candidates = torch.cat(sources, dim=1)
    pair = (kept.unsqueeze(1).expand_as(candidates), candidates)
    sender, receiver = pair if kept_end == 0 else pair[::-1]
    keys = entry_keys(receiver, sender, graph.num_nodes)
    unfit = (candidates == kept.unsqueeze(1)) | _repeated(candidates)
    for links in known:
        unfit |= contains(links, keys)
    order = unfit.int().argsort(dim=1, stable=True)[:, :count]
    fit = ~unfit.gather(1, order)
    found = torch.where(fit, candidates.gather(1, order), -1)
    return found, torch.bincount((order // walks.shape[1])[fit], minlength=len(sources))


def _repeated(rows: Tensor) -> Tensor:
    """Which entries occurred before in their own row."""
    ascending, order = rows.sort(dim=1, stable=True)
    again = torch.zeros_like(rows, dtype=torch.bool)
    again[:, 1:] = ascending[:, 1:] == ascending[:, :-1]
    return torch.zeros_like(again).scatter_(1, order, again)
