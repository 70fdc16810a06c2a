"""Graphs from Python objects: each must say the same as the edges it was made of."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.data import Data, HeteroData

from bandana.data.convert import TAKEN_AS_DIRECTED, WITHOUT_WEIGHTS, as_graph
from bandana.data.tables import OwnGraph
from bandana.errors import UserError
from bandana.estimator import GraphEmbedder
from bandana.graph import Graph, SparseFeatures


def weights_of(own: OwnGraph) -> dict[tuple[int, ...], float]:
    assert own.graph.weight is not None
    return dict(zip(map(tuple, own.graph.edge_index.T.tolist()), own.graph.weight.tolist(), strict=True))


PAIRS = [("a", "b"), ("b", "c"), ("c", "d")]


class ArrowStream:
    """What pandas and polars have in common: a table that hands itself over in Arrow's form."""

    def __init__(self, **columns: list[Any]) -> None:
        self._table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def edges_of(own: OwnGraph) -> set[tuple[Any, Any]]:
    ids = own.graph.node_ids
    assert ids is not None
    return {(ids[sender], ids[receiver]) for sender, receiver in own.graph.edge_index.T.tolist()}


def both_ways(pairs: Iterable[tuple[Any, Any]]) -> set[tuple[Any, Any]]:
    return {way for here, there in pairs for way in ((here, there), (there, here))}


def weight_matrix(graph: Graph) -> torch.Tensor:
    """``[sender, receiver]`` weights."""
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes)
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    matrix[graph.structure.col, graph.structure.row] = weight
    return matrix


def columns(pairs: Iterable[tuple[Any, Any]]) -> dict[str, list[Any]]:
    sources, targets = zip(*pairs, strict=True)
    return {"here": list(sources), "there": list(targets)}


@pytest.mark.parametrize("make", ["path", "text path", "arrow", "batch", "stream", "pandas", "polars"])
def test_tables_of_edges(tmp_path: Path, make: str) -> None:
    table = columns(PAIRS)
    path = tmp_path / "edges.csv"
    path.write_text("here,there,since\n" + "".join(f"{here},{there},1\n" for here, there in PAIRS))
    makers = {
        "path": lambda: path,
        "text path": lambda: str(path),
        "arrow": lambda: pa.table(table),
        "batch": lambda: pa.RecordBatch.from_pydict(table),
        "stream": lambda: ArrowStream(**table),
        "pandas": lambda: pytest.importorskip("pandas").DataFrame(table, index=[7, 8, 9]),
        "polars": lambda: pytest.importorskip("polars").DataFrame(table),
    }
    own = as_graph(makers[make]())
    assert own.graph.node_ids == ["a", "b", "c", "d"]
    assert edges_of(own) == both_ways(PAIRS)
    assert edges_of(as_graph(makers[make](), directed=True)) == set(PAIRS)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_dates_are_read_from_every_kind_of_text(kind: Any) -> None:
    """Polars hands over views of strings."""
    dates = pa.array(["2024-03-05", " 2024-03-06T12:00:00", "2024-03-05"], kind)
    own = as_graph(pa.table({**columns(PAIRS), "date": dates}))
    assert own.times is not None
    assert len(set(own.times.tolist())) == 2


def test_tables_beside_a_table(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("a,x\nc,y\n")
    own = as_graph(
        ArrowStream(**columns(PAIRS)),
        features=ArrowStream(id=["d", "c", "b", "a"], size=[4.0, None, 2.0, 1.0]),
        labels=labels,
        missing="impute",
    )
    assert isinstance(own.graph.x, torch.Tensor)
    assert own.graph.x.squeeze(1).tolist() == pytest.approx([1, 2, 7 / 3, 4])
    assert own.graph.y is not None
    assert own.graph.y.tolist() == [0, -1, 1, -1]
    assert (own.feature_names, own.label_names) == (("size",), ("x", "y"))


@pytest.mark.filterwarnings("ignore:Unable to accurately infer 'num_nodes'")  # it is PyG that says so
@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20).filter(
        lambda pairs: any(here != there for here, there in pairs)
    ),
    directed=st.booleans(),
)
def test_every_holder_of_the_same_edges_gives_the_same_graph(pairs: list[tuple[int, int]], directed: bool) -> None:
    edge_index = torch.tensor(pairs).T
    network = nx.MultiDiGraph() if directed else nx.MultiGraph()
    network.add_nodes_from(range(int(edge_index.max()) + 1))
    network.add_edges_from(pairs)
    matrix = sparse.lil_matrix((len(network), len(network)))
    for here, there in pairs:
        matrix[here, there] = matrix[here, there] or 1
    holders = [edge_index, edge_index.numpy(), network, matrix.tocsr(), Data(edge_index=edge_index)]
    without_loops = {(here, there) for here, there in pairs if here != there}
    expected = without_loops if directed else both_ways(without_loops)
    for holder in holders:
        own = as_graph(holder, directed=directed)
        assert own.graph.node_ids == list(range(len(network)))
        assert own.graph.directed == directed
        assert edges_of(own) == expected


