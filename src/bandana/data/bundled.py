"""Data sets that come with the packages we depend on, so they are there without any download."""

import warnings

import torch

from bandana.data.synthetic import nearest_neighbours
from bandana.graph import Graph

DIGIT_NEIGHBOURS = 5
DIGIT_BRIGHTEST = 16


def karate() -> Graph:
    """Zachary's karate club: 34 members, each with its own indicator as features, in four communities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG still uses names that torch wants to drop
        from torch_geometric.datasets import KarateClub

        data = KarateClub()[0]
    return Graph.from_edges(data.edge_index, num_nodes=data.num_nodes, y=data.y)


def digits() -> Graph:
    """1,797 images of handwritten digits, each linked to the five that look most alike; the label is the digit."""
    from sklearn.datasets import load_digits

    pixels, digit = load_digits(return_X_y=True)
    return Graph.from_edges(
        nearest_neighbours(pixels, DIGIT_NEIGHBOURS),
        num_nodes=len(pixels),
        x=torch.from_numpy(pixels / DIGIT_BRIGHTEST).float(),
        y=torch.from_numpy(digit).long(),
    )
