"""Why two nodes score as they do: what lies between them, and what the score is without it.

For a directed graph a shared neighbour of a and b lies on a path a → w → b, and paths lead from a to b.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from bandana.errors import UserError
from bandana.graph import Graph
from bandana.method import Method
from bandana.use.receptive import embed_rows, ranges


class SharedNeighbour(NamedTuple):
    """A node between the two, and how much of their score needs it.

    Attributes:
        node: Its number.
        degree: How many links it has; the fewer, the more sharing it means.
        effect: The score, minus the score of the same model when this node's links to the two are deleted.
    """

    node: int
    degree: int
    effect: float


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What lies behind the score of a pair.

    Attributes:
        score: The dot product of the two vectors.
        linked: Whether the graph has this link already.
        linked_back: Whether a directed graph has the link from the second to the first.
        score_without_link: The score when that link is deleted; None if there is none.
        shared: The shared neighbours that were checked, the one with the largest effect first.
        num_shared: How many there are.
        score_without_shared: The score when the links of all that were checked are deleted at once; None without any.
        paths: Paths of three steps as node numbers, those through the least busy nodes first.
        num_paths: How many there are.
    """

    score: float
    linked: bool
    linked_back: bool
    score_without_link: float | None
    shared: tuple[SharedNeighbour, ...]
    num_shared: int
    score_without_shared: float | None
    paths: tuple[tuple[int, int, int, int], ...]
    num_paths: int

    @property
    def distance(self) -> int | None:
        """Steps of the shortest path, up to three; None for more."""
        for steps, exists in enumerate((self.linked, self.num_shared, self.num_paths), start=1):
            if exists:
                return steps
        return None


def explain_link(method: Method, graph: Graph, a: int, b: int, *, most: int = 20) -> Explanation:
    """Say what joins two nodes and how the score falls, or rises, when each shared neighbour is cut off.

    The model stays as it is; the two nodes are embedded anew in the graph without the deleted links.

    Args:
        method: Trained; is put into evaluation mode.
        graph: What the method embeds.
        a: Number of the first node, the source of a directed link.
        b: Number of the second.
        most: Shared neighbours to check, and paths to list, at most: those with the fewest links of their own.

    Raises:
        UserError: It is one node, or none of the graph's.
    """
    if a == b or not (0 <= a < graph.num_nodes and 0 <= b < graph.num_nodes):
        raise UserError(f"Why: two different nodes of 0 to {graph.num_nodes - 1} are needed, got {a} and {b}.")
    degree = _degrees(graph)
    after_a, before_b = _receivers(graph, a), _senders(graph, b)
    shared = _least_busy(after_a[torch.isin(after_a, before_b)], degree)
    checked = shared[:most].tolist()
    score = _score(method, graph, a, b)
    cuts = {node: _entries(graph, [(a, node), (node, b)]) for node in checked}
    effects = [
        SharedNeighbour(node, int(degree[node]), score - _score(method, graph, a, b, cut)) for node, cut in cuts.items()
    ]
    linked = bool((after_a == b).any())
    num_paths, paths = _paths(graph, a, b, after_a, before_b, degree, most)
    return Explanation(
        score=score,
        linked=linked,
        linked_back=graph.directed and bool((_senders(graph, a) == b).any()),
        score_without_link=_score(method, graph, a, b, _entries(graph, [(a, b)])) if linked else None,
        shared=tuple(sorted(effects, key=lambda neighbour: -neighbour.effect)),
        num_shared=shared.numel(),
        score_without_shared=_score(method, graph, a, b, torch.cat(list(cuts.values()))) if cuts else None,
        paths=paths,
        num_paths=num_paths,
    )


def _score(method: Method, graph: Graph, a: int, b: int, without: Tensor | None = None) -> float:
    ends = torch.tensor(sorted((a, b)), device=graph.device)
    left, right = embed_rows(method, graph, ends, without=without)
    return float(left @ right)


def _paths(
    graph: Graph, a: int, b: int, after_a: Tensor, before_b: Tensor, degree: Tensor, most: int
) -> tuple[int, tuple[tuple[int, int, int, int], ...]]:
    """All paths a → u → w → b over four different nodes: how many, and some of them."""
    first, second = after_a[after_a != b].cpu().numpy(), before_b[before_b != a].cpu().numpy()
    between = _in_neighbours(graph)[second][:, first].tocoo()
    inner = first[between.col], second[between.row]
    busy = degree.cpu().numpy()
    order = np.lexsort((*inner[::-1], busy[inner[0]].astype(float) * busy[inner[1]]))[:most]
    listed = zip(inner[0][order].tolist(), inner[1][order].tolist(), strict=True)
    return between.nnz, tuple((a, u, w, b) for u, w in listed)


def _in_neighbours(graph: Graph) -> Any:
    rowptr, col = graph.structure.rowptr.cpu().numpy(), graph.structure.col.cpu().numpy()
    return csr_array((np.ones(col.size, dtype=np.int8), col, rowptr), shape=(graph.num_nodes, graph.num_nodes))


def _senders(graph: Graph, node: int) -> Tensor:
    return graph.structure.col[ranges(graph.structure.rowptr, torch.tensor([node], device=graph.device))]


def _receivers(graph: Graph, node: int) -> Tensor:
    entries = ranges(graph.structure.transposed_rowptr, torch.tensor([node], device=graph.device))
    return graph.structure.transposed_col[entries]


def _degrees(graph: Graph) -> Tensor:
    """``[nodes]`` links of each node, in either direction."""
    incoming = graph.structure.row_sizes
    return incoming + graph.structure.transposed_rowptr.diff() if graph.directed else incoming


def _least_busy(nodes: Tensor, degree: Tensor) -> Tensor:
    return nodes[degree[nodes].argsort(stable=True)]


def _entries(graph: Graph, steps: list[tuple[int, int]]) -> Tensor:
    """The entries of existing links (sender, receiver); of an undirected one both directions."""
    if not graph.directed:
        steps = [*steps, *((receiver, sender) for sender, receiver in steps)]
    keys = torch.tensor([receiver * graph.num_nodes + sender for sender, receiver in steps], device=graph.device)
    return torch.searchsorted(graph.edge_keys, keys)
