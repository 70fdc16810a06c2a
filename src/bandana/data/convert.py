"""From whatever Python holds a graph in to a `Graph`: a path, a table of edges, NetworkX, SciPy, PyG, an edge_index."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy import sparse
from torch import Tensor

from bandana.config import fit
from bandana.data.own_entries import LARGEST
from bandana.data.own_features import IMPUTE, Missing, choose_features
from bandana.data.own_files import read_source
from bandana.data.own_source import Choose, Source, source_of_table
from bandana.data.own_values import RANGE, representable
from bandana.data.tables import OwnGraph, choose_edges, choose_labels, graph_of_sources
from bandana.engine.structure import build_structure
from bandana.errors import UserError, first_line
from bandana.graph import Features, Graph, SparseFeatures

OF_EDGES = (
    "give a path, a table with one type per column, a NetworkX graph, a SciPy matrix, a PyG Data or a [2, edges] array"
)
OF_NODES = "beside a table or a NetworkX graph, give a path or a table with an id column and a row per node"
"""What may be given instead of something that is not understood."""
TAKEN_AS_DIRECTED = "Taken as directed, because not every edge has its reverse; if not so, say directed=False."
WITHOUT_WEIGHTS = "Taken without weights, because not every edge has one; set them on all edges, or on none."
DOUBTS = (TAKEN_AS_DIRECTED, WITHOUT_WEIGHTS)
"""Remarks on what somebody may have meant otherwise."""
EMPTY_SHARE = 100
HARMLESS_NODES = 1_000_000
"""An edge_index may number up to `EMPTY_SHARE` times as many nodes as it has ends, and this many in any case."""


def as_graph(
    anything: Any,
    *,
    directed: bool | None = None,
    features: Any = None,
    labels: Any = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    missing: Missing = "refuse",
    wanted: Sequence[str] = (),
) -> OwnGraph:
    """Understand a graph.

    Args:
        anything: A path or a pandas, polars or pyarrow table of edges; a NetworkX graph; a square SciPy matrix whose
            entry i, j is the edge from i to j; a PyG ``Data``; a ``[2, edges]`` tensor or array; a `Graph`.
        directed: Whether edges go one way only. By default a table's do not, a NetworkX graph knows, and of the
            others they do if any edge lacks a reverse of the same weight. If not, the weights of all mentions of a
            link add up; where every link is mentioned in both directions, it has the mean of the two.
        features: With a table or NetworkX: a path or table with a row per node. With a matrix or edge_index: an array,
            tensor or SciPy matrix ``[nodes, features]``.
        labels: Likewise: a path or table of ids and labels, or ``[nodes]`` integers with -1 for none.
        source: Name of the column that an edge starts from, in a table.
        target: Name of the column that an edge leads to.
        weight: Name of the column of weights; of the edge attribute in NetworkX, by default ``weight``.
        time: Name of the column of times.
        missing: Whether a missing feature is an error, or imputed; see `read_graph`.
        wanted: Names of the features that a model reads: those of a table are brought into their order.

    Raises:
        UserError: It is none of these, or something in it is wrong.
    """
    fit(missing, Missing, "missing")
    directed = fit(directed, bool | None, "directed")
    if isinstance(anything, Tensor | np.ndarray) or sparse.issparse(anything):
        return _numbered(anything, directed, features, labels)
    if isinstance(anything, OwnGraph | Graph) or _made_by("torch_geometric", anything):
        if features is not None or labels is not None:
            raise UserError("as_graph: this graph brings its own features and labels; set them there, not beside it.")
        return _complete(anything, directed)
    asked = {"source": source, "target": target, "weight": weight, "time": time}
    nodes, called = None, {}
    remarks: tuple[str, ...] = ()
    if _made_by("networkx", anything):
        called = _names_in_networkx(anything)
        edges, nodes, remarks = _tables_of_networkx(anything, called, weight)
        directed = anything.is_directed() if directed is None else directed
        asked = {"source": "source", "target": "target"}
    else:
        place = _place(anything, "edges")
        edges = _source(anything, place, lambda names: choose_edges(names, asked, place), asked)
    about_nodes = None if features is None else _source(features, _place(features, "features"), choose_features)
    classes = None
    if labels is not None:
        where = _place(labels, "labels")
        classes = _source(labels, where, lambda names: choose_labels(names, where))
    with _in_python():
        own = graph_of_sources(
            edges,
            about_nodes,
            classes,
            asked=asked,
            directed=bool(directed),
            missing=missing,
            nodes=nodes,
            wanted=wanted,
        )
    own = replace(own, notes=(*own.notes, *remarks))
    if all(name is node for node, name in called.items()):
        return own
    node_of = {name: node for node, name in called.items()}
    return replace(own, originals=[node_of[name] for name in own.graph.node_ids or ()])


@contextmanager
def _in_python() -> Iterator[None]:
    """Let advice name the parameter where the command line has an option."""
    try:
        yield
    except UserError as problem:
        raise UserError(str(problem).replace(IMPUTE, "missing='impute'")) from None


def _made_by(package: str, thing: Any) -> bool:
    """Whether an object's class, or one it derives from, belongs to a package, without importing it."""
    return any(base.__module__.split(".")[0] == package for base in type(thing).__mro__)


