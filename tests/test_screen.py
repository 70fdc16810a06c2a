"""What is said around the bars and before any verb."""

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bandana import __version__
from bandana.__main__ import main
from bandana.own import automatic
from bandana.own.calibration import Estimate
from bandana.terminal import research, screen
from bandana.terminal.research import show_datasets
from bandana.terminal.screen import say_if_stopped_early
from bandana.training.trainer import TrainingConfig

PLAN = TrainingConfig(epochs=400, evaluate_every=20, patience_evaluations=10)


def said(monkeypatch: pytest.MonkeyPatch, epochs: int, best_epoch: int, training: TrainingConfig = PLAN) -> str:
    written = StringIO()
    monkeypatch.setattr(screen, "status", Console(width=1000, file=written))
    say_if_stopped_early("[b]edges.csv", epochs, best_epoch, training)
    return written.getvalue()


def test_a_training_that_stops_early_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, 340, 140) == (
        "[b]edges.csv: stopped early, after 340 of 400 epochs, because 10 looks in a row at the validation links found "
        "nothing better than epoch 140, whose weights are kept.\n"
    )


def test_a_training_to_the_end_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, 400, 200) == ""
    assert said(monkeypatch, 0, 0) == ""
    assert said(monkeypatch, 340, 140, TrainingConfig(epochs=400, patience_evaluations=0)) == ""


def test_a_run_says_that_it_stopped_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("training.epochs=200", "training.evaluate_every=1", "training.patience_evaluations=1", "training.lr=9")
    words = [word for setting in settings for word in ("--set", setting)]
    command = ["run", "bandana", "karate", "--task", "link", *words, "--device", "cpu", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["bandana", *command])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert "karate, seed 0: stopped early, after" in " ".join(capsys.readouterr().err.split())


def test_the_version_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bandana", "--version"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert capsys.readouterr().out == f"bandana {__version__}\n"


def test_embed_says_that_it_stopped_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(automatic, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
    (tmp_path / "ring.csv").write_text("".join(f"n{a},n{(a + step) % 40}\n" for a in range(40) for step in (1, 2)))
    words = ["--set", "training.patience_evaluations=1", "--set", "training.lr=9", "--device", "cpu"]
    command = ["embed", str(tmp_path / "ring.csv"), "-o", str(tmp_path / "out"), *words]
    monkeypatch.setattr(sys, "argv", ["bandana", *command])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert "ring.csv: stopped early, after" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("width", [40, 60, 80])
def test_data_sets_can_be_read_in_any_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    written = StringIO()
    monkeypatch.setattr(research, "console", Console(width=width, file=written))
    show_datasets(None, json=False)
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    (row,) = (line.split() for line in lines if line.startswith(" digits"))
    assert {"1,797", "built", "in"} <= set(row), "nothing is cut, nothing runs downwards"
