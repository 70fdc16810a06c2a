"""`GraphEmbedder` has scikit-learn's manners, and its embedding is of the whole graph with the best weights."""

import inspect
import pickle
import re
import shutil
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch_geometric.data import Data

from bandana.errors import UserError
from bandana.estimator import GraphEmbedder, learn
from bandana.evaluation.dot_product_probe import dot_product_auc
from bandana.graph import Graph
from bandana.own.automatic import plan

QUICK = {"epochs": 4, "dimensions": 8, "device": "cpu"}


def two_groups(*, with_features: bool = True, seed: int = 0, names: bool = True) -> Graph:
    """Forty nodes in two dense groups with few links between them."""
    draw = torch.Generator().manual_seed(seed)
    group = torch.arange(40) % 2
    pairs = torch.combinations(torch.arange(40)).T
    odds = torch.where(group[pairs[0]] == group[pairs[1]], 0.5, 0.03)
    edges = pairs[:, torch.rand(odds.shape, generator=draw) < odds]
    x = torch.randn(40, 5, generator=draw) * 100 + group[:, None] * 150 if with_features else None
    ids = [f"node {i}" for i in range(40)] if names else None
    return Graph.from_edges(edges, num_nodes=40, x=x, y=group, node_ids=ids)


def test_parameters_are_kept_as_given_and_cloned() -> None:
    embedder = GraphEmbedder("grace", dimensions=16, settings={"training.lr": 0.1}, random_state=7)
    twin = clone(embedder)
    assert twin.get_params() == embedder.get_params()
    assert twin.get_params()["settings"] == {"training.lr": 0.1}
    assert embedder.set_params(epochs=3).epochs == 3
    assert twin.epochs is None


def test_fit_leaves_what_scikit_learn_users_expect() -> None:
    graph = two_groups()
    embedder = GraphEmbedder(**QUICK)
    assert embedder.fit(graph) is embedder
    assert embedder.embedding_.shape == (40, 8)
    assert embedder.embedding_.dtype == np.float32
    assert embedder.node_ids_ == graph.node_ids
    assert embedder.n_features_in_ == 5
    assert embedder.graph_.edge_index.equal(graph.edge_index)
    assert [row["epoch"] for row in embedder.history_] == [1, 2, 3, 4]
    assert all({"loss", "monitor", "seconds"} <= row.keys() for row in embedder.history_)
    assert len(embedder.get_feature_names_out()) == 8
    assert GraphEmbedder(**QUICK).fit(two_groups(names=False)).node_ids_ == list(range(40))


def test_the_same_random_state_gives_the_same_vectors_and_another_does_not() -> None:
    first, again = (GraphEmbedder(**QUICK).fit_transform(two_groups()) for _ in range(2))
    other = GraphEmbedder(**QUICK, random_state=1).fit_transform(two_groups())
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_random_state_is_what_scikit_learn_takes() -> None:
    def vectors(random_state: Any) -> np.ndarray:
        return GraphEmbedder(**{**QUICK, "epochs": 1}, random_state=random_state).fit_transform(two_groups())

    assert np.array_equal(vectors(np.int64(3)), vectors(3))
    assert np.array_equal(vectors(np.random.RandomState(0)), vectors(np.random.RandomState(0)))
    assert not np.array_equal(vectors(None), vectors(None))
    assert not np.array_equal(*map(vectors, [state := np.random.RandomState(0), state]))
    with pytest.raises(UserError, match=r"random_state: must be a whole number, .* got str; give"):
        vectors("zero")
    for beyond in (-1, 2**32, 10**20):
        with pytest.raises(UserError, match=rf"random_state: must be from 0 to 4294967295, got {beyond}; give"):
            vectors(beyond)


