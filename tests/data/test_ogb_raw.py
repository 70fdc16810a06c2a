"""OGB's raw files, written here in their exact layout with a handful of nodes."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from bandana.data.datasets import load
from bandana.data.ogb_raw import read_columns
from bandana.data.unpickling import read_tensors
from bandana.errors import UserError
from bandana.experiment import run
from bandana.graph import SparseFeatures
from bandana.paper.cookbook import recipe

EDGES = [(0, 1), (1, 0), (1, 2), (2, 2), (3, 4), (3, 4)]  # a pair both ways, a self-loop, a repetition
LINKS = {(0, 1), (1, 2), (3, 4)}
FEATURES = [[0.5, -1.25, 3.0], [1e-3, 0.0, 2.0], [0.0, 0.25, -0.125], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
LABELS = [2, 0, 1, 1, 0]


def write_csv(path: Path, rows: list, header: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(map(str, row)) if isinstance(row, list | tuple) else str(row) for row in rows]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(([header] if header else []) + lines) + "\n")


def write_pt(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)


def write_node_split(folder: Path) -> None:
    for part, nodes in (("train", [4, 0]), ("valid", [2]), ("test", [3, 1])):
        write_csv(folder / f"{part}.csv.gz", nodes)


def write_arxiv(root: Path) -> Path:
    raw = root / "ogbn_arxiv" / "raw"
    write_csv(raw / "edge.csv.gz", EDGES)
    write_csv(raw / "node-feat.csv.gz", FEATURES)
    write_csv(raw / "node-label.csv.gz", LABELS)
    write_csv(raw / "num-node-list.csv.gz", [5])
    write_csv(raw / "num-edge-list.csv.gz", [6])
    write_csv(raw / "node_year.csv.gz", [2013, 2015, 2016, 2018, 2019])
    write_node_split(root / "ogbn_arxiv" / "split" / "time")
    return root


def write_mag(root: Path) -> Path:
    raw = root / "ogbn_mag" / "raw"
    write_csv(raw / "relations" / "paper___cites___paper" / "edge.csv.gz", EDGES)
    write_csv(raw / "relations" / "author___writes___paper" / "edge.csv.gz", [(0, 4), (1, 3)])
    write_csv(raw / "node-feat" / "paper" / "node-feat.csv.gz", FEATURES)
    write_csv(raw / "node-label" / "paper" / "node-label.csv.gz", LABELS)
    write_csv(raw / "num-node-dict.csv.gz", [(2, 5)], header="author,paper")
    write_node_split(root / "ogbn_mag" / "split" / "time" / "paper")
    return root


def write_collab(root: Path) -> Path:
    write_csv(root / "ogbl_collab" / "raw" / "node-feat.csv.gz", FEATURES)
    split = root / "ogbl_collab" / "split" / "time"
    years = np.array([2009, 2010, 2017, 2017, 1990])
    edges = np.array([[0, 4], [0, 1], [1, 2], [2, 1], [2, 3]])
    write_pt(split / "train.pt", {"edge": edges, "weight": np.ones(5, dtype=np.int64), "year": years})
    valid = {"edge": np.array([[3, 2], [0, 1]]), "weight": np.array([1, 2]), "year": np.array([2018, 2018])}
    write_pt(split / "valid.pt", valid | {"edge_neg": np.array([[0, 3], [1, 4], [0, 2]])})
    write_pt(split / "test.pt", {"edge": np.array([[4, 3]]), "edge_neg": np.array([[0, 3], [1, 4]])})
    return root


def write_ppa(root: Path) -> Path:
    species = np.eye(30, dtype=np.int64)[[3, 29, 3, 0, 7]]
    write_csv(root / "ogbl_ppa" / "raw" / "node-feat.csv.gz", species.tolist())
    split = root / "ogbl_ppa" / "split" / "throughput"
    write_pt(split / "train.pt", {"edge": torch.tensor([[0, 1], [1, 2], [3, 4]])})
    write_pt(split / "valid.pt", {"edge": torch.tensor([[0, 2]]), "edge_neg": torch.tensor([[0, 3]])})
    write_pt(split / "test.pt", {"edge": torch.tensor([[0, 4]]), "edge_neg": torch.tensor([[1, 4], [2, 4]])})
    return root


def both_ways(links: set[tuple[int, int]]) -> list[list[int]]:
    return sorted([receiver, sender] for a, b in links for sender, receiver in ((a, b), (b, a)))


def entries(graph: object) -> list[list[int]]:
    return torch.stack([graph.structure.row, graph.structure.col], dim=1).tolist()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDANA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BANDANA_DATA", raising=False)


@pytest.mark.parametrize(("name", "write"), [("ogbn-arxiv", write_arxiv), ("ogbn-mag", write_mag)])
@pytest.mark.parametrize("time", ["first", "second"])
def test_citation_graphs_are_symmetric_with_their_official_split(tmp_path: Path, name: str, write, time: str) -> None:
    root = write(tmp_path / "root")
    data = load(name, root)
    if time == "second":
        data = load(name, root)
    assert entries(data.graph) == both_ways(LINKS)
    assert torch.equal(data.graph.x, torch.tensor(FEATURES))
    assert data.graph.x.is_contiguous()
    assert data.graph.y.tolist() == LABELS
    assert not data.graph.directed
    assert data.edge_split is None
    assert [part.tolist() for part in (data.node_split.train, data.node_split.valid, data.node_split.test)] == [
        [0, 4],
        [2],
        [1, 3],
    ]


@pytest.mark.parametrize("time", ["first", "second"])
def test_collab_forgets_old_years_and_lets_test_see_validation_links(tmp_path: Path, time: str) -> None:
    root = write_collab(tmp_path / "root")
    data = load("ogbl-collab", root)
    if time == "second":
        data = load("ogbl-collab", root)
    split = data.edge_split
    assert data.node_split is None
    assert data.graph.y is None
    assert split.train is data.graph
    assert entries(data.graph) == both_ways({(0, 1), (1, 2)})
    assert entries(split.test_graph) == both_ways({(0, 1), (1, 2), (2, 3)})
    assert torch.equal(split.test_graph.x, data.graph.x)
    assert split.valid.positive.tolist() == [[3, 0], [2, 1]]
    assert split.valid.negative.tolist() == [[0, 1, 0], [3, 4, 2]]
    assert split.test.positive.tolist() == [[4], [3]]
    assert split.test.negative.tolist() == [[0, 1], [3, 4]]


@pytest.mark.parametrize("time", ["first", "second"])
def test_ppa_keeps_validation_links_out_of_the_test_graph_and_species_sparse(tmp_path: Path, time: str) -> None:
    root = write_ppa(tmp_path / "root")
    data = load("ogbl-ppa", root)
    if time == "second":
        data = load("ogbl-ppa", root)
    split = data.edge_split
    assert entries(data.graph) == both_ways({(0, 1), (1, 2), (3, 4)})
    assert split.test_graph is split.train is data.graph
    assert isinstance(data.graph.x, SparseFeatures)
    assert data.graph.x.dense().argmax(dim=1).tolist() == [3, 29, 3, 0, 7]
    assert data.graph.x.dense().sum() == 5
    assert split.test.negative.tolist() == [[1, 2], [4, 4]]


def test_large_columns_survive_the_reader_in_order(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 10**9, size=(40_000, 2))
    write_csv(tmp_path / "edge.csv.gz", numbers.tolist())
    columns = read_columns(tmp_path / "edge.csv.gz", torch.int64)
    assert columns.dtype == torch.int64
    assert np.array_equal(columns.numpy(), numbers.T)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def garble(path: Path) -> None:
    path.write_bytes(b"not a gzip file")


def spell_out(path: Path) -> None:
    write_csv(path, ["one,two", "three,four"])


def leave_a_gap(path: Path) -> None:
    write_csv(path, ["0,1", "2,"])


def add_a_column(path: Path) -> None:
    write_csv(path, ["0,1", "2,3,4"])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, garble, spell_out, leave_a_gap, add_a_column, empty])
def test_a_broken_csv_file_is_named_in_one_sentence(tmp_path: Path, damage) -> None:
    root = write_arxiv(tmp_path / "root")
    path = root / "ogbn_arxiv" / "raw" / "edge.csv.gz"
    damage(path)
    with pytest.raises(UserError) as caught:
        load("ogbn-arxiv", root)
    assert str(caught.value).startswith(f"{path}: cannot be read (")
    assert "\n" not in str(caught.value)


def test_a_broken_file_leaves_no_copy_behind_and_is_read_once_mended(tmp_path: Path) -> None:
    root = write_arxiv(tmp_path / "root")
    cut(root / "ogbn_arxiv" / "raw" / "node-feat.csv.gz")
    with pytest.raises(UserError):
        load("ogbn-arxiv", root)
    write_arxiv(root)
    assert load("ogbn-arxiv", root).graph.num_nodes == 5


class Intruder:
    """Unpickled carelessly, it creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return open, (str(self.marker), "w")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_torch_file_cannot_run_anything(tmp_path: Path, zipped: bool) -> None:
    root, marker = write_collab(tmp_path / "root"), tmp_path / "marker"
    path = root / "ogbl_collab" / "split" / "time" / "valid.pt"
    content = {"edge": np.zeros((1, 2), dtype=np.int64), "edge_neg": Intruder(marker)}
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(UserError) as caught:
        load("ogbl-collab", root)
    assert not marker.exists()
    assert str(caught.value).startswith(f"{path}: cannot be read (UnpicklingError")
    assert "\n" not in str(caught.value)
    torch.load(path, weights_only=False)["edge_neg"].close()
    assert marker.exists()  # so the file was armed


