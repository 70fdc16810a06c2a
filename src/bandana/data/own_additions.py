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
    if features is None:
        return Addition(links, None, own.notes)
    nodes, notes = _read_nodes(features, before, feature_names)
    return Addition(links, nodes, (*own.notes, *notes))


def _read_nodes(path: Path, before: Graph, feature_names: Sequence[str]) -> tuple[Graph, tuple[str, ...]]:
    if not before.has_features:
        raise UserError(f"{path}: the model was trained without features and reads none; leave --features out.")
    source = read_source(path, choose_features)
    ids = text_ids(source, id_column(source.names))
    book = open_book(ids)
    x, _, notes = node_features(source, ids, book.find(ids), book.ids, "refuse", feature_names)
    nodes = Graph.from_edges(
        torch.empty(2, 0, dtype=torch.long),
        num_nodes=len(book.ids),
        x=_in_the_form_of(before.x, x),
        weight=None if before.weight is None else torch.empty(0),
        directed=before.directed,
        node_ids=_like_the_known(book.ids, before, path),
    )
    return nodes, notes


def _in_the_form_of(known: Features, x: Features) -> Features:
    if isinstance(known, SparseFeatures):
        return x if isinstance(x, SparseFeatures) else SparseFeatures.of(x)
    return dense(x)


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
