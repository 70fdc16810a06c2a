"""`Graph` against plain Python sets and dictionaries of edges."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from bandana.errors import UserError
from bandana.graph import SPARSE_BELOW_DENSITY, Graph, SparseFeatures, compact, dense, identity_features

GraphFactory = Callable[..., Graph]
NODES = 7
WeightedEdges = list[tuple[int, int, int]]
node = st.integers(0, NODES - 1)
weighted_edges = st.lists(st.tuples(node, node, st.integers(1, 9)), max_size=30)


def columns(edges: WeightedEdges) -> tuple[torch.Tensor, torch.Tensor]:
    table = torch.tensor(edges, dtype=torch.long).reshape(-1, 3)
    return table[:, :2].T, table[:, 2].float()


def edge_dict(graph: Graph) -> dict[tuple[int, int], float]:
    weights = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    return dict(zip(map(tuple, graph.edge_index.T.tolist()), weights.tolist(), strict=True))


@pytest.mark.parametrize("form", [list, np.array])
def test_edges_may_be_lists_or_an_array(form: Callable[..., object]) -> None:
    ends = [[0, 1, 2], [1, 2, 3]]
    graph = Graph.from_edges(form(ends), num_nodes=5)
    assert edge_dict(graph) == edge_dict(Graph.from_edges(torch.tensor(ends), num_nodes=5))
    with pytest.raises(UserError, match=r"integers of shape \[2, edges\], got \(3, 2\)"):
        Graph.from_edges(form([[0, 1], [1, 2], [2, 3]]), num_nodes=5)


@given(weighted_edges, st.booleans())
def test_edges_follow_their_definition(edges: WeightedEdges, directed: bool) -> None:
    """No self-loops, repeated edges added up, both directions unless directed; whole weights make the sums exact."""
    expected: dict[tuple[int, int], float] = defaultdict(float)
    for sender, receiver, weight in edges:
        if sender != receiver:
            expected[sender, receiver] += weight
            if not directed:
                expected[receiver, sender] += weight
    edge_index, weight = columns(edges)
    graph = Graph.from_edges(edge_index, num_nodes=NODES, weight=weight, directed=directed)
    assert edge_dict(graph) == expected
    assert (graph.num_nodes, graph.num_edges) == (NODES, len(expected))
    assert graph.edge_keys.tolist() == sorted(receiver * NODES + sender for sender, receiver in expected)
    unweighted = Graph.from_edges(edge_index, num_nodes=NODES, directed=directed)
    assert edge_dict(unweighted).keys() == expected.keys()
    assert unweighted.weight is None


@given(weighted_edges, st.booleans())
def test_links_name_every_link_once(edges: WeightedEdges, directed: bool) -> None:
    graph = Graph.from_edges(columns(edges)[0], num_nodes=NODES, directed=directed)
    edges_of_links = graph.edge_index[:, graph.links].T.tolist()
    if directed:
        assert sorted(map(tuple, edges_of_links)) == sorted(edge_dict(graph))
    else:
        assert sorted(map(sorted, edges_of_links)) == sorted([u, v] for u, v in edge_dict(graph) if u < v)


@given(weighted_edges, st.booleans(), st.booleans())
def test_pyg_and_back(edges: WeightedEdges, directed: bool, weighted: bool) -> None:
    edge_index, weight = columns(edges)
    x = torch.arange(NODES * 2.0).view(NODES, 2)
    graph = Graph.from_edges(
        edge_index, num_nodes=NODES, x=x, y=torch.arange(NODES), weight=weight if weighted else None, directed=directed
    )
    again = Graph.from_pyg(graph.to_pyg(), directed=directed)
    assert edge_dict(again) == edge_dict(graph)
    assert (again.weight is None) == (graph.weight is None)
    assert again.directed == directed
    assert isinstance(again.x, torch.Tensor)
    assert again.x.equal(x)
    assert again.y is not None
    assert again.y.equal(torch.arange(NODES))


@given(weighted_edges, st.booleans(), st.data())
def test_keeping_some_edges(edges: WeightedEdges, directed: bool, data: st.DataObject) -> None:
    edge_index, weight = columns(edges)
    graph = Graph.from_edges(edge_index, num_nodes=NODES, weight=weight, directed=directed)
    entries = data.draw(st.lists(st.integers(0, max(graph.num_edges - 1, 0)), unique=True)) if graph.num_edges else []
    part = graph.keep_edges(torch.tensor(entries, dtype=torch.long))
    listed = list(edge_dict(graph).items())
    assert edge_dict(part) == dict(listed[entry] for entry in entries)
    assert part.num_nodes == NODES
    assert part.edge_keys.equal(part.edge_keys.sort().values)


def test_direction_is_found_out_from_pattern_and_weights() -> None:
    both = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    assert not Graph.from_pyg(Data(edge_index=both, num_nodes=3)).directed
    assert Graph.from_pyg(Data(edge_index=both[:, :3], num_nodes=3)).directed
    equal = Data(edge_index=both, edge_weight=torch.tensor([2.0, 2.0, 3.0, 3.0]), num_nodes=3)
    assert edge_dict(Graph.from_pyg(equal)) == {(0, 1): 2, (1, 0): 2, (1, 2): 3, (2, 1): 3}
    assert not Graph.from_pyg(equal).directed

    unequal = Data(edge_index=both, edge_weight=torch.tensor([2.0, 4.0, 3.0, 3.0]), num_nodes=3)
    assert Graph.from_pyg(unequal).directed
    assert edge_dict(Graph.from_pyg(unequal)) == {(0, 1): 2, (1, 0): 4, (1, 2): 3, (2, 1): 3}


@pytest.mark.parametrize("y", [[0.0, 1.5, 2.0], [0.0, float("nan"), 1.0]])
def test_targets_that_are_no_classes_are_refused(y: list[float]) -> None:
    edges = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(UserError, match="y must be one whole number per node"):
        Graph.from_pyg(Data(edge_index=edges, num_nodes=3, y=torch.tensor(y)))
    assert Graph.from_pyg(Data(edge_index=edges, num_nodes=3, y=torch.tensor([0.0, 1.0, 1.0]))).y.tolist() == [0, 1, 1]


def test_links_that_pyg_data_list_once_keep_their_weight() -> None:
    once = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_weight=torch.tensor([3.0, 5.0]), num_nodes=3)
    assert edge_dict(Graph.from_pyg(once, directed=False)) == {(0, 1): 3, (1, 0): 3, (1, 2): 5, (2, 1): 5}
    assert edge_dict(Graph.from_pyg(once)) == {(0, 1): 3, (1, 2): 5}


def test_edge_features_say_nothing_about_direction() -> None:
    both = torch.tensor([[0, 1], [1, 0]])
    assert not Graph.from_pyg(Data(edge_index=both, edge_attr=torch.tensor([1.0, 2.0]), num_nodes=2)).directed


def test_labels_of_pyg_become_one_row_of_integers() -> None:
    data = Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([[1], [0], [2]], dtype=torch.int32), num_nodes=3)
    graph = Graph.from_pyg(data)
    assert graph.y is not None
    assert graph.y.tolist() == [1, 0, 2]
    assert graph.y.dtype == torch.long
    assert graph.num_classes == 3
    assert replace(graph, y=None).num_classes == 0


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
)
def test_features_and_weights_take_the_float_type_of_the_models(dtype: torch.dtype) -> None:
    """NumPy hands out doubles and counts are integers; a model in single precision must take both."""
    edge_index = torch.tensor([[0, 1], [1, 2]])
    weight = None if dtype is torch.bool else torch.ones(2, dtype=dtype)
    dense = Graph.from_edges(edge_index, num_nodes=3, x=torch.ones(3, 2, dtype=dtype), weight=weight)
    assert dense.x.dtype == torch.float32  # type: ignore[union-attr]
    assert dense.weight is None or dense.weight.dtype == torch.float32
    sparse = Graph.from_edges(edge_index, num_nodes=3, x=torch.eye(3, 100).to(dtype))
    assert isinstance(sparse.x, SparseFeatures)
    assert sparse.x.values.dtype == torch.float32


@pytest.mark.usefixtures("float64")
def test_double_precision_is_kept_where_it_is_the_default() -> None:
    x = torch.full((3, 2), 1 / 3)
    graph = Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=3, x=x, weight=torch.tensor([1 / 3]))
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x.equal(x)
    assert graph.weight is not None
    assert graph.weight.tolist() == [1 / 3, 1 / 3]


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.01, 0.04, 0.06, 0.5, 1.0]))
def test_compact_features_keep_every_value(seed: int, density: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 30, generator=generator) * (torch.rand(12, 30, generator=generator) < density)
    small = compact(x)
    share = int((x != 0).sum()) / x.numel()
    assert isinstance(small, SparseFeatures) == (share < SPARSE_BELOW_DENSITY)
    assert (small.dense() if isinstance(small, SparseFeatures) else small).equal(x)
    assert small.shape == (12, 30)
    assert compact(small) is small or not isinstance(small, SparseFeatures)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors_are_read_too(layout: torch.layout) -> None:
    x = torch.eye(5, 60)
    small = compact(x.to_sparse(layout=layout))
    assert isinstance(small, SparseFeatures)
    assert small.dense().equal(x)


def test_a_graph_without_features_numbers_its_nodes() -> None:
    graph = Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=4)
    assert isinstance(graph.x, SparseFeatures)
    assert graph.x.dense().equal(torch.eye(4))
    assert graph.x.is_identity
    assert graph.num_features == 4
    other = compact(torch.eye(40).roll(1, 0))
    assert isinstance(other, SparseFeatures)
    assert not other.is_identity
    assert identity_features(40).is_identity


def test_moving_to_a_device_takes_everything_along(random_graph: GraphFactory) -> None:
    moved = random_graph(weighted=True).to("meta")
    assert {moved.device.type, moved.x.device.type, moved.y.device.type, moved.weight.device.type} == {"meta"}  # type: ignore[union-attr]
    assert random_graph(num_features=0).to("meta").x.values.device.type == "meta"  # type: ignore[union-attr]


def test_a_graph_is_frozen_and_drops_its_caches_when_replaced(random_graph: GraphFactory) -> None:
    graph = random_graph()
    assert graph.edge_keys is graph.edge_keys
    with pytest.raises(FrozenInstanceError):
        graph.directed = True  # type: ignore[misc]
    assert replace(graph, directed=True).links.numel() == 2 * graph.links.numel()


def test_the_callers_tensors_are_left_alone() -> None:
    edge_index, weight, x = torch.tensor([[2, 0, 1], [1, 0, 2]]), torch.tensor([1.0, 2.0, 3.0]), torch.ones(3, 2)
    copies = edge_index.clone(), weight.clone(), x.clone()
    Graph.from_edges(edge_index, num_nodes=3, weight=weight, x=x)
    assert all(tensor.equal(copy) for tensor, copy in zip((edge_index, weight, x), copies, strict=True))


@pytest.mark.parametrize("kind", [torch.int32, torch.int16, torch.uint8, torch.bool])
def test_labels_of_any_whole_kind_become_those_that_losses_take(kind: torch.dtype) -> None:
    graph = Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=2, y=torch.tensor([1, 0]).to(kind))
    assert graph.y is not None
    assert graph.y.dtype == torch.long
    assert graph.y.tolist() == [1, 0]


EDGES = torch.tensor([[0, 1], [1, 2]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": torch.zeros(3, 2, dtype=torch.long)}, r"shape \[2, edges\], got \(3, 2\)"),
        ({"edge_index": torch.zeros(2, 2)}, r"integers of shape \[2, edges\]"),
        ({"edge_index": torch.tensor([[0], [3]])}, "numbered 0 to 2, but edges name 0 to 3"),
        ({"edge_index": torch.tensor([[-1], [2]])}, "numbered 0 to 2, but edges name -1 to 2"),
        ({"x": torch.ones(4, 2)}, "x has 4 rows for 3 nodes"),
        ({"x": torch.ones(3)}, r"x must have the shape \[nodes, features\], got \(3,\)"),
        ({"x": torch.ones(3, 2, 2)}, r"x must have the shape \[nodes, features\], got \(3, 2, 2\)"),
        ({"x": torch.tensor([[1.0], [float("nan")], [1.0]])}, "NaN or infinite"),
        ({"x": torch.tensor([[1.0], [float("inf")], [1.0]]).to_sparse()}, "NaN or infinite"),
        ({"y": torch.zeros(3)}, r"y must be one whole number per node, \[3\], got torch\.float32"),
        (
            {"y": torch.zeros(2, dtype=torch.long)},
            r"y must be one whole number per node, \[3\], got torch\.int64 \(2,\)",
        ),
        ({"weight": torch.ones(3)}, "one positive number per edge"),
        ({"weight": torch.tensor([1.0, 0.0])}, "one positive number per edge"),
        ({"weight": torch.tensor([1.0, -1.0])}, "one positive number per edge"),
        ({"weight": torch.tensor([1.0, float("nan")])}, "one positive number per edge"),
        ({"weight": torch.tensor([1.0, float("inf")])}, "one positive number per edge"),
        ({"weight": torch.tensor([1.0, 1e39], dtype=torch.float64)}, r"torch\.float32, but number 1 is 1e\+39; corr"),
        ({"weight": torch.tensor([1.0, 1e-50], dtype=torch.float64)}, "number 1 is 1e-50"),
        ({"edge_index": EDGES[:, [0, 0]], "weight": torch.tensor([3e38, 3e38])}, r"add up to more than .*3\.4.*e\+38"),
        ({"y": torch.zeros(3, dtype=torch.complex64)}, "y must be one whole number per node"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, torch.Tensor], message: str) -> None:
    arguments = {"edge_index": EDGES, **changes}
    with pytest.raises(UserError, match=f"^Graph: .*{message}"):
        Graph.from_edges(arguments.pop("edge_index"), num_nodes=3, **arguments)  # type: ignore[arg-type]


def test_a_graph_that_only_numbers_its_nodes_has_no_features() -> None:
    edges = torch.tensor([[0, 1], [1, 2]])
    bare = Graph.from_edges(edges, num_nodes=3)
    assert not bare.has_features
    assert dense(bare.x).equal(torch.eye(3))
    described = Graph.from_edges(edges, num_nodes=3, x=torch.ones(3, 2))
    assert described.has_features
    assert dense(described.x).equal(torch.ones(3, 2))


def test_a_graph_shows_itself_in_a_line() -> None:
    graph = Graph.from_edges(torch.tensor([[0, 1], [1, 2]]), num_nodes=4, x=torch.ones(4, 2))
    assert repr(graph) == "Graph(undirected, nodes=4, links=2, features=2)"
    assert "directed, nodes=3" in repr(Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=3, directed=True))