def test_numbers_may_be_those_of_numpy() -> None:
    """As scikit-learn's ParameterSampler draws them."""
    settings = {
        "training.lr": np.float64(0.01),
        "training.clip_norm": np.float32(1),
        "model.decoder_width": np.int8(8),
    }
    drawn = GraphEmbedder(dimensions=np.int64(8), epochs=np.int32(4), settings=settings, device="cpu")
    assert drawn.fit_transform(two_groups()).shape == (40, 8)


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ({"epochs": "2"}, "epochs: must be a whole number or nothing, got '2'."),
        ({"epochs": 2.5}, "epochs: must be a whole number or nothing, got 2.5."),
        ({"dimensions": "16"}, "dimensions: must be a whole number or nothing, got '16'."),
        ({"method": 3}, "method: must be a text or nothing, got 3."),
        ({"method": ["gae"]}, "method: must be a text or nothing, got ['gae']."),
        ({"device": None}, "--device: None is not a choice. Choose from: auto, cpu, cuda."),
        ({"settings": [1]}, "Options: must be a table of dotted names, such as"),
        ({"settings": {"model": 3}}, "model: must be a table of options, got 3."),
        ({"directed": "yes"}, "directed: must be true or false or nothing, got 'yes'."),
        ({"missing": ["impute"]}, "missing: ['impute'] is not a choice."),
    ],
)
def test_options_of_a_wrong_kind_are_refused_in_words(option: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(complaint)}"):
        GraphEmbedder(**{**QUICK, **option}).fit(two_groups())


def test_missing_features_are_refused_or_imputed_as_asked() -> None:
    ends = two_groups().edge_index.numpy()
    edges = pa.table({"source": ends[0], "target": ends[1]})
    features = pa.table({"id": range(40), "v": [None, *range(39)]})
    with pytest.raises(UserError, match="missing='impute'"):
        GraphEmbedder(**QUICK).fit(edges, features=features)
    embedder = GraphEmbedder(**QUICK, missing="impute").fit(edges, features=features)
    assert embedder.graph_.x[0, 0] == 19.0
    assert np.array_equal(embedder.transform(edges, features=features), embedder.embedding_)


def test_nodes_of_networkx_come_back_as_they_were() -> None:
    grid = nx.grid_2d_graph(5, 5)
    embedder = GraphEmbedder(**QUICK).fit(grid)
    assert set(embedder.node_ids_) == set(grid.nodes)
    assert embedder.graph_.node_ids[0] == "(0, 0)"
    numbered = nx.relabel_nodes(grid, {node: np.int64(row) for row, node in enumerate(grid)})
    assert GraphEmbedder(**QUICK).fit(numbered).node_ids_ == list(range(25))


@pytest.mark.parametrize("with_features", [True, False])
def test_transform_of_the_fitted_graph_gives_its_embedding(with_features: bool) -> None:
    graph = two_groups(with_features=with_features)
    embedder = GraphEmbedder(**QUICK)
    assert np.array_equal(embedder.fit_transform(graph), embedder.transform(graph))


def test_a_new_graph_is_embedded_by_the_scale_of_the_old_one() -> None:
    """Nodes of a part that nothing links to the rest have the same vectors with and without the rest."""
    graph = two_groups()
    embedder = GraphEmbedder(**QUICK).fit(graph)
    assert embedder.plan_.features == "standardised"
    far = torch.full((10, 5), 1e4)
    edges = torch.cat([graph.edge_index, torch.tensor([[40, 41], [42, 43]])], dim=1)
    larger = Graph.from_edges(edges, num_nodes=50, x=torch.cat([graph.x, far]))
    np.testing.assert_allclose(embedder.transform(larger)[:40], embedder.embedding_, rtol=1e-4, atol=1e-5)


def test_a_model_of_single_nodes_refuses_others_in_words() -> None:
    embedder = GraphEmbedder(**QUICK).fit(two_groups(with_features=False))
    fewer = two_groups(with_features=False, seed=1)
    assert embedder.transform(fewer).shape == (40, 8)
    with pytest.raises(UserError, match="one vector per node"):
        embedder.transform(replace(fewer, node_ids=list(reversed(fewer.node_ids))))
    tuned = GraphEmbedder("gae_tuned", **QUICK).fit(two_groups())
    with pytest.raises(UserError, match="one vector per node"):
        tuned.transform(replace(two_groups(), node_ids=None))


