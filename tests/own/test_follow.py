"""`embed --model`: new nodes and links get the vectors of a full pass, and it is said which rows changed."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from bandana.cli import app
from bandana.data.own_additions import read_addition
from bandana.data.tables import read_graph
from bandana.errors import UserError
from bandana.graph import dense
from bandana.own import automatic
from bandana.own.calibration import Estimate
from bandana.own.outputs import open_output
from bandana.reporting import own_report
from bandana.reporting.embeddings import read_embeddings

TEAMS = ("red", "green", "blue")
QUICK = ("--epochs", "3", "--dimensions", "16", "--device", "cpu")


def command(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def write(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A ring of 40, so that what a change can reach is known, with a number and a category for each node."""
    folder = tmp_path_factory.mktemp("old")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
        patch.setattr(own_report, "_tsne", lambda z, seed: z[:, :2].numpy())
        ring = write(folder / "edges.csv", "source,target", [f"n{a},n{(a + 1) % 40}" for a in range(40)])
        people = write(
            folder / "people.csv", "id,age,team", [f"n{a},{20 + a * 7 % 31},{TEAMS[a % 3]}" for a in range(40)]
        )
        command("embed", ring, "--features", people, "-o", folder / "out", *QUICK)
        command("embed", ring, "-o", folder / "plain", *QUICK)
        yield folder


@pytest.fixture(scope="module")
def followed(old: Path) -> tuple[Path, str]:
    edges = write(old / "new.csv", "source,target", ["new,n10", "n10,n12"])
    people = write(old / "new_people.csv", "id,age,team", ["new,33,green"])
    words = ("--features", people, "--format", "npz", "-o", old / "out2", "--device", "cpu")
    return old / "out2", command("embed", edges, "--model", old / "out" / "model", *words)


