"""Clusters of vectors, and what they have to do with the graph and its labels."""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bandana.evaluation.samples import sample
from bandana.graph import Graph

ROWS_FOR_CLUSTERING = 10_000
MOST_CLUSTERS = 64
STARTS = 3
ROWS_PER_BLOCK = 65_536


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """How clusters fit.

    Attributes:
        count: Number of clusters.
        modularity: Share of link weight inside them beyond chance; None without links.
        nmi: Normalised mutual information with the labels; None without labels.
        ari: Adjusted Rand index against the labels; None without labels.
    """

    count: int
    modularity: float | None
    nmi: float | None
    ari: float | None


def find_clusters(graph: Graph, z: Tensor, *, seed: int = 0) -> Tensor:
    """Group ``[nodes, width]`` vectors by k-means on their directions.

    There are as many clusters as classes. Without labels it is whichever of 2, 4, 8, …, up to the root of the number of
    nodes, has the highest modularity on the graph. Centres are found on a sample of the nodes if there are many.

    Returns:
        ``[nodes]`` cluster numbers, on the CPU.
    """
    num_classes = 0 if graph.y is None else int(graph.y[graph.y >= 0].unique().numel())
    if num_classes >= 2:
        return _k_means(z, num_classes, seed)
    most = min(MOST_CLUSTERS, max(2, int(graph.num_nodes**0.5)))
    found = [_k_means(z, 2**power, seed) for power in range(1, most.bit_length())]
    return max(found, key=lambda clusters: modularity(graph, clusters) or 0.0)


def clustering(graph: Graph, clusters: Tensor) -> Clustering:
    """Compare ``[nodes]`` clusters with the graph, and with its labels if it has any."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    nmi = ari = None
    if graph.y is not None and bool((graph.y >= 0).any()):
        labelled = graph.y >= 0
        truth, guess = graph.y[labelled].numpy(), clusters[labelled].numpy()
        nmi, ari = float(normalized_mutual_info_score(truth, guess)), float(adjusted_rand_score(truth, guess))
    count = int(clusters.unique().numel())
    return Clustering(count=count, modularity=modularity(graph, clusters), nmi=nmi, ari=ari)


def modularity(graph: Graph, clusters: Tensor) -> float | None:
    """Share of link weight inside ``[nodes]`` clusters beyond what the degrees would give by chance (Newman, 2006)."""
    if not graph.num_edges:
        return None
    sender, receiver = clusters[graph.structure.col], clusters[graph.structure.row]
    weight = torch.ones(graph.num_edges, dtype=torch.float64) if graph.weight is None else graph.weight.double()
    size, total = int(clusters.max()) + 1, float(weight.sum())
    sent = torch.bincount(sender, weight, minlength=size)
    received = torch.bincount(receiver, weight, minlength=size)
    return float(weight[sender == receiver].sum()) / total - float(sent @ received) / total**2


def _k_means(z: Tensor, count: int, seed: int) -> Tensor:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    rows = normalize(z[sample(z.shape[0], ROWS_FOR_CLUSTERING, seed)])
    model = KMeans(min(count, rows.shape[0]), n_init=STARTS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal vectors: fewer clusters, which the count says
        model.fit(rows.numpy())
    parts = [torch.from_numpy(model.predict(normalize(block).numpy())) for block in z.split(ROWS_PER_BLOCK)]
    return torch.cat(parts).long()
