"""The table against what loads, where files are looked for, and what is said when they are missing or broken."""

import gc
import json
import os
import pickle
import threading
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from bandana.data import datasets, raw_files
from bandana.data.datasets import DATASETS, Dataset, load, presence
from bandana.data.prepared import recall
from bandana.errors import UserError
from bandana.graph import Graph, SparseFeatures, compact

BUILT_IN = ("swiss_roll", "two_moon", "karate", "digits")
HOMOPHILY = {
    "cora": 0.810,
    "citeseer": 0.736,
    "pubmed": 0.802,
    "photo": 0.827,
    "computers": 0.777,
    "cs": 0.808,
    "physics": 0.931,
}
PUBLIC_SPLIT = {"cora": (140, 500, 1_000), "citeseer": (120, 500, 1_000), "pubmed": (60, 500, 1_000)}


def dense(graph: Graph) -> torch.Tensor:
    return graph.x.dense() if isinstance(graph.x, SparseFeatures) else graph.x


def entries(graph: Graph) -> list[list[int]]:
    return torch.stack([graph.structure.row, graph.structure.col], dim=1).tolist()


def assert_same(first: Graph, second: Graph) -> None:
    def tensors(graph: Graph) -> list[torch.Tensor]:
        sparse = isinstance(graph.x, SparseFeatures)
        patterns = [graph.structure, graph.x.structure] if sparse else [graph.structure]
        parts = [getattr(pattern, field.name) for pattern in patterns for field in fields(pattern)]
        return [*parts, graph.x.values if sparse else graph.x, graph.y]

    for one, other in zip(tensors(first), tensors(second), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    assert first.directed == second.directed


def assert_as_in_the_table(data: Dataset) -> None:
    info, graph = DATASETS[data.name], data.graph
    counted = graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes, graph.directed
    assert counted == (info.nodes, info.edges, info.features, info.classes, info.directed)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def write_wikics(root: Path) -> Path:
    content = {
        "features": [[0.5, -1.0], [2.0, 0.25], [0.0, 3.0]],
        "labels": [1, 0, 1],
        "links": [[1, 2], [1, 0], [0, 0]],  # a self-loop and a repetition
        "train_masks": [[True, False, False]],
        "val_masks": [[False, True, False]],
        "stopping_masks": [[False, True, False]],
        "test_mask": [False, False, True],
    }
    path = root / "WikiCS" / "raw" / "data.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return root


def write_npz(root: Path, density: float) -> Path:
    rng = np.random.default_rng(0)
    words = sp.random(30, 40, density, format="csr", random_state=1, data_rvs=lambda size: rng.integers(0, 4, size))
    links = sp.random(30, 30, 0.1, format="csr", random_state=2) + sp.eye(30)
    path = root / "CS" / "raw" / "ms_academic_cs.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"adj_{part}": getattr(links.tocsr(), part) for part in ("data", "indices", "indptr", "shape")}
    arrays |= {"attr_data": np.append(words.data, [1, 1]), "attr_indices": np.append(words.indices, [39, 39])}
    arrays |= {"attr_indptr": words.indptr + 2 * (np.arange(31) == 30), "attr_shape": words.shape}  # one word twice
    names = np.array([{"a": 1}], dtype=object)  # the published files carry such tables, which must stay untouched
    np.savez_compressed(path, labels=rng.integers(0, 3, 30), attr_names=names, **arrays)
    return root


def write_planetoid(root: Path, name: str = "Cora", gaps: int = 0) -> Path:
    """Nodes to train on, then 500 to choose by, the last 100 to test on, listed in another order and with gaps."""
    rng = np.random.default_rng(0)
    words = sp.random(700, 50, 0.2, format="csr", random_state=1)
    classes = np.eye(4)[rng.integers(0, 4, 700)]
    test = rng.permutation(np.concatenate([rng.choice(np.arange(600, 699 + gaps), 99, replace=False), [699 + gaps]]))
    test[test == test.min()] = 600
    ring = {node: [(node + 1) % 700, (node - 1) % 700, node] for node in range(700)}
    parts = {"x": words[:20], "tx": words[600:], "allx": words[:600], "graph": ring}
    parts |= {"y": classes[:20], "ty": classes[600:], "ally": classes[:600]}
    folder = root / name / "raw"
    folder.mkdir(parents=True)
    for part, content in parts.items():
        (folder / f"ind.{name.lower()}.{part}").write_bytes(pickle.dumps(content, protocol=4))
    (folder / f"ind.{name.lower()}.test.index").write_text("".join(f"{node}\n" for node in test))
    return root


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BANDANA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BANDANA_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every reading of WikiCS's raw files from now on."""
    seen: list[Path] = []
    raw = datasets._RAW_FILES["wikics"]

    def read(folder: Path) -> object:
        seen.append(folder)
        return raw.read(folder)

    monkeypatch.setitem(datasets._RAW_FILES, "wikics", replace(raw, read=read))
    return seen


# The table


def test_the_table_is_complete_and_every_row_can_be_loaded_somehow() -> None:
    assert len(DATASETS) == 16
    assert all(name == info.name for name, info in DATASETS.items())
    assert set(DATASETS) == set(datasets._BUILT_IN) | set(datasets._RAW_FILES)
    assert tuple(datasets._BUILT_IN) == BUILT_IN
    assert json.loads(json.dumps([asdict(info) for info in DATASETS.values()]))[0]["name"] == "swiss_roll"
    assert [name for name, info in DATASETS.items() if info.directed] == ["wikics"]
    assert [name for name, info in DATASETS.items() if info.test_sees_validation] == ["ogbl-collab"]


def test_downloads_are_encrypted() -> None:
    assert all(raw.url.startswith("https://") for raw in datasets._RAW_FILES.values())


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_sets_load_quietly_as_the_table_says(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = load(name)
    assert_as_in_the_table(data)
    assert data.node_split is data.edge_split is None
    assert (caught, *capfd.readouterr()) == ([], "", "")
    assert presence(DATASETS[name]) == "built in"


@pytest.mark.parametrize(("wrong", "right"), [("corra", "cora"), ("Cora", "cora"), ("ogbn-arixv", "ogbn-arxiv")])
def test_a_misspelt_name_is_answered_with_the_right_one(wrong: str, right: str) -> None:
    with pytest.raises(UserError, match=f"There is no data set '{wrong}'. Did you mean '{right}'?"):
        load(wrong)


# Reading


def test_wikics_keeps_directions_and_has_no_split(tmp_path: Path) -> None:
    root = write_wikics(tmp_path / "root")
    for _ in ("from the files", "from the copy"):
        data = load("wikics", root)
        # (receiver, sender), ascending
        assert entries(data.graph) == [[0, 1], [0, 2], [1, 0], [2, 0]]
        assert data.graph.directed
        assert dense(data.graph).tolist() == [[0.5, -1.0], [2.0, 0.25], [0.0, 3.0]]
        assert data.graph.y.tolist() == [1, 0, 1]
        assert data.node_split is None


@pytest.mark.parametrize(("density", "form"), [(0.04, SparseFeatures), (0.3, torch.Tensor)])
def test_npz_files_give_what_pyg_makes_of_them(tmp_path: Path, density: float, form: type) -> None:
    from torch_geometric.io import read_npz

    root = write_npz(tmp_path / "root", density)
    graph = load("cs", root).graph
    reference = read_npz(str(root / "CS" / "raw" / "ms_academic_cs.npz"))
    assert isinstance(graph.x, form)
    assert_same(graph, replace(graph, x=compact(reference.x), y=reference.y))
    assert entries(graph) == sorted(reference.edge_index.flip(0).t().tolist())


def assert_as_pyg_reads_it(data: Dataset, folder: Path, name: str) -> None:
    from torch_geometric.io import read_planetoid_data

    reference = read_planetoid_data(str(folder), name)
    assert torch.equal(dense(data.graph), reference.x)
    assert torch.equal(data.graph.y, reference.y)
    by_receiver = (reference.edge_index[1] * data.graph.num_nodes + reference.edge_index[0]).argsort()
    assert torch.equal(data.graph.edge_index, reference.edge_index[:, by_receiver])
    for part, mask in (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask")):
        assert torch.equal(getattr(data.node_split, part), reference[mask].nonzero().squeeze(1))


@pytest.mark.parametrize(("name", "gaps"), [("Cora", 0), ("CiteSeer", 7)])
def test_planetoid_files_are_put_together_as_pyg_does(tmp_path: Path, name: str, gaps: int) -> None:
    root = write_planetoid(tmp_path / "root", name, gaps)
    data = load(name.lower(), root)
    assert data.graph.num_nodes == 700 + gaps
    assert data.node_split.valid.tolist() == list(range(20, 520))
    assert_as_pyg_reads_it(data, root / name / "raw", name)


def test_a_planetoid_pickle_cannot_run_anything(tmp_path: Path) -> None:
    class Intruder:
        def __reduce__(self) -> tuple:
            return open, (str(tmp_path / "marker"), "w")

    root = write_planetoid(tmp_path / "root")
    path = root / "Cora" / "raw" / "ind.cora.graph"
    path.write_bytes(pickle.dumps({0: [Intruder()]}))
    with pytest.raises(UserError, match=r"ind\.cora\.graph: cannot be read \(UnpicklingError: it asks for \w+\.open\)"):
        load("cora", root)
    assert not (tmp_path / "marker").exists()


# Where files are looked for


def test_a_data_root_is_only_read(tmp_path: Path) -> None:
    root = write_npz(write_wikics(write_planetoid(tmp_path / "root")), 0.04)
    before = listing(root)
    for name in ("cora", "cs", "wikics"):
        load(name, root)
        load(name, root)
    assert listing(root) == before


def test_the_argument_goes_before_the_environment_and_both_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    info = DATASETS["wikics"]
    assert presence(info) == "not here"
    write_wikics(own_cache / "raw")
    assert presence(info) == "cached"
    monkeypatch.setenv("BANDANA_DATA", str(write_wikics(tmp_path / "environment")))
    assert presence(info) == f"found in {tmp_path / 'environment'}"
    assert presence(info, write_wikics(tmp_path / "argument")) == f"found in {tmp_path / 'argument'}"
    (tmp_path / "empty").mkdir()
    assert presence(info, tmp_path / "empty") == "cached"
    assert load("wikics", str(tmp_path / "empty")).graph.num_nodes == 3


def test_a_data_root_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: there is no such folder"):
        load("cora", tmp_path / "nowhere")
    assert load("karate", tmp_path / "nowhere").graph.num_nodes == 34


@pytest.mark.parametrize(
    ("platform", "variable", "value", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "/x/cache", "/x/cache/bandana"),
        ("darwin", "HOME", "/home/me", "/home/me/Library/Caches/bandana"),
        ("win32", "LOCALAPPDATA", "/x/local", "/x/local/bandana"),
    ],
)
def test_the_cache_is_where_the_system_keeps_such_things(
    monkeypatch: pytest.MonkeyPatch, platform: str, variable: str, value: str, expected: str
) -> None:
    monkeypatch.delenv("BANDANA_CACHE")
    monkeypatch.setattr(raw_files.sys, "platform", platform)
    monkeypatch.setenv(variable, value)
    assert raw_files.cache_folder() == Path(expected)


# The prepared copy


def test_the_second_time_the_files_are_not_read_again(tmp_path: Path, reads: list[Path]) -> None:
    root = write_wikics(tmp_path / "root")
    first, second = load("wikics", root), load("wikics", root)
    assert len(reads) == 1
    assert_same(first.graph, second.graph)


def test_a_changed_file_is_read_again(tmp_path: Path, reads: list[Path]) -> None:
    root = write_wikics(tmp_path / "root")
    load("wikics", root)
    path = root / "WikiCS" / "raw" / "data.json"
    path.write_text(path.read_text().replace('"labels": [1, 0, 1]', '"labels": [0, 0, 1]'))
    os.utime(path, ns=(1, 1))
    assert load("wikics", root).graph.y.tolist() == [0, 0, 1]
    assert len(reads) == 2


def test_two_roots_do_not_share_a_copy(tmp_path: Path, reads: list[Path]) -> None:
    for name in ("one", "two", "one", "two"):
        load("wikics", write_wikics(tmp_path / name) if not (tmp_path / name).exists() else tmp_path / name)
    assert len(reads) == 2


def test_a_copy_that_points_astray_is_made_again(tmp_path: Path, own_cache: Path, reads: list[Path]) -> None:
    root = write_wikics(tmp_path / "root")
    first = load("wikics", root)
    (copy,) = (own_cache / "prepared").iterdir()
    with safe_open(copy, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors["edges.transposed_col"][0] ^= 1 << 36
    save_file(tensors, copy, metadata)
    assert_same(first.graph, load("wikics", root).graph)
    assert len(reads) == 2


@pytest.mark.parametrize("damage", [b"", b"garbage" * 100, None])
def test_a_broken_copy_is_made_again(tmp_path: Path, own_cache: Path, reads: list[Path], damage: bytes | None) -> None:
    root = write_wikics(tmp_path / "root")
    first = load("wikics", root)
    (copy,) = (own_cache / "prepared").iterdir()
    copy.write_bytes(copy.read_bytes()[:-20] if damage is None else damage)
    assert_same(first.graph, load("wikics", root).graph)
    load("wikics", root)
    assert len(reads) == 2


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BANDANA_CACHE", str(tmp_path / "file" / "cache"))
    assert load("wikics", write_wikics(tmp_path / "root")).graph.num_nodes == 3


def test_a_copy_lies_in_memory_as_freshly_made_tensors_do(tmp_path: Path, own_cache: Path) -> None:
    load("wikics", write_wikics(tmp_path / "root"))
    (copy,) = (own_cache / "prepared").iterdir()
    with raw_files.reading(copy):
        graph = recall(copy, raw_files.fingerprint(datasets._RAW_FILES["wikics"], tmp_path / "root")).graph
    assert graph.x.data_ptr() % 64 == torch.empty(100).data_ptr() % 64 == 0


# Broken files


@pytest.mark.parametrize(
    ("name", "write", "file"),
    [
        ("wikics", write_wikics, "WikiCS/raw/data.json"),
        ("cs", partial(write_npz, density=0.1), "CS/raw/ms_academic_cs.npz"),
        ("cora", write_planetoid, "Cora/raw/ind.cora.allx"),
        ("cora", write_planetoid, "Cora/raw/ind.cora.test.index"),
    ],
)
@pytest.mark.parametrize("keep", [0, 0.5, -2])
def test_a_cut_file_is_one_sentence_to_the_user(tmp_path: Path, name: str, write, file: str, keep: float) -> None:
    root = write(tmp_path / "root")
    content = (root / file).read_bytes()
    (root / file).write_bytes(content[: int(keep * len(content)) if keep >= 0 else keep])
    with pytest.raises(UserError) as caught:
        load(name, root)
    assert str(root / file.split("/")[0]) in str(caught.value)
    assert "fetch it again" in str(caught.value)
    assert "\n" not in str(caught.value)


# Downloads


class Server(SimpleHTTPRequestHandler):
    def log_message(self, *message: object) -> None:
        pass

    def send_header(self, keyword: str, value: str) -> None:
        lies = "cut" in self.path and keyword == "Content-Length"
        super().send_header(keyword, str(int(value) + 1) if lies else value)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address it is served at."""
    folder = tmp_path / "site"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(folder)))
    threading.Thread(target=partial(server.serve_forever, 0.01), daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def serve_from(monkeypatch: pytest.MonkeyPatch, name: str, url: str) -> None:
    monkeypatch.setitem(datasets._RAW_FILES, name, replace(datasets._RAW_FILES[name], url=url))


def test_missing_files_are_downloaded_into_the_cache(
    site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, own_cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, url = site
    write_planetoid(folder)
    serve_from(monkeypatch, "cora", f"{url}/Cora/raw")
    assert load("cora").graph.num_nodes == 700
    assert presence(DATASETS["cora"]) == "cached"
    serve_from(monkeypatch, "cora", f"{url}/gone")
    assert load("cora").graph.num_nodes == 700
    assert sorted(path.name for path in (own_cache / "raw").iterdir()) == ["Cora"]
    assert capfd.readouterr() == ("", "")


def pack(folder: Path, extra: dict[str, str]) -> None:
    write_wikics(folder)
    with zipfile.ZipFile(folder / "things.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "WikiCS" / "raw" / "data.json", "things/raw/data.json")
        for name, text in extra.items():
            archive.writestr(name, text)


def test_of_an_archive_only_the_known_files_are_unpacked(
    site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own_cache: Path
) -> None:
    folder, url = site
    pack(folder, {"../../escaped.txt": "a", "/escaped.txt": "b", "things/raw/other.txt": "c"})
    serve_from(monkeypatch, "wikics", f"{url}/things.zip")
    assert load("wikics").graph.num_nodes == 3
    assert [path for path in (own_cache / "raw").rglob("*") if path.is_file()] == [
        own_cache / "raw" / "WikiCS" / "raw" / "data.json"
    ]
    assert not list(tmp_path.rglob("escaped.txt"))


@pytest.mark.parametrize("address", ["nothing-here.zip", "nothing-here", "broken.zip", "cut/WikiCS/raw", "other.zip"])
def test_a_failed_download_says_what_where_and_what_to_do(
    site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own_cache: Path, address: str
) -> None:
    folder, url = site
    (folder / "broken.zip").write_bytes(b"PK no archive")
    write_wikics(folder / "cut")
    with zipfile.ZipFile(folder / "other.zip", "w") as archive:
        archive.writestr("other/raw/something-else.json", "{}")
    root = tmp_path / "root"
    root.mkdir()
    serve_from(monkeypatch, "wikics", f"{url}/{address}")
    with pytest.raises(UserError) as caught:
        load("wikics", root)
    sentence = str(caught.value)
    assert sentence.startswith(f"wikics: raw/data.json is not in {root / 'WikiCS'} nor {own_cache / 'raw' / 'WikiCS'}")
    assert f"{url}/{address} cannot be downloaded" in sentence
    assert sentence.endswith("BANDANA_DATA to the folder that then holds WikiCS/raw/data.json.")
    assert "\n" not in sentence
    assert presence(DATASETS["wikics"], root) == "not here"


def test_an_absurdly_large_file_is_not_unpacked(
    site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    folder, url = site
    pack(folder, {})
    with zipfile.ZipFile(folder / "things.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("things/raw/data.json", "0" * 3_000_000)
    serve_from(monkeypatch, "wikics", f"{url}/things.zip")
    monkeypatch.setattr(raw_files, "LARGEST_FILE", 1_000_000)
    with pytest.raises(UserError, match="larger than 1000000 bytes"):
        load("wikics")
    assert not [path for path in own_cache.rglob("*") if path.is_file()]


def test_without_a_network_the_user_is_told_which_files_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    def unplugged(*_: object, **__: object) -> None:
        raise OSError("the network is unreachable")

    monkeypatch.setattr(raw_files, "urlopen", unplugged)
    for name in datasets._RAW_FILES:
        with pytest.raises(
            UserError, match=rf"^{name}: \S+ (is|and \d more files are) not in .*unreachable.*BANDANA_DATA"
        ):
            load(name)


# The real sets


@pytest.fixture(scope="module")
def real_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real")


REAL_ROOT = os.environ.get("BANDANA_DATA")


@pytest.mark.real_data
@pytest.mark.skipif(not REAL_ROOT, reason="BANDANA_DATA does not point at the raw data sets")
@pytest.mark.parametrize("name", HOMOPHILY)
def test_real_sets_are_what_the_table_says(
    name: str, real_cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BANDANA_CACHE", str(real_cache))
    gc.collect()  # what other tests left open is not this one's warning
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = load(name, REAL_ROOT)
        again = load(name, REAL_ROOT)
    assert (caught, *capfd.readouterr()) == ([], "", "")
    assert_as_in_the_table(data)
    assert_same(data.graph, again.graph)
    sender, receiver = data.graph.edge_index
    homophily = (data.graph.y[sender] == data.graph.y[receiver]).double().mean()
    assert round(float(homophily), 3) == HOMOPHILY[name]
    split = data.node_split
    sizes = None if split is None else tuple(part.numel() for part in (split.train, split.valid, split.test))
    assert sizes == PUBLIC_SPLIT.get(name)
    assert data.edge_split is None
    if split is not None:
        published = datasets._RAW_FILES[name].folder
        assert_as_pyg_reads_it(data, Path(REAL_ROOT) / published / "raw", published)
