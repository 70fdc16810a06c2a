"""Checkpoints execute nothing, are whole or absent, and say so when they are damaged."""

import pickle
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from bandana.errors import UserError
from bandana.files import write_atomically, write_text
from bandana.training import checkpoint


def test_round_trip(tmp_path) -> None:
    path = tmp_path / "a" / "checkpoint.safetensors"
    tensors = {"now": {"weight": torch.randn(3, 2)}, "adam.main": {"0/step": torch.tensor(4.0)}}
    checkpoint.save(path, tensors, {"epoch": 3, "history": [{"loss": 0.25}]})
    loaded, state = checkpoint.load(path)
    assert state == {"epoch": 3, "history": [{"loss": 0.25}]}
    assert torch.equal(loaded["now"]["weight"], tensors["now"]["weight"])
    assert torch.equal(loaded["adam.main"]["0/step"], torch.tensor(4.0))


def test_a_pickle_in_disguise_is_refused_and_not_executed(tmp_path) -> None:
    path, trace = tmp_path / "checkpoint.safetensors", tmp_path / "executed"

    class Malicious:
        def __reduce__(self):
            return (open, (str(trace), "w"))

    path.write_bytes(pickle.dumps(Malicious()))
    with pytest.raises(UserError, match="not a readable checkpoint"):
        checkpoint.load(path)
    assert not trace.exists()


@pytest.mark.parametrize("keep", [0, 7, 60])
def test_a_truncated_file_is_named(tmp_path, keep: int) -> None:
    path = tmp_path / "checkpoint.safetensors"
    checkpoint.save(path, {"now": {"weight": torch.ones(64)}}, {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"checkpoint\.safetensors"):
        checkpoint.load(path)


@pytest.mark.parametrize("header", [{}, {"state": "{"}, {"state": "[" * 100_000}])
def test_a_file_of_another_program_is_refused(tmp_path, header: dict[str, str]) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save_file({"now/weight": torch.ones(2)}, path, metadata=header)
    with pytest.raises(UserError, match="not a readable checkpoint"):
        checkpoint.load(path)


def test_want_of_memory_is_no_damage(tmp_path) -> None:
    with pytest.raises(RuntimeError, match="allocate memory"), checkpoint.told_of(tmp_path):
        raise RuntimeError("can't allocate memory")


def test_a_failed_write_leaves_the_old_content_and_no_litter(tmp_path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def fail(temporary) -> None:
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"file\.txt: cannot be written \(No space left on device\)"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def test_a_file_in_the_place_of_the_folder_is_an_error_of_one_sentence(tmp_path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_text(tmp_path / "taken" / "file.txt", "new")


def test_a_full_disk_is_told_in_a_sentence_and_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint.safetensors"
    checkpoint.save(path, {"now": {"w": torch.ones(2)}}, {"epoch": 1})

    def full(*_: object, **__: object) -> None:
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UserError, match=r"checkpoint\.safetensors: cannot be written \(No space left.*Free space"):
        checkpoint.save(path, {"now": {"w": torch.zeros(2)}}, {"epoch": 2})
    tensors, state = checkpoint.load(path)
    assert (tensors["now"]["w"].tolist(), state) == ([1.0, 1.0], {"epoch": 1})
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
