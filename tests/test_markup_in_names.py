"""Names of files and columns are somebody else's words: what looks like markup in them is shown, and breaks nothing."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bandana.__main__ import main
from bandana.data import datasets
from bandana.own import automatic
from bandana.own.calibration import Estimate

NAME = "n[/b]:cat:"
QUICK = ("training.epochs=2", "training.evaluate_every=1", "model.encoder.width=8", "probe.repeats=1", "probe.epochs=3")
SETTINGS = [*(word for text in QUICK for word in ("--set", text)), "--device", "cpu"]
EDGES = "".join(f"p{a},p{(a + step) % 60},{a}\n" for a in range(60) for step in range(1, 9))
Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command that succeeds in a folder with a list of edges, and give back all it has said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("BANDANA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BANDANA_DATA", raising=False)
    monkeypatch.setattr(automatic, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
    for folder in ("", "store ", "run ", "out ", "newer ", "links ", "docs ", "data ", "tuned "):
        Path(f"{folder}{NAME}").parent.mkdir()
    Path(f"{NAME}.csv").write_text(f"source,target,[/x]{NAME}\n{EDGES}")

    def call(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["bandana", *words])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        assert not end.value.code, shown.err
        return " ".join(f"{shown.out} {shown.err}".split())

    return call


def test_the_verbs_of_a_large_graph(command: Command) -> None:
    partition = ("partition", f"{NAME}.csv", f"store {NAME}", "-k", "4")
    assert f"partition {NAME}.csv" in command(*partition, "--estimate")
    said = command(*partition)
    assert f"Store: store {NAME} 60 nodes" in said
    assert f"Not used of {NAME}.csv: '[/x]{NAME}'" in said
    assert f"store {NAME}: all " in command("verify", f"store {NAME}")
    words = ("bandana", f"store {NAME}", "--task", "link", *SETTINGS, "--set", "shards.parts_per_group=1")
    assert f"bandana on store {NAME}" in command("run", *words, "--estimate")
    said = command("run", *words, "--out", f"run {NAME}")
    assert f"store {NAME}: link prediction" in said
    assert f"weights and models: run {NAME}" in said


def test_the_verbs_of_an_own_graph(command: Command) -> None:
    said = command("embed", f"{NAME}.csv", "-o", f"out {NAME}", "--method", "bandana", "--epochs", "2")
    assert f"Not used: '[/x]{NAME}'" in said
    assert f"Vectors: out {NAME}/embeddings.parquet" in said
    Path("more.csv").write_text("p1,p30\n")
    said = command("embed", "more.csv", "--model", f"out {NAME}/model", "-o", f"newer {NAME}")
    assert f"The list: newer {NAME}/changed.csv" in said
    assert f"3 links: links {NAME}" in command("links", f"newer {NAME}", "--top", "3", "-o", f"links {NAME}")


def test_the_verbs_of_a_researcher(command: Command, tmp_path: Path) -> None:
    words = ("karate", "--task", "link", *SETTINGS)
    assert f"seed and weights: run {NAME}" in command("run", "bandana", *words, "--out", f"run {NAME}")
    assert f"pages in docs {NAME}" in command("methods", "--write-docs", f"docs {NAME}")
    raw = datasets._RAW_FILES["cora"]
    for file in raw.files:
        path = tmp_path / f"data {NAME}" / raw.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert f"Found in {tmp_path / f'data {NAME}'}" in command("datasets", "--data-root", str(tmp_path / f"data {NAME}"))
    said = command("tune", "bandana", *words, "--trials", "1", "-o", f"tuned {NAME}")
    assert f"Recipe: tuned {NAME}/recipe.toml" in said
