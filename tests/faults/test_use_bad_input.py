"""Whatever is wrong with what is asked of vectors, it ends in one sentence with code 2, and nothing is written."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from bandana.__main__ import main

EDGES = "".join(f"n{a},n{(a + step) % 30}\n" for a in range(30) for step in (1, 2))
QUICK = ("--epochs", "2", "--dimensions", "8", "--device", "cpu")
FEW = "id,label\nn1,left\nn2,right\nn3,left\nn4,right\n"


class Answer(NamedTuple):
    code: int
    said: str


Bandana = Callable[..., Answer]


def called(patch: pytest.MonkeyPatch, *words: object) -> int:
    """The exit code of a command."""
    patch.setattr(sys, "argv", ["bandana", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, what `embed` made of it, another graph, and folders and files of other kinds."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "edges.csv").write_text(EDGES)
    (folder / "fewer.csv").write_text(EDGES.replace("n0,n1\n", ""))
    (folder / "other.csv").write_text(EDGES.replace("n", "m"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, edges in (("out", "edges.csv"), ("fewer", "fewer.csv"), ("other", "other.csv")):
            assert called(patch, "embed", edges, "-o", name, *QUICK) == 0
    (folder / "no output").mkdir()
    (folder / "bare").mkdir()
    shutil.copy(folder / "out" / "embeddings.parquet", folder / "bare")
    shutil.copytree(folder / "out", folder / "damaged")
    (folder / "damaged" / "embeddings.parquet").write_bytes(b"PAR1")
    for name, text in LABELS.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def bandana(made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bandana:
    """Run a command beside the folders, as the shell would."""
    monkeypatch.chdir(made)

    def call(*words: object) -> Answer:
        code = called(monkeypatch, *words)
        return Answer(code, capsys.readouterr().err)

    return call


LABELS = {
    "few.csv": FEW,
    "empty.csv": "",
    "header.csv": "id,label\n",
    "nothing.csv": "id,label\nn1,\nn2,NA\n",
    "unknown.csv": f"{FEW}n99,left\n",
    "twice.csv": f"{FEW}n1,right\n",
    "one class.csv": "id,label\nn1,left\nn2,left\n",
    "one column.csv": "n1\nn2\n",
    "wide.csv": "id,colour,size\nn1,red,3\n",
    "ragged.csv": f"{FEW}n5\n",
}

BAD = {
    "a missing folder": (("similar", "nowhere", "--id", "n1"), "nowhere: holds no run.json"),
    "a missing folder for links": (("links", "nowhere"), "nowhere: holds no run.json"),
    "a missing folder for labels": (("classify", "nowhere", "--labels", "few.csv"), "nowhere: holds no run.json"),
    "a missing version": (("compare", "out", "nowhere"), "nowhere: holds no run.json"),
    "a missing seed": (("compare", "out", "fewer", "--reseeded", "nowhere"), "nowhere: holds no run.json"),
    "a missing folder for why": (("why", "nowhere", "--link", "n1", "n2"), "nowhere: holds no run.json"),
    "a folder that is no output": (("links", "no output"), "no output: holds no run.json"),
    "vectors without their graph": (("links", "bare"), "bare: holds vectors without their graph. Name a folder that"),
    "a file for a folder": (("similar", "edges.csv", "--id", "n1"), "edges.csv: holds no run.json"),
    "a file for a folder to classify": (
        ("classify", "edges.csv", "--labels", "few.csv"),
        "edges.csv: holds no run.json",
    ),
    "a damaged folder": (("similar", "damaged", "--id", "n1"), "damaged/embeddings.parquet"),
    "an unknown id": (("similar", "out", "--id", "n111"), "Did you mean 'n11'?"),
    "an unknown id in markup": (("similar", "out", "--id", "[/b]"), "no node with the id '[/b]'"),
    "an unknown end": (("why", "out", "--link", "n1", "n222"), "Did you mean 'n22'?"),
    "one id twice": (("why", "out", "--link", "n1", "n1"), "--link: 'n1' is named twice, and two different ids"),
    "no neighbour": (("similar", "out", "--id", "n1", "-k", "0"), "k: must be at least 1, got 0"),
    "no link": (("links", "out", "--top", "0"), "top: must be at least 1, got 0"),
    "too near": (("links", "out", "--within", "1"), "within: must be 2 or 3 steps, got 1"),
    "versions without a shared id": (("compare", "out", "other"), "share 0 node ids"),
    "another graph for a seed": (("compare", "out", "fewer", "--reseeded", "fewer"), "has other nodes or links"),
    "the same seed": (("compare", "out", "fewer", "--reseeded", "out"), "out holds the very model of out"),
    "no labels": (("classify", "out", "--labels", "no.csv"), "no.csv: there is no such file"),
    "a folder of labels": (("classify", "out", "--labels", "out"), "out: is a folder"),
    "an empty file of labels": (("classify", "out", "--labels", "empty.csv"), "empty.csv: is empty"),
    "labels without rows": (("classify", "out", "--labels", "header.csv"), "header.csv: "),
    "labels without a label": (("classify", "out", "--labels", "nothing.csv"), "holds no label at all"),
    "labels of unknown nodes": (("classify", "out", "--labels", "unknown.csv"), "unknown.csv, line 6: labels the node"),
    "two labels for a node": (("classify", "out", "--labels", "twice.csv"), "twice.csv, line 6: the node 'n1' has had"),
    "labels of one class": (("classify", "out", "--labels", "one class.csv"), "at least two are needed"),
    "labels in one column": (("classify", "out", "--labels", "one column.csv"), "one column.csv: has only one column"),
    "labels in two columns": (("classify", "out", "--labels", "wide.csv"), "wide.csv: cannot tell the label"),
    "labels for a folder": (
        ("classify", "out", "--labels", "few.csv", "-o", "no output"),
        "no output: is a folder, and",
    ),
    "links for a folder": (("links", "out", "-o", "no output"), "no output: is a folder, and a file is to be written"),
    "links below a file": (
        ("links", "out", "-o", "few.csv/links.csv"),
        "few.csv is not a folder. Choose another place",
    ),
    "ragged labels": (("classify", "out", "--labels", "ragged.csv"), "ragged.csv, line 6"),
}


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("name", BAD)
def test_bad_questions(bandana: Bandana, made: Path, name: str) -> None:
    words, expected = BAD[name]
    before = everything(made)
    answer = bandana(*words)
    assert answer.code == 2, answer.said
    assert answer.said.count("\n") == len(answer.said.splitlines())
    lines = [line for line in answer.said.splitlines() if line.startswith("Error: ")]
    assert lines == answer.said.splitlines()[-1:], "one line, and the last"
    assert expected in lines[0]
    assert lines[0][-1] in ".?"
    assert everything(made) == before
