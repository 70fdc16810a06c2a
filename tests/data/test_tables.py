"""Own graphs from files, against a reader of plain Python loops, and the promises on ids, features and labels."""

import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.data import columns, own_features, own_text
from bandana.data.own_additions import read_addition
from bandana.data.tables import OwnGraph, read_graph
from bandana.graph import Graph, SparseFeatures


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def edge_set(own: OwnGraph) -> set[tuple[Any, Any]]:
    ids = own.graph.node_ids
    return {(ids[sender], ids[receiver]) for sender, receiver in own.graph.edge_index.T.tolist()}


def per_edge(own: OwnGraph, values: torch.Tensor) -> dict[tuple[Any, Any], float]:
    ids = own.graph.node_ids
    ends = own.graph.edge_index.T.tolist()
    return {
        (ids[sender], ids[receiver]): value for (sender, receiver), value in zip(ends, values.tolist(), strict=True)
    }


def dense(graph: Graph) -> torch.Tensor:
    return graph.x.dense() if isinstance(graph.x, SparseFeatures) else graph.x


# Every way in which a table may be written, from rows of (source, target, weight, time) with text ends.

Rows = Sequence[tuple[str, str, float, int]]
HEADER = ["source", "target", "weight", "time"]


def as_text(delimiter: str, header: bool) -> Callable[[Path, Rows], None]:
    def write_rows(path: Path, rows: Rows) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=delimiter).writerows([HEADER, *rows] if header else rows)

    return write_rows


def as_gzip(path: Path, rows: Rows) -> None:
    with gzip.open(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEADER, *rows])


def as_table(rows: Rows) -> pa.Table:
    return pa.table(dict(zip(HEADER, map(list, zip(*rows, strict=True)), strict=True)))


def as_stream(path: Path, rows: Rows) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, as_table(rows).schema) as writer:
        writer.write_table(as_table(rows), max_chunksize=2)


FORMATS = {
    "csv": as_text(",", header=True),
    "csv without header": as_text(",", header=False),
    "tsv": as_text("\t", header=True),
    "semicolons": as_text(";", header=False),
    "bars": as_text("|", header=True),
    "blanks": as_text(" ", header=False),
    "gzip": as_gzip,
    "parquet": lambda path, rows: pq.write_table(as_table(rows), path),
    "feather": lambda path, rows: pf.write_feather(as_table(rows), path),
    "arrow stream": as_stream,
}

ends = st.one_of(
    st.integers(-50, 50).map(str),
    st.text(st.characters(whitelist_categories=("Lu", "Ll", "Nd"), blacklist_characters="%"), min_size=1, max_size=4),
).filter(lambda text: text.lower() not in {"nan", "null", "none", "inf", *HEADER})
rows_of_edges = st.lists(
    st.tuples(ends, ends, st.integers(1, 40).map(lambda number: number / 8), st.integers(0, 9)), min_size=1, max_size=30
).filter(lambda rows: any(row[0] != row[1] for row in rows))


def looked_up(rows: Rows, directed: bool) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], int]]:
    """Weights added up, or their mean where all is named both ways, and earliest times of every edge, row by row."""
    weights: dict[tuple[str, str], float] = {}
    times: dict[tuple[str, str], int] = {}
    for sender, receiver, weight, time in rows:
        ways = [(sender, receiver)] if directed else [(sender, receiver), (receiver, sender)]
        for way in ways if sender != receiver else []:
            weights[way] = weights.get(way, 0) + weight
            times[way] = min(times.get(way, time), time)
    named = {(sender, receiver) for sender, receiver, *_ in rows}
    if not directed and all((receiver, sender) in named for sender, receiver in named):
        weights = {way: weight / 2 for way, weight in weights.items()}
    return weights, times


@pytest.mark.parametrize("form", FORMATS)
@given(rows=rows_of_edges, directed=st.booleans())
def test_every_format_gives_the_graph_of_plain_loops(
    tmp_path_factory: pytest.TempPathFactory, form: str, rows: Rows, directed: bool
) -> None:
    path = tmp_path_factory.mktemp("form") / "edges"
    FORMATS[form](path, rows)
    named = form not in {"csv without header", "semicolons", "blanks"}
    columns = HEADER if named else ["1", "2", "3", "4"]
    own = read_graph(path, directed=directed, **dict(zip(HEADER, columns, strict=True)))
    weights, times = looked_up(rows, directed)
    texts = {text for row in rows for text in row[:2]}
    assert set(map(str, own.graph.node_ids)) == texts
    assert own.graph.node_ids == sorted(own.graph.node_ids)
    assert own.graph.directed == directed
    assert own.times is not None
    assert own.graph.weight is not None

    def as_texts(values: dict[tuple[Any, Any], float]) -> dict[tuple[str, str], float]:
        return {(str(sender), str(receiver)): value for (sender, receiver), value in values.items()}

    assert as_texts(per_edge(own, own.graph.weight)) == pytest.approx(weights)
    assert as_texts(per_edge(own, own.times)) == times