def test_other_features_are_refused() -> None:
    embedder = GraphEmbedder(**QUICK).fit(two_groups())
    with pytest.raises(UserError, match="but the graph has none"):
        embedder.transform(two_groups(with_features=False))
    graph = two_groups()
    with pytest.raises(UserError, match="5 features per node, but the graph has 4"):
        embedder.transform(replace(graph, x=graph.x[:, :4]))


def test_columns_of_a_table_are_matched_by_name() -> None:
    edges = pa.table({"source": list(range(30)), "target": [(node + 1) % 30 for node in range(30)]})
    ages, sizes = [node % 7 for node in range(30)], [node * 1.5 for node in range(30)]
    cities = ["Oslo" if node % 2 else "Rome" for node in range(30)]
    table = {"id": list(range(30)), "age": ages, "size": sizes, "city": cities}
    embedder = GraphEmbedder(**QUICK).fit(edges, features=pa.table(table))
    assert embedder.model_.feature_names == ("age", "size", "city=Oslo", "city=Rome")
    turned = {name: table[name] for name in ("city", "size", "id", "age")}
    further = {"name": [f"person {node}" for node in range(30)], **turned}
    for other in (turned, further):
        assert np.array_equal(embedder.transform(edges, features=pa.table(other)), embedder.embedding_)
    with pytest.raises(UserError, match="features: the model has not seen the feature 'city=Bern'"):
        embedder.transform(edges, features=pa.table({**table, "city": ["Bern"] * 30}))
    with pytest.raises(UserError, match="features: has no feature 'size', which the model reads"):
        embedder.transform(edges, features=pa.table({"id": list(range(30)), "age": ages, "city": cities}))


def test_features_of_an_array_are_taken_in_their_order() -> None:
    edges = torch.stack([torch.arange(30), (torch.arange(30) + 1) % 30])
    x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    embedder = GraphEmbedder(**QUICK, directed=True).fit(edges, features=x)
    named = pa.table({"id": list(range(30)), **{f"column {place}": x[:, place].numpy() for place in range(3)}})
    table = pa.table({"source": edges[0].numpy(), "target": edges[1].numpy()})
    undirected = GraphEmbedder(**QUICK, directed=False).fit(edges, features=x)
    np.testing.assert_allclose(undirected.transform(table, features=named), undirected.embedding_, atol=1e-5)
    assert np.array_equal(embedder.transform(edges, features=x), embedder.embedding_)


def test_transform_before_fit_is_refused() -> None:
    with pytest.raises(NotFittedError):
        GraphEmbedder().transform(two_groups())
    with pytest.raises(NotFittedError):
        GraphEmbedder().get_feature_names_out()


def test_it_can_be_the_first_step_of_a_pipeline() -> None:
    graph = two_groups()
    classifier = make_pipeline(GraphEmbedder(**{**QUICK, "epochs": 30}), LogisticRegression(max_iter=1000))
    assert classifier.fit(graph, graph.y.numpy()).score(graph, graph.y.numpy()) > 0.9


def holders() -> dict[str, Any]:
    graph = two_groups()
    network = nx.relabel_nodes(nx.Graph(graph.edge_index.T.tolist()), {0: (0, "first")})
    pairs = [pair for pair in graph.edge_index.T.tolist() if pair[0] < pair[1]]
    return {
        "pandas": pd.DataFrame(pairs, columns=["source", "target"], index=range(7, 7 + len(pairs))),
        "networkx": network,
        "pyg": graph.to_pyg(),
        "scipy": sparse.coo_matrix((np.ones(graph.num_edges), graph.edge_index.numpy())),
    }


