"""A streamed store is the graph that memory would hold, whatever the memory, the format and the interruptions."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.data.tables import read_graph
from bandana.errors import UserError
from bandana.graph import Graph, dense
from bandana.scale import build, plan, sorting
from bandana.scale.build import build_store
from bandana.scale.journal import Journal
from bandana.scale.partitioning import SLACK, metis_parts, stream_parts
from bandana.scale.plan import BuildPlan
from bandana.scale.seal import damaged_blocks
from bandana.scale.sorting import sorted_distinct
from bandana.scale.store import Store

FEW_BYTES = 1 << 12


@pytest.fixture(autouse=True)
def few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little memory must mean several pieces of even small tables."""
    monkeypatch.setattr(plan, "FEWEST_ROWS", 16)


def tables(folder: Path, ids: str, kind: str, num_nodes: int = 36, num_edges: int = 240) -> dict[str, Path]:
    """Edges with loops and repetitions, features also of a node in no edge, and labels of some."""
    random = np.random.default_rng(1)
    names: Any = {
        "numbers": np.arange(num_nodes) * 3 - 50,
        "dense numbers": np.arange(num_nodes) + 5,
        "text": np.array([f"n{node:03}" for node in range(num_nodes)]),
    }[ids]
    ends = random.integers(num_nodes - 1, size=(2, num_edges))
    shuffled = random.permutation(num_nodes)
    x = random.normal(size=(num_nodes, 3)).astype(np.float32)
    content = {
        "edges": pa.table({"weight": np.ones(num_edges), "source": names[ends[0]], "target": names[ends[1]]}),
        "features": pa.table({"id": names[shuffled], **{f"x{place}": x[:, place] for place in range(3)}}),
        "labels": pa.table({"id": names[: num_nodes // 2], "label": ["a", "b", "c"] * (num_nodes // 6)}),
    }
    write = {"csv": pv.write_csv, "parquet": pq.write_table}[kind]
    paths = {name: folder / f"{name}.{kind}" for name in content}
    for name, table in content.items():
        write(table, paths[name])
    return paths


def same_graph(store: Store, graph: Graph) -> None:
    """Node by node and edge by edge, under the user's ids."""
    ours = store.graph()
    assert ours.node_ids is not None
    assert graph.node_ids is not None
    assert set(ours.node_ids) == set(graph.node_ids)
    place = {name: row for row, name in enumerate(ours.node_ids)}
    order = torch.tensor([place[name] for name in graph.node_ids])
    theirs = sorted(map(tuple, order[graph.edge_index].t().tolist()))
    assert sorted(map(tuple, ours.edge_index.t().tolist())) == theirs
    assert torch.equal(dense(ours.x)[order], dense(graph.x))
    assert ours.y is not None
    assert graph.y is not None
    assert torch.equal(ours.y[order], graph.y)


@pytest.mark.parametrize("ids", ["numbers", "dense numbers", "text"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("memory", [FEW_BYTES, 1 << 30], ids=["little memory", "much memory"])
def test_a_store_is_the_graph_that_memory_would_hold(tmp_path: Path, ids: str, kind: str, memory: int) -> None:
    paths = tables(tmp_path, ids, kind)
    for directed in (False, True):
        asked = BuildPlan(**paths, parts=5, directed=directed, memory=memory, partitioner="stream")
        store = build_store(asked, tmp_path / f"store-{directed}")
        same_graph(store, read_graph(**paths, directed=directed, weight=None).graph)
        assert store.num_parts == 5
        assert list(damaged_blocks(store.folder)) == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_files_of_mixed_kinds_and_what_was_left_out(tmp_path: Path) -> None:
    numbers, text = tables(tmp_path, "numbers", "parquet"), tables(tmp_path, "numbers", "csv")
    mixed = {"edges": numbers["edges"], "features": text["features"], "labels": text["labels"]}
    store = build_store(BuildPlan(**mixed, parts=2), tmp_path / "store")
    same_graph(store, read_graph(**numbers).graph)
    ends = pq.read_table(numbers["edges"])
    pairs = list(zip(ends["source"].to_pylist(), ends["target"].to_pylist(), strict=True))
    loops = sum(a == b for a, b in pairs)
    links = {frozenset(pair) for pair in pairs if pair[0] != pair[1]}
    notes = " ".join(store.notes)
    assert f"a node to itself: {loops} of" in notes
    assert f"counted once: {len(pairs) - loops - len(links)} of" in notes
    assert "'weight'" in notes


@given(
    keys=st.lists(st.integers(0, 999), max_size=300),
    batch=st.integers(1, 50),
    most=st.integers(1, 40),
    expected=st.integers(1, 400),
)
def test_sorting_outside_of_memory(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], batch: int, most: int, expected: int
) -> None:
    folder = tmp_path_factory.mktemp("sort") / "buckets"
    batches = (np.array(keys[start : start + batch]) for start in range(0, len(keys), batch))
    memory = most * sorting.BYTES * sorting.WORKSPACE
    found = [block.tolist() for block in sorted_distinct(batches, 1000, expected, folder, memory)]
    assert [key for block in found for key in block] == sorted(set(keys))
    assert all(len(block) <= most for block in found)
    assert not folder.exists()


STAGES = ["ids", "links", "parts", "rows", "features", "labels", "nodes"]


@pytest.mark.parametrize("stage", ["ids", "links", "rows", "nodes"])
def test_an_interrupted_build_goes_on_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    paths = tables(tmp_path, "text", "csv")
    asked = BuildPlan(**paths, parts=3, memory=FEW_BYTES, partitioner="stream")
    whole = build_store(asked, tmp_path / "whole")
    worked: list[str] = []
    once = Journal.once

    def interrupted(self: Journal, name: str, decided_by: Any, work: Any, *made: Path) -> Any:
        def halfway() -> Any:
            worked.append(name)
            facts = work()
            if name == stage and worked.count(name) == 1:
                raise KeyboardInterrupt  # all is written, and nothing of it noted down
            return facts

        return once(self, name, decided_by, halfway, *made)

    monkeypatch.setattr(Journal, "once", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_store(asked, tmp_path / "store")
    assert not (tmp_path / "store").exists()
    store = build_store(asked, tmp_path / "store")
    assert worked == [*STAGES[: STAGES.index(stage) + 1], *STAGES[STAGES.index(stage) :]]
    for path in whole.folder.iterdir():
        assert path.read_bytes() == (store.folder / path.name).read_bytes()


def test_a_build_that_is_interrupted_again_and_again_arrives(tmp_path: Path) -> None:
    """Every attempt gets a little further than the one before, and stops in the middle of something."""
    asked = BuildPlan(**tables(tmp_path, "numbers", "csv"), parts=3, memory=FEW_BYTES, partitioner="stream")
    whole, patience, attempts = build_store(asked, tmp_path / "whole"), 0, 0
    while not (tmp_path / "store").exists():
        told, patience, attempts = 0, patience + 20, attempts + 1

        def interrupt(stage: str, done: int, total: int | None, patience: int = patience) -> None:
            nonlocal told
            told += 1
            if told > patience:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            build_store(asked, tmp_path / "store", on_progress=interrupt)
    assert attempts > 3
    for path in whole.folder.iterdir():
        assert path.read_bytes() == (tmp_path / "store" / path.name).read_bytes()


def test_a_changed_file_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = tables(tmp_path, "numbers", "csv")
    asked = BuildPlan(**paths, parts=2)
    with monkeypatch.context() as patch:
        patch.setattr(build, "seal", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build_store(asked, tmp_path / "store")
    with paths["edges"].open("a") as file:
        file.write("1,-50,-47\n")
    same_graph(build_store(asked, tmp_path / "store"), read_graph(**paths).graph)


def stopped_before_the_seal(plan: BuildPlan, folder: Path) -> None:
    """A build that is interrupted when all of its stages are done."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "seal", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build_store(plan, folder)


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that were begun, in order."""
    begun: list[str] = []
    once = Journal.once

    def listening(self: Journal, name: str, decided_by: Any, work: Any, *made: Path) -> Any:
        def work_and_tell() -> Any:
            begun.append(name)
            return work()

        return once(self, name, decided_by, work_and_tell, *made)

    monkeypatch.setattr(Journal, "once", listening)
    return begun


def test_only_what_a_change_touches_is_done_again(tmp_path: Path, worked: list[str]) -> None:
    paths = tables(tmp_path, "numbers", "csv")
    asked = BuildPlan(**paths, parts=2, partitioner="stream")
    stopped_before_the_seal(asked, tmp_path / "store")
    worked.clear()
    with pytest.raises(UserError, match=r"Did you mean .edges\.csv."):
        build_store(replace(asked, edges=tmp_path / "edgs.csv"), tmp_path / "store")
    assert worked == []  # and nothing is lost by the slip
    with paths["labels"].open("a") as file:
        file.write("-50,b\n")
    with pytest.raises(UserError, match=r"has had a row before.* kept in .*\.store\.building for the next attempt"):
        build_store(asked, tmp_path / "store")
    assert worked == ["labels"]
    unlabelled = build_store(replace(asked, labels=None), tmp_path / "store")
    assert worked == ["labels", "nodes"]
    undisturbed = build_store(replace(asked, labels=None), tmp_path / "undisturbed")
    assert unlabelled.digest == undisturbed.digest


def test_more_parts_than_nodes_are_refused_whatever_was_done_before(tmp_path: Path, worked: list[str]) -> None:
    paths = tables(tmp_path, "numbers", "csv")
    stopped_before_the_seal(BuildPlan(**paths, parts=2, partitioner="stream"), tmp_path / "store")
    worked.clear()
    with pytest.raises(UserError, match="-k 37: the graph has only 36 nodes; ask for fewer parts"):
        build_store(BuildPlan(**paths, parts=37, partitioner="stream"), tmp_path / "store")
    assert worked == []


def test_nothing_of_an_earlier_plan_is_left_in_a_store(tmp_path: Path, worked: list[str]) -> None:
    paths = tables(tmp_path, "numbers", "csv")
    stopped_before_the_seal(BuildPlan(**paths, parts=2), tmp_path / "store")
    store = build_store(BuildPlan(edges=paths["edges"], parts=3), tmp_path / "store")
    assert (store.num_parts, store.num_features) == (3, 0)
    assert {path.name for path in store.folder.iterdir()} == {"store.json", "rowptr.npy", "col.npy", "nodes.parquet"}


def test_a_store_lost_between_the_two_moves_is_put_back(tmp_path: Path) -> None:
    """As `kill -9` would leave it: the earlier store moved away, and nothing in its place."""
    paths = tables(tmp_path, "numbers", "csv")
    folder = build_store(BuildPlan(**paths, parts=2), tmp_path / "store").folder
    (tmp_path / ".store.building").mkdir()
    folder.rename(tmp_path / ".store.building" / "replaced")
    with pytest.raises(UserError, match="only 36 nodes"):
        build_store(BuildPlan(**paths, parts=50), folder, force=True)
    assert Store.open(folder).num_parts == 2


def test_a_store_that_was_put_back_is_not_built_for_in_vain(tmp_path: Path, worked: list[str]) -> None:
    paths = tables(tmp_path, "numbers", "csv")
    folder = build_store(BuildPlan(**paths, parts=2), tmp_path / "store").folder
    (tmp_path / ".store.building").mkdir()
    folder.rename(tmp_path / ".store.building" / "replaced")
    worked.clear()
    with pytest.raises(UserError, match="exists; choose another name, or overwrite it with --force"):
        build_store(BuildPlan(**paths, parts=3), folder)
    assert worked == []
    assert Store.open(folder).num_parts == 2


def test_a_link_stays_a_link_and_the_folder_it_points_to_is_exchanged(tmp_path: Path) -> None:
    plan = BuildPlan(**tables(tmp_path, "numbers", "csv"), parts=2)
    (tmp_path / "large").mkdir()
    (tmp_path / "store").symlink_to(tmp_path / "large" / "disk")
    for force in (False, True):
        build_store(plan, tmp_path / "store", force=force)
        assert (tmp_path / "store").is_symlink()
        assert Store.open(tmp_path / "large" / "disk").num_parts == 2


def test_two_builds_of_one_store_are_kept_apart(tmp_path: Path) -> None:
    plan = BuildPlan(**tables(tmp_path, "numbers", "csv"), parts=2)
    refused = []

    def meanwhile(stage: str, done: int, total: int | None) -> None:
        with pytest.raises(UserError, match="another command is writing there"):
            build_store(plan, tmp_path / "store")
        refused.append(stage)

    build_store(plan, tmp_path / "store", on_progress=meanwhile)
    assert refused


def test_nothing_is_overwritten_or_left_half(tmp_path: Path) -> None:
    paths = tables(tmp_path, "numbers", "csv")
    folder = tmp_path / "store"
    build_store(BuildPlan(**paths, parts=2), folder)
    with pytest.raises(UserError, match="--force"):
        build_store(BuildPlan(**paths, parts=3), folder)
    lines = paths["features"].read_text().splitlines()
    paths["features"].write_text("\n".join(lines[:-1]))
    with pytest.raises(UserError, match="no row for 1 of the nodes"):
        build_store(BuildPlan(**paths, parts=3), folder, force=True)
    assert Store.open(folder).num_parts == 2
    paths["features"].write_text("\n".join(lines))
    assert build_store(BuildPlan(**paths, parts=3), folder, force=True).num_parts == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "features.csv", "labels.csv", "store"]


def test_force_replaces_stores_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    paths = tables(tmp_path / "mine", "numbers", "csv")
    plan = BuildPlan(**paths, parts=2)
    before = {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    with pytest.raises(UserError, match=r"mine/edges\.csv: was not written by this command, and --force would"):
        build_store(plan, tmp_path / "mine", force=True)
    with pytest.raises(UserError, match=r"edges\.csv: was not written by this command"):
        build_store(plan, tmp_path / "mine" / "edges.csv", force=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == before
    store = build_store(plan, tmp_path / "store")
    (store.folder / "notes.txt").write_text("precious")
    with pytest.raises(UserError, match=r"notes\.txt"):
        build_store(plan, tmp_path / "store", force=True)
    (store.folder / "notes.txt").unlink()
    build_store(plan, tmp_path / "store", force=True)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("features", "-50,1,2,3", r"features\.csv, line 38: the node '-50' has had a row before"),
        ("features", "1000000,1,inf,3", "is missing, infinite or beyond float32"),
        ("features", "1000000,1,,3", "is missing, infinite or beyond float32"),
        ("features", "1000000,1,big,3", r"features\.csv, line 38: 'big' in column 'x1' is no number; correct"),
        ("features", "1000000,1", r"features\.csv, line 38: has 2 cells where 4 are due"),
        ("labels", "77777,a", "line 20: .*is in no edge"),
        ("labels", "-50,b", "line 20: .*has had a row before"),
        ("edges", "1,,3", r"edges\.csv, line 242: the id in column 'source' is missing"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, name: str, line: str, message: str) -> None:
    paths = tables(tmp_path, "numbers", "csv")
    with paths[name].open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UserError, match=message) as problem:
        build_store(BuildPlan(**paths, parts=2, memory=FEW_BYTES), tmp_path / "store")
    assert paths[name].name in str(problem.value)
    assert not (tmp_path / "store").exists()


def test_more_parts_than_nodes_and_only_loops_are_refused(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\n1,1\n2,2\n")
    with pytest.raises(UserError, match="every edge leads from a node to itself"):
        build_store(BuildPlan(edges=edges, parts=1), tmp_path / "store")
    edges.write_text("source,target\n1,2\n2,3\n")
    with pytest.raises(UserError, match="only 3 nodes"):
        build_store(BuildPlan(edges=edges, parts=4), tmp_path / "store")


def planted(num_nodes: int, communities: int) -> tuple[np.ndarray, np.ndarray]:
    """A CSR pattern with communities that no order of the rows gives away, and one link in five between them."""
    random = np.random.default_rng(0)
    source = random.integers(num_nodes, size=8 * num_nodes)
    near = (source + communities * random.integers(1, num_nodes // communities, size=len(source))) % num_nodes
    target = np.where(random.random(len(source)) < 0.8, near, random.integers(num_nodes, size=len(source)))
    keys = np.unique(np.concatenate([source * num_nodes + target, target * num_nodes + source]))
    keys = keys[keys // num_nodes != keys % num_nodes]
    return np.searchsorted(keys // num_nodes, np.arange(num_nodes + 1)), keys % num_nodes


@pytest.mark.parametrize("partitioner", ["stream", "metis"])
def test_parts_are_balanced_and_keep_communities_together(partitioner: str) -> None:
    num_nodes, count = 2000, 10
    rowptr, col = planted(num_nodes, count)
    if partitioner == "metis":
        pytest.importorskip("pymetis")
        parts = metis_parts(rowptr, col, count, directed=False, seed=0)
    else:
        parts = stream_parts(
            lambda start, stop: (rowptr[start : stop + 1] - rowptr[start], col[rowptr[start] : rowptr[stop]]),
            num_nodes,
            count,
        )
    sizes = np.bincount(parts, minlength=count)
    assert sizes.sum() == num_nodes
    assert sizes.max() <= SLACK * num_nodes / count
    row = np.repeat(np.arange(num_nodes), np.diff(rowptr))
    inside = (parts[row] == parts[col]).mean()
    by_chance = (np.random.default_rng(0).permutation(parts)[row] == parts[col]).mean()
    assert inside > 0.7  # the communities themselves keep 0.82
    assert by_chance < 0.15


def test_nodes_without_neighbours_fill_what_is_left() -> None:
    parts = stream_parts(lambda start, stop: (np.zeros(stop - start + 1, np.int64), np.empty(0, np.int64)), 100, 7)
    assert np.bincount(parts, minlength=7).max() <= -(-100 // 7) + 1


def test_lists_of_numbers_are_spread_out(tmp_path: Path) -> None:
    edges, features = tmp_path / "edges.parquet", tmp_path / "features.parquet"
    pq.write_table(pa.table({"source": [1, 2, 3], "target": [2, 3, 1]}), edges)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for kind in (pa.list_(pa.float32(), 4), pa.list_(pa.float32())):
        lists = pa.array(x.tolist(), kind)
        pq.write_table(pa.table({"id": [1, 2, 3], "x": lists, "age": [7, 8, 9]}), features)
        store = build_store(BuildPlan(edges=edges, features=features, parts=1), tmp_path / "store", force=True)
        assert store.feature_names == ("x[0]", "x[1]", "x[2]", "x[3]", "age")
        assert store.feature_rows(0, 3).tolist() == [
            [*row, age] for row, age in zip(x.tolist(), (7, 8, 9), strict=True)
        ]
    pq.write_table(pa.table({"id": [1, 2, 3], "x": [[1.0, 2.0], [1.0, 2.0], [1.0]]}), features)
    with pytest.raises(UserError, match="row 3: the list in column 'x'"):
        build_store(BuildPlan(edges=edges, features=features, parts=1), tmp_path / "other")


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        ([["1", "x"], ["3", "4"], ["5", "6"]], "row 1: 'x' in column 'x' is no number; correct"),
        ([["1", "2"], ["3", "4"], ["5", "6"]], r"features\.parquet: column 'x' holds text where numbers are due; save"),
        (["1", "2", "3"], r"features\.parquet: column 'x' holds text where numbers are due; save it"),
        (["y", "2", "3"], "row 1: 'y' in column 'x' is no number; correct"),
    ],
)
def test_text_where_numbers_are_due_is_named_by_its_row(tmp_path: Path, x: list[Any], sentence: str) -> None:
    edges, features = tmp_path / "edges.parquet", tmp_path / "features.parquet"
    pq.write_table(pa.table({"source": [1, 2, 3], "target": [2, 3, 1]}), edges)
    pq.write_table(pa.table({"id": [1, 2, 3], "x": x}), features)
    with pytest.raises(UserError, match=sentence):
        build_store(BuildPlan(edges=edges, features=features, parts=1), tmp_path / "store")