@given(values=st.lists(st.integers(0, 3), min_size=16, max_size=16).filter(any))
def test_a_matrix_keeps_its_weights(values: list[int]) -> None:
    dense = np.array(values, dtype=np.float64).reshape(4, 4) / 2
    np.fill_diagonal(dense, 0)
    if not dense.any():
        return
    symmetric = (dense == dense.T).all()
    for layout in (sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix):
        own = as_graph(layout(dense))
        assert own.graph.directed == (not symmetric)
        assert torch.equal(weight_matrix(own.graph), torch.from_numpy(dense).float())
    both_ways = ((dense > 0) == (dense > 0).T).all()
    expected = (dense + dense.T) / (2 if both_ways else 1)
    undirected = as_graph(sparse.csr_matrix(dense), directed=False).graph
    if undirected.weight is not None:
        assert torch.equal(weight_matrix(undirected), torch.from_numpy(expected).float())


def test_one_uneven_link_changes_no_other(tmp_path: Path) -> None:
    """However a graph is held: a link has the mean of its two directions if all links are named in both."""
    rows = [(0, 1, 2.0), (1, 0, 3.0), (1, 2, 5.0), (2, 1, 5.0)]
    sender, receiver, weight = (torch.tensor(column) for column in zip(*rows, strict=True))
    text = "source,target,weight\n" + "".join(f"{a},{b},{w}\n" for a, b, w in rows)
    (path := tmp_path / "edges.csv").write_text(text)
    network = nx.DiGraph()
    network.add_weighted_edges_from(rows)
    for holder in (
        path,
        network,
        sparse.coo_matrix((weight.numpy(), (sender.numpy(), receiver.numpy()))),
        Data(edge_index=torch.stack([sender, receiver]), edge_weight=weight, num_nodes=3),
    ):
        own = as_graph(holder, directed=False)
        assert weights_of(own) == {(0, 1): 2.5, (1, 0): 2.5, (1, 2): 5, (2, 1): 5}


def test_mentions_of_a_link_add_up_where_not_all_are_named_twice() -> None:
    ends, weight = torch.tensor([[0, 1, 1, 1], [1, 0, 2, 2]]), torch.tensor([2.0, 3.0, 5.0, 1.0])
    data = Data(edge_index=ends, edge_weight=weight, num_nodes=3)
    matrix = sparse.coo_matrix((weight.numpy(), ends.numpy()), shape=(3, 3))
    for holder in (data, matrix):
        own = as_graph(holder, directed=False)
        assert weights_of(own) == {(0, 1): 5, (1, 0): 5, (1, 2): 6, (2, 1): 6}


def test_networkx_brings_names_weights_directions_and_isolated_nodes() -> None:
    network = nx.DiGraph()
    network.add_node("lonely")
    network.add_edge("x", "y", weight=2.0)
    network.add_edge("y", 3, weight=0.5)
    own = as_graph(network)
    assert own.graph.node_ids == ["3", "lonely", "x", "y"]
    assert own.graph.directed
    assert edges_of(own) == {("x", "y"), ("y", "3")}
    assert weight_matrix(own.graph).sum() == 2.5
    karate = as_graph(nx.karate_club_graph())
    assert karate.graph.node_ids == list(range(34))
    assert karate.graph.num_edges == 2 * 78
    assert as_graph(nx.relabel_nodes(nx.path_graph(3), str)).graph.node_ids == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("nodes", "ids"),
    [
        ([np.int64(10), np.int64(9), 2**40], [9, 10, 2**40]),
        ([(0, 1), (0, 0), (1, 1)], ["(0, 0)", "(0, 1)", "(1, 1)"]),
        ([2.5, 1.0, "a"], ["1.0", "2.5", "a"]),
        ([2**70, 1, 2], ["1", "1180591620717411303424", "2"]),
        ([" b", "a", "c"], ["a", "b", "c"]),
    ],
)
def test_nodes_of_networkx_are_kept_beside_their_ids(nodes: list[Any], ids: list[Any]) -> None:
    network = nx.Graph()
    nx.add_path(network, nodes)
    own = as_graph(network)
    assert own.graph.node_ids == ids
    assert own.originals is not None
    assert [str(node).strip() for node in own.originals] == [str(name) for name in ids]
    assert {type(node) for node in own.originals} == {type(node) for node in nodes}
    assert {frozenset(own.originals[end] for end in pair) for pair in own.graph.edge_index.T.tolist()} == {
        frozenset(pair) for pair in network.edges
    }