@pytest.mark.parametrize("holder", holders())
def test_a_frame_that_is_asked_for_has_a_row_per_node(holder: str) -> None:
    graph = holders()[holder]
    embedder = GraphEmbedder(**QUICK).set_output(transform="pandas")
    frame = embedder.fit_transform(graph)
    assert list(frame.index) == embedder.node_ids_
    assert list(frame.columns) == [f"graphembedder{column}" for column in range(8)]
    assert np.array_equal(frame.to_numpy(), embedder.embedding_)
    assert embedder.transform(graph).equals(frame)
    polar = embedder.set_output(transform="polars").transform(graph)
    assert polar.shape == (40, 8)


def test_frames_go_through_pipelines_and_clones() -> None:
    edges = holders()["pandas"]
    with config_context(transform_output="pandas"):
        scaled = make_pipeline(GraphEmbedder(**QUICK), StandardScaler()).fit_transform(edges)
    assert list(scaled.index) == list(range(40))
    twin = clone(GraphEmbedder(**QUICK).set_output(transform="pandas"))
    assert isinstance(twin.fit_transform(edges), pd.DataFrame)
    assert isinstance(GraphEmbedder(**QUICK).fit_transform(edges), np.ndarray)


def test_edges_that_are_taken_as_directed_are_pointed_out(recwarn: pytest.WarningsRecorder) -> None:
    once = two_groups().edge_index
    once = once[:, once[0] < once[1]]
    for holder in (once, Data(edge_index=once, num_nodes=40)):
        with pytest.warns(UserWarning, match="GraphEmbedder: Taken as directed, .* say directed=False"):
            assert GraphEmbedder(**QUICK).fit(holder).graph_.directed
    recwarn.clear()
    GraphEmbedder(**QUICK, directed=True).fit(once)
    assert not [warning for warning in recwarn if "directed" in str(warning.message)]


def test_weights_are_the_best_of_the_held_out_links_and_the_embedding_is_of_the_whole_graph() -> None:
    graph = two_groups(with_features=False)
    made = plan(graph, dimensions=8, epochs=30)
    seen: list[int] = []
    learned = learn(graph, made, seed=3, device="cpu", on_epoch=lambda state: seen.append(state.epoch))
    assert seen == list(range(1, learned.state.epoch + 1))
    split = learned.split
    assert split.train.num_edges < graph.num_edges
    best = max(row["monitor"] for row in learned.history)
    assert float(dot_product_auc(learned.held_out_embedding, split.valid)) == pytest.approx(best, abs=1e-6)
    assert learned.embedding.equal(learned.model.embed(graph))
    assert not learned.embedding.equal(learned.held_out_embedding)


def test_a_graph_too_small_to_hold_out_links_is_embedded_all_the_same(hand_graph) -> None:
    embedder = GraphEmbedder(**QUICK).fit(hand_graph())
    assert embedder.embedding_.shape == (5, 8)
    assert embedder.split_ is None
    assert embedder.held_out_embedding_ is None


def test_it_takes_other_kinds_of_graphs(tmp_path: Path) -> None:
    graph = two_groups(with_features=False)
    path = tmp_path / "edges.csv"
    ends = graph.edge_index.T.tolist()
    path.write_text("from,to\n" + "".join(f"node {a},node {b}\n" for a, b in ends if a < b))
    embedder = GraphEmbedder(**QUICK).fit(path)
    assert set(embedder.node_ids_) == set(graph.node_ids)
    plain = GraphEmbedder(**QUICK).fit(graph.edge_index, features=torch.eye(40)[:, :4] + 0.1)
    assert (plain.embedding_.shape, plain.n_features_in_) == ((40, 8), 4)


def test_learning_beats_chance_on_held_out_links() -> None:
    graph = two_groups(with_features=False)
    learned = learn(graph, plan(graph, epochs=60), seed=0, device="cpu")
    pairs = learned.split.test
    same = (graph.y[pairs.positive[0]] == graph.y[pairs.positive[1]]).float().mean()
    z = torch.nn.functional.normalize(learned.embedding - learned.embedding.mean(0), dim=1)
    within = (z @ z.T)[graph.y[:, None] == graph.y].mean()
    between = (z @ z.T)[graph.y[:, None] != graph.y].mean()
    assert same > 0.5
    assert within > between + 0.2