@given(rows=rows_of_edges, order=st.randoms())
def test_the_order_of_rows_does_not_matter(tmp_path_factory: pytest.TempPathFactory, rows: Rows, order: Any) -> None:
    folder = tmp_path_factory.mktemp("order")
    shuffled = list(rows)
    order.shuffle(shuffled)
    for name, content in (("one", rows), ("two", shuffled)):
        as_text(",", header=True)(folder / name, content)
    one, two = (read_graph(folder / name).graph for name in ("one", "two"))
    assert one.node_ids == two.node_ids
    assert torch.equal(one.edge_index, two.edge_index)


# Ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10,9\n9,-2\n", [-2, 9, 10]),
        ("007,8\n8,9\n", ["007", "8", "9"]),
        ("1.0,2.0\n2.0,3.0\n", ["1.0", "2.0", "3.0"]),
        ("NA,DE\nDE,FR\n", ["DE", "FR", "NA"]),
        ("2020-01-01,true\ntrue,x\n", ["2020-01-01", "true", "x"]),
        ("99999999999999999999,1\n1,2\n", ["1", "2", "99999999999999999999"]),
        ("9223372036854775807,-9223372036854775808\n", [-9223372036854775808, 9223372036854775807]),
        ("a, b \nb,c\n", ["a", "b", "c"]),
        ('"x, y",z\nz,"said ""w"""\n', ['said "w"', "x, y", "z"]),
        ("Ærø,東京\n東京,Öl\n", ["Ærø", "Öl", "東京"]),
        ("﻿a,b\nb,c\n", ["a", "b", "c"]),
        ("a,b\r\nb,c\r\n", ["a", "b", "c"]),
        ("#cat,#dog\n#dog,#emu\n", ["#cat", "#dog", "#emu"]),
        ("# a comment\n%% another\n\n1 2\n2 3\n", [1, 2, 3]),
        ("  1   2\n 10   3\n 11 \t 2 \n", [1, 2, 3, 10, 11]),
        ("a,b,\nb,c,\n", ["a", "b", "c"]),
        ("a,b\n\n\nb,c", ["a", "b", "c"]),
    ],
)
def test_ids_survive_as_they_stand(tmp_path: Path, text: str, expected: list[Any]) -> None:
    own = read_graph(write(tmp_path / "edges.txt", text))
    assert own.graph.node_ids == expected
    assert [type(name) for name in own.graph.node_ids] == [type(name) for name in expected]


def test_types_are_decided_on_whole_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "BLOCK", 1 << 10)
    lines = [f"{number},{number + 1},{number + 1}" for number in range(2_000)]
    own = read_graph(write(tmp_path / "edges.csv", "\n".join(["source,target,weight", *lines, "7,x,0.5"])))
    assert own.graph.num_nodes == 2_002
    assert "1999" in own.graph.node_ids
    assert own.graph.weight is not None
    assert per_edge(own, own.graph.weight)["7", "x"] == 0.5


def test_runs_of_blanks_are_one_wherever_the_file_is_cut(tmp_path: Path) -> None:
    lines = [f" {number}   {number + 1}{'  ' * (number % 3)}" for number in range(120_000)]
    path = write(tmp_path / "edges.txt", "\n".join(lines))
    assert path.stat().st_size > 1 << 20
    graph = read_graph(path).graph
    assert graph.node_ids == list(range(120_001))
    assert torch.equal((graph.structure.row - graph.structure.col).abs(), torch.ones(240_000, dtype=torch.long))


def test_text_in_a_typed_table_stays_text_and_unused_categories_are_no_nodes(tmp_path: Path) -> None:
    ends = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["1", "2", "ghost"]))
    pq.write_table(pa.table({"a": ends, "b": ["2", "3"]}), tmp_path / "edges.parquet")
    assert read_graph(tmp_path / "edges.parquet").graph.node_ids == ["1", "2", "3"]


# Columns


@pytest.mark.parametrize(
    ("text", "named", "edges"),
    [
        ("from,to\nx,y\n", {}, {("x", "y")}),
        ("weight,dst,src\n1,a,b\n", {}, {("b", "a")}),
        ("person,friend,since\nann,bob,1999\n", {}, {("ann", "bob")}),
        ("person,friend\nann,bob\n", {}, {("ann", "bob"), ("person", "friend")}),
        ("person,friend\nann,bob\n", {"source": "friend"}, {("bob", "ann")}),
        ("u,v\nv,w\n", {}, {("u", "v"), ("v", "w")}),
        ("0.5,a,b\n1.5,b,c\n", {"source": "2", "target": "3"}, {("a", "b"), ("b", "c")}),
        ("FromNodeId\tToNodeId\n1\t2\n", {}, {(1, 2)}),
    ],
)
def test_columns_are_found_by_name_by_kind_or_by_order(
    tmp_path: Path, text: str, named: dict[str, str], edges: set[tuple[Any, Any]]
) -> None:
    assert edge_set(read_graph(write(tmp_path / "edges", text), directed=True, **named)) == edges


