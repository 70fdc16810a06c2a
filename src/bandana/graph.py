"""`Graph`: the frozen container that every other room receives. Its edges are sorted by receiving node once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from bandana.engine.structure import Structure, build_structure, entry_keys
from bandana.graph_checks import check_ends, check_finite, check_rows, check_sums, class_numbers, kept_weights

SPARSE_BELOW_DENSITY = 0.05
"""Features with a smaller share of non-zeros are kept sparse. Chosen by timing both forms (benchmarks/epoch.py)."""


class SparseFeatures(NamedTuple):
    """A node-by-feature matrix with most entries zero: its pattern and the stored values."""

    structure: Structure
    values: Tensor

    @classmethod
    def of(cls, x: Tensor) -> "SparseFeatures":
        row, col = x.nonzero().unbind(1)
        structure, order = build_structure(row, col, *x.shape)
        return cls(structure, x[row, col][order])

    @property
    def shape(self) -> tuple[int, int]:
        return self.structure.num_rows, self.structure.num_cols

    @property
    def is_identity(self) -> bool:
        """Whether this only numbers the nodes: each row has its own column."""
        rows, columns = self.shape
        return rows == columns == self.values.numel() and bool((self.structure.row == self.structure.col).all())

    def to(self, device: torch.device | str) -> "SparseFeatures":
        return SparseFeatures(self.structure.to(device), self.values.to(device))

    def dense(self) -> Tensor:
        matrix = self.values.new_zeros(self.shape)
        matrix[self.structure.row, self.structure.col] = self.values
        return matrix


Features: TypeAlias = Tensor | SparseFeatures


class Outside(NamedTuple):
    """Edges that reach a sub-graph from outside, by receiving node: ``rowptr [nodes + 1]`` and ``keys [edges]``."""

    rowptr: Tensor
    keys: Tensor


class Origin(NamedTuple):
    """Where a sub-graph lies in the whole graph.

    Attributes:
        rows: ``[nodes]`` ascending, what its nodes are called there.
        num_nodes: Of the whole.
        outside: Edges that were cut off, where they still take part in the softmax of bandwidths.
        part_starts: ``[parts + 1]`` first node of each part, where it is a random group of the whole's parts.
        meeting: How often nodes of two parts are in a group together; those of one part always are.
    """

    rows: Tensor
    num_nodes: int
    outside: Outside | None = None
    part_starts: Tensor | None = None
    meeting: float = 1.0

    def to(self, device: torch.device | str) -> "Origin":
        outside = None if self.outside is None else Outside(*(tensor.to(device) for tensor in self.outside))
        part_starts = None if self.part_starts is None else self.part_starts.to(device)
        return Origin(self.rows.to(device), self.num_nodes, outside, part_starts, self.meeting)


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """A graph with node features, immutable, with its edges in the order of their receiving node.

    Attributes:
        structure: Square pattern; entry ``e`` is the edge from ``structure.col[e]`` to ``structure.row[e]``.
            An undirected edge is two entries. There are no self-loops and no duplicates.
        x: ``[nodes, features]``, dense or sparse; the identity when the graph came without features.
        y: ``[nodes]`` class labels, or None. Methods never read it.
        weight: ``[edges]`` positive edge weights in the structure's order, or None for all ones.
        directed: Whether edges go one way only.
        node_ids: The user's own ids, in row order, or None for 0, 1, 2, …
        origin: The place in a larger graph, or None for a graph that is whole.
    """

    structure: Structure
    x: Features
    y: Tensor | None = None
    weight: Tensor | None = None
    directed: bool = False
    node_ids: Sequence[Any] | None = None
    origin: Origin | None = None

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"Graph({kind}, nodes={self.num_nodes}, links={self.links.numel()}, features={self.num_features})"

    @property
    def num_nodes(self) -> int:
        return self.structure.num_rows

    @property
    def num_edges(self) -> int:
        """Directed entries: an undirected edge counts twice."""
        return self.structure.num_entries

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    @property
    def has_features(self) -> bool:
        """Whether the features say more than which node it is."""
        return not (isinstance(self.x, SparseFeatures) and self.x.is_identity)

    @property
    def num_classes(self) -> int:
        return 0 if self.y is None else int(self.y.max()) + 1

    @property
    def device(self) -> torch.device:
        return self.structure.col.device

    @property
    def edge_index(self) -> Tensor:
        """``[2, edges]`` (sender, receiver), as PyG writes it."""
        return torch.stack([self.structure.col, self.structure.row])

    @cached_property
    def edge_keys(self) -> Tensor:
        """``[edges]`` ascending: one integer per edge that does not depend on where the edge is stored."""
        return entry_keys(self.structure.row, self.structure.col, self.num_nodes)

    @cached_property
    def noise_keys(self) -> Tensor:
        """``[edges]`` what noise belongs to: the keys that the edges have in the whole graph."""
        if self.origin is None:
            return self.edge_keys
        rows = self.origin.rows
        return entry_keys(rows[self.structure.row], rows[self.structure.col], self.origin.num_nodes)

    @cached_property
    def loop_keys(self) -> Tensor:
        """``[nodes]`` the same for self-loops."""
        if self.origin is None:
            return torch.arange(self.num_nodes, device=self.device) * (self.num_nodes + 1)
        return self.origin.rows * (self.origin.num_nodes + 1)

    @cached_property
    def links(self) -> Tensor:
        """Entry of every link once: all entries of a directed graph, one of each two of an undirected one."""
        if self.directed:
            return torch.arange(self.num_edges, device=self.device)
        return (self.structure.row < self.structure.col).nonzero().squeeze(1)

    def merge_directions(self) -> "Graph":
        """The undirected graph of a directed one with all reverses: the weight of a link is the mean of its edges'."""
        if self.weight is None:
            return replace(self, directed=False)
        both = self.weight.double() + self.weight.double()[self.structure.transposed_entry]
        return replace(self, directed=False, weight=(both / 2).to(self.weight.dtype))

    def to(self, device: torch.device | str) -> "Graph":
        names = ("structure", "x", "y", "weight", "origin")
        parts: dict[str, Any] = {name: part.to(device) for name in names if (part := getattr(self, name)) is not None}
        return replace(self, **parts)

    def keep_edges(self, entries: Tensor) -> "Graph":
        """The same nodes with only some of the edges.

        Args:
            entries: Positions in the structure. For an undirected graph both directions must be named.
        """
        rows, cols = self.structure.row[entries], self.structure.col[entries]
        structure, order = build_structure(rows, cols, self.num_nodes, self.num_nodes)
        weight = None if self.weight is None else self.weight[entries][order]
        return replace(self, structure=structure, weight=weight)

    @classmethod
    def from_edges(
        cls,
        edge_index: Any,
        *,
        num_nodes: int,
        x: Features | None = None,
        y: Tensor | None = None,
        weight: Tensor | None = None,
        directed: bool = False,
        node_ids: Sequence[Any] | None = None,
    ) -> "Graph":
        """Build a graph from edges in any order.

        Self-loops are dropped (every encoder adds its own), repeated edges become one with the weights added, and
        unless `directed` each edge is laid in both directions.

        Args:
            edge_index: ``[2, edges]`` integer (sender, receiver): a tensor, an array or two lists.
            num_nodes: Number of nodes, isolated ones included.
            x: ``[nodes, features]`` dense or sparse features; None gives each node its own indicator.
            y: ``[nodes]`` whole numbers.
            weight: ``[edges]`` positive weights.
            directed: Keep directions as they are.
            node_ids: Names of the nodes, for output.

        Raises:
            UserError: An endpoint, the features, the labels or the weights do not fit the graph.
        """
        check_ends(edge_index := torch.as_tensor(edge_index), num_nodes)
        check_rows(x, num_nodes)
        y, weight = class_numbers(y, num_nodes), kept_weights(weight, edge_index.shape[1])
        sender, receiver = edge_index.long()
        if not directed:
            sender, receiver = torch.cat([sender, receiver]), torch.cat([receiver, sender])
            weight = None if weight is None else torch.cat([weight, weight])
        keep = sender != receiver
        keys, slot = entry_keys(receiver[keep], sender[keep], num_nodes).unique(return_inverse=True)
        structure, _ = build_structure(keys // num_nodes, keys % num_nodes, num_nodes, num_nodes)
        if weight is not None:
            weight = weight.new_zeros(keys.numel()).index_add_(0, slot, weight[keep])
            check_sums(weight)
        features = identity_features(num_nodes, keys.device) if x is None else compact(x)
        check_finite(features.values if isinstance(features, SparseFeatures) else features)
        return cls(structure=structure, x=features, y=y, weight=weight, directed=directed, node_ids=node_ids)

    @classmethod
    def from_listing(
        cls, edge_index: Any, *, num_nodes: int, directed: bool | None = None, weight: Tensor | None = None, **rest: Any
    ) -> "Graph":
        """Build a graph from edges that may name an undirected link once or, like a symmetric matrix, twice.

        If all links stand in both directions they do so by design, and `merge_directions` takes the mean of both.
        Otherwise this is `from_edges`, where the weights of all mentions of a link add up.

        Args:
            edge_index: As in `from_edges`, like `num_nodes`, `weight` and the `rest`.
            num_nodes: Number of nodes.
            directed: By default, whether any edge lacks a reverse of the same weight.
            weight: ``[edges]`` positive weights.
            rest: Features, labels and names of the nodes.
        """
        listed = cls.from_edges(edge_index, num_nodes=num_nodes, weight=weight, directed=True, **rest)
        if listed.structure.is_symmetric and not directed:
            merged = listed.merge_directions()
            even = listed.weight is None or merged.weight is None or listed.weight.equal(merged.weight)
            return merged if even or directed is not None else listed
        if directed is None or directed:
            return listed
        return cls.from_edges(edge_index, num_nodes=num_nodes, weight=weight, **rest)

    @classmethod
    def from_pyg(cls, data: Any, *, directed: bool | None = None) -> "Graph":
        """Read a ``torch_geometric.data.Data``.

        Args:
            data: With ``edge_index``, and ``x``, ``y`` and ``edge_weight`` where there are any.
            directed: As in `from_listing`.
        """
        y = None if data.y is None else data.y.view(-1)
        y = y.long() if y is not None and bool((y == y.long()).all()) else y  # fractions stay, and are refused
        about_edges = {"weight": data.get("edge_weight"), "directed": directed}
        return cls.from_listing(data.edge_index, num_nodes=data.num_nodes, x=data.x, y=y, **about_edges)

    def to_pyg(self) -> Any:
        """A ``torch_geometric.data.Data`` with the same content."""
        from torch_geometric.data import Data

        return Data(x=dense(self.x), edge_index=self.edge_index, y=self.y, edge_weight=self.weight)


def identity_features(num_nodes: int, device: torch.device | str = "cpu") -> SparseFeatures:
    """The features of a graph that has none: one indicator per node, so that the first layer learns a vector each."""
    diagonal = torch.arange(num_nodes, device=device)
    structure, _ = build_structure(diagonal, diagonal, num_nodes, num_nodes)
    return SparseFeatures(structure, torch.ones(num_nodes, device=device))


def dense(x: Features) -> Tensor:
    """``[nodes, features]`` with every zero written out."""
    return x.dense() if isinstance(x, SparseFeatures) else x


def compact(x: Features) -> Features:
    """Keep mostly empty features sparse, everything else dense, in torch's default float type: that of the models."""
    if isinstance(x, SparseFeatures):
        return x
    x = (x if x.layout == torch.strided else x.to_dense()).to(torch.get_default_dtype())
    is_full = int(x.count_nonzero()) >= SPARSE_BELOW_DENSITY * x.numel()
    return x.contiguous() if is_full else SparseFeatures.of(x)