def _place(thing: Any, otherwise: str) -> str:
    return str(thing) if isinstance(thing, str | Path) else otherwise


def _source(thing: Any, place: str, choose: Choose, asked: Mapping[str, str | None] = MappingProxyType({})) -> Source:
    """A path or a table as a source."""
    if isinstance(thing, str | Path):
        return read_source(Path(thing), choose, [column for column in asked.values() if column is not None])
    return source_of_table(_table(thing, place), place, choose)


def _table(thing: Any, place: str) -> pa.Table:
    try:
        return pa.Table.from_pandas(thing, preserve_index=False) if _made_by("pandas", thing) else pa.table(thing)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        reason, advice = first_line(problem), OF_NODES if place in ("features", "labels") else OF_EDGES
        raise UserError(f"{place}: cannot be understood ({type(thing).__name__}: {reason}); {advice}.") from None


def _complete(thing: Any, directed: bool | None) -> OwnGraph:
    """A graph that knows all about itself."""
    if isinstance(thing, OwnGraph):
        own = thing
    elif isinstance(thing, Graph):
        own = _own(thing)
    elif getattr(thing, "edge_index", None) is None or not isinstance(thing.edge_index, Tensor):
        raise UserError(f"{type(thing).__name__}: a PyG graph needs one edge_index; turn it into a plain Data first.")
    else:
        return _with_direction(Graph.from_pyg(thing, directed=directed), directed)
    if directed is not None and directed != own.graph.directed:
        raise UserError(
            f"Graph: is {'' if own.graph.directed else 'un'}directed already; build it anew to change that."
        )
    return own


def _numbered(thing: Any, directed: bool | None, features: Any, labels: Any) -> OwnGraph:
    """The graph of a matrix or of an edge_index, whose nodes are their own ids."""
    weight, x = None, _checked_sizes(_rows_of(features))
    y = None if labels is None else torch.as_tensor(labels).long()
    if sparse.issparse(thing):
        sender, receiver, weight, num_nodes = _entries_of_matrix(thing)
    else:
        ends = torch.as_tensor(thing)
        if ends.dim() != 2 or ends.shape[0] != 2 or ends.is_floating_point() or not ends.numel():
            raise UserError(
                f"edge_index: must be integers of shape [2, edges] with at least one edge, got {ends.dtype} of "
                f"{tuple(ends.shape)}; transpose a list of pairs."
            )
        sender, receiver = ends.long()
        num_nodes = int(ends.max()) + 1
        if num_nodes > max(HARMLESS_NODES, EMPTY_SHARE * ends.numel()):
            raise UserError(
                f"edge_index: names the node {num_nodes - 1} with only {ends.shape[1]} edges, so that nearly all nodes "
                f"would be empty; give a table with the columns source and target, where ids may be anything."
            )
        num_nodes = max(num_nodes, *(rows.shape[0] for rows in (x, y) if rows is not None and rows.shape), 0)

    ends = torch.stack([sender, receiver])
    graph = Graph.from_listing(ends, num_nodes=num_nodes, x=x, y=y, weight=weight, directed=directed)
    if not graph.num_edges:
        raise UserError("edge_index: every edge leads from a node to itself; add edges between different nodes.")
    return _with_direction(graph, directed)


def _with_direction(graph: Graph, asked: bool | None) -> OwnGraph:
    return _own(graph, TAKEN_AS_DIRECTED) if asked is None and graph.directed else _own(graph)


