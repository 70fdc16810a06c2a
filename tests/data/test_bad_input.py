"""Tables that are wrong in every way we could think of: each ends in one sentence with the place and the remedy."""

import gzip
import io
import os
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandana.data import own_source, own_text
from bandana.data.tables import read_graph
from bandana.errors import UserError
from bandana.scale.build import build_store
from bandana.scale.plan import BuildPlan

GOOD = "source,target\na,b\nb,c\nc,a\n"
Content = bytes | str | pa.Table


class Bad(NamedTuple):
    """Files by role, what else is asked for, and what the sentence must say: the place at its start, then more."""

    edges: Content = GOOD
    features: Content | None = None
    labels: Content | None = None
    asked: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    place: str = "edges"
    says: str = ""


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def feather(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pf.write_feather(table, sink, compression="uncompressed")
    return sink.getvalue()


def zipped() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("edges.csv", GOOD)
    return sink.getvalue()


PAIRS = pa.table({"source": ["a", "b"], "target": ["b", "c"]})
MANY = pa.table({"source": [f"a{number}" for number in range(500)], "target": [f"b{n}" for n in range(500)]})

BAD = {
    "empty file": Bad("", says="is empty; give"),
    "blank lines only": Bad("\n\n  \n", says="holds no rows; give"),
    "comments only": Bad("# nothing\n# here\n", says="holds no rows"),
    "header only": Bad("source,target\n", says="no rows; give"),
    "header asked for and nothing below": Bad("a,b\n", asked={"source": "a"}, says="no rows; give"),
    "one column": Bad("a\nb\nc\n", says="only one column .*separate"),
    "unknown delimiter": Bad("a:b\nb:c\n", says="only one column .*separate"),
    "one column in Parquet": Bad(parquet(PAIRS.select(["source"])), says="needs two ends|a source and a target"),
    "no columns in Parquet": Bad(parquet(pa.table({})), says="no (rows|columns)"),
    "no rows in Parquet": Bad(parquet(PAIRS.slice(0, 0)), says="no rows; give"),
    "row too long": Bad("a,b\nb,c\nc,d,e\n", place="edges, line 3", says="3 cells where 2 are due .*complete"),
    "row too short": Bad("a,b,1\n\nb,c\n", place="edges, line 3", says="2 cells where 3 are due .*complete"),
    "other delimiter further down": Bad("a,b\nb,c\nc;d\n", place="edges, line 3", says="1 cells .*complete"),
    "quotation mark left open": Bad('a,b\n"b,c\nc,d\n', place="edges, line 2", says="quotation mark .*close"),
    "Latin-1": Bad("a,b\nb,Müller\n".encode("latin-1"), place="edges, line 2", says="not UTF-8; save"),
    "UTF-16": Bad(GOOD.encode("utf-16"), says="UTF-16; save it as UTF-8"),
    "binary rubbish": Bad(bytes(range(256)) * 4, says="neither text nor Parquet nor Arrow; save"),
    "spreadsheet or zip": Bad(zipped(), says="zip archive or a spreadsheet; unpack"),
    "pickle": Bad(pickle.dumps({"a": np.arange(9)}), says="neither text nor"),
    "bzip2": Bad(b"BZh91AY&SY" + bytes(20), says="bzip2; unpack"),
    "JSON on one line": Bad('{"source": "a", "target": "b"}\n', says="like JSON, .*save"),
    "JSON list": Bad('\ufeff \n[{"source": "a", "target": "b"},\n{"source": "b"}]\n', says="like JSON, .*save"),
    "gzip twice": Bad(gzip.compress(gzip.compress(GOOD.encode())), says="packed twice; unpack"),
    "gzip cut off": Bad(gzip.compress(GOOD.encode() * 99)[:-12], says="gzip file is damaged or cut off .*again"),
    "gzip damaged": Bad(b"\x1f\x8b" + b"rubbish" * 9, says="gzip file is damaged .*again"),
    "Parquet in gzip": Bad(gzip.compress(parquet(PAIRS)), says="Parquet file inside gzip; unpack"),
    "Parquet cut off": Bad(parquet(MANY)[:-40], says="Parquet file is damaged or cut off .*again"),
    "Parquet head only": Bad(b"PAR1", says="Parquet file is damaged or cut off"),
    "Arrow cut off": Bad(feather(MANY)[:-200], says="Arrow file is damaged or cut off .*again"),
    "missing id": Bad("a,b\nb,\nc,a\n", place="edges, line 2", says="id in column '2' is missing; fill"),
    "id of blanks": Bad("source,target\na,b\n   ,c\n", place="edges, line 3", says="'source' is missing; fill"),
    "NaN as id": Bad("1,2\nnan,3\n", place="edges, line 2", says="is missing; fill"),
    "null id in Parquet": Bad(parquet(pa.table({"a": [1, None], "b": [2, 3]})), place="edges, row 2", says="missing"),
    "NaN id in Parquet": Bad(
        parquet(pa.table({"a": [1.0, float("nan")], "b": [2, 3]})), place="edges, row 2", says="missing"
    ),
    "fraction as id": Bad(
        parquet(pa.table({"a": [1.0, 2.5], "b": [2, 3]})), place="edges, row 2", says="2.5 in .*whole number nor text"
    ),
    "infinite id": Bad(parquet(pa.table({"a": [1.0, float("inf")], "b": [2, 3]})), place="edges, row 2", says="inf"),
    "list as id": Bad(parquet(pa.table({"a": [[1], [2]], "b": [2, 3]})), says="list<.*name another"),
    "huge id": Bad(f"a,b\nb,{'x' * 2_000}\n", place="edges, line 2", says="over 1000 bytes .*shorten"),
    "only self-loops": Bad("a,a\nb,b\n", says="from a node to itself; check"),
    "negative weight": Bad(
        "source,target,weight\na,b,1\nb,c,-2\n", place="edges, line 3", says="'weight' is -2, .*positive .*correct"
    ),
    "zero weight": Bad("source,target,w\na,b,0\n", place="edges, line 2", says="is 0, but"),
    "infinite weight": Bad("source,target,w\na,b,inf\n", place="edges, line 2", says="is inf, but"),
    "missing weight": Bad("source,target,w\na,b,1\nb,c,\n", place="edges, line 3", says="is missing, but"),
    "weight of words": Bad("source,target,w\na,b,1\nb,c,heavy\n", place="edges, line 3", says="'heavy' .*number; c"),
    "weight of lists": Bad(parquet(PAIRS.append_column("w", pa.array([[1], [2]]))), says="holds list<.*; name"),
    "missing time": Bad(
        "source,target,t\na,b,1\nb,c,\n", asked={"time": "t"}, place="edges, line 3", says="time .* missing"
    ),
    "time of words": Bad(
        "source,target,t\na,b,noon\n", asked={"time": "t"}, place="edges, line 2", says="'noon' .*no time, which is"
    ),
    "no such column": Bad(asked={"weight": "mass"}, says="no column 'mass'. Choose from: source, target"),
    "misspelt column": Bad(
        asked={"source": "sorce", "target": "target"}, says="no column 'sorce'. Did you mean 'source'"
    ),
    "one column for two uses": Bad(asked={"source": "source", "target": "source"}, says="two uses .*different"),
    "source as weight": Bad(asked={"weight": "source"}, says="'source' is the source .*cannot be its weight.*name"),
    "target as time": Bad(asked={"time": "target"}, says="'target' is the target .*cannot be its time.*name"),
    "column name twice": Bad("source,target,x,x\na,b,1,2\n", says="'x' twice; give"),
    "feature missing": Bad(
        features="id,v\na,1\nb,\nc,3\n", place="features, line 3", says="'v' is missing; fill .*impute"
    ),
    "category missing": Bad(features="id,v\na,x\nb,\nc,x\n", place="features, line 3", says="'v' is missing; fill"),
    "feature infinite": Bad(features="id,v\na,1\nb,-inf\nc,3\n", place="features, line 3", says="infinite .*correct"),
    "feature beyond float32": Bad(features="id,v\na,1\nb,1e39\nc,3\n", place="features, line 3", says="too large"),
    "feature beyond sums": Bad(features="id,v\na,1\nb,-3e38\nc,3\n", place="features, line 3", says="-3e.38 .*'v'"),
    "sparse value beyond sums": Bad(
        features="id,feature,value\na,f,1\nb,f,3e38\n", place="features, line 3", says="infinite or over .*correct"
    ),
    "feature row twice": Bad(
        features="id,v\na,1\nb,2\nb,2\nc,3\n", place="features, line 4", says="'b' has had .*keep"
    ),
    "node without features": Bad(features="id,v\na,1\nb,2\n", place="features", says="no row for 1 .*such as 'c'; add"),
    "features of other nodes": Bad(features="id,v\n1,1\n2,2\n", place="features", says="none of its ids .*alike"),
    "features without columns": Bad(
        features=parquet(pa.table({"id": ["a", "b", "c"]})), place="features", says="no column that could be"
    ),
    "one text among numbers": Bad(
        GOOD + "".join(f"a,{number}\n" for number in range(30)),
        features="id,v\na,1\nb,2\nc,oops\n" + "".join(f"{number},{number}.5\n" for number in range(30)),
        place="features, line 4",
        says="'oops' .*no number, but the others are; correct",
    ),
    "dates as features": Bad(
        features="id,v\na,2020-01-01\nb,2020-01-02\nc,2020-01-03\n", place="features", says="dates; turn"
    ),
    "uneven lists": Bad(
        features=parquet(pa.table({"id": ["a", "b", "c"], "v": [[1.0], [1.0, 2.0], [3.0]]})),
        place="features, row 2",
        says="2 numbers where others have 1; give",
    ),
    "text in a list": Bad(
        features=parquet(pa.table({"id": ["a", "b", "c"], "v": [["1", "2"], ["3", "4"], ["5", "x"]]})),
        place="features, row 3",
        says="'x' in column 'v' is no number; correct",
    ),
    "text in a list after a missing one": Bad(
        features=parquet(pa.table({"id": ["a", "b", "c"], "v": [["1", "2"], None, ["5", "x"]]})),
        place="features, row 3",
        says="'x' in column 'v' is no number; correct",
    ),
    "lists of numbers as text": Bad(
        features=parquet(pa.table({"id": ["a", "b", "c"], "v": [["1"], ["2"], ["3"]]})),
        place="features",
        says="'v' holds text where numbers are due; save",
    ),
    "an endless cell": Bad(f"a,b\n{'x' * 140_000},c\n", says="over 131,072 characters; look for a quotation mark"),
    "sparse entry twice": Bad(
        features="id,feature,value\na,f,1\nb,f,2\na,f,1\n", place="features, line 4", says="before; keep"
    ),
    "sparse value missing": Bad(
        features="id,feature,value\na,f,1\nb,f,\n", place="features, line 3", says="missing, infinite or over .*correct"
    ),
    "missing feature id": Bad(features="id,v\na,1\n,2\nc,3\n", place="features, line 3", says="id .*missing; fill"),
    "label of an unknown node": Bad(
        labels="id,label\na,x\nz,y\n", place="labels, line 3", says="'z', .*correct the id"
    ),
    "two labels": Bad(labels="id,label\na,x\nb,y\na,y\n", place="labels, line 4", says="'a' has had .*keep"),
    "no label at all": Bad(labels="id,label\na,\nb,\n", place="labels", says="no label at all; fill"),
    "fractions as labels": Bad(
        labels="id,label\na,0.5\nb,1.5\n", place="labels, line 2", says="0.5 in .*whole number nor text"
    ),
    "which label": Bad(labels="id,p,q\na,x,y\n", place="labels", says="cannot tell .*keep the id"),
    "labels empty": Bad(labels="", place="labels", says="is empty"),
}


def put(folder: Path, name: str, content: Content | None) -> Path | None:
    if content is None:
        return None
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


def one_sentence(read: Callable[[], object], start: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        read()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.startswith(f"{start}: ")
    assert re.search(says, sentence), sentence
    assert re.search(r"[;.] \S", sentence), "there is a remedy"
    assert sentence[-1] in ".?"
    assert len(sentence) < 500
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_end_in_one_sentence(tmp_path: Path, name: str) -> None:
    bad = BAD[name]
    edges, features, labels = (put(tmp_path, role, getattr(bad, role)) for role in ("edges", "features", "labels"))
    before = sorted(tmp_path.iterdir())
    assert edges is not None
    one_sentence(
        lambda: read_graph(edges, features=features, labels=labels, **bad.asked), str(tmp_path / bad.place), bad.says
    )
    assert sorted(tmp_path.iterdir()) == before


def test_there_are_at_least_forty() -> None:
    assert len(BAD) >= 40


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    one_sentence(lambda: read_graph(tmp_path), str(tmp_path), "is a folder; name the file")
    (tmp_path / "edges.csv").write_text(GOOD)
    absent = tmp_path / "edge.csv"
    one_sentence(lambda: read_graph(absent), str(absent), "no such file. Did you mean 'edges.csv'")
    nowhere = tmp_path / "no" / "edges.csv"
    one_sentence(lambda: read_graph(nowhere), str(nowhere), "no such file. Correct the path")


def test_what_can_be_read_only_once_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in (read_graph, lambda path: build_store(BuildPlan(edges=path, parts=1), tmp_path / "store")):
        one_sentence(lambda read=read: read(pipe), str(pipe), "no file on disk, and a table is read twice; write it")


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    absent = tmp_path / ("x" * 300)
    one_sentence(lambda: read_graph(absent), str(absent), r"cannot be opened \(File name too long\); correct the path")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(GOOD)
    path.chmod(0)
    one_sentence(lambda: read_graph(path), str(path), "cannot be opened .*permissions")


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "HARMLESS", 1 << 20)
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" * (1 << 20)))
    assert path.stat().st_size * own_text.LARGEST_EXPANSION < 4 << 20
    one_sentence(lambda: read_graph(path), str(path), "unpacks to more than 1 MiB, over 100 times .*unpack it by hand")


@pytest.mark.parametrize("rows", [{"source": 1, "target": 2}, {"source": "a", "target": "b"}])
def test_a_parquet_bomb_is_not_read(tmp_path: Path, rows: dict[str, Any]) -> None:
    path = tmp_path / "edges.parquet"
    block = pa.table({name: pa.repeat(value, 1_000_000) for name, value in rows.items()})
    with pq.ParquetWriter(path, block.schema) as file:
        for _ in range(8):
            file.write_table(block)
    one_sentence(lambda: read_graph(path), str(path), "unpacks to more than 64 MiB, over 100 times .*write it anew")


def test_lists_in_parquet_count_with_all_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "HARMLESS", 1 << 20)
    edges, features = tmp_path / "edges", tmp_path / "features"
    edges.write_text("a,b\nb,c\n")
    lists = pa.FixedSizeListArray.from_arrays(pa.repeat(1.0, 600_000), 200_000)
    features.write_bytes(parquet(pa.table({"id": ["a", "b", "c"], "v": lists})))
    one_sentence(lambda: read_graph(edges, features=features), str(features), "unpacks to more than 1 MiB")