def test_names_that_differ_by_blanks_alone_are_refused() -> None:
    with pytest.raises(UserError, match="same name as text"):
        as_graph(nx.Graph([("a", "b"), (" a", "c")]))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_features_too_large_to_be_averaged_are_named(is_sparse: bool) -> None:
    x = np.eye(3, dtype=np.float32)
    x[1, 2] = -3e38
    assert as_graph(np.array([[0, 1], [1, 2]]), features=x > 0).graph.num_features == 3
    with pytest.raises(UserError, match=r"features: row 1, column 2 is -3e\+38, .*scale"):
        as_graph(np.array([[0, 1], [1, 2]]), features=sparse.csr_matrix(x) if is_sparse else x)


def test_missing_features_are_imputed_when_asked_and_the_error_names_the_parameter() -> None:
    edges = pa.table({"source": ["a", "b"], "target": ["b", "c"]})
    features = pa.table({"id": ["a", "b", "c"], "v": [1.0, None, 3.0]})
    with pytest.raises(UserError, match=r"'v' is missing; .*\(missing='impute'\)"):
        as_graph(edges, features=features)
    assert as_graph(edges, features=features, missing="impute").graph.x.tolist() == [[1.0], [2.0], [3.0]]
    with pytest.raises(UserError, match=r"missing: 'imput' is not a choice. Did you mean 'impute'"):
        as_graph(edges, features=features, missing="imput")


def test_arrays_beside_an_edge_index() -> None:
    edge_index = np.array([[0, 1], [1, 2]])
    features = np.zeros((3, 90))
    features[1, 5] = 2
    for given_as in (features, torch.from_numpy(features), sparse.csr_matrix(features)):
        own = as_graph(edge_index, directed=False, features=given_as, labels=np.array([1, -1, 0]))
        assert isinstance(own.graph.x, SparseFeatures)
        assert torch.equal(own.graph.x.dense(), torch.from_numpy(features).float())
        assert own.graph.y is not None
        assert own.graph.y.tolist() == [1, -1, 0]
        assert own.label_names == ("0", "1")


def test_rows_beyond_the_last_edge_are_isolated_nodes() -> None:
    edge_index = np.array([[0, 1], [1, 2]])
    own = as_graph(edge_index, features=np.ones((5, 2)), labels=np.array([0, 1, 0, 1, -1]))
    assert own.graph.num_nodes == 5
    assert own.graph.structure.row_sizes.tolist()[3:] == [0, 0]
    assert as_graph(edge_index, labels=np.array([0, 1, 0, 1])).graph.num_nodes == 4
    with pytest.raises(UserError, match=r"\[5\], got torch.int64 \(4,\)"):
        as_graph(edge_index, features=np.ones((5, 2)), labels=np.array([0, 1, 0, 1]))


def test_what_is_a_graph_already_stays_so() -> None:
    graph = Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=3)
    own = as_graph(graph)
    assert own.graph.structure is graph.structure
    assert own.graph.node_ids == [0, 1, 2]
    assert as_graph(own) is own
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.eye(2), y=torch.tensor([1, 0]))
    assert as_graph(data).label_names == ("0", "1")


def test_one_way_edges_are_noticed() -> None:
    own = as_graph(torch.tensor([[0, 1], [1, 2]]))
    assert own.graph.directed
    assert any("directed=False" in note for note in own.notes)
    assert not as_graph(torch.tensor([[0, 1], [1, 0]])).graph.directed


def test_repeated_edges_tell_nothing_about_direction() -> None:
    ends = torch.tensor([[0, 0, 1, 1, 2], [1, 1, 0, 2, 1]])
    for holder in (ends, Data(edge_index=ends, num_nodes=3)):
        own = as_graph(holder)
        assert (own.graph.directed, own.graph.links.numel()) == (False, 2)
    assert as_graph(Data(edge_index=ends[:, :4], num_nodes=3)).notes == (TAKEN_AS_DIRECTED,)


