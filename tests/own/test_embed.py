"""From an edge list to a folder of vectors, and what the folder can be used for."""

import csv
import errno
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bandana.data.tables import OwnGraph, read_graph
from bandana.errors import UserError
from bandana.graph import Graph
from bandana.own import embed as own
from bandana.own import outputs
from bandana.own.automatic import choose
from bandana.own.embed import Embedded, embed_own, write_embedded
from bandana.own.outputs import open_output
from bandana.reporting.embeddings import read_embeddings
from bandana.terminal.screen import console
from bandana.terminal.use import classify_and_show, show_comparison, show_links, show_similar, show_why

PEOPLE = [f"person {number}" for number in range(40)]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Embedded:
    """Two rings with chords, joined once."""
    folder = tmp_path_factory.mktemp("own")
    edges = [(a, (a + step) % 20) for a in range(20) for step in (1, 2)]
    edges += [(20 + a, 20 + b) for a, b in edges] + [(0, 20)]
    with (folder / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("source", "target"), *((PEOPLE[a], PEOPLE[b]) for a, b in edges)])
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("id", "ring"), *((name, "left" if n < 20 else "right") for n, name in enumerate(PEOPLE))]
        )
    own_graph = read_graph(folder / "edges.csv", labels=folder / "labels.csv")
    return embed_own(own_graph, choose(own_graph.graph, epochs=20, dimensions=32), device="cpu")


@pytest.fixture
def folder(done: Embedded, tmp_path: Path) -> Path:
    write_embedded(tmp_path / "out", done, title="rings")
    return tmp_path / "out"


def test_everything_is_in_the_folder_and_ids_survive(done: Embedded, folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        *("embeddings.parquet", "graph.safetensors", "model", "report.html", "run.json")
    }
    rows = read_embeddings(folder / "embeddings.parquet")
    assert sorted(rows.node_ids) == sorted(PEOPLE)
    assert rows.vectors.equal(done.learned.embedding)
    opened = open_output(folder)
    assert opened.graph.edge_index.equal(done.own.graph.edge_index)
    assert list(opened.ids) == list(done.own.graph.node_ids or ())
    assert opened.label_names == ("left", "right")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "rings" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert json.loads((folder / "run.json").read_text())["method"] == "bandana"


def test_the_model_of_the_folder_gives_the_vectors(done: Embedded, folder: Path) -> None:
    opened = open_output(folder)
    torch.testing.assert_close(opened.model().embed(opened.graph), opened.embedding)


def test_a_failure_leaves_the_earlier_folder_alone(
    done: Embedded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(own, "write_report", fail)
    with pytest.raises(UserError, match="No space left on device"):
        write_embedded(folder, done, title="again")
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


def test_a_second_run_takes_the_place_of_the_first(done: Embedded, folder: Path) -> None:
    write_embedded(folder, done, title="second")
    assert open_output(folder).record["title"] == "second"
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("links", [200, 30])
def test_raw_features_are_a_floor_for_links_and_labels_as_the_encoder_reads_them(links: int) -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=draw) * torch.tensor([1.0, 10.0, 1e3, 1e5])
    ends = torch.randint(60, (2, links), generator=draw)
    graph = Graph.from_edges(ends, num_nodes=60, x=x, y=(x[:, 0] > 0).long())
    own_graph = OwnGraph(graph, (), ("low", "high"), None, tuple("abcd"))
    quality = embed_own(own_graph, choose(graph, epochs=2, dimensions=8, device="cpu"), device="cpu").quality
    assert quality.labels is not None
    assert quality.labels["raw features"]["accuracy"] > 0.9
    assert (quality.links is None) == (links == 30)
    if quality.links is not None:
        assert {"raw features", "untrained encoder", "Adamic-Adar", "resource allocation"} <= quality.links.easy.keys()


def test_without_features_they_are_no_floor(done: Embedded) -> None:
    assert done.quality.links is not None
    assert "raw features" not in done.quality.links.easy
    assert done.quality.labels is not None
    assert "raw features" not in done.quality.labels


