"""Add new nodes and links to a graph, so that its old nodes keep their rows."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bandana.engine.structure import build_structure
from bandana.errors import UserError
from bandana.graph import Features, Graph, SparseFeatures, dense
from bandana.use.ids import ids_of


def merge(before: Graph, addition: Graph) -> Graph:
    """`before` with the nodes and links of `addition`, matched by id. Known nodes keep their rows, new ones follow.

    The outcome is what reading both edge lists as one would give: a link in both has its weights added. Features in
    `addition` replace those of a known node; an addition without features leaves them as they are. Labels stay.

    Raises:
        UserError: One graph has directions or weights and the other has not, or new nodes come without the features
            that the others have.
    """
    if before.directed != addition.directed or (before.weight is None) != (addition.weight is None):
        raise UserError(
            "Merge: both graphs must be directed or neither, and weighted or neither; read the new edges with the "
            "options of the old ones."
        )
    ids = list(ids_of(before.node_ids, before.num_nodes))
    row_by_id = {name: row for row, name in enumerate(ids)}
    for name in ids_of(addition.node_ids, addition.num_nodes):
        row_by_id.setdefault(name, len(row_by_id))
    place = [row_by_id[name] for name in ids_of(addition.node_ids, addition.num_nodes)]
    rows = torch.tensor(place, dtype=torch.long, device=before.device)
    links = torch.cat([_links(before), rows[_links(addition)]], dim=1)
    weight = None
    if before.weight is not None and addition.weight is not None:
        weight = torch.cat([before.weight[before.links], addition.weight[addition.links]])
    labels = before.y
    if labels is not None:
        labels = torch.cat([labels, labels.new_full((len(row_by_id) - len(ids),), -1)])
    return Graph.from_edges(
        links,
        num_nodes=len(row_by_id),
        x=_merged_features(before, addition, rows, list(row_by_id)),
        y=labels,
        weight=weight,
        directed=before.directed,
        node_ids=None if before.node_ids is None and len(row_by_id) == len(ids) else list(row_by_id),
    )


def _links(graph: Graph) -> Tensor:
    return graph.edge_index[:, graph.links]


def _merged_features(before: Graph, addition: Graph, rows: Tensor, ids: Sequence[Any]) -> Features | None:
    no_features, nothing_new = not before.has_features, len(ids) == before.num_nodes
    if no_features:
        return None
    if not addition.has_features:
        if nothing_new:
            return before.x
        raise UserError(
            f"Merge: node {str(ids[before.num_nodes])!r} is new and has no features, but the graph has "
            f"{before.num_features} columns; give features of the new nodes (--features)."
        )
    if addition.num_features != before.num_features:
        raise UserError(
            f"Merge: the new nodes have {addition.num_features} feature columns and the graph has "
            f"{before.num_features}; give the same columns."
        )
    if isinstance(before.x, SparseFeatures) and isinstance(addition.x, SparseFeatures):
        return _stacked(before.x, addition.x, rows, len(ids))
    x = torch.zeros(len(ids), before.num_features, device=before.device, dtype=torch.get_default_dtype())
    x[: before.num_nodes] = dense(before.x)
    x[rows] = dense(addition.x)
    return x


def _stacked(old: SparseFeatures, new: SparseFeatures, rows: Tensor, num_nodes: int) -> SparseFeatures:
    """The rows of `new` at `rows`, those of `old` at all others that it has."""
    replaced = torch.zeros(num_nodes, dtype=torch.bool, device=rows.device).index_fill(0, rows, True)
    kept = (~replaced[old.structure.row]).nonzero().squeeze(1)
    row = torch.cat([old.structure.row[kept], rows[new.structure.row]])
    col = torch.cat([old.structure.col[kept], new.structure.col])
    structure, order = build_structure(row, col, num_nodes, old.shape[1])
    return SparseFeatures(structure, torch.cat([old.values[kept], new.values])[order])