def test_a_column_that_is_not_read_may_be_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "HARMLESS", 1 << 10)
    draw = np.random.default_rng(0)
    ends = {end: draw.integers(0, 1 << 40, 5_000) for end in ("source", "target")}
    lists = pa.FixedSizeListArray.from_arrays(pa.repeat(0.0, 5_000_000), 1_000)
    path = tmp_path / "edges.parquet"
    path.write_bytes(parquet(pa.table({**ends, "other": lists})))
    assert read_graph(path).graph.num_edges == 10_000


def test_an_honest_gzip_may_be_repetitive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "HARMLESS", 1 << 10)
    text = "".join(f"{number % 97},{number * 31 % 89}\n" for number in range(5_000))
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert read_graph(tmp_path / "edges.csv.gz").graph.num_nodes == 97


def test_more_rows_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_source, "MOST_ROWS", 100)
    path = tmp_path / "edges.parquet"
    path.write_bytes(parquet(MANY))
    one_sentence(lambda: read_graph(path), str(path), "500 rows, and 100 are the most .*; take a part")


def test_a_row_longer_than_what_is_parsed_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "BLOCK", 1 << 10)
    path = tmp_path / "edges.csv"
    path.write_text("a,b\n" + "x" * 5_000 + ",y\n")
    one_sentence(lambda: read_graph(path), str(path), "a row is longer")


