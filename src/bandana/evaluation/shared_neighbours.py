"""What two nodes have in common in a graph: counted from the end with fewer neighbours.

A pair costs what its smaller end has in neighbours, and one that occurs often is counted once, so a few nodes linked
to everybody do not make a report wait for an hour.

For an undirected graph a shared neighbour of u and v is adjacent to both; for a directed one it lies on a path
u → w → v, that is among the out-neighbours of the sender and the in-neighbours of the receiver. The degree of w counts
its distinct neighbours in either direction, so that it is at least two on any such path. Edge weights are not used.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from bandana.engine.structure import entry_keys
from bandana.graph import Graph

ENTRIES_PER_BLOCK = 2_000_000
"""Neighbours looked up at a time, about 100 MB; a block always holds at least one pair."""


class Shared(NamedTuple):
    """For each pair the shared neighbours: how many, and the sums of 1 / log(degree) and of 1 / degree over them."""

    number: Tensor
    adamic_adar: Tensor
    allocation: Tensor


def neighbour_counts(graph: Graph) -> Tensor:
    """``[nodes]`` distinct neighbours of each node, in whichever direction the links point."""
    if not graph.directed:
        return graph.structure.row_sizes
    row, col = graph.structure.row, graph.structure.col
    both = torch.cat([graph.edge_keys, entry_keys(col, row, graph.num_nodes)]).unique()
    return torch.bincount(both // graph.num_nodes, minlength=graph.num_nodes)


def contains(ascending: Tensor, keys: Tensor) -> Tensor:
    """Which of the keys occur in an ascending tensor: a bool for each."""
    if not ascending.numel():
        return torch.zeros_like(keys, dtype=torch.bool)
    place = torch.searchsorted(ascending, keys).clamp_(max=ascending.numel() - 1)
    return ascending[place] == keys


def shared_neighbours(graph: Graph, pairs: Tensor) -> Shared:
    """Count what lies between the ends of each pair.

    Args:
        graph: Held-out links must not be in it.
        pairs: ``[2, P]`` (sender, receiver).

    Returns:
        Three float32 tensors ``[P]``, in which equal sums are equal numbers.
    """
    ends = pairs if graph.directed else pairs.sort(dim=0).values
    keys, place = entry_keys(ends[1], ends[0], graph.num_nodes).unique(return_inverse=True)
    scores = _count(graph, keys % graph.num_nodes, keys // graph.num_nodes)
    return Shared(*scores[:, place])


def _count(graph: Graph, sender: Tensor, receiver: Tensor) -> Tensor:
    """``[3, P]`` all scores of distinct pairs."""
    structure = graph.structure
    worth = _worth_of_sharing(neighbour_counts(graph).double())
    sent, received = structure.transposed_rowptr.diff()[sender], structure.rowptr.diff()[receiver]
    scores = worth.new_zeros(3, sender.numel())
    for from_sender in (True, False):
        chosen = ((sent <= received) == from_sender).nonzero().squeeze(1)
        pointers, near = (structure.transposed_rowptr, sender) if from_sender else (structure.rowptr, receiver)
        neighbours = structure.transposed_col if from_sender else structure.col
        sizes = (sent if from_sender else received)[chosen]
        for block in _blocks(sizes):
            pair, size = chosen[block], sizes[block]
            owner = pair.repeat_interleave(size)
            first = (pointers[near[pair]] - (size.cumsum(0) - size)).repeat_interleave(size)
            between = neighbours[first + torch.arange(owner.numel(), device=owner.device)]
            head, tail = (receiver[owner], between) if from_sender else (between, sender[owner])
            found = contains(graph.edge_keys, entry_keys(head, tail, graph.num_nodes))
            scores.index_add_(1, owner[found], worth[:, between[found]])
    # Sums of the same numbers in another order differ in the last bits; float32 makes them the tie that they are.
    return scores.float()


def _worth_of_sharing(degree: Tensor) -> Tensor:
    """``[3, nodes]`` what each node adds to the three scores of the pairs that share it."""
    # Two different nodes share only what has degree two or more; the bounds keep all other nodes finite.
    return torch.stack([torch.ones_like(degree), 1 / degree.clamp(min=2).log(), 1 / degree.clamp(min=1)])


def _blocks(sizes: Tensor) -> Iterator[slice]:
    """Consecutive slices of pairs with about `ENTRIES_PER_BLOCK` neighbours each."""
    if not sizes.numel():
        return
    number = sizes.cumsum(0) // ENTRIES_PER_BLOCK
    ends = [*(number.diff().nonzero().squeeze(1) + 1).tolist(), sizes.numel()]
    start = 0
    for end in ends:
        yield slice(start, end)
        start = end