@pytest.mark.parametrize("method", ["raw_features", "smoothed_features", "untrained_encoder"])
def test_a_method_that_learns_nothing_is_not_judged_against_itself(random_graph, method: str) -> None:
    graph = random_graph(60, 200)
    own_graph = OwnGraph(graph, (), ("one", "two", "three"), None, tuple("abcdef"))
    found = embed_own(own_graph, choose(graph, method=method, device="cpu"), device="cpu").verdicts
    assert found[0].text.startswith("This method learns nothing")
    said = " ".join(map(str, found))
    for words in ("plain features", "without any training", "training added", "worth their training", "Try "):
        assert words not in said


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_and_what_it_points_to_is_written(done: Embedded, tmp_path: Path, is_there: bool) -> None:
    goal, link = tmp_path / "disk" / "vectors", tmp_path / "out"
    goal.parent.mkdir()
    if is_there:
        write_embedded(goal, done, title="first")
    link.symlink_to(goal)
    write_embedded(link, done, title="second")
    assert link.is_symlink()
    assert not goal.is_symlink()
    assert open_output(goal).record["title"] == "second"
    assert [path.name for path in goal.parent.iterdir()] == ["vectors"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_somebody_else_wrote_is_never_replaced(done: Embedded, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="was not made by bandana embed"):
        write_embedded(tmp_path / "mine", done, title="no")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "Free space or"), (errno.EACCES, "Choose another place")]
)
def test_the_advice_fits_what_keeps_the_folder_from_being_written(tmp_path: Path, number: int, advice: str) -> None:
    def fail(place: Path) -> None:
        raise OSError(number, "so it is")

    with pytest.raises(UserError, match=rf"out: cannot be written \(so it is\)\. {advice}"):
        outputs.write_output(tmp_path / "out", fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ['{"my": "own results"}', "precious", "[1]"])