def _entries_of_matrix(matrix: Any) -> tuple[Tensor, Tensor, Tensor | None, int]:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise UserError(f"SciPy matrix: must be square, one row and column per node, got {matrix.shape}.")
    entries = matrix.tocoo(copy=True)
    entries.sum_duplicates()
    entries.eliminate_zeros()
    if not entries.nnz:
        raise UserError("SciPy matrix: has no entry, so there is no edge; store a positive number for each edge.")
    wrong = ~representable(entries.data)
    if wrong.any():
        at = int(wrong.argmax())
        raise UserError(
            f"SciPy matrix: the entry {int(entries.row[at])}, {int(entries.col[at])} is {entries.data[at]}, but "
            f"weights must be positive and finite, within {RANGE}; correct, scale or remove it."
        )
    weight = None if (entries.data == 1).all() else torch.from_numpy(entries.data.astype(np.float64))
    row, column = (torch.from_numpy(end.astype(np.int64)) for end in (entries.row, entries.col))
    return row, column, weight, matrix.shape[0]


def _names_in_networkx(network: Any) -> dict[Any, Any]:
    """What each node is called in a table: by its number if all of them are whole numbers, else by its text."""
    whole = all(_is_whole(node) for node in network.nodes)
    names = {node: int(node) if whole else str(node).strip() for node in network.nodes}
    if len(set(names.values())) < len(names):
        raise UserError("NetworkX graph: two nodes have the same name as text, such as 1 and '1'; rename one of them.")
    return names


def _is_whole(node: Any) -> bool:
    return isinstance(node, Integral) and not isinstance(node, bool) and -(2**63) <= int(node) < 2**63


def _tables_of_networkx(
    network: Any, names: Mapping[Any, Any], weight: str | None
) -> tuple[Source, Source, tuple[str, ...]]:
    """Edges and nodes of a NetworkX graph as tables, and what is to be said of them."""
    attribute = weight or "weight"
    ends = list(network.edges(data=attribute))
    if not ends:
        raise UserError("NetworkX graph: has no edges; add some.")
    columns = {"source": [names[start] for start, _, _ in ends], "target": [names[end] for _, end, _ in ends]}
    given = [value for *_, value in ends]
    if weight is not None and None in given:
        start, end, _ = ends[given.index(None)]
        raise UserError(
            f"NetworkX graph: the edge {start!r}, {end!r} has no attribute {weight!r}; set it on all edges."
        )
    if None not in given:
        columns["weight"] = given
    place = "NetworkX graph"
    nodes = {"id": list(names.values())}
    remarks = (WITHOUT_WEIGHTS,) if 0 < given.count(None) < len(given) else ()
    edges, about = (Source(place, tuple(table), _table(table, place)) for table in (columns, nodes))
    return edges, about, remarks


def _rows_of(features: Any) -> Features | None:
    """``[nodes, features]`` from an array, a tensor or a SciPy matrix, which stays sparse."""
    if not sparse.issparse(features):
        return None if features is None else torch.as_tensor(features)
    entries = features.tocoo(copy=True)
    entries.sum_duplicates()
    row, column = (torch.from_numpy(end.astype(np.int64)) for end in (entries.row, entries.col))
    structure, order = build_structure(row, column, *features.shape)
    return SparseFeatures(structure, torch.from_numpy(entries.data).to(torch.get_default_dtype())[order])


def _checked_sizes(x: Features | None) -> Features | None:
    """The features, if none of them is too large to be averaged."""
    values = x.values if isinstance(x, SparseFeatures) else x
    if x is None or values is None or not values.is_floating_point() or values.layout != torch.strided:
        return x
    wrong = (values.abs() > LARGEST).flatten().nonzero()
    if not wrong.numel():
        return x
    at = int(wrong[0])
    row, column = divmod(at, x.shape[-1])
    if isinstance(x, SparseFeatures):
        row, column = int(x.structure.row[at]), int(x.structure.col[at])
    raise UserError(
        f"features: row {row}, column {column} is {float(values.flatten()[at]):g}, infinite or too large (over "
        f"{LARGEST:g}); correct it, or scale the column."
    )


def _own(graph: Graph, *notes: str) -> OwnGraph:
    ids = list(range(graph.num_nodes)) if graph.node_ids is None else graph.node_ids
    labels = None if graph.y is None else tuple(map(str, range(graph.num_classes)))
    features: tuple[str, ...] = ()
    if not (isinstance(graph.x, SparseFeatures) and graph.x.is_identity):
        features = tuple(map(str, range(graph.num_features)))
    return OwnGraph(replace(graph, node_ids=ids), notes, labels, None, features)
