"""How good the vectors of a graph are, from all sides, in one record.

What would need more than seconds on a large graph is measured on a sample, drawn with a seed, and the notes say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bandana.data.splits import EdgeSplit
from bandana.errors import UserError
from bandana.evaluation.clusters import ROWS_FOR_CLUSTERING, Clustering, clustering, find_clusters, modularity
from bandana.evaluation.geometry import (
    ROWS_FOR_RANK,
    Hubness,
    Preservation,
    effective_rank,
    hubness,
    nearest,
    preservation,
    spread,
)
from bandana.evaluation.graph_facts import GraphFacts, describe_graph
from bandana.evaluation.label_quality import ROWS_FOR_LABELS, label_quality
from bandana.evaluation.link_quality import VECTORS, LinkQuality, Ranker, link_quality
from bandana.evaluation.samples import sample
from bandana.graph import Features, Graph, SparseFeatures

__all__ = [
    "Clustering",
    "GraphFacts",
    "Hubness",
    "LinkQuality",
    "Preservation",
    "Quality",
    "clustering",
    "collapse_warning",
    "describe_graph",
    "effective_rank",
    "find_clusters",
    "hubness",
    "judge",
    "label_quality",
    "link_quality",
    "modularity",
    "nearest",
    "preservation",
    "spread",
]

NEIGHBOURS = 10
ROWS_FOR_HUBNESS = 20_000
COMPARISONS = ROWS_FOR_HUBNESS**2
"""Pairs of vectors compared for neighbourhoods: all of them up to 20,000 nodes, of larger graphs as many."""
SMALLEST_SPREAD = 1e-3
SMALLEST_RANK_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class Quality:
    """What is known about the vectors of a graph.

    Attributes:
        width: Numbers in a vector.
        effective_rank: Directions that the vectors use; see `effective_rank`.
        spread: Share of the vectors' squared length that differs from node to node; 0 if all are one vector.
        collapse: What is wrong with the two, in words, or None.
        hubness: Whether some nodes are near to everything.
        preservation: Whether neighbours in the graph are near; None without links.
        clustering: What k-means finds.
        links: Rankings of held-out links; None if none were held out.
        labels: accuracy and macro_f1 of a linear classifier on held-out nodes by what it reads; None without labels.
        notes: What was measured on a sample.
    """

    width: int
    effective_rank: float
    spread: float
    collapse: str | None
    hubness: Hubness
    preservation: Preservation | None
    clustering: Clustering
    links: LinkQuality | None
    labels: Mapping[str, Mapping[str, float]] | None
    notes: tuple[str, ...]


def judge(
    graph: Graph,
    z: Tensor,
    split: EdgeSplit | None = None,
    blind: Tensor | None = None,
    *,
    floors: Mapping[str, Features] | None = None,
    decoder: Ranker | None = None,
    clusters: Tensor | None = None,
    seed: int = 0,
) -> Quality:
    """Measure vectors from all sides.

    Args:
        graph: The whole graph.
        z: ``[nodes, width]`` vectors taken on it.
        split: Held-out links, if any.
        blind: ``[nodes, width]`` vectors taken on the split's `test_graph`, and needed with a split: those of the whole
            graph have seen the links that are to be predicted.
        floors: Other vectors to compare with by name, taken on the split's `test_graph`, such as ``untrained encoder``;
            they may be sparse.
        decoder: The method's own score of ``[2, P]`` pairs over the `test_graph`.
        clusters: ``[nodes]`` what `find_clusters` gave, if it is there already.
        seed: Of all samples.

    Raises:
        UserError: A vector is not finite, or there are fewer than three nodes.
    """
    if (split is None) != (blind is None):
        raise ValueError("judge: a split and the vectors of its test graph go together")
    if graph.device.type != "cpu":
        graph, split = graph.to("cpu"), None if split is None else split.to("cpu")
    z, floors = _checked(z, graph), {name: _checked_floor(other, graph) for name, other in (floors or {}).items()}
    links = None
    if split is not None and blind is not None:
        links = link_quality(split, _checked(blind, graph), floors=floors, decoder=decoder, seed=seed)
    queries = sample(graph.num_nodes, max(COMPARISONS // graph.num_nodes, 1), seed)
    near = nearest(z, queries, NEIGHBOURS)
    rank, share = effective_rank(z, seed=seed), spread(z)
    clusters = find_clusters(graph, z, seed=seed) if clusters is None else clusters.cpu()
    return Quality(
        width=z.shape[1],
        effective_rank=rank,
        spread=share,
        collapse=collapse_warning(rank, share, z.shape[1]),
        hubness=hubness(near if queries.numel() == graph.num_nodes else _nearest_within_a_sample(z, seed)),
        preservation=preservation(graph, queries, near),
        clustering=clustering(graph, clusters),
        links=links,
        labels=None if graph.y is None else label_quality(graph.y, {VECTORS: z, **floors}, seed=seed),
        notes=_notes(graph, queries.numel()) + (links.notes if links else ()),
    )


def collapse_warning(effective_rank: float, spread: float, width: int) -> str | None:
    """What is wrong with vectors that hardly differ, in words; None if nothing is."""
    if effective_rank == 0:
        return "All nodes have the same vector: training collapsed, and nothing can be read from these vectors."
    if spread < SMALLEST_SPREAD:
        return (
            f"Nearly all of every vector is the same ({1 - spread:.2%} of its squared length): training collapsed, or "
            "the encoder adds a large constant."
        )
    if width > 2 and effective_rank < max(1.5, SMALLEST_RANK_SHARE * width):
        return f"The vectors use about {effective_rank:.1f} of their {width} directions: they have partly collapsed."
    return None


def _checked_floor(other: Features, graph: Graph) -> Features:
    return other.to("cpu") if isinstance(other, SparseFeatures) else _checked(other, graph)


def _checked(z: Tensor, graph: Graph) -> Tensor:
    if z.dim() != 2 or z.shape[0] != graph.num_nodes or z.shape[0] < 3:
        raise UserError(
            f"Quality: needs one vector for each of at least three nodes, got shape {tuple(z.shape)} for "
            f"{graph.num_nodes} nodes; use a larger graph."
        )
    z = z.detach().to("cpu", torch.float32)
    if not bool(torch.stack(z.aminmax()).isfinite().all()):
        raise UserError("Quality: vectors must be finite, got NaN or infinity; training diverged, so try a lower lr.")
    return z


def _nearest_within_a_sample(z: Tensor, seed: int) -> Tensor:
    rows = z[sample(z.shape[0], ROWS_FOR_HUBNESS, seed)]
    return nearest(rows, torch.arange(rows.shape[0]), NEIGHBOURS)


def _notes(graph: Graph, queries: int) -> tuple[str, ...]:
    labelled = 0 if graph.y is None else int((graph.y >= 0).sum())
    sampled = {
        "Neighbourhood preservation": (queries, graph.num_nodes, "nodes"),
        "Hubness": (ROWS_FOR_HUBNESS, graph.num_nodes, "nodes, among themselves"),
        "Effective rank": (ROWS_FOR_RANK, graph.num_nodes, "nodes"),
        "Cluster centres": (ROWS_FOR_CLUSTERING, graph.num_nodes, "nodes"),
        "Classification": (ROWS_FOR_LABELS, labelled, "labelled nodes"),
    }
    return tuple(
        f"{what}: measured on {part:,} of {total:,} {of}, chosen at random."
        for what, (part, total, of) in sampled.items()
        if part < total
    )
