"""An output never takes the place of what it is made from: that is refused before anything is computed."""

import shutil
import sys
from pathlib import Path

import pytest

from bandana.__main__ import main
from bandana.terminal import own, use

EDGES = "".join(f"n{a},n{(a + step) % 30}\n" for a in range(30) for step in (1, 2))
NODES = "id,size\n" + "".join(f"n{a},{a * 7 % 11}.5\n" for a in range(30))
FEW = "id,label\nn1,left\nn2,right\nn3,left\nn4,right\n"
QUICK = ("--epochs", "2", "--dimensions", "8", "--device", "cpu")


def called(patch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of a command."""
    patch.setattr(sys, "argv", ["bandana", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, a few labels, and what `embed` made of the graph, with the labels laid into it."""
    folder = tmp_path_factory.mktemp("made")
    for name, text in (("edges.csv", EDGES), ("nodes.csv", NODES), ("few.csv", FEW)):
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert called(patch, "embed", "edges.csv", "-o", "people", *QUICK) == 0
    (folder / "people" / "labels.csv").write_text(FEW)
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to work in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    (tmp_path / "link.csv").symlink_to("few.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


LOST = {
    "labels themselves": (("classify", "people", "--labels", "few.csv", "-o", "few.csv"), "few.csv"),
    "labels by another name": (("classify", "people", "--labels", "link.csv", "-o", "people/../few.csv"), "link.csv"),
    "labels in the usual place": (("classify", "people", "--labels", "people/labels.csv"), "people/labels.csv"),
    "vectors by labels": (
        ("classify", "people", "--labels", "few.csv", "-o", "people/embeddings.parquet"),
        "people/embeddings.parquet",
    ),
    "the graph by links": (("links", "people", "-o", "people/graph.safetensors"), "people/graph.safetensors"),
    "labels in the folder": (
        ("embed", "edges.csv", "--labels", "people/labels.csv", "-o", "people", *QUICK),
        "people/labels.csv",
    ),
    "features in the folder": (
        ("embed", "edges.csv", "--features", "people/embeddings.parquet", "-o", "people", *QUICK),
        "people/embeddings.parquet",
    ),
    "new edges in the folder": (
        ("embed", "newer/labels.csv", "--model", "people/model", "-o", "newer"),
        "newer/labels.csv",
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_what_is_read_is_not_written_over(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    shutil.copytree(here / "people", here / "newer")
    (here / "newer" / "labels.csv").write_text("n1,n40\n")
    before = everything(here)
    with monkeypatch.context() as patch:
        for module, work in ((use, "open_output"), (own, "read_graph"), (own, "open_parent")):
            patch.setattr(module, work, lambda *_, **__: pytest.fail("work was begun"))
        words, place = LOST[name]
        assert called(patch, *words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"Error: {place}: is read, and writing ")
    assert said.endswith("; choose another place with -o.\n")
    assert everything(here) == before


def test_outputs_elsewhere_are_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(monkeypatch, "classify", "people", "--labels", "few.csv") == 0
    assert called(monkeypatch, "classify", "people", "--labels", "people/labels.csv", "-o", "all.csv") == 0
    assert called(monkeypatch, "links", "people", "-o", "people.csv") == 0
    assert {"all.csv", "people.csv"} <= {path.name for path in here.iterdir()}
    assert (here / "few.csv").read_text() == FEW
