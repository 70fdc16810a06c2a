"""Uniform random walks along the edges of a structure, all of them one step at a time."""

import torch
from torch import Tensor

from bandana.engine.structure import Structure

STUCK = -1
"""Stands where a walk had no edge to take."""


def random_walks(structure: Structure, starts: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Let every walker leave its node by an edge chosen uniformly, `length` times.

    A walker at a node without outgoing edges stays there; the walks have one shape whatever happens, so that a GPU
    never waits for the host.

    Args:
        structure: Square pattern; entry ``e`` leads from ``col[e]`` to ``row[e]``.
        starts: ``[walks]`` node of each walker.
        length: Steps of each walk.
        generator: Source of randomness, on the structure's device.

    Returns:
        ``[length, walks]`` the entries that were walked over, `STUCK` where there was none.
    """
    first, num_edges = structure.transposed_rowptr, structure.num_entries
    num_choices = first.diff()
    # One more place, for those without a choice.
    entry = torch.cat([structure.transposed_entry, first.new_full((1,), STUCK)])
    receiver = torch.cat([structure.transposed_col, first.new_full((1,), STUCK)])
    node, walked = starts, starts.new_empty(length, starts.numel())
    for step in range(length):
        choices = num_choices[node]
        # In double precision the product cannot round up to the number of choices.
        draw = torch.rand(node.shape, dtype=torch.float64, generator=generator, device=node.device)
        place = torch.where(choices > 0, first[node] + (draw * choices).long(), num_edges)
        walked[step] = entry[place]
        node = torch.where(choices > 0, receiver[place], node)
    return walked