def test_a_ragged_row_is_named_by_its_line_in_later_blocks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "BLOCK", 1 << 10)
    path = tmp_path / "edges.csv"
    path.write_text("# about\nsource,target\n" + "a,b\n\n" * 900 + "a,b,c\n" + "a,b\n" * 900)
    one_sentence(lambda: read_graph(path), f"{path}, line 1803", "3 cells where 2 are due")


# Fuzzing: whatever comes in, out comes a graph or a sentence.


def sentence_or_graph(path: Path, **others: Any) -> None:
    try:
        own = read_graph(path, **others)
    except UserError as mistake:
        lines = str(mistake).splitlines()
        assert len(lines) == 1
    else:
        assert own.graph.num_edges > 0
        assert len(set(own.graph.node_ids)) == own.graph.num_nodes


cells = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["", "a", "1", "-1", "0.5", "nan", "inf", "1e999", "007", '"', "#", "2020-01-01"]),
)
tables = st.tuples(
    st.lists(st.lists(cells, min_size=1, max_size=4), max_size=8), st.sampled_from([",", "\t", ";", " ", "|", "  "])
).map(lambda drawn: "\n".join(drawn[1].join(row) for row in drawn[0]))


@given(content=st.one_of(st.binary(max_size=200), tables.map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_give_a_graph_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    path, good = folder / "any", folder / "good"
    path.write_bytes(content)
    good.write_text(GOOD)
    sentence_or_graph(path)
    sentence_or_graph(good, features=path)
    sentence_or_graph(good, features=path, missing="impute")
    sentence_or_graph(good, labels=path)


@given(
    damaged=st.sampled_from([parquet(MANY), feather(MANY), gzip.compress(GOOD.encode() * 50)]),
    places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    end=st.floats(0.2, 1),
)
def test_damaged_files_give_a_graph_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, damaged: bytes, places: list[tuple[float, int]], end: float
) -> None:
    content = bytearray(damaged)
    for place, value in places:
        content[int(place * len(content))] = value
    path = tmp_path_factory.mktemp("damage") / "edges"
    path.write_bytes(content[: int(end * len(content)) or 1])
    sentence_or_graph(path)
