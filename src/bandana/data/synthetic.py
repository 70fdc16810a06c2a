"""Two graphs with a known shape: points on a rolled-up sheet and on two crescents, linked to those close by.

The paper draws both with PyGSP; here the points come from scikit-learn, so a few facts differ. Both are unweighted,
as in the paper, while PyGSP weights its edges by distance. Features are the coordinates the points lie at. The paper
hides them and gives every node its own indicator instead: ``replace(graph, x=identity_features(graph.num_nodes))``.
"""

from math import pi
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from bandana.graph import Graph

SEED = 0
ROLL_POINTS, ROLL_LINKS, ROLL_BANDS = 500, 3_356, 5
MOON_POINTS, MOON_NOISE, MOON_NEIGHBOURS = 2_000, 0.1, 5

Points: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


def swiss_roll() -> Graph:
    """500 points on a sheet rolled up in space, the 3,356 closest pairs linked; the label is the band along the roll.

    PyGSP links whatever is nearer than a fixed radius, which makes the number of edges a matter of the seed (about
    6,900 to 8,200 entries). Linking a fixed number of closest pairs is a radius graph too, with exactly the 6,712
    entries of the paper's table. The points are even along the roll's angle, not over its area.
    """
    from sklearn.datasets import make_swiss_roll

    points, angle = make_swiss_roll(ROLL_POINTS, random_state=SEED)
    along = (angle / (1.5 * pi) - 1) / 2  # scikit-learn's angle runs from 1.5 π to 4.5 π
    band = np.minimum((along * ROLL_BANDS).astype(np.int64), ROLL_BANDS - 1)
    return _graph(points, band, closest_pairs(points, ROLL_LINKS))


def two_moon() -> Graph:
    """2,000 points on two interleaved crescents, each linked to its five nearest; the label is the crescent.

    PyGSP reads a stored cloud of points and gets 12,264 entries with the same rule; this cloud gives 12,430.
    """
    from sklearn.datasets import make_moons

    points, moon = make_moons(MOON_POINTS, noise=MOON_NOISE, random_state=SEED)
    return _graph(points, moon, nearest_neighbours(points, MOON_NEIGHBOURS))


def nearest_neighbours(points: Points, count: int) -> Tensor:
    """``[2, points · count]`` from each point to its nearest others; the lower number wins a tie.

    Written out because scikit-learn's search algorithms break ties differently, and pixel images have ties.
    """
    from scipy.spatial.distance import cdist

    distance = cdist(points, points, "sqeuclidean")
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argsort(axis=1, kind="stable")[:, :count]
    here = np.arange(len(points)).repeat(count)
    return torch.from_numpy(np.stack([here, nearest.ravel()]))


def closest_pairs(points: Points, count: int) -> Tensor:
    """``[2, count]`` the pairs of points with the smallest distances."""
    from scipy.spatial.distance import pdist

    order = pdist(points).argsort(kind="stable")[:count]
    first, second = np.triu_indices(len(points), k=1)
    return torch.from_numpy(np.stack([first[order], second[order]]))


def _graph(points: Points, label: Any, links: Tensor) -> Graph:
    return Graph.from_edges(
        links,
        num_nodes=len(points),
        x=torch.from_numpy(points).float(),
        y=torch.from_numpy(label).long(),
    )
