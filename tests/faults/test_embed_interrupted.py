"""Ctrl-C at any stage of `embed`: one sentence, code 130, earlier output untouched, and the same command goes on.

The signal is a real one. In this process it is sent at exact moments; a process of its own gets it at others.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bandana import estimator, model_folder
from bandana.__main__ import main
from bandana.own import embed, outputs, unfinished
from bandana.terminal import own as terminal
from bandana.training import trainer

EDGES = "".join(f"n{a},n{(a + step) % 30}\n" for a in range(30) for step in (1, 2))
QUICK = ("--epochs", "3", "--dimensions", "8", "--device", "cpu")


@pytest.fixture(autouse=True)
def _saved_at_every_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "TIME_PER_SAVING", 0.0)


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


UNTRAINED = {"reading", "estimating"}


def command(folder: Path, patch: pytest.MonkeyPatch, *words: str) -> int:
    patch.chdir(folder)
    patch.setattr(sys, "argv", ["bandana", "embed", "edges.csv", "-o", "out", *QUICK, *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "edges.csv").write_text(EDGES)
    with pytest.MonkeyPatch.context() as patch:
        assert command(folder, patch) == 0
    return folder


@pytest.fixture
def fresh(made: Path) -> Iterator[Path]:
    """The folder, without what an earlier test left unfinished in it."""
    yield made
    unfinished.discard(made / "out")


@pytest.mark.parametrize("stage", STAGES)
def test_an_earlier_folder_survives_an_interrupt(fresh: Path, monkeypatch, capsys, stage: str) -> None:
    before = everything(fresh)
    STAGES[stage](monkeypatch)
    assert command(fresh, monkeypatch, "--seed", "1") == 130
    said = capsys.readouterr().err
    begins = "begins anew" if stage in UNTRAINED else "goes on from the last checkpoint of its training"
    assert said.splitlines()[-1] == f"Stopped: out is as it was, and the same command {begins}."
    assert "Traceback" not in said
    kept = {name: content for name, content in everything(fresh).items() if ".unfinished" not in name}
    assert kept == before
    assert len(unfinished.checkpoints(fresh / "out")) == (stage not in UNTRAINED)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def vectors_and_weights(folder: Path) -> list[torch.Tensor]:
    opened = outputs.open_output(folder)
    return [opened.embedding, *opened.model().method.state_dict().values()]


@pytest.mark.parametrize(("method", "stage"), [("bandana", "training"), ("t_bgrl", "training"), ("bandana", "judging")])
def test_the_same_command_goes_on_and_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch, capsys, method: str, stage: str
) -> None:
    (tmp_path / "edges.csv").write_text(EDGES)
    words = ("--method", method, "--epochs", "5")
    assert command(tmp_path, monkeypatch, *words, "-o", "straight") == 0
    with monkeypatch.context() as patch:
        STAGES[stage](patch)
        assert command(tmp_path, patch, *words) == 130
    capsys.readouterr()
    assert command(tmp_path, monkeypatch, *words) == 0
    done = re.search(r"Going on after epoch (\d) of 5, where this training was cut off", capsys.readouterr().err)
    assert done is not None
    assert int(done[1]) == 2 if stage == "training" else int(done[1]) > 2
    assert {path.name for path in tmp_path.iterdir()} == {"edges.csv", "straight", "out"}
    straight, resumed = (vectors_and_weights(tmp_path / name) for name in ("straight", "out"))
    assert all(torch.equal(one, other) for one, other in zip(straight, resumed, strict=True))


def test_other_settings_or_a_broken_checkpoint_begin_anew_and_remove_it(fresh: Path, monkeypatch, capsys) -> None:
    in_the_second_epoch(monkeypatch)
    seen = set()
    for words in (("--seed", "1"), ("--seed", "2"), ("--seed", "2", "--dimensions", "4")):
        assert command(fresh, monkeypatch, *words) == 130
        (name,) = unfinished.checkpoints(fresh / "out")
        seen.add(name)
    assert len(seen) == 3
    os.truncate(unfinished.scratch_folder(fresh / "out") / name, 50)
    (unfinished.scratch_folder(fresh / "out") / f".{name}.half.safetensors").touch()  # killed while it was written
    assert command(fresh, monkeypatch, *words) == 130
    assert "Going on" not in capsys.readouterr().err
    assert [path.name for path in unfinished.scratch_folder(fresh / "out").iterdir()] == [name]


def test_an_interrupt_before_the_training_keeps_the_checkpoint(fresh: Path, monkeypatch, capsys) -> None:
    with monkeypatch.context() as patch:
        in_the_second_epoch(patch)
        assert command(fresh, patch) == 130
    at_the_start_of(terminal, "choose")(monkeypatch)
    kept = unfinished.checkpoints(fresh / "out")
    assert command(fresh, monkeypatch) == 130
    assert capsys.readouterr().err.splitlines()[-1].endswith("the same command begins where this one began.")
    assert unfinished.checkpoints(fresh / "out") == kept


def test_an_output_lost_between_the_two_moves_is_put_back(fresh: Path, monkeypatch) -> None:
    """As `kill -9` would leave it: the earlier folder moved away, and nothing in its place."""
    before = everything(fresh)
    scratch = unfinished.scratch_folder(fresh / "out") / "killed"
    scratch.mkdir(parents=True)
    (fresh / "out").rename(scratch / "old")
    at_the_start_of(terminal, "read_graph")(monkeypatch)
    assert command(fresh, monkeypatch) == 130
    assert {name: kept for name, kept in everything(fresh).items() if ".unfinished" not in name} == before


def test_an_interrupt_that_turns_up_as_something_else_is_still_one(made: Path, monkeypatch, capsys) -> None:
    def cut_short(*args: Any, **options: Any) -> None:
        try:
            press()
        except KeyboardInterrupt:
            raise ImportError("cannot import name 'half' from a module that is half there") from None

    monkeypatch.setattr(terminal, "choose", cut_short)
    assert command(made, monkeypatch) == 130
    assert capsys.readouterr().err.splitlines()[-1].startswith("Stopped: out is as it was")


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
    if process.returncode == 130 and "is as it was" in said:
        assert {path.name for path in tmp_path.iterdir()} - {".out.unfinished"} == {"edges.csv"}
    else:  # the signal came after the work was done
        assert (moment, process.returncode) in {("Judging", 0), ("Writing", 0), ("Writing", 130), ("Judging", 130)}
        assert {path.name for path in (tmp_path / "out").iterdir()} == whole


@pytest.mark.slow
def test_a_killed_process_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(EDGES)
    words = [sys.executable, "-m", "bandana", "embed", "edges.csv", "--epochs", "500", "--device", "cpu", "-o"]
    with subprocess.Popen([*words, "out"], cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        while not unfinished.checkpoints(tmp_path / "out"):
            time.sleep(0.05)
        process.kill()
    done = {}
    for name in ("straight", "out"):
        done[name] = subprocess.run([*words, name], cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    assert "Going on after epoch" not in done["straight"]
    assert "Going on after epoch" in done["out"]
    straight, resumed = (vectors_and_weights(tmp_path / name) for name in ("straight", "out"))
    assert all(torch.equal(one, other) for one, other in zip(straight, resumed, strict=True))
    assert {path.name for path in tmp_path.iterdir()} == {"edges.csv", "straight", "out"}
