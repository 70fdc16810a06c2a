"""New links and nodes for a graph that is there already, read by its rules so that ids and feature columns match."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bandana.data.columns import Header, id_column
from bandana.data.own_features import choose_features, node_features
from bandana.data.own_files import read_source
from bandana.data.own_values import open_book, text_ids
from bandana.data.tables import Asked, read_graph
from bandana.engine.structure import build_structure
from bandana.errors import UserError
from bandana.graph import Features, Graph, SparseFeatures, dense


class Addition(NamedTuple):
    """What comes to a graph.

    Attributes:
        links: New links, and the nodes at their ends; without features.
        nodes: Nodes with features, new or known, and no links; None if no features came.
        notes: What was understood of the files, one sentence each.
    """

    links: Graph
    nodes: Graph | None
    notes: tuple[str, ...]


def read_addition(
    edges: Path,
    features: Path | None,
    before: Graph,
    feature_names: Sequence[str],
    columns: Asked,
    header: Header = "guess",
) -> Addition:
    """Read new links and the features of new nodes.

    Args:
        edges: A row per new link, with a weight if the graph has weights.
        features: A row per new node; a row of a known node replaces its features.
        before: The graph that it all comes to. It decides directions and the kind of ids.
        feature_names: Its feature columns.
        columns: Names of the columns of `edges`, where the user gave them.
        header: Whether the first line of `edges` holds names, or how to find out.

    Raises:
        UserError: Something is wrong with a file, or does not go with the graph.
    """
    own = read_graph(
        edges,
        directed=before.directed,
        source=columns.get("source"),
        target=columns.get("target"),
        weight=columns.get("weight"),
        time=columns.get("time"),
        header=header,
    )
    if own.graph.weight is None and before.weight is not None:
        raise UserError(f"{edges}: has no weights, but the links of the graph have; add a column and name it weight.")
    if own.graph.weight is not None and before.weight is None:
        raise UserError(f"{edges}: has weights, but the links of the graph have none; leave that column out.")
    links = replace(own.graph, node_ids=_like_the_known(own.graph.node_ids or (), before, edges))
    nodes = None if features is None else _read_nodes(features, before, feature_names)
    return Addition(links, nodes, own.notes)


def _read_nodes(path: Path, before: Graph, feature_names: Sequence[str]) -> Graph:
    if not before.has_features:
        raise UserError(f"{path}: the model was trained without features and reads none; leave --features out.")
    source = read_source(path, choose_features)
    ids = text_ids(source, id_column(source.names))
    book = open_book(ids)
    x, names, _ = node_features(source, ids, book.find(ids), book.ids, "refuse")
    # In a table of single entries the name of the feature is an id, too, and what has no row is zero.
    by_entry = len(choose_features(source.names).ids) > 1
    places = _places(names, feature_names, by_entry, path)
    return Graph.from_edges(
        torch.empty(2, 0, dtype=torch.long),
        num_nodes=len(book.ids),
        x=_spread(x, places, len(feature_names), sparse=isinstance(before.x, SparseFeatures)),
        weight=None if before.weight is None else torch.empty(0),
        directed=before.directed,
        node_ids=_like_the_known(book.ids, before, path),
    )


def _like_the_known(ids: Sequence[Any], before: Graph, path: Path) -> list[Any]:
    """The ids in the kind that the graph has: a short list of text ids may happen to be all numbers."""
    known = before.node_ids[0] if before.node_ids else 0
    if isinstance(known, str):
        return [str(name) for name in ids]
    if ids and isinstance(ids[0], str):
        raise UserError(
            f"{path}: the id {ids[-1]!r} is text, and the ids of the graph are whole numbers, such as {known}; write "
            f"them alike, or embed all links anew."
        )
    return list(ids)


def _places(names: Sequence[str], wanted: Sequence[str], by_entry: bool, path: Path) -> list[int]:
    """The column that each feature has in the model. A category that nobody among the new has is not missing."""
    known = {name: place for place, name in enumerate(wanted)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(
            f"{path}: the model has not seen the feature {unknown[0]!r} in training; correct it, or embed everything "
            f"anew to learn it."
        )
    categorical = {name.partition("=")[0] for name in names if "=" in name}
    present = set(names)
    for name in wanted:
        column = name.partition("=")[0].removesuffix(" missing")
        if not by_entry and name not in present and column not in categorical:
            raise UserError(f"{path}: has no feature {name!r}, which the model reads; add the column.")
    return [known[name] for name in names]


def _spread(x: Features, places: Sequence[int], width: int, *, sparse: bool) -> Features:
    """``[rows, width]`` with the columns of `x` at their places and zeros elsewhere."""
    there = torch.tensor(places, dtype=torch.long)
    if not sparse:
        matrix = torch.zeros(x.shape[0], width, dtype=torch.get_default_dtype())
        matrix[:, there] = dense(x).to(matrix.dtype)
        return matrix
    if isinstance(x, SparseFeatures):
        row, col, values = x.structure.row, x.structure.col, x.values
    else:
        row, col = x.nonzero(as_tuple=True)
        values = x[row, col]
    structure, order = build_structure(row, there[col], x.shape[0], width)
    return SparseFeatures(structure, values[order])