def test_what_was_understood_is_said(tmp_path: Path) -> None:
    text = "src;dst;w;mood\na;b;2;x\nb;a;1;y\nc;c;1;z\na;b;3;x\nc;b;1;x\n"
    own = read_graph(write(tmp_path / "edges.csv", text))
    said = " ".join(own.notes)
    for words in (
        "separated by semicolons, with a header; source 'src', target 'dst', weight 'w'",
        "Not used: 'mood'",
        "3 nodes and 2 links",
        "from a node to itself: 1 of",
        "with the weights added: 1 of",
        "both directions: 1 of",
    ):
        assert words in said
    assert own.graph.weight is not None
    assert per_edge(own, own.graph.weight)["a", "b"] == 6


def test_links_listed_both_ways_keep_their_weight(tmp_path: Path) -> None:
    own = read_graph(write(tmp_path / "edges.csv", "source,target,weight\na,b,2\nb,a,2\nb,c,5\nc,b,5\n"))
    assert per_edge(own, own.graph.weight) == {("a", "b"): 2, ("b", "a"): 2, ("b", "c"): 5, ("c", "b"): 5}
    assert "Every link is listed in both directions and counts once, with the mean of both weights." in own.notes


def test_dates_are_seconds(tmp_path: Path) -> None:
    own = read_graph(write(tmp_path / "edges.csv", "source,target,date\na,b,1970-01-02\nb,c,1970-01-01 00:00:30\n"))
    assert own.times is not None
    assert per_edge(own, own.times)["a", "b"] == 86_400
    assert per_edge(own, own.times)["b", "c"] == 30


# Features and labels


def test_numbers_categories_and_lists_become_features_in_the_order_of_nodes(tmp_path: Path) -> None:
    edges = write(tmp_path / "edges.csv", "a,b\nb,c\n")
    table = pa.table(
        {
            "node": ["c", "a", "b", "alone"],
            "size": [3, 1, 2, 9],
            "colour": ["red", "blue", "red", "green"],
            "old": [True, False, True, False],
            "place": pa.array([[5.0, 6.0], [1.0, 2.0], [3.0, 4.0], [0.5, 0.25]], pa.list_(pa.float32(), 2)),
        }
    )
    pq.write_table(table, tmp_path / "features.parquet")
    own = read_graph(edges, features=tmp_path / "features.parquet")
    assert own.graph.node_ids == ["a", "alone", "b", "c"]
    names = ("size", "colour=blue", "colour=green", "colour=red", "old", "place[0]", "place[1]")
    assert own.feature_names == names
    expected = [[1, 1, 0, 0, 0, 1, 2], [9, 0, 1, 0, 0, 0.5, 0.25], [2, 0, 0, 1, 1, 3, 4], [3, 0, 0, 1, 1, 5, 6]]
    assert dense(own.graph).tolist() == expected
    assert own.graph.structure.row_sizes.tolist() == [1, 0, 2, 1]
    assert any("isolated: 1 of" in note for note in own.notes)


def test_what_is_missing_is_imputed_when_asked(tmp_path: Path) -> None:
    edges = write(tmp_path / "edges.csv", "a,b\nb,c\nc,d\n")
    features = write(tmp_path / "features.csv", "id,size,colour\na,1,red\nb,NA,\nc,4,red\n")
    own = read_graph(edges, features=features, missing="impute")
    assert own.feature_names == ("size", "colour=red", "colour missing")
    assert dense(own.graph).tolist() == [[1, 1, 0], [2.5, 0, 1], [4, 1, 0], [2.5, 0, 1]]
    said = " ".join(own.notes)
    assert "'size', filled with the mean 2.5: 1" in said
    assert "features therefore imputed: 1 " in said


def test_names_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    edges = write(tmp_path / "edges.csv", "\n".join(f"{node},{node + 1}" for node in range(49)))
    rows = "\n".join(f"{node},name {node},{node % 2}" for node in range(50))
    own = read_graph(edges, features=write(tmp_path / "features.csv", f"id,called,even\n{rows}\n"))
    assert own.feature_names == ("even",)
    assert any("'called'" in note and "left out" in note for note in own.notes)


