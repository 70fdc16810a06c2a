"""Pairs of nodes that are not edges, exactly as many as asked for."""

import torch
from torch import Tensor


def sample_negatives(edge_keys: Tensor, num_nodes: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw `count` node pairs uniformly from all ordered pairs that are neither edges nor a node with itself.

    A pair may come twice. Candidates are sorted before they are looked up in the sorted edge keys: three times faster
    than in random order, and the pairs come back sorted by their first node, which later gathers like.

    Args:
        edge_keys: ``[edges]`` ascending keys ``first * num_nodes + second``, as `Graph.edge_keys` holds them.
        num_nodes: Number of nodes.
        count: Number of pairs.
        generator: Source of randomness, on the device of `edge_keys`.

    Returns:
        ``[2, count]`` node pairs.

    Raises:
        ValueError: Every pair is an edge.
    """
    possible = num_nodes * (num_nodes - 1) - edge_keys.numel()
    if count and possible <= 0:
        raise ValueError(f"all {edge_keys.numel()} pairs of the {num_nodes} nodes are edges: there is no negative pair")
    share = max(possible, 1) / max(num_nodes * num_nodes, 1)
    drawn: list[Tensor] = []
    missing = count
    while missing > 0:
        # A little more than needed on average, so that one round nearly always does.
        size = min(int(missing / share * 1.05) + 16, 8 * missing + 1024)
        candidates = torch.randint(num_nodes * num_nodes, (size,), generator=generator, device=edge_keys.device)
        candidates = candidates[_is_negative(candidates, edge_keys, num_nodes)][:missing]
        drawn.append(candidates)
        missing -= candidates.numel()
    keys = torch.cat(drawn).sort().values if drawn else edge_keys.new_empty(0)
    return torch.stack([keys // num_nodes, keys % num_nodes])


def _is_negative(keys: Tensor, edge_keys: Tensor, num_nodes: int) -> Tensor:
    ordered, order = keys.sort()
    outside = ordered // num_nodes != ordered % num_nodes
    if edge_keys.numel():
        place = torch.searchsorted(edge_keys, ordered).clamp_(max=edge_keys.numel() - 1)
        outside &= edge_keys[place] != ordered
    return torch.empty_like(outside).scatter_(0, order, outside)