def listed(folder: Path) -> list[dict[str, str]]:
    with (folder / "changed.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_vectors_are_those_of_a_full_pass_over_all_files_read_as_one(old: Path, followed: tuple[Path, str]) -> None:
    edges = (old / "edges.csv").read_text() + "new,n10\nn10,n12\n"
    people = (old / "people.csv").read_text() + "new,33,green\n"
    (old / "all.csv").write_text(edges)
    (old / "all_people.csv").write_text(people)
    whole = read_graph(old / "all.csv", features=old / "all_people.csv").graph
    expected = dict(zip(whole.node_ids, open_output(old / "out").model().embed(whole), strict=True))
    ours = read_embeddings(followed[0] / "embeddings.parquet")
    assert len(ours.node_ids) == 41
    for name, vector in zip(ours.node_ids, ours.vectors, strict=True):
        torch.testing.assert_close(vector, expected[name], rtol=1e-5, atol=1e-5)
    assert read_embeddings(followed[0] / "embeddings.npz").vectors.equal(ours.vectors)


def test_what_changed_is_listed_and_nothing_else_did(old: Path, followed: tuple[Path, str]) -> None:
    folder, said = followed
    before, after = (read_embeddings(place / "embeddings.parquet") for place in (old / "out", folder))
    was, now = (dict(zip(rows.node_ids, rows.vectors, strict=True)) for rows in (before, after))
    rows = listed(folder)
    assert rows[0] == {"id": "new", "status": "new", "distance": ""}
    moved = {row["id"]: float(row["distance"]) for row in rows[1:]}
    # Two layers: n10 and n12 have other degrees, their neighbours hear of it, and theirs once more.
    assert moved.keys() == {f"n{node}" for node in range(8, 15)}
    assert list(moved.values()) == sorted(moved.values(), reverse=True)
    for name, vector in was.items():
        if name in moved:
            assert float((now[name] - vector).norm()) == pytest.approx(moved[name], rel=1e-4)
        else:
            assert now[name].equal(vector)
    record = json.loads((folder / "run.json").read_text())
    assert record["changes"] == {"new": 1, "changed": 7, "unchanged": 33, "recomputed": 8}
    assert record["parent"]["folder"] == str(old / "out")
    assert re.sub(r"\s+", " ", said).startswith(
        "New nodes: 1. Others with another vector than before: 7. As before: 33."
    )
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "What changed" in page
    assert "As before: 33." in page


def test_the_old_folder_is_untouched_and_the_new_one_can_be_used_and_followed_again(
    old: Path, followed: tuple[Path, str]
) -> None:
    before = {path: path.read_bytes() for path in (old / "out").rglob("*") if path.is_file()}
    edges = write(old / "newer.csv", "source,target", ["new,n30"])
    command("embed", edges, "--model", followed[0], "-o", old / "out3", "--device", "cpu")
    assert {row["id"] for row in listed(old / "out3")} >= {"new", "n30", "n10"}
    assert "new" in command("similar", old / "out3", "--id", "n30", "-k", "39")
    assert "both by one model" in command("compare", old / "out", old / "out3")
    assert {path: path.read_bytes() for path in (old / "out").rglob("*") if path.is_file()} == before


def test_without_features_new_links_are_followed_and_new_nodes_refused_in_one_sentence(old: Path) -> None:
    links = write(old / "links.csv", "source,target", ["n0,n20"])
    command("embed", links, "--model", old / "plain" / "model", "-o", old / "plain2", "--device", "cpu")
    assert all(row["status"] == "changed" for row in listed(old / "plain2"))
    first, second = ((old / name / "report.html").read_text(encoding="utf-8") for name in ("plain", "plain2"))
    for page in (first, second):
        assert "The graph has no features, so vectors cannot be made for new nodes." in page
    assert "Training with --features would allow it." in first
    assert "Training with" not in second  # nothing was trained, so nothing is advised for a training
    nodes = write(old / "nodes.csv", "source,target", ["n0,stranger"])
    with pytest.raises(UserError, match="not other nodes such as 'stranger'; embed the whole graph again"):
        command("embed", nodes, "--model", old / "plain" / "model", "-o", old / "plain3", "--device", "cpu")
    assert not (old / "plain3").exists()
    people = write(old / "some.csv", "id,age", ["stranger,3"])
    with pytest.raises(UserError, match="trained without features and reads none; leave --features out"):
        command("embed", nodes, "--model", old / "plain", "--features", people, "-o", old / "plain3")


def test_columns_are_matched_by_name_and_an_unseen_category_is_refused(old: Path, tmp_path: Path) -> None:
    before = open_output(old / "out")
    names = before.model().feature_names
    edges = write(tmp_path / "e.csv", "source,target", ["q,n1"])
    people = write(tmp_path / "p.csv", "team,id,age", ["blue,q,50"])
    read = read_addition(edges, people, before.graph, names, {})
    assert read.nodes is not None
    row = dict(zip(names, read.nodes.x[0].tolist(), strict=True))
    assert row == {"age": 50.0, "team=blue": 1.0, "team=green": 0.0, "team=red": 0.0}
    unseen = write(tmp_path / "p.csv", "id,age,team", ["q,50,purple"])
    with pytest.raises(UserError, match=r"p\.csv: the model has not seen the feature 'team=purple'"):
        read_addition(edges, unseen, before.graph, names, {})
    partial = write(tmp_path / "p.csv", "id,age", ["q,50"])
    with pytest.raises(UserError, match=r"p\.csv: has no feature 'team=blue', which the model reads; add"):
        read_addition(edges, partial, before.graph, names, {})


def test_columns_that_the_model_has_not_learned_from_are_left_out_with_a_word(tmp_path: Path) -> None:
    """A column of names is prose in a long table, and could be categories in a short one."""
    write(tmp_path / "e.csv", "source,target", [f"n{a},n{(a + 1) % 60}" for a in range(60)])
    rows = [f"n{a},{20 + a % 31},Ann {a} Smith,{TEAMS[a % 3]}" for a in range(60)]
    own = read_graph(tmp_path / "e.csv", features=write(tmp_path / "p.csv", "id,age,full name,team", rows))
    assert own.feature_names == ("age", "team=blue", "team=green", "team=red")
    edges = write(tmp_path / "e2.csv", "source,target", ["q,n1", "r,n2"])
    people = write(tmp_path / "p2.csv", "id,full name,size,team,age", ["q,Bob,1.5,red,50", "r,Cid,,blue,60"])
    read = read_addition(edges, people, own.graph, own.feature_names, {})
    assert read.nodes is not None
    assert read.nodes.x.tolist() == [[50, 0, 0, 1], [60, 1, 0, 0]]
    left_out = [note for note in read.notes if "has not learned from it" in note]
    assert [re.findall("'(.*)'", note) for note in left_out] == [["full name"], ["size"]]


def test_many_categories_in_a_short_table_are_still_categories(tmp_path: Path) -> None:
    write(tmp_path / "e.csv", "source,target", [f"n{a},n{(a + 1) % 90}" for a in range(90)])
    rows = [f"n{a},city {a % 30}" for a in range(90)]
    own = read_graph(tmp_path / "e.csv", features=write(tmp_path / "p.csv", "id,city", rows))
    assert len(own.feature_names) == 30
    edges = write(tmp_path / "e2.csv", "source,target", [f"q{a},n1" for a in range(25)])
    people = write(tmp_path / "p2.csv", "id,city", [f"q{a},city {a}" for a in range(25)])
    read = read_addition(edges, people, own.graph, own.feature_names, {})
    assert read.nodes is not None
    assert read.nodes.node_ids is not None
    places = dense(read.nodes.x).argmax(1).tolist()
    found = {name: own.feature_names[place] for name, place in zip(read.nodes.node_ids, places, strict=True)}
    assert found == {f"q{a}": f"city=city {a}" for a in range(25)}


def test_ids_keep_the_kind_that_the_graph_has(old: Path, tmp_path: Path) -> None:
    before = open_output(old / "plain").graph
    numbers = write(tmp_path / "e.csv", "source,target", ["7,8"])
    assert read_addition(numbers, None, before, (), {}).links.node_ids == ["7", "8"]
    numbered = read_graph(numbers).graph
    texts = write(tmp_path / "t.csv", "source,target", ["7,eight"])
    with pytest.raises(UserError, match="the id 'eight' is text, and the ids of the graph are whole numbers"):
        read_addition(texts, None, numbered, (), {})


def test_sparse_features_stay_sparse(tmp_path: Path) -> None:
    write(tmp_path / "e.csv", "source,target", [f"n{a},n{(a + 1) % 40}" for a in range(40)])
    write(tmp_path / "p.csv", "id,feature,value", [f"n{a},word{a},1" for a in range(40)] + ["n0,word5,2"])
    own = read_graph(tmp_path / "e.csv", features=tmp_path / "p.csv")
    write(tmp_path / "e2.csv", "source,target", ["q,n1"])
    write(tmp_path / "p2.csv", "id,feature,value", ["q,word7,3"])
    read = read_addition(tmp_path / "e2.csv", tmp_path / "p2.csv", own.graph, own.feature_names, {})
    assert read.nodes is not None
    x = read.nodes.x.dense()[0]
    assert x.nonzero().flatten().tolist() == [own.feature_names.index("word7")]
    assert x.sum() == 3