def test_a_record_of_somebody_else_is_not_taken_for_ours(done: Embedded, tmp_path: Path, content: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.json").write_text(content)
    with pytest.raises(UserError, match="was not made by bandana embed"):
        write_embedded(tmp_path / "mine", done, title="no")
    assert (tmp_path / "mine" / "run.json").read_text() == content


def test_labels_of_somebody_else_are_not_taken_for_ours(done: Embedded, tmp_path: Path) -> None:
    write_embedded(tmp_path / "out", done, title="first")
    (tmp_path / "out" / "labels.csv").write_text("id,label\na,A\n")
    with pytest.raises(UserError, match=r"out/labels\.csv: was not written by bandana embed"):
        write_embedded(tmp_path / "out", done, title="second")
    (tmp_path / "out" / "labels.csv").write_text("id,label,probability\na,A,0.9\n")
    write_embedded(tmp_path / "out", done, title="second")


def test_what_somebody_put_beside_a_model_is_never_replaced(done: Embedded, tmp_path: Path) -> None:
    write_embedded(tmp_path / "out", done, title="first")
    (tmp_path / "out" / "model" / "notes.txt").write_text("what it is good for")
    with pytest.raises(UserError, match=r"model/notes\.txt: was not written by bandana embed"):
        write_embedded(tmp_path / "out", done, title="second")
    assert (tmp_path / "out" / "model" / "notes.txt").read_text() == "what it is good for"


@pytest.mark.parametrize("name", [outputs.RECORD, outputs.GRAPH, outputs.EMBEDDINGS])
def test_a_damaged_folder_is_refused_in_words(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\x00\x01broken")
    with pytest.raises(UserError, match=r"run\.json|damaged|embeddings"):
        open_output(folder)


@pytest.mark.parametrize("sealed", [True, False])
def test_a_flipped_bit_of_the_graph_is_noticed(folder: Path, sealed: bool) -> None:
    """Followed, such an index leads anywhere in memory. Folders of earlier versions have no digest."""
    graph, record = folder / outputs.GRAPH, folder / outputs.RECORD
    said = json.loads(record.read_text())
    assert said[outputs.GRAPH_DIGEST] == hashlib.sha256(graph.read_bytes()).hexdigest()
    if not sealed:
        record.write_text(json.dumps({key: value for key, value in said.items() if key != outputs.GRAPH_DIGEST}))
        assert open_output(folder).graph.num_nodes == 40
    what = r"graph\.safetensors is not the file that run\.json was" if sealed else "its edges or features point out of"
    tensors = load_file(graph)
    for name in sorted(tensors.keys() - {"y", "x.values"}):
        broken = {key: tensor.clone() for key, tensor in tensors.items()}
        broken[name][1] ^= 1 << 36
        save_file(broken, graph, {"format": "1", "directed": "False"})
        with pytest.raises(UserError, match=rf"damaged \({what}.*\)\. Run bandana embed again"):
            open_output(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("edges.transposed_entry", lambda entries: entries[[0, *range(len(entries) - 1)]]),
        ("edges.rowptr", lambda pointers: pointers.flip(0)),
        ("edges.rowptr", lambda pointers: pointers[:0]),
        ("edges.transposed_rowptr", lambda pointers: pointers[:-1]),
        ("edges.col", lambda columns: columns[:-1]),
        ("edges.col", lambda columns: columns.int()),
        ("edges.row", lambda rows: -rows - 1),
        ("y", lambda labels: labels[:-1]),
    ],
)
def test_a_graph_that_is_not_of_one_piece_is_refused(
    folder: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    graph, record = folder / outputs.GRAPH, folder / outputs.RECORD
    record.write_text(json.dumps(json.loads(record.read_text()) | {outputs.GRAPH_DIGEST: None}))
    tensors = {"y": torch.zeros(40, dtype=torch.long)} | load_file(graph)
    save_file(tensors | {name: change(tensors[name]).contiguous()}, graph, {"format": "1", "directed": "False"})
    with pytest.raises(UserError, match=r"point out of the graph|are not of one graph"):
        open_output(folder)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Name a folder that bandana embed wrote"):
        open_output(tmp_path)


def test_neighbours_and_links_are_named_by_their_ids(folder: Path) -> None:
    with console.capture() as capture:
        show_similar(folder, "person 5", 3)
    assert capture.get().count("person") == 4
    target = folder.parent / "links.csv"
    show_links(folder, 7, None, target)
    rows = list(csv.DictReader(target.open()))
    assert len(rows) == 7
    present = {frozenset(pair) for pair in open_output(folder).graph.edge_index.T.tolist()}
    ids = list(open_output(folder).ids)
    assert all(frozenset((ids.index(row["source"]), ids.index(row["target"]))) not in present for row in rows)
    with pytest.raises(UserError, match="no node with the id 'person 99'"):
        show_similar(folder, "person 99", 3)


def test_a_few_labels_give_all(folder: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("id,label\n" + "".join(f"{PEOPLE[n]},{'left' if n < 20 else 'right'}\n" for n in range(0, 40, 3)))
    with console.capture() as capture:
        classify_and_show(folder, few, None)
    assert "held out" in capture.get()
    rows = {row["id"]: row for row in csv.DictReader((folder / "labels.csv").open())}
    assert rows.keys() == set(PEOPLE)
    right = [rows[name]["label"] == ("left" if n < 20 else "right") for n, name in enumerate(PEOPLE)]
    assert sum(right) >= 36
    with pytest.raises(UserError, match="neither text nor Parquet nor Arrow"):
        classify_and_show(folder, folder / "graph.safetensors", None)


def test_a_folder_compared_with_itself_has_not_moved(folder: Path) -> None:
    with console.capture() as capture:
        show_comparison(folder, folder, 3)
    assert "40 nodes in both" in capture.get()
    assert "0% changed" in capture.get()


def test_why_names_the_shared_neighbours(folder: Path) -> None:
    with console.capture() as capture:
        show_why(folder, "person 3", "person 5")
    shown = capture.get()
    assert "are linked" in shown
    assert "person 4" in shown