@pytest.mark.parametrize(
    "content",
    [{"edge": np.array([[0, 1]])}, {"edge": "0-1", "edge_neg": "1-0"}, [1, 2], {"edge": {}, "edge_neg": []}],
    ids=["no negatives", "text", "no dictionary", "nested"],
)
def test_a_torch_file_with_other_content_is_named(tmp_path: Path, content: object) -> None:
    root = write_collab(tmp_path / "root")
    path = root / "ogbl_collab" / "split" / "time" / "test.pt"
    torch.save(content, path)
    with pytest.raises(UserError, match=r"test\.pt"):
        load("ogbl-collab", root)


def test_a_cut_torch_file_is_named(tmp_path: Path) -> None:
    root = write_ppa(tmp_path / "root")
    path = root / "ogbl_ppa" / "split" / "throughput" / "train.pt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=r"train\.pt"):
        load("ogbl-ppa", root)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32, np.uint8])
def test_numpy_arrays_and_tensors_in_torch_files_are_read(tmp_path: Path, zipped: bool, dtype: type) -> None:
    array = np.arange(6, dtype=dtype).reshape(3, 2)
    content = {"array": array, "fortran": np.asfortranarray(array), "tensor": torch.from_numpy(array)}
    torch.save(content, tmp_path / "part.pt", _use_new_zipfile_serialization=zipped)
    read = read_tensors(tmp_path / "part.pt")
    assert read.keys() == content.keys()
    assert all(torch.equal(value, torch.from_numpy(array)) for value in read.values())


