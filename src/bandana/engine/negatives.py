"""Pairs of nodes that are not edges, exactly as many as asked for."""

import torch
from torch import Tensor

from bandana.errors import UserError


def sample_negatives(edge_keys: Tensor, num_nodes: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw `count` node pairs uniformly from all ordered pairs that are neither edges nor a node with itself.

    A pair may come twice. On a CPU candidates are sorted before they are looked up in the sorted edge keys: three times
    faster than in random order, and the pairs come back sorted by their first node, which later gathers like.

    Args:
        edge_keys: ``[edges]`` ascending keys ``first * num_nodes + second``, as `Graph.edge_keys` holds them.
        num_nodes: Number of nodes.
        count: Number of pairs.
        generator: Source of randomness, on the device of `edge_keys`.

    Returns:
        ``[2, count]`` node pairs.

    Raises:
        UserError: Every pair is an edge.
    """
    if count == 0:
        return edge_keys.new_empty(2, 0)
    possible = num_nodes * (num_nodes - 1) - edge_keys.numel()
    if possible <= 0:
        raise UserError(
            f"Negative pairs: every pair of the {num_nodes} nodes is an edge, so there is no negative pair to learn "
            "from; use a graph that is not complete."
        )
    share = possible / num_nodes**2
    if share > 0.5:
        keys = _by_rejection(edge_keys, num_nodes, count, share, generator)
    else:
        keys = _from_list(edge_keys, num_nodes, count, generator)
    if not keys.is_cuda:
        keys = keys.sort().values
    return torch.stack([keys // num_nodes, keys % num_nodes])


def _by_rejection(edge_keys: Tensor, num_nodes: int, count: int, share: float, generator: torch.Generator) -> Tensor:
    """``[count]`` keys of negative pairs, where most pairs are negative."""
    drawn: list[Tensor] = []
    missing = count
    while missing > 0:
        # A little more than needed on average, so that one round nearly always does.
        size = int(missing / share * 1.05) + 16
        candidates = torch.randint(num_nodes**2, (size,), generator=generator, device=edge_keys.device)
        candidates = candidates[_is_negative(candidates, edge_keys, num_nodes)][:missing]
        drawn.append(candidates)
        missing -= candidates.numel()
    return torch.cat(drawn)


def _from_list(edge_keys: Tensor, num_nodes: int, count: int, generator: torch.Generator) -> Tensor:
    """The same where most pairs are edges: all pairs are then at most about twice the edges, and can be listed."""
    every = torch.arange(num_nodes**2, device=edge_keys.device)
    free = every[_is_negative(every, edge_keys, num_nodes)]
    return free[torch.randint(free.numel(), (count,), generator=generator, device=edge_keys.device)]


def _is_negative(keys: Tensor, edge_keys: Tensor, num_nodes: int) -> Tensor:
    ordered, order = (keys, None) if keys.is_cuda else keys.sort()
    outside = ordered // num_nodes != ordered % num_nodes
    if edge_keys.numel():
        place = torch.searchsorted(edge_keys, ordered).clamp_(max=edge_keys.numel() - 1)
        outside &= edge_keys[place] != ordered
    return outside if order is None else torch.empty_like(outside).scatter_(0, order, outside)
