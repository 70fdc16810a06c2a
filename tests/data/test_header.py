"""Whether a first line is a header or an edge: no edge is ever lost without a word, and the user has the last one."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bandana.data.columns import KNOWN, ROWS_OF_ONE_SHAPE, TIME, WEIGHT, Header, detect_layout, is_number, plain
from bandana.data.own_source import Wanted
from bandana.data.tables import OwnGraph, doubts, read_graph
from bandana.errors import UserError
from bandana.scale.reading import open_stream

Edge = tuple[str, str]

words = st.text(st.characters(whitelist_categories=("Lu", "Ll")), min_size=1, max_size=5).filter(
    lambda text: (
        plain(text) not in {*KNOWN, *WEIGHT, *TIME}
        and not is_number(text)
        and text.lower() not in {"na", "null", "none"}
    )
)
coded = st.builds(lambda letter, number: f"{letter}{number}", st.sampled_from("uvw"), st.integers(0, 99))
edges = st.lists(st.tuples(words | coded, words | coded), min_size=1, max_size=40).filter(
    lambda rows: any(source != target for source, target in rows[1:])
)


def write(path: Path, rows: Sequence[Edge]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def read_edges(own: OwnGraph) -> set[frozenset[str]]:
    ids = own.graph.node_ids or ()
    return {frozenset((str(ids[a]), str(ids[b]))) for a, b in own.graph.edge_index.T.tolist()}


def apart(rows: Sequence[Edge]) -> set[frozenset[str]]:
    return {frozenset(row) for row in rows if row[0] != row[1]}


@given(rows=edges)
def test_an_edge_is_read_or_the_user_is_told_how_to_get_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Edge]
) -> None:
    path = write(tmp_path_factory.mktemp("guess") / "edges.csv", rows)
    own = read_graph(path)
    if read_edges(own) != apart(rows):
        assert read_edges(own) == apart(rows[1:])
        assert any("is taken as a header; if it is an edge, say --header no" in note for note in own.notes)
    assert read_edges(read_graph(path, header="no")) == apart(rows)


@given(rows=edges, names=st.tuples(words, words))
def test_a_header_is_left_out_when_the_user_says_so_and_mentioned_when_it_is_not_recognised(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Edge], names: Edge
) -> None:
    assume(names[0] != names[1] and apart(rows))
    assume(not set(names) & {end for row in rows for end in row})
    path = write(tmp_path_factory.mktemp("named") / "edges.csv", [names, *rows])
    assert read_edges(read_graph(path, header="yes")) == apart(rows)
    own = read_graph(path)
    if read_edges(own) != apart(rows):
        assert any("is taken as an edge; if it is a header, say --header yes" in note for note in own.notes)


@given(
    names=st.tuples(words, words),
    numbers=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999)), min_size=ROWS_OF_ONE_SHAPE, max_size=60),
)
def test_unusual_names_above_ids_of_one_form_are_a_header(names: Edge, numbers: list[tuple[int, int]]) -> None:
    assume(names[0] != names[1])
    text = "\n".join(f"user{a},item{b}" for a, b in numbers)
    layout = detect_layout(f"{names[0]},{names[1]}\n{text}\n", "edges.csv", (), "guess")
    assert (layout.header, layout.certain, layout.names) == (True, False, names)
    assert not detect_layout(f"{names[0]},{names[1]}\n{text}\n", "edges.csv", ()).header  # where nobody is told


@pytest.mark.parametrize(
    ("first", "rest", "header", "certain"),
    [
        ("wine,other", "u{},v{}", True, False),
        ("wine,v5", "u{},v{}", False, True),  # v5 is an id elsewhere
        ("wine,v500", "u{},v{}", False, False),  # the second cell is written like all others
        ("source,target", "u{},v{}", True, True),
        ("wine,other", "{},{}", True, False),
        ("wine,other,count", "a,b,{}", True, False),
        ("source,target,count", "a,b,{}", True, True),
        ("Myriel,Napoleon", "Jean,Marius", False, False),
        ("1,2", "{},{}", False, True),
    ],
)
def test_what_is_certain_and_what_is_not(first: str, rest: str, header: bool, certain: bool) -> None:
    rows = [rest.format(number, number + 1) for number in range(ROWS_OF_ONE_SHAPE)]
    layout = detect_layout("\n".join([first, *rows]), "edges.csv", (), "guess")
    assert (layout.header, layout.certain) == (header, certain)


def test_too_few_rows_show_no_form() -> None:
    rows = [f"u{number},v{number}" for number in range(ROWS_OF_ONE_SHAPE - 1)]
    assert not detect_layout("\n".join(["wine,other", *rows]), "edges.csv", (), "guess").header


def test_a_stream_takes_a_header_for_what_it_is_asked_to(tmp_path: Path) -> None:
    rows = [(f"u{number}", f"v{number}") for number in range(ROWS_OF_ONE_SHAPE)]
    path = write(tmp_path / "edges.csv", [("wine", "other"), *rows])
    expected: dict[Header, int] = {"guess": 0, "yes": 0, "no": 1, "usual": 1}
    for header, count in expected.items():
        stream = open_stream(path, lambda names: Wanted(tuple(names), tuple(names)), (), header)
        assert sum(piece.table.num_rows for piece in stream.pieces(7)) == len(rows) + count
        assert any("say --header no" in note for note in doubts(stream.layout, of_edges=True)) == (header == "guess")
    pq.write_table(pa.table({"a": ["x"], "b": ["y"]}), tmp_path / "edges.parquet")
    with pytest.raises(UserError, match=r"--header: .*edges\.parquet is no text"):
        open_stream(tmp_path / "edges.parquet", lambda names: Wanted(tuple(names), tuple(names)), (), "yes")


def test_the_option_is_refused_where_columns_have_names_in_any_case(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"], "b": ["y"]}), tmp_path / "edges.parquet")
    with pytest.raises(UserError, match=r"--header: .*edges\.parquet is no text, and names its columns in any case"):
        read_graph(tmp_path / "edges.parquet", header="no")


def test_columns_of_the_other_kind_are_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "edges.csv", [("wine", "other"), ("a", "b")])
    with pytest.raises(UserError, match="has no column 'wine'"):
        read_graph(path, header="no", source="wine")
    with pytest.raises(UserError, match="has no column '1'"):
        read_graph(path, header="yes", source="1")
