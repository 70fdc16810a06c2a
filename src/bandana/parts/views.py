"""Views: the same nodes with part of their edges and features missing, or with a graph that means nothing."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from bandana.engine.dropout import keep_mask
from bandana.engine.propagate import EdgeWeights, gcn_weights, propagate
from bandana.engine.structure import Structure, build_structure
from bandana.graph import Features, Graph, SparseFeatures
from bandana.parts.encoders import Stack
from bandana.parts.feature_matrix import hide_features, hide_share

Centrality = Literal["degree", "pagerank", "eigenvector"]
Importance = Literal["occurrence", "magnitude"]
Chance: TypeAlias = float | Tensor
"""That something is dropped: one number, or one for each."""

HIGHEST_ADAPTIVE_CHANCE = 0.7
_ROUNDS = 200
_FAINTEST_EIGENVECTOR_ENTRY = 1e-8


class View(NamedTuple):
    """What an encoder reads: features, and edges with their GCN weights."""

    x: Features
    structure: Structure
    edges: EdgeWeights


class DropOdds(NamedTuple):
    """How much likelier than the average ``[edges]`` and ``[features]`` are to be dropped; both have mean one."""

    edges: Tensor
    columns: Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewsConfig:
    """What each of two views loses, as shares."""

    edge_drop: tuple[float, float] = (0.2, 0.4)
    """Directed edges: the two directions of a link go independently."""
    feature_drop: tuple[float, float] = (0.3, 0.4)
    """Feature columns, each for all nodes at once."""

    def __post_init__(self) -> None:
        for name in ("edge_drop", "feature_drop"):
            shares = getattr(self, name)
            if len(shares) != 2 or not all(0 <= share < 1 for share in shares):
                raise ValueError(f"{name}: give two shares in [0, 1), one per view; got {list(shares)}")


def encode(encoder: Stack, view: View) -> Tensor:
    """``[nodes, width]`` the encoder's last layer."""
    last: Tensor = encoder(view.x, view.structure, [view.edges] * len(encoder.weights))[-1]
    return last


def whole_view(graph: Graph) -> View:
    """The graph as it is."""
    return View(graph.x, graph.structure, gcn_weights(graph.structure, graph.weight))


def two_views(
    graph: Graph, config: ViewsConfig, generator: torch.Generator, odds: DropOdds | None = None
) -> tuple[View, View]:
    """Two independent views of a graph, uniform or by `odds`."""

    def draw(edge_drop: Chance, feature_drop: Chance) -> View:
        if odds is not None:
            edge_drop, feature_drop = drop_chances(odds.edges, edge_drop), drop_chances(odds.columns, feature_drop)
        edges = drop_edges(graph, edge_drop, generator)
        return View(drop_columns(graph.x, feature_drop, generator), graph.structure, edges)

    return draw(config.edge_drop[0], config.feature_drop[0]), draw(config.edge_drop[1], config.feature_drop[1])


def masked_view(graph: Graph, edge_mask: float, feature_mask: float, generator: torch.Generator) -> View:
    """The graph without exactly a share of its links, both directions of each, and of its non-zero feature entries."""
    links = graph.links
    shown = hide_share(torch.ones(links.numel(), device=graph.device), edge_mask, generator)
    keep = torch.ones(graph.num_edges, device=graph.device)
    keep[links] = shown
    if not graph.directed:
        keep[graph.structure.transposed_entry[links]] = shown
    edges = gcn_weights(graph.structure, _weighted(graph, keep))
    return View(hide_features(graph.x, feature_mask, generator), graph.structure, edges)


def num_unmasked(graph: Graph, edge_mask: float) -> int:
    """Directed edges that a masked view keeps."""
    return graph.num_edges - int(graph.links.numel() * edge_mask) * (1 if graph.directed else 2)


def drop_edges(graph: Graph, drop: Chance, generator: torch.Generator) -> EdgeWeights:
    """GCN weights of the graph that is left when each directed edge is dropped by itself."""
    return gcn_weights(graph.structure, _weighted(graph, _keep(graph.num_edges, drop, generator)))


def drop_columns(x: Features, drop: Chance, generator: torch.Generator) -> Features:
    """The features with some columns zero for all nodes; the others are not scaled up."""
    keep = _keep(x.shape[1], drop, generator)
    if isinstance(x, SparseFeatures):
        return SparseFeatures(x.structure, x.values * keep[x.structure.col])
    return x * keep


def _keep(size: int, drop: Chance, generator: torch.Generator) -> Tensor:
    """``[size]`` zero where something is dropped, one elsewhere."""
    if isinstance(drop, Tensor):
        kept = torch.rand(size, generator=generator, device=generator.device) >= drop
    else:
        kept = keep_mask((size,), drop, generator)
    return kept.to(torch.get_default_dtype())


def _weighted(graph: Graph, keep: Tensor) -> Tensor:
    return keep if graph.weight is None else keep * graph.weight


