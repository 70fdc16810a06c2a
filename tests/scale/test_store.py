"""A store gives back the graph that was laid into it, and nothing that is not a sound store is opened."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from bandana.errors import UserError
from bandana.graph import Graph, dense
from bandana.scale.seal import COL, DESCRIPTION, FEATURES, ROWPTR, seal
from bandana.scale.store import Store, write_store


def parts_of(graph: Graph, count: int = 4) -> torch.Tensor:
    return (torch.arange(graph.num_nodes) * 7) % count


@pytest.fixture
def graph(random_graph) -> Graph:
    return random_graph(40, 120, isolated=3)


@pytest.fixture
def store(graph: Graph, tmp_path: Path) -> Store:
    return write_store(tmp_path / "store", graph, parts_of(graph))


def naive_rows(graph: Graph, order: list[int]) -> list[list[int]]:
    """Senders of every row, with nodes renamed to their place in `order`, by plain loops."""
    place = {node: row for row, node in enumerate(order)}
    rows: list[list[int]] = [[] for _ in order]
    for receiver, sender in zip(graph.structure.row.tolist(), graph.structure.col.tolist(), strict=True):
        rows[place[receiver]].append(place[sender])
    return [sorted(row) for row in rows]


@pytest.mark.parametrize("directed", [False, True])
def test_rows_are_those_of_the_graph_in_the_order_of_parts(random_graph, tmp_path: Path, directed: bool) -> None:
    graph = random_graph(40, 120, directed=directed)
    parts = parts_of(graph)
    store = write_store(tmp_path / "store", graph, parts)
    order = store.node_ids.to_pylist()
    assert [int(parts[node]) for node in order] == sorted(parts.tolist())
    assert store.part_starts.tolist() == [0, 10, 20, 30, 40]
    expected = naive_rows(graph, order)
    rowptr, col = store.rows(0, 40)
    assert [col[a:b].tolist() for a, b in pairwise(rowptr.tolist())] == expected
    rowptr, col = store.rows(13, 17)
    assert [col[a:b].tolist() for a, b in pairwise(rowptr.tolist())] == expected[13:17]
    assert (store.num_nodes, store.num_edges, store.directed) == (40, graph.num_edges, directed)
    assert torch.equal(store.feature_rows(5, 9), dense(graph.x)[order[5:9]])
    assert store.labels is not None
    assert store.labels.tolist() == graph.y[order].tolist()


def test_the_graph_comes_back(store: Store, graph: Graph) -> None:
    again = store.graph()
    order = torch.tensor(again.node_ids)
    assert torch.equal(dense(again.x), dense(graph.x)[order])
    pairs = {(order[r].item(), order[c].item()) for r, c in again.edge_index.t().tolist()}
    assert pairs == {tuple(pair) for pair in graph.edge_index.t().tolist()}


def test_half_precision_rounds_and_reads_as_single(graph: Graph, tmp_path: Path) -> None:
    store = write_store(tmp_path / "half", graph, torch.zeros(40, dtype=torch.int64), "float16")
    assert store.features is not None
    assert store.features.dtype == np.float16
    read = store.feature_rows(0, 40)
    assert read.dtype == torch.float32
    assert torch.equal(read, dense(graph.x).half().float())


def test_a_graph_without_features_has_none(random_graph, tmp_path: Path) -> None:
    store = write_store(tmp_path / "bare", random_graph(num_features=0), torch.zeros(30, dtype=torch.int64))
    assert store.features is None
    with pytest.raises(UserError, match="came without features"):
        store.feature_rows(0, 1)
    assert not store.graph().has_features


def test_maps_cannot_be_written_to(store: Store) -> None:
    with pytest.raises(ValueError, match="read-only"):
        store.col[0] = 1


def test_weights_and_full_folders_are_refused(random_graph, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="keeps no edge weights"):
        write_store(tmp_path / "a", random_graph(weighted=True), torch.zeros(30, dtype=torch.int64))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        write_store(tmp_path / "b", random_graph(), torch.zeros(30, dtype=torch.int64))


def resealed(folder: Path, **changes: object) -> None:
    """Write another description with digests that are right: the work of somebody who means harm, or of a bug."""
    table = json.loads((folder / DESCRIPTION).read_text())
    facts = {key: table[key] for key in table if key not in ("files", "digest", "block_bytes")} | changes
    (folder / DESCRIPTION).unlink()
    seal(folder, facts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2}, "format version 2"),
        ({"num_nodes": 41}, "is due"),
        ({"num_nodes": "40"}, "num_nodes is '40'"),
        ({"part_starts": [0, 50, 40]}, "do not cover"),
        ({"part_starts": [0, 20]}, "do not cover"),
        ({"part_starts": [0, "x"]}, "part_starts"),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(store: Store, changes: dict[str, object], message: str) -> None:
    resealed(store.folder, **changes)
    with pytest.raises(UserError, match=message):
        Store.open(store.folder)


def test_missing_cut_linked_and_foreign_files_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no store"):
        Store.open(tmp_path)
    whole = (store.folder / COL).read_bytes()
    (store.folder / COL).write_bytes(whole[:-1])
    with pytest.raises(UserError, match="bytes where"):
        Store.open(store.folder)
    (store.folder / COL).unlink()
    with pytest.raises(UserError, match="is missing"):
        Store.open(store.folder)
    (tmp_path / "elsewhere").write_bytes(whole)
    (store.folder / COL).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="no plain file"):
        Store.open(store.folder)
    (store.folder / DESCRIPTION).write_text(json.dumps({"format": "something else"}))
    with pytest.raises(UserError, match="does not describe a store"):
        Store.open(store.folder)


@pytest.mark.parametrize("name", [COL, ROWPTR])
def test_rows_that_point_outside_are_never_followed(store: Store, name: str) -> None:
    array = np.load(store.folder / name)
    array[3] = 10**6
    np.save(store.folder / name, array)
    resealed(store.folder)
    with pytest.raises(UserError, match="point outside"):
        Store.open(store.folder).rows(0, 40)


def test_pickles_are_not_loaded(store: Store) -> None:
    np.save(store.folder / FEATURES, np.array([[object()]]), allow_pickle=True)
    resealed(store.folder)
    with pytest.raises(UserError, match="cannot be read as an array"):
        Store.open(store.folder)
