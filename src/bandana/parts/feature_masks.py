"""Masks on node features: some nodes show a learned token in place of their features, and later in place of codes.

A mask works on rows, so it commutes with a linear map: instead of the features, the rows that the encoder's first map
makes of them are exchanged. Sparse features stay sparse that way.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class FeatureMask(NamedTuple):
    """Who is hidden and how. A hidden node shows the token, another node's features, or, left over, its own.

    Attributes:
        nodes: ``[m]`` all hidden nodes.
        covered: ``[c]`` those that show the token.
        replaced: ``[r]`` those that show another node's features, with ``c + r`` equal to ``m`` or ``m - 1``.
        donors: ``[r]`` the nodes whose features they show.
    """

    nodes: Tensor
    covered: Tensor
    replaced: Tensor
    donors: Tensor


def draw_feature_mask(num_nodes: int, rate: float, replace_rate: float, generator: torch.Generator) -> FeatureMask:
    """Hide ``⌊rate · nodes⌋`` nodes, at least one.

    Of the hidden ones, ``⌊(1 - replace_rate) · m⌋`` show the token and ``⌊replace_rate · m⌋`` the features of as many
    different nodes, hidden or not. Both roundings go down, so one hidden node may show its own features.

    Args:
        num_nodes: Of the graph.
        rate: Share of the nodes that is hidden.
        replace_rate: Share of the hidden nodes that show another node's features.
        generator: Source of randomness, on the device of the graph.
    """
    nodes = draw_nodes(num_nodes, max(int(rate * num_nodes), 1), generator)
    num_hidden = nodes.numel()
    num_replaced = int(replace_rate * num_hidden)
    return FeatureMask(
        nodes=nodes,
        covered=nodes[: int((1 - replace_rate) * num_hidden)],
        replaced=nodes[num_hidden - num_replaced :],
        donors=draw_nodes(num_nodes, num_replaced, generator),
    )


def draw_nodes(num_nodes: int, count: int, generator: torch.Generator) -> Tensor:
    """``[count]`` different nodes in random order."""
    if count == 0:
        return torch.empty(0, dtype=torch.long, device=generator.device)
    return torch.randperm(num_nodes, generator=generator, device=generator.device)[:count]


def cover(rows: Tensor, token: Tensor, mask: FeatureMask) -> Tensor:
    """Show what the mask lets be seen.

    Args:
        rows: ``[nodes, width]`` rows of all nodes.
        token: ``[1, width]`` row of the token, or ``[c, width]`` one for each node that shows it.
        mask: Who is hidden.

    Returns:
        ``[nodes, width]``, with gradients for rows and token.
    """
    shown = rows.index_copy(0, mask.replaced, rows.index_select(0, mask.donors)) if mask.replaced.numel() else rows
    return hide(shown, mask.covered, token)


def hide(rows: Tensor, nodes: Tensor, token: Tensor | None = None) -> Tensor:
    """``[nodes, width]`` with the rows of some nodes set to zero, or to a ``[1, width]`` token (or one each)."""
    if token is None:
        return rows.index_fill(0, nodes, 0)
    return rows.index_copy(0, nodes, token.expand(nodes.numel(), -1))