def adaptive_odds(graph: Graph, centrality: Centrality, importance: Importance) -> DropOdds:
    """Odds by which edges into central nodes, and features of central nodes, are dropped less often.

    Edge weights are disregarded: centrality is a matter of who is linked with whom.

    Args:
        graph: The training graph.
        centrality: What makes a node central.
        importance: A column's importance is the summed centrality of the nodes that have it (`occurrence`), or that
            sum weighted by the size of their entries (`magnitude`).
    """
    by_receiver = node_centrality(graph, centrality).index_select(0, graph.structure.row)
    rounds = 10 if centrality == "pagerank" else _ROUNDS  # the authors stop PageRank early where it weighs features
    by_column = column_importance(graph.x, node_centrality(graph, centrality, rounds), importance)
    return DropOdds(drop_odds(by_receiver), drop_odds(by_column))


def drop_odds(importance: Tensor) -> Tensor:
    """How far the logarithm of each importance lies below the highest one, in multiples of the mean distance.

    What has no importance at all counts as the least important that has some. Where all are equal, so are the odds.
    """
    if not importance.numel():
        return importance
    present = importance > 0
    faintest = importance.where(present, torch.inf).min().clamp(max=torch.finfo(importance.dtype).max)
    score = importance.maximum(faintest).log()
    gap = score.max() - score
    mean = gap.mean()
    return torch.where(mean > 0, gap / mean, 1.0)


def drop_chances(odds: Tensor, drop: Chance) -> Tensor:
    """Odds times the mean chance, but never above `HIGHEST_ADAPTIVE_CHANCE`."""
    return (odds * drop).clamp(max=HIGHEST_ADAPTIVE_CHANCE)


def node_centrality(graph: Graph, kind: Centrality, rounds: int = _ROUNDS) -> Tensor:
    """``[nodes]`` number of neighbours in either direction, or `rounds` rounds towards PageRank or the eigenvector."""
    match kind:
        case "degree":
            return _neighbours(graph).to(torch.get_default_dtype())
        case "pagerank":
            return _page_rank(graph.structure, rounds)
        case "eigenvector":
            return _eigenvector(graph.structure, rounds)


def column_importance(x: Features, centrality: Tensor, importance: Importance) -> Tensor:
    """``[features]`` centrality summed over the nodes that have a feature."""

    def share(values: Tensor) -> Tensor:
        return values.abs() if importance == "magnitude" else (values != 0).to(centrality.dtype)

    if not isinstance(x, SparseFeatures):
        return share(x).t() @ centrality
    pattern = x.structure
    terms = share(x.values)[pattern.transposed_entry] * centrality[pattern.transposed_col]
    return torch.segment_reduce(terms, "sum", offsets=pattern.transposed_rowptr, unsafe=True, initial=0)


def _neighbours(graph: Graph) -> Tensor:
    if not graph.directed:
        return graph.structure.row_sizes
    return Graph.from_edges(graph.edge_index, num_nodes=graph.num_nodes).structure.row_sizes


def _page_rank(structure: Structure, rounds: int, damping: float = 0.85) -> Tensor:
    """The authors' variant: the share that does not follow edges stays where it is instead of starting anew."""
    passed_on = structure.transposed_rowptr.diff().clamp(min=1).to(torch.get_default_dtype()).reciprocal()
    values = passed_on[structure.col]
    rank = values.new_ones(structure.num_rows, 1)
    for _ in range(rounds):
        rank = (1 - damping) * rank + damping * propagate(structure, values, rank)
    return rank.squeeze(1)


def _eigenvector(structure: Structure, rounds: int) -> Tensor:
    """Power iteration on the adjacency plus identity: the same vectors, and no swinging on two-sided graphs."""
    vector = torch.ones(structure.num_rows, 1, device=structure.col.device)
    ones = vector.new_ones(structure.num_entries)
    for _ in range(rounds):
        vector = propagate(structure, ones, vector, vector.new_ones(structure.num_rows))
        vector = vector / vector.norm()
    return vector.squeeze(1) + _FAINTEST_EIGENVECTOR_ENTRY


def scramble_rows(x: Features, generator: torch.Generator) -> Features:
    """Every node with the features of a random other one."""
    order = torch.randperm(x.shape[0], generator=generator, device=generator.device)
    if not isinstance(x, SparseFeatures):
        return x[order]
    structure, entries = build_structure(order[x.structure.row], x.structure.col, *x.shape)
    return SparseFeatures(structure, x.values[entries])


def random_features(x: Features, generator: torch.Generator) -> Tensor:
    """Uniform numbers in [0, 1) in place of the features. They are dense, whatever the features were."""
    return torch.rand(x.shape, generator=generator, device=generator.device)


def random_edges(graph: Graph, generator: torch.Generator) -> tuple[Structure, EdgeWeights]:
    """As many directed edges as the graph has, each between two random nodes.

    A pair that is drawn twice counts twice, and a node drawn with itself not at all, as it has its loop already.
    """
    ends = torch.randint(graph.num_nodes, (2, graph.num_edges), generator=generator, device=generator.device)
    structure, _ = build_structure(ends[0], ends[1], graph.num_nodes, graph.num_nodes)
    apart = (structure.row != structure.col).to(torch.get_default_dtype())
    return structure, gcn_weights(structure, _weighted(graph, apart))
