"""Pairs of nodes that are not edges, exactly as many as asked for."""

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from bandana.errors import UserError

_MANY_NODES = 1 << 16
"""So many that a GPU's cache does not hold their embeddings."""


def sample_negatives(edge_keys: Tensor, num_nodes: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw `count` node pairs uniformly from all ordered pairs that are neither edges nor a node with itself.

    A pair may come twice. Free pairs are numbered in ascending order, numbers are drawn, and each is turned into its
    pair: nothing is rejected, so the work and the shapes are the same for every draw and every density.

    Args:
        edge_keys: ``[edges]`` ascending keys ``first * num_nodes + second``, as `Graph.edge_keys` holds them.
        num_nodes: Number of nodes.
        count: Number of pairs.
        generator: Source of randomness, on the device of `edge_keys`.

    Returns:
        ``[2, count]`` node pairs; on a CPU, and where nodes are many, sorted by their first node, which later gathers
        like.

    Raises:
        UserError: Every pair is an edge.
    """
    if count == 0:
        return edge_keys.new_empty(2, 0)
    free = num_nodes * (num_nodes - 1) - edge_keys.numel()
    if free <= 0:
        raise UserError(
            f"Negative pairs: every pair of the {num_nodes} nodes is an edge, so there is no negative pair to learn "
            "from; use a graph that is not complete."
        )
    number = torch.randint(free, (count,), generator=generator, device=edge_keys.device)
    if not number.is_cuda or num_nodes > _MANY_NODES:
        number = number.sort().values  # on a CPU three times faster to look up than in random order
    place = number + torch.searchsorted(_free_before(edge_keys, num_nodes), number, right=True)
    first, second = place // (num_nodes - 1), place % (num_nodes - 1)
    return torch.stack([first, second + (second >= first)])


_known = WeakIdKeyDictionary()


def _free_before(edge_keys: Tensor, num_nodes: int) -> Tensor:
    """``[edges]`` how many free pairs come before each edge, when pairs of a node with itself are left out.

    The answer is kept as long as the keys live: a training asks in every step.
    """
    if edge_keys not in _known:
        first, second = edge_keys // num_nodes, edge_keys % num_nodes
        place = first * (num_nodes - 1) + second - (second > first).long()
        _known[edge_keys] = place - torch.arange(edge_keys.numel(), device=edge_keys.device)
    known: Tensor = _known[edge_keys]
    return known