def test_arrays_pickled_by_numpy_1_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "part.pt"
    torch.save({"edge": np.arange(4)}, path, _use_new_zipfile_serialization=False)
    old = path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    path.write_bytes(old)
    assert b"numpy.core.multiarray" in old
    assert read_tensors(path)["edge"].tolist() == [0, 1, 2, 3]


def test_an_array_of_objects_cannot_smuggle_anything(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    smuggled = np.array([Intruder(marker)], dtype=object)
    torch.save({"edge": smuggled}, tmp_path / "part.pt")
    with pytest.raises(UserError):
        read_tensors(tmp_path / "part.pt")
    assert not marker.exists()


def test_pairs_outside_the_graph_are_refused(tmp_path: Path) -> None:
    root = write_ppa(tmp_path / "root")
    pairs = {"edge": torch.tensor([[0, 5]]), "edge_neg": torch.tensor([[0, 3]])}
    write_pt(root / "ogbl_ppa" / "split" / "throughput" / "valid.pt", pairs)
    with pytest.raises(UserError):
        load("ogbl-ppa", root)


@pytest.mark.parametrize(
    ("nodes", "sentence"), [([5], "names nodes 5 to 5, but there are 5"), ([-1], "nodes -1 to -1")]
)
def test_an_official_split_that_names_no_such_node_is_refused(tmp_path: Path, nodes: list[int], sentence: str) -> None:
    write_csv(write_arxiv(tmp_path) / "ogbn_arxiv" / "split" / "time" / "valid.csv.gz", nodes)
    with pytest.raises(UserError, match=rf"valid\.csv\.gz: .*{sentence}"):
        load("ogbn-arxiv", tmp_path)


def test_an_official_split_that_leaks_is_refused(tmp_path: Path) -> None:
    write_csv(write_arxiv(tmp_path) / "ogbn_arxiv" / "split" / "time" / "valid.csv.gz", [0])
    with pytest.raises(UserError, match="in train and in valid, such as 0"):
        load("ogbn-arxiv", tmp_path)


@pytest.mark.parametrize(("name", "write"), [("ogbl-collab", write_collab), ("ogbl-ppa", write_ppa)])
@pytest.mark.parametrize("method", ["maskgae_edge", "maskgae_path", "bandana"])
def test_recipes_train_on_official_links_and_rank_them_by_their_decoders(
    tmp_path: Path, name: str, write, method: str
) -> None:
    experiment = recipe(method, name, "link", {"training.epochs": 3})
    (seed,) = run(experiment, device="cpu", data_root=write(tmp_path / "root")).seeds
    assert seed.epochs == 3
    assert all(0 <= seed.metrics[f"decoder_hits@{k}"] <= 1 for k in (20, 50, 100))
