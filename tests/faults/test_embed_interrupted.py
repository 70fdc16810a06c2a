"""Ctrl-C at any stage of `embed`: one sentence, code 130, nothing half-written, earlier output untouched.

The signal is a real one. In this process it is sent at exact moments; a process of its own gets it at others.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bandana import estimator, model_folder
from bandana.__main__ import main
from bandana.own import automatic, embed, outputs
from bandana.own.calibration import Estimate
from bandana.terminal import own as terminal

EDGES = "".join(f"n{a},n{(a + step) % 30}\n" for a in range(30) for step in (1, 2))
QUICK = ("--epochs", "3", "--dimensions", "8", "--device", "cpu")


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def at_the_start_of(module: Any, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    def arrange(patch: pytest.MonkeyPatch) -> None:
        real = getattr(module, name)

        def pressed(*args: Any, **options: Any) -> Any:
            press()
            return real(*args, **options)

        patch.setattr(module, name, pressed)

    return arrange


def in_the_second_epoch(patch: pytest.MonkeyPatch) -> None:
    real = estimator.pretrain

    def training(*args: Any, **options: Any) -> Any:
        return real(*args, **{**options, "on_epoch": lambda state: press() if state.epoch == 2 else None})

    patch.setattr(estimator, "pretrain", training)


def between_the_two_moves(patch: pytest.MonkeyPatch) -> None:
    """When the old folder is out of the way and the new one not yet in its place."""
    real = Path.replace

    def moved(path: Path, target: Path) -> Path:
        result = real(path, target)
        if Path(target).name == "old":
            press()
        return result

    patch.setattr(Path, "replace", moved)


STAGES = {
    "reading": at_the_start_of(terminal, "read_graph"),
    "estimating": at_the_start_of(terminal, "choose"),
    "training": in_the_second_epoch,
    "judging": at_the_start_of(embed, "judge"),
    "writing vectors": at_the_start_of(outputs, "write_embeddings"),
    "writing the model": at_the_start_of(model_folder, "save_file"),
    "writing the report": at_the_start_of(embed, "write_report"),
    "writing the record": at_the_start_of(embed, "write_text"),
    "putting it in place": between_the_two_moves,
}


def command(folder: Path, patch: pytest.MonkeyPatch, *words: str) -> int:
    patch.chdir(folder)
    patch.setattr(sys, "argv", ["bandana", "embed", "edges.csv", "-o", "out", *QUICK, *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(autouse=True, scope="module")
def no_measurements() -> Iterator[None]:
    """What a training would cost is measured elsewhere, and takes longer than these trainings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "edges.csv").write_text(EDGES)
    with pytest.MonkeyPatch.context() as patch:
        assert command(folder, patch) == 0
    return folder


@pytest.mark.parametrize("stage", STAGES)
def test_an_earlier_folder_survives_an_interrupt(made: Path, monkeypatch, capsys, stage: str) -> None:
    before = everything(made)
    STAGES[stage](monkeypatch)
    assert command(made, monkeypatch, "--seed", "1") == 130
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("Stopped: nothing was written, out is as it was")
    assert "Traceback" not in said
    assert everything(made) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_turns_up_as_something_else_is_still_one(made: Path, monkeypatch, capsys) -> None:
    def cut_short(*args: Any, **options: Any) -> None:
        try:
            press()
        except KeyboardInterrupt:
            raise ImportError("cannot import name 'half' from a module that is half there") from None

    monkeypatch.setattr(terminal, "choose", cut_short)
    assert command(made, monkeypatch) == 130
    assert capsys.readouterr().err.splitlines()[-1].startswith("Stopped: nothing was written")


def test_an_interrupt_after_writing_says_so(made: Path, monkeypatch, capsys) -> None:
    at_the_start_of(terminal, "_conclude")(monkeypatch)
    assert command(made, monkeypatch) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "Stopped: out is written already."


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["columns separated", "Estimate", "Judging", "Writing"])
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.3])
def test_a_process_is_interrupted_by_the_terminal(tmp_path: Path, moment: str, delay: float) -> None:
    (tmp_path / "edges.csv").write_text(EDGES)
    words = [sys.executable, "-m", "bandana", "embed", "edges.csv", "-o", "out", "--epochs", "60", "--device", "cpu"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if moment in line:
                break
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert "Traceback" not in said
    whole = {"embeddings.parquet", "graph.safetensors", "model", "report.html", "run.json"}
    if process.returncode == 130 and "nothing was written" in said:
        assert {path.name for path in tmp_path.iterdir()} == {"edges.csv"}
    else:  # the signal came after the work was done
        assert (moment, process.returncode) in {("Judging", 0), ("Writing", 0), ("Writing", 130), ("Judging", 130)}
        assert {path.name for path in (tmp_path / "out").iterdir()} == whole