class LocalHub(ModuleType):
    """A model hub that is a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__("huggingface_hub")
        self.folder = folder
        self.fetched: list[str] = []

    def HfApi(self) -> "LocalHub":  # noqa: N802 (as the package has it)
        return self

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        (self.folder / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> str:
        shutil.copytree(folder_path, self.folder / repo_id, dirs_exist_ok=True)
        return f"local:{repo_id}"

    def snapshot_download(
        self, repo_id: str, *, revision: str | None, allow_patterns: list[str], local_dir: str
    ) -> None:
        if not (self.folder / repo_id).is_dir():
            raise FileNotFoundError(f"404: {repo_id}\nmore lines\n")
        for path in (self.folder / repo_id).iterdir():
            if any(fnmatch(path.name, pattern) for pattern in allow_patterns):
                self.fetched.append(path.name)
                shutil.copy(path, local_dir)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalHub:
    made = LocalHub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)
    return made


def test_a_model_goes_to_the_hub_and_back(hub: LocalHub, tmp_path: Path) -> None:
    graph = two_groups()
    embedder = GraphEmbedder(**QUICK).fit(graph)
    assert embedder.push_to_hub("me/groups") == "local:me/groups"
    card = (hub.folder / "me/groups/README.md").read_text()
    auc = embedder.model_.facts["held-out links against random pairs"]["auc"]
    assert f"AUC {auc:.3f}" in card
    assert "nodes: 40" in card
    (hub.folder / "me/groups/pytorch_model.bin").write_bytes(b"never fetched")
    fetched = GraphEmbedder.from_pretrained("me/groups", device="cpu")
    assert sorted(hub.fetched) == ["README.md", "model.json", "weights.safetensors"]
    assert np.array_equal(fetched.transform(graph), embedder.embedding_)
    assert (fetched.method, fetched.n_features_in_) == ("bandana", 5)
    embedder.save_pretrained(tmp_path / "folder")
    again = GraphEmbedder.from_pretrained(tmp_path / "folder", device="cpu")
    assert list(again.get_feature_names_out()) == list(embedder.get_feature_names_out())
    assert again.set_output(transform="pandas").transform(graph).columns[-1] == "graphembedder7"
    again.set_output(transform="default")
    assert np.array_equal(again.transform(graph), embedder.embedding_)


def test_what_comes_from_the_hub_is_checked_like_any_folder(hub: LocalHub) -> None:
    GraphEmbedder(**QUICK).fit(two_groups()).push_to_hub("me/groups")
    with pytest.raises(UserError, match=r"me/other: is no folder here, and could not be fetched .*\(404: me/other\)"):
        GraphEmbedder.from_pretrained("me/other")
    (hub.folder / "me/groups/weights.safetensors").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(UserError, match=r"me/groups on the hub/weights.safetensors: .*pickles, are never opened"):
        GraphEmbedder.from_pretrained("me/groups")


def test_without_the_package_the_hub_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"pip install 'bandana-graph\[hub\]'"):
        GraphEmbedder.from_pretrained("me/groups")
    with pytest.raises(NotFittedError):
        GraphEmbedder().push_to_hub("me/groups")


def test_the_local_hub_is_asked_as_the_real_one_would_be() -> None:
    real = pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
    for theirs, ours in (
        (real.snapshot_download, LocalHub.snapshot_download),
        (real.HfApi.create_repo, LocalHub.create_repo),
        (real.HfApi.upload_folder, LocalHub.upload_folder),
    ):
        wanted = inspect.signature(ours).parameters.keys() - {"self"}
        assert wanted <= inspect.signature(theirs).parameters.keys()
