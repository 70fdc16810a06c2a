"""What the commands say about vectors: ids as they are written, shifts against seeds, all that is behind a link."""

import csv
import gzip
import shutil
import sys
from collections.abc import Callable
from io import BytesIO, StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from bandana.__main__ import main
from bandana.data.tables import read_graph
from bandana.own import automatic
from bandana.own.automatic import choose
from bandana.own.calibration import Estimate
from bandana.own.embed import embed_own, write_embedded
from bandana.reporting import own_report
from bandana.terminal import use

NAMES = ["[/b]", ":heart:", *(f"[red]{number}" for number in range(2, 24))]
RING = [(a, (a + step) % 20) for a in range(20) for step in (1, 2)]
PAIR = [(20, 21), (22, 23)]
"""Not joined to the ring, nor to each other."""

Bandana = Callable[..., str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One graph from three seeds, and a later version of it."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
        patch.setattr(own_report, "_tsne", lambda z, seed: z[:, :2].numpy())
        for name, edges, seed in [("first", RING, 0), ("again", RING, 1), ("third", RING, 2), ("later", RING[1:], 0)]:
            rows = [("source", "target"), *((NAMES[a], NAMES[b]) for a, b in [*edges, *PAIR])]
            with (folder / "edges.csv").open("w", newline="") as file:
                csv.writer(file).writerows(rows)
            own = read_graph(folder / "edges.csv")
            done = embed_own(own, choose(own.graph, epochs=2, dimensions=8, device="cpu"), seed=seed, device="cpu")
            write_embedded(folder / name, done, title=name)
    return folder


@pytest.fixture(scope="module")
def bandana(made: Path) -> Bandana:
    """Run a command beside the folders; what it says on either stream, in lines as long as they need to be."""

    def call(*words: object) -> str:
        said = StringIO()
        wide = Console(width=1000, file=said)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(made)
            patch.setattr(use, "console", wide)
            patch.setattr(use, "status", wide)
            patch.setattr(sys, "argv", ["bandana", *map(str, words)])
            with pytest.raises(SystemExit) as end:
                main()
        assert not end.value.code
        return said.getvalue()

    return call


def test_ids_are_printed_as_they_are(bandana: Bandana) -> None:
    near = bandana("similar", "first", "--id", "[/b]", "-k", 30)
    assert "Most similar to [/b]," in near
    assert all(name in near for name in NAMES)
    assert ":heart:" in bandana("similar", "first", "--id", ":heart:", "-k", 1)
    links, moved = bandana("links", "first", "--top", 300), bandana("compare", "first", "later", "--most", 24)
    assert all(name in links and name in moved for name in NAMES)
    why = bandana("why", "first", "--link", "[/b]", "[red]3")
    assert "[/b] and [red]3 are not linked" in why
    assert "[/b] – " in why


def test_vectors_of_a_store_have_neighbours_and_labels_too(bandana: Bandana, made: Path) -> None:
    """As `bandana infer` leaves them: without the graph, which can be larger than memory."""
    (made / "bare").mkdir()
    shutil.copy(made / "first" / "embeddings.parquet", made / "bare")
    (made / "few.csv").write_text("id,label\n[red]2,a\n[red]3,a\n[red]20,b\n[red]21,b\n")
    assert bandana("similar", "bare", "--id", "[red]5") == bandana("similar", "first", "--id", "[red]5")
    told = [bandana("classify", folder, "--labels", "few.csv", "-o", "answers.csv") for folder in ("bare", "first")]
    assert told[0] == told[1]


def test_long_ids_are_folded_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    said = StringIO()
    monkeypatch.setattr(use, "console", Console(width=40, file=said))
    use._show_table(("node", "score"), [("x" * 100, "0.5")])
    assert said.getvalue().count("x") == 100


def test_shifts_are_set_against_other_seeds(bandana: Bandana) -> None:
    plain = bandana("compare", "first", "later")
    assert "not set against seed noise" in plain
    assert "add --reseeded first-reseeded" in plain
    noisy = bandana("compare", "first", "later", "--reseeded", "again", "--reseeded", "third")
    assert "99% of their shifts are up to " in noisy
    assert "of a node's nearest change. Moved beyond that: " in noisy
    assert " of 24 nodes (by chance about 0)" in noisy
    assert "not set against" not in noisy


def test_one_model_needs_no_other_seed(bandana: Bandana) -> None:
    said = bandana("compare", "first", "first")
    assert "No seed lies between them" in said
    assert "--reseeded" not in said


def test_why_says_all_that_was_computed(bandana: Bandana) -> None:
    linked = bandana("why", "first", "--link", "[red]4", "[red]5")
    assert "are linked; score" in linked
    assert "Score without their link: " in linked
    assert "Score without the links of all of them to the two: " in linked
    assert "Paths of three steps (2):" in linked
    assert "without their link" not in bandana("why", "first", "--link", "[red]4", "[red]7")


def test_why_says_that_nothing_is_near(bandana: Bandana) -> None:
    said = bandana("why", "first", "--link", "[red]4", "[red]20")
    assert "No path of up to three steps leads from [red]4 to [red]20." in said
    assert "Paths" not in said
    assert "No path" not in bandana("why", "first", "--link", "[red]20", "[red]21")


@pytest.fixture(scope="module")
def one_way(made: Path) -> str:
    """A folder of a directed graph: the ring, each link one way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
        patch.setattr(own_report, "_tsne", lambda z, seed: z[:, :2].numpy())
        (made / "ring.csv").write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in RING))
        own = read_graph(made / "ring.csv", directed=True)
        done = embed_own(own, choose(own.graph, epochs=2, dimensions=8, device="cpu"), device="cpu")
        write_embedded(made / "one-way", done, title="one way")
    return "one-way"


def test_links_of_a_directed_graph_have_no_direction_and_it_is_said(bandana: Bandana, made: Path, one_way: str) -> None:
    sentence = "Scores have no direction"
    assert sentence in bandana("links", one_way, "--top", 5)
    assert sentence not in bandana("links", "first", "--top", 5)
    assert sentence in bandana("links", one_way, "--top", 400, "-o", "all.csv")
    with (made / "all.csv").open(newline="") as file:
        pairs = [frozenset((row["source"], row["target"])) for row in csv.DictReader(file)]
    assert len(pairs) == len(set(pairs)) == 20 * 19 // 2 - len(RING)
    assert not set(pairs) & {frozenset((f"n{a}", f"n{b}")) for a, b in RING}
    assert "1 link: one.csv" in bandana("links", one_way, "--top", 1, "-o", "one.csv")


def test_why_knows_a_link_the_other_way(bandana: Bandana, one_way: str) -> None:
    assert "n5 and n4 are linked the other way, from n4 to n5; score" in bandana("why", one_way, "--link", "n5", "n4")
    there = bandana("why", one_way, "--link", "n4", "n6")
    assert "n4 and n6 are linked; score" in there
    assert ", 1 shared neighbour." in there


ROWS = [(name, "low" if number < 10 else "high") for number, name in enumerate(NAMES[1:21])]
"""Not the first: a text that begins with a bracket reads like JSON."""
LINES = [f"{name},{label}\n" for name, label in ROWS]


def parquet() -> bytes:
    content = BytesIO()
    names, labels = zip(*ROWS, strict=True)
    pq.write_table(pa.table({"label": labels, "id": names}), content)
    return content.getvalue()


WAYS = {
    "without a header": "".join(LINES),
    "by tabs": "id\tlabel\n" + "".join(LINES).replace(",", "\t"),
    "as Parquet, label first": parquet(),
    "gzipped": gzip.compress(("id,label\n" + "".join(LINES)).encode()),
    "some empty": "id,label\n" + "".join(LINES) + "[red]21,\n[red]22,NA\n",
}


def predicted(path: Path) -> dict[str, str]:
    with path.open(newline="") as file:
        return {row["id"]: row["label"] for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def expected(bandana: Bandana, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("expected")
    (folder / "few.csv").write_text("id,label\n" + "".join(LINES))
    bandana("classify", "first", "--labels", folder / "few.csv", "-o", folder / "labels.csv")
    return predicted(folder / "labels.csv")


@pytest.mark.parametrize("way", WAYS)
def test_labels_are_read_as_embed_reads_them(
    bandana: Bandana, tmp_path: Path, expected: dict[str, str], way: str
) -> None:
    content = WAYS[way]
    (tmp_path / "few").write_bytes(content.encode() if isinstance(content, str) else content)
    said = bandana("classify", "first", "--labels", tmp_path / "few", "-o", tmp_path / "labels.csv")
    assert "On 20 labelled nodes held out in turn" in said
    assert "Different labels: 2; nodes without one: 4 of 24." in said
    assert predicted(tmp_path / "labels.csv") == expected
    assert set(expected.values()) == {"low", "high"}