def test_mostly_empty_features_stay_sparse_and_mean_the_same(tmp_path: Path) -> None:
    num_nodes, width = 40, 60
    edges = write(tmp_path / "edges.csv", "\n".join(f"{node},{node + 1}" for node in range(num_nodes - 1)))
    entries = {(node, (7 * node) % width): node + 1.5 for node in range(num_nodes)}
    wide = [",".join(["id", *(f"f{place:02}" for place in range(width))])]
    wide += [
        ",".join([str(node), *(str(entries.get((node, place), 0)) for place in range(width))])
        for node in range(num_nodes)
    ]
    used = sorted({place for _, place in entries})
    long = ["id,feature,value", *(f"{node},f{place:02},{value}" for (node, place), value in entries.items())]
    first = read_graph(edges, features=write(tmp_path / "wide.csv", "\n".join(wide)))
    second = read_graph(edges, features=write(tmp_path / "long.csv", "\n".join(long)))
    assert isinstance(first.graph.x, SparseFeatures)
    assert isinstance(second.graph.x, SparseFeatures)
    expected = torch.zeros(num_nodes, width)
    for (node, place), value in entries.items():
        expected[node, place] = value
    assert torch.equal(dense(first.graph), expected)
    assert second.feature_names == tuple(f"f{place:02}" for place in used)
    assert torch.equal(dense(second.graph), expected[:, used])


def test_the_columns_of_a_wide_table_are_gone_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand columns took a quarter of a minute before anything was read."""
    looks, real = 0, columns.plain

    def counting(name: str) -> str:
        nonlocal looks
        looks += 1
        return real(name)

    monkeypatch.setattr(columns, "plain", counting)
    names = [*(f"c{number}" for number in range(500)), "label"]
    assert columns.label_column(names, "wide.csv") == "label"
    assert looks < 10 * len(names)

    class Counted(frozenset[str]):
        rounds = 0

        def __iter__(self) -> Any:
            Counted.rounds += 1
            return super().__iter__()

    monkeypatch.setattr(own_features, "columns_of", lambda wanted: Counted(wanted))
    (tmp_path / "edges.csv").write_text("a,b\n")
    header, row = ",".join(["id", *names]), ",".join(str(number % 7) for number in range(len(names)))
    (tmp_path / "wide.csv").write_text(f"{header}\na,{row}\nb,{row}\n")
    before = read_graph(tmp_path / "edges.csv", features=tmp_path / "wide.csv")
    added = read_addition(tmp_path / "edges.csv", tmp_path / "wide.csv", before.graph, before.feature_names, {})
    assert added.nodes is not None
    assert added.nodes.num_features == len(names)
    assert Counted.rounds < 10


def test_labels_keep_their_names_and_the_unlabelled_are_minus_one(tmp_path: Path) -> None:
    edges = write(tmp_path / "edges.csv", "a,b\nb,c\nc,d\n")
    own = read_graph(edges, labels=write(tmp_path / "labels.csv", "node,class\nc,wolf\na,ape\nb,\n"))
    assert own.label_names == ("ape", "wolf")
    assert own.graph.y is not None
    assert own.graph.y.tolist() == [0, -1, 1, -1]
    told = read_graph(edges, labels=write(tmp_path / "told.csv", "id,label\na,true\nc,false\nd,NA\n"))
    assert told.label_names == ("false", "true")
    assert told.graph.y is not None
    assert told.graph.y.tolist() == [1, -1, 0, -1]
    numbered = read_graph(edges, labels=write(tmp_path / "numbers.tsv", "a\t10\nb\t2\nd\t10\n"))
    assert numbered.label_names == ("2", "10")
    assert numbered.graph.y is not None
    assert numbered.graph.y.tolist() == [1, 0, -1, 1]


def test_files_of_different_kinds_agree_on_ids(tmp_path: Path) -> None:
    edges = write(tmp_path / "edges.csv", "1,2\n2,30\n")
    pq.write_table(pa.table({"id": [30, 2, 1], "v": [3.0, 2.0, 1.0]}), tmp_path / "features.parquet")
    pf.write_feather(pa.table({"id": [1.0, 30.0, 2.0], "label": [7.0, 9.0, float("nan")]}), tmp_path / "labels.feather")
    own = read_graph(edges, features=tmp_path / "features.parquet", labels=tmp_path / "labels.feather")
    assert own.graph.node_ids == [1, 2, 30]
    assert dense(own.graph).squeeze(1).tolist() == [1, 2, 3]
    assert own.graph.y is not None
    assert own.graph.y.tolist() == [0, -1, 1]
    assert own.label_names == ("7", "9")


def test_numbers_that_are_written_in_two_ways_are_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("source,target\n1,2.0\n2,3.0\n3,1.0\n")
    own = read_graph(path)
    assert own.graph.num_nodes == 6
    (note,) = (note for note in own.notes if "different nodes" in note)
    assert note.startswith("Taken for different nodes: '1.0' and '1', and 2 more such pairs; if they are the same")
    path.write_text("source,target\nv1.0,2.0\nv1,3.0\n")
    assert not any("different nodes" in note for note in read_graph(path).notes)