@pytest.mark.parametrize("weight", [1e39, 1e-50])
def test_weights_that_single_precision_cannot_hold_are_refused(weight: float) -> None:
    with pytest.raises(
        UserError, match=rf"SciPy matrix: the entry 0, 1 is {re.escape(str(weight))}, but .* within 1.4e-45 to 3.4e\+38"
    ):
        as_graph(sparse.csr_matrix([[0.0, weight], [weight, 0.0]]))
    with pytest.raises(UserError, match=r"NetworkX graph.*weight.*within 1.4e-45 to 3.4e\+38"):
        as_graph(nx.Graph([(0, 1, {"weight": weight})]))


SAME_AS_TEXT = nx.Graph([(1, 2), ("1", 2)])
NO_WEIGHT = nx.Graph([(1, 2)])
WORDY = nx.Graph()
WORDY.add_edge(1, 2, weight="heavy")
WORDY.add_edge(2, 3, weight=1.0)


@pytest.mark.parametrize(
    ("thing", "options", "says"),
    [
        (5, {}, "edges: cannot be understood .*give a path"),
        (None, {}, "cannot be understood"),
        ("no such file.csv", {}, "no such file"),
        (pa.table({"a": [1, 2]}), {}, "two ends|source and a target"),
        (pa.table({"a": [1], "b": [2]}), {"weight": "c"}, "edges: has no column 'c'"),
        (pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}), {}, "no rows; give"),
        (np.array([[0.5], [1.0]]), {}, "integers of shape"),
        (np.array([[0, 1], [1, 2], [2, 3]]), {}, "transpose"),
        (torch.zeros(2, 0, dtype=torch.long), {}, "at least one edge"),
        (np.array([[0, 10**18], [1, 2]]), {}, "1000000000000000000 with only 2 edges.*give a table"),
        (np.array([[0, -1], [1, 2]]), {}, "nodes are numbered"),
        (np.array([[0, 1], [0, 1]]), {}, "from a node to itself; add"),
        (np.array([[0], [2]]), {"features": np.zeros((2, 2))}, "2 rows for 3 nodes"),
        (np.array([[0], [1]]), {"features": np.array([[0.0], [np.nan]])}, "NaN"),
        (sparse.csr_matrix((2, 3)), {}, "square"),
        (sparse.csr_matrix((3, 3)), {}, "no entry"),
        (sparse.csr_matrix(np.array([[0, -1], [1, 0]])), {}, "entry 0, 1 is -1.*correct"),
        (sparse.csr_matrix(np.array([[0, np.nan], [1, 0]])), {}, "entry 0, 1 is nan"),
        (SAME_AS_TEXT, {}, "same name as text.*rename"),
        (NO_WEIGHT, {"weight": "w"}, "no attribute 'w'"),
        (WORDY, {}, "NetworkX graph: cannot be understood|no number"),
        (nx.empty_graph(3), {}, "no edges; add"),
        (nx.path_graph(3), {"features": np.zeros((3, 2))}, "features: .*; beside .* give a path or a table with an id"),
        (pa.table({"a": [1], "b": [2]}), {"labels": torch.zeros(2)}, "labels: .*; beside .* a table with an id"),
        (HeteroData(), {}, "plain Data"),
        (Data(edge_index=torch.tensor([[0], [1]])), {"features": np.zeros((2, 2))}, "brings its own"),
        (Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=2), {"directed": True}, "undirected already"),
    ],
)
def test_what_cannot_be_a_graph_ends_in_one_sentence(thing: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        as_graph(thing, **options)
    assert len(str(caught.value).splitlines()) == 1


def test_weights_on_some_edges_of_a_network_are_none_and_it_is_told() -> None:
    network = nx.Graph([("a", "b", {"weight": 5.0}), ("b", "c")])
    own = as_graph(network)
    assert own.graph.weight is None
    assert own.notes[-1] == WITHOUT_WEIGHTS
    network["b"]["c"]["weight"] = 1.0
    assert WITHOUT_WEIGHTS not in as_graph(network).notes
    assert as_graph(network).graph.weight is not None
    assert WITHOUT_WEIGHTS not in as_graph(nx.path_graph(3)).notes
    with pytest.warns(UserWarning, match="GraphEmbedder: Taken without weights"):
        GraphEmbedder(epochs=1, dimensions=4, device="cpu").fit(nx.Graph([(0, 1, {"weight": 2.0}), (1, 2), (2, 3)]))
