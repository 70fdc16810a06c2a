"""What a graph is: its size, degrees, components, and how its links agree with labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from bandana.engine.structure import entry_keys
from bandana.evaluation.samples import sample
from bandana.evaluation.shared_neighbours import contains, neighbour_counts, shared_neighbours
from bandana.graph import Graph

LINKS_EXAMINED = 5_000
"""Links looked at for triangles; of more, a random sample."""


@dataclass(frozen=True, kw_only=True)
class DegreeFacts:
    """Distinct neighbours per node, in whichever direction links point.

    Attributes:
        mean: Mean number.
        median: Half of the nodes have no more.
        ninetieth: Nine of ten nodes have no more.
        most: The largest number.
        isolated: Nodes without any.
        counts: Nodes with 0, 1, 2 to 3, 4 to 7, 8 to 15, … neighbours.
    """

    mean: float
    median: float
    ninetieth: float
    most: int
    isolated: int
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LabelFacts:
    """How labels lie on the graph.

    Attributes:
        labelled: Nodes with a label.
        class_sizes: Labelled nodes of each class.
        homophily: Share of the links between labelled nodes that join equal labels; None without such links.
        adjusted_homophily: The same beyond what the classes' degrees would give by chance (Platonov et al., 2023):
            0 is chance, 1 is always; None where there is nothing to compare.
    """

    labelled: int
    class_sizes: tuple[int, ...]
    homophily: float | None
    adjusted_homophily: float | None


@dataclass(frozen=True, kw_only=True)
class GraphFacts:
    """A graph in numbers.

    Attributes:
        num_nodes: Nodes, isolated ones included.
        num_links: Links; an undirected one counts once.
        directed: Whether links point one way.
        weighted: Whether links have weights.
        num_features: Features of a node; None if the graph came without and nodes are only numbered.
        degrees: Neighbours per node.
        num_components: Parts without a link between them, isolated nodes included.
        largest_component: Share of the nodes in the largest part.
        bipartite: Whether there are links, and all run between two sides.
        reciprocity: Share of the directed links with one back; None if undirected.
        closed: Share of links whose ends have a neighbour in common, of a sample if there are many; None without links.
        labels: What labels say, or None without labels.
        notes: What was sampled.
    """

    num_nodes: int
    num_links: int
    directed: bool
    weighted: bool
    num_features: int | None
    degrees: DegreeFacts
    num_components: int
    largest_component: float
    bipartite: bool
    reciprocity: float | None
    closed: float | None
    labels: LabelFacts | None
    notes: tuple[str, ...]


def describe_graph(graph: Graph, *, seed: int = 0) -> GraphFacts:
    """Everything that can be said about a graph before anything is learned from it.

    Args:
        graph: Any graph.
        seed: Of the sample of links that is searched for triangles.
    """
    part = components(graph)
    sizes = torch.bincount(part) if graph.num_nodes else torch.zeros(0)
    num_links = graph.links.numel()
    sampled = f"Triangles were looked for at {LINKS_EXAMINED:,} of {num_links:,} links, chosen at random."
    return GraphFacts(
        num_nodes=graph.num_nodes,
        num_links=num_links,
        directed=graph.directed,
        weighted=graph.weight is not None,
        num_features=None if not graph.has_features else graph.num_features,
        degrees=degree_facts(neighbour_counts(graph)),
        num_components=sizes.numel(),
        largest_component=float(sizes.max() / graph.num_nodes) if graph.num_nodes else 0.0,
        bipartite=is_bipartite(graph),
        reciprocity=_reciprocity(graph),
        closed=_closed(graph, seed),
        labels=None if graph.y is None else label_facts(graph, graph.y),
        notes=(sampled,) if num_links > LINKS_EXAMINED else (),
    )


def components(graph: Graph) -> Tensor:
    """``[nodes]`` number of the connected part that each node is in, whichever way links point."""
    return _parts(graph.structure.row, graph.structure.col, graph.num_nodes)


def is_bipartite(graph: Graph) -> bool:
    """Whether there are links, and the nodes have two sides such that every link runs between them.

    Take each node twice, and lay each link from the first copy of one end to the second copy of the other. A part of
    the graph falls into two exactly if it has two sides: otherwise some closed path of odd length joins the copies.
    """
    if not graph.num_edges:
        return False
    row, col, nodes = graph.structure.row, graph.structure.col, graph.num_nodes
    if graph.directed:
        row, col = torch.cat([row, col]), torch.cat([col, row])
    doubled = _parts(row, col + nodes, 2 * nodes)
    return int(doubled.max()) + 1 == 2 * (int(components(graph).max()) + 1)


def degree_facts(degree: Tensor) -> DegreeFacts:
    """Summarise ``[nodes]`` numbers of neighbours."""
    values = degree.cpu().numpy()
    if not values.size:
        return DegreeFacts(mean=0.0, median=0.0, ninetieth=0.0, most=0, isolated=0, counts=())
    exponent = np.frexp(values)[1]  # 0 for 0, 1 for 1, 2 for 2 and 3, 3 for 4 to 7: exact, unlike a logarithm
    return DegreeFacts(
        mean=float(values.mean()),
        median=float(np.median(values)),
        ninetieth=float(np.quantile(values, 0.9, method="inverted_cdf")),
        most=int(values.max()),
        isolated=int((values == 0).sum()),
        counts=tuple(np.bincount(exponent).tolist()),
    )


def label_facts(graph: Graph, labels: Tensor) -> LabelFacts:
    """How ``[nodes]`` labels, negative for unlabelled nodes, lie on the graph."""
    known = labels[labels >= 0]
    sender, receiver = labels[graph.structure.col], labels[graph.structure.row]
    both = (sender >= 0) & (receiver >= 0)
    homophily = adjusted = None
    if bool(both.any()):
        sender, receiver = sender[both], receiver[both]
        homophily = float((sender == receiver).double().mean())
        ends = torch.bincount(torch.cat([sender, receiver])).double()
        by_chance = float((ends / ends.sum()).square().sum())
        adjusted = (homophily - by_chance) / (1 - by_chance) if by_chance < 1 else None
    return LabelFacts(
        labelled=known.numel(),
        class_sizes=tuple(torch.bincount(known).tolist()),
        homophily=homophily,
        adjusted_homophily=adjusted,
    )


def _parts(row: Tensor, col: Tensor, num_nodes: int) -> Tensor:
    if not num_nodes:
        return row.new_empty(0)
    ends = (row.cpu().numpy(), col.cpu().numpy())
    matrix: Any = csr_array((np.ones(row.numel(), dtype=np.int8), ends), shape=(num_nodes, num_nodes))
    _, part = connected_components(matrix, directed=True, connection="weak")
    return torch.from_numpy(part).long().to(row.device)


def _reciprocity(graph: Graph) -> float | None:
    if not graph.directed or not graph.num_edges:
        return None
    back = entry_keys(graph.structure.col, graph.structure.row, graph.num_nodes)
    return float(contains(graph.edge_keys, back).double().mean())


def _closed(graph: Graph, seed: int) -> float | None:
    links = graph.links
    if not links.numel():
        return None
    links = links[sample(links.numel(), LINKS_EXAMINED, seed).to(links.device)]
    pairs = torch.stack([graph.structure.col[links], graph.structure.row[links]])
    return float((shared_neighbours(graph, pairs).number > 0).double().mean())
