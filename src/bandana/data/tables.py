"""Own graphs in: from an edge list, and tables of features and labels beside it, to a `Graph` under the user's ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bandana.data.columns import Header, Layout, edge_columns, id_column, label_column
from bandana.data.own_features import Missing, choose_features, node_features
from bandana.data.own_files import read_source
from bandana.data.own_source import Source, Wanted
from bandana.data.own_times import first_times, times_of_rows
from bandana.data.own_values import (
    Indices,
    NodeBook,
    Numbers,
    TextIds,
    categories,
    open_book,
    positive_numbers,
    text_ids,
    written_as_two,
)
from bandana.errors import UserError
from bandana.graph import Graph

__all__ = ["OwnGraph", "choose_edges", "choose_labels", "doubts", "graph_of_sources", "read_graph"]

Asked = Mapping[str, str | None]
"""The columns of the edge list that the user named: source, target, weight, time."""


@dataclass(frozen=True, eq=False)
class OwnGraph:
    """A graph that somebody brought, and what was understood of it.

    Attributes:
        graph: With the user's ids, all int or all str, in ascending order; label -1 means unlabelled.
        notes: What was detected, left out, merged or filled in, one sentence each.
        label_names: What the labels 0, 1, 2, … are called, or None without labels.
        times: ``[edges]`` when each edge first appeared, in the structure's order, or None. Dates are in seconds.
        feature_names: One per feature; none if the graph came without.
        originals: The nodes in row order as a NetworkX graph has them, where they are neither int nor str.
    """

    graph: Graph
    notes: tuple[str, ...]
    label_names: tuple[str, ...] | None
    times: Tensor | None
    feature_names: tuple[str, ...]
    originals: Sequence[Any] | None = None

    @property
    def nodes(self) -> list[Any]:
        """The nodes in row order as their holder has them."""
        return list(self.originals or self.graph.node_ids or range(self.graph.num_nodes))

    @property
    def timed(self) -> bool:
        """Whether it is known which edges are later than others."""
        return self.times is not None and bool((self.times != self.times[0]).any())


def read_graph(
    edges: Path,
    *,
    features: Path | None = None,
    labels: Path | None = None,
    directed: bool = False,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    missing: Missing = "refuse",
    header: Header = "guess",
) -> OwnGraph:
    """Read a graph from files: CSV, TSV, separated by blanks, gzip of these, Parquet, Arrow or Feather.

    Args:
        edges: A row per edge. The same edge twice counts once, with the weights added, but where every link is listed
            in both directions, with the mean of the two; self-loops are left out.
        features: A row per node: its id, then numbers, categories or lists. Nodes that are only here are isolated.
        labels: A row per labelled node: its id and its label.
        directed: Whether an edge goes one way only.
        source: Name of the column that an edge starts from, or its number, counted from 1, without a header.
        target: Name of the column that an edge leads to.
        weight: Name of the column of weights.
        time: Name of the column of times.
        missing: Whether a missing feature is an error, or becomes the column's mean or a category of its own.
        header: Whether the first line of `edges` holds the names of its columns, or how to find out.

    Raises:
        UserError: Something is wrong with a file; the sentence names the row and what to do.
    """
    asked = {"source": source, "target": target, "weight": weight, "time": time}
    given = [name for name in asked.values() if name is not None]
    edge_source = read_source(Path(edges), lambda names: choose_edges(names, asked, str(edges)), given, header)
    feature_source = None if features is None else read_source(Path(features), choose_features)
    label_source = (
        None if labels is None else read_source(Path(labels), lambda names: choose_labels(names, str(labels)))
    )
    return graph_of_sources(edge_source, feature_source, label_source, asked=asked, directed=directed, missing=missing)


def choose_edges(names: Sequence[str], asked: Asked, place: str) -> Wanted:
    """The columns of an edge list that are read."""
    columns = edge_columns(names, asked, place)
    return Wanted(tuple(name for name in columns if name is not None), (columns.source, columns.target))


def choose_labels(names: Sequence[str], place: str) -> Wanted:
    """The columns of a table of labels that are read."""
    return Wanted((id_column(names), label_column(names, place)), (id_column(names),))


def graph_of_sources(
    edges: Source,
    features: Source | None,
    labels: Source | None,
    *,
    asked: Asked,
    directed: bool,
    missing: Missing,
    nodes: Source | None = None,
    wanted: Sequence[str] = (),
) -> OwnGraph:
    """Put tables together into a graph; see `read_graph`.

    A further table, `nodes`, may name isolated ones, and `wanted` the features of a model that the graph is for.
    """
    columns = edge_columns(edges.names, asked, edges.name)
    ends = text_ids(edges, columns.source), text_ids(edges, columns.target)
    weight = None if columns.weight is None else positive_numbers(edges, columns.weight)
    time, about_times = times_of_rows(edges, columns.time, insisted=asked.get("time") is not None)
    columns = columns if time is not None else columns._replace(time=None)
    rows = None if features is None else text_ids(features, id_column(features.names))
    others = [column for column in (rows, None if nodes is None else text_ids(nodes, nodes.names[0])) if column]
    book = open_book(*ends, *others)
    sender, receiver = book.find(ends[0]), book.find(ends[1])
    used = [name for name in columns if name is not None]
    notes = _seen(edges, columns.describe(), used, " (name a column to use it as weight or time)")
    notes += [*about_times, *doubts(edges.layout, of_edges=True), *_named(book)]

    graph, remarks = _lay(sender, receiver, weight, book, directed, edges.name)
    notes += remarks
    feature_names: tuple[str, ...] = ()
    if features is not None and rows is not None:
        notes += _seen(features, f"ids in {id_column(features.names)!r}", features.names) + doubts(features.layout)
        described = book.find(rows)
        notes += _alone(sender, receiver, described, book, features.name)
        x, feature_names, about_features = node_features(features, rows, described, book.ids, missing, wanted)
        graph = replace(graph, x=x)
        notes += about_features
    label_names = None
    if labels is not None:
        y, label_names, remarks = labels_of_nodes(labels, book)
        graph = replace(graph, y=y)
        notes += remarks
    times = None if time is None else first_times(graph, sender, receiver, time)
    own = OwnGraph(graph, tuple(notes), label_names, times, feature_names)
    if times is None or own.timed:
        return own
    return replace(own, notes=(*notes, "All links have the same time, so that none is later than others."))


def _lay(
    sender: Indices, receiver: Indices, weight: Numbers | None, book: NodeBook, directed: bool, place: str
) -> tuple[Graph, list[str]]:
    """The graph of the edges, without features yet, and what became of loops, repetitions and directions."""
    num_nodes = len(book.ids)
    apart = sender != receiver
    loops = len(sender) - int(apart.sum())
    if loops == len(sender):
        raise UserError(f"{place}: every edge leads from a node to itself; check which columns hold source and target.")
    one_way = _count_distinct(sender[apart] * num_nodes + receiver[apart])
    low, high = np.minimum(sender, receiver)[apart], np.maximum(sender, receiver)[apart]
    links = one_way if directed else _count_distinct(low * num_nodes + high)
    both_ways = not directed and one_way == 2 * links
    graph = Graph.from_edges(
        torch.from_numpy(np.stack([sender, receiver])),
        num_nodes=num_nodes,
        weight=None if weight is None else torch.tensor(weight),  # a copy: what Arrow lends is read-only
        directed=directed or both_ways,
        node_ids=book.ids,
    )
    if both_ways:  # as in `Graph.from_listing`, without building it twice to find out
        graph = graph.merge_directions()
    repeated = len(sender) - loops - one_way
    notes = [f"{num_nodes:,} nodes and {links:,} {'directed edge' if directed else 'link'}{'s' * (links != 1)}."]
    if loops:
        notes.append(f"Left out, because they lead from a node to itself: {loops:,} of the edges.")
    if repeated:
        added = "" if weight is None else ", with the weights added"
        notes.append(f"Repeated, and counted once{added}: {repeated:,} of the edges.")
    if both_ways:
        mean = "" if weight is None else ", with the mean of both weights"
        notes.append(f"Every link is listed in both directions and counts once{mean}.")
    elif not directed and one_way > links:
        notes.append(f"Listed in both directions: {one_way - links:,} of the links; say --directed if that matters.")
    return graph, notes


def _count_distinct(keys: Indices) -> int:
    keys.sort()
    return int(np.count_nonzero(np.diff(keys))) + 1


def labels_of_nodes(source: Source, book: NodeBook) -> tuple[Tensor, tuple[str, ...], list[str]]:
    ids = text_ids(source, id_column(source.names))
    column = label_column(source.names, source.name)
    nodes = book.find(ids)
    if (nodes < 0).any():
        row = int((nodes < 0).argmax())
        raise UserError(
            f"{source.row(row)}: labels the node {_text(ids, row)!r}, which is in no edge and has no features; correct "
            f"the id or drop the row (there are {int((nodes < 0).sum()):,} of the kind)."
        )
    _, first = np.unique(nodes, return_index=True)
    if first.size < len(nodes):
        row = int(np.setdiff1d(np.arange(len(nodes)), first)[0])
        raise UserError(f"{source.row(row)}: the node {_text(ids, row)!r} has had a label before; keep one of them.")
    names, codes = categories(source, column)
    if not names:
        raise UserError(f"{source.name}: column {column!r} holds no label at all; fill it in or leave the file out.")
    y = np.full(len(book.ids), -1)
    y[nodes] = codes
    notes = _seen(source, f"ids in {id_column(source.names)!r}, labels in {column!r}", source.table.column_names)
    notes += doubts(source.layout)
    notes.append(f"Different labels: {len(names):,}; nodes without one: {int((y < 0).sum()):,} of {len(y):,}.")
    return torch.from_numpy(y), tuple(names), notes


def _alone(sender: Indices, receiver: Indices, described: Indices, book: NodeBook, place: str) -> list[str]:
    """A remark on nodes that only the table of features knows.

    Raises:
        UserError: It knows no others.
    """
    linked = np.zeros(len(book.ids), dtype=bool)
    linked[sender] = linked[receiver] = True
    if not linked[described].any():
        raise UserError(
            f"{place}: none of its ids is in an edge (its first is {book.ids[described[0]]!r}, an edge has "
            f"{book.ids[sender[0]]!r}); write ids alike in both files."
        )
    isolated = np.unique(described[~linked[described]]).size
    return [f"In no edge, and therefore isolated: {isolated:,} of the nodes in {place}."] if isolated else []


def doubts(layout: Layout | None, *, of_edges: bool = False) -> list[str]:
    """What was made of a first line that could be a header or data, and how to settle it."""
    if layout is None or layout.certain or (layout.header and not of_edges):
        return []
    first = ", ".join(map(repr, layout.first[:4]))
    if layout.header:
        return [f"Its first line ({first}) is taken as a header; if it is an edge, say --header no."]
    settle = "say --header yes" if of_edges else "name its first column id"
    return [f"Its first line ({first}) is taken as {'an edge' if of_edges else 'data'}; if it is a header, {settle}."]


def _seen(source: Source, uses: str, used: Sequence[str], advice: str = "") -> list[str]:
    """What was understood of a table, and which of its columns are not used."""
    written = "" if source.layout is None else f"{source.layout.describe()}; "
    notes = [f"{source.name}: {written}{uses}."]
    read = set(used)
    left = [name for name in source.names if name not in read]
    if left:
        notes.append(f"Not used: {', '.join(map(repr, left[:8]))}{' …' if len(left) > 8 else ''}{advice}.")
    return notes


def _named(book: NodeBook) -> list[str]:
    kind = "whole numbers" if isinstance(book.ids[0], int) else "text"
    notes = [f"Ids are {kind}, from {book.ids[0]!r} to {book.ids[-1]!r}."]
    if twice := written_as_two(book):
        other = twice[0].partition(".")[0]
        notes.append(
            f"Taken for different nodes: {twice[0]!r} and {other!r}, and {len(twice) - 1:,} more such pairs; if they "
            f"are the same, write them alike."
        )
    return notes


def _text(ids: TextIds, row: int) -> str:
    return str(ids.texts[int(ids.codes[row])].as_py())
