"""Interrupted when the result is in its place already, or about to be: nothing is lost, and nothing is stuck."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import call
from processes import clustered_store

from bandana.errors import UserError
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.own.trained import TrainedModel
from bandana.parts.encoders import EncoderConfig
from bandana.scale import journal
from bandana.scale.build import IDS, PARTS, build_store
from bandana.scale.plan import BuildPlan
from bandana.scale.rows import READ_COL, READ_ROWPTR
from bandana.scale.seal import COL, FEATURES, LABELS, NODES, ROWPTR, damaged_blocks, read_description, seal
from bandana.scale.store import Store
from bandana.use import infer as inferring
from bandana.use.infer import infer

WORKING = (IDS, READ_ROWPTR, READ_COL, PARTS)


@pytest.fixture
def plan(tmp_path: Path) -> BuildPlan:
    """Of a small graph with features and labels."""
    ends = np.random.default_rng(0).integers(40, size=(150, 2))
    edges, features, labels = (tmp_path / f"{name}.csv" for name in ("edges", "features", "labels"))
    edges.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in ends))
    features.write_text("id,x,y\n" + "".join(f"{node},{node / 7},{node % 5}\n" for node in range(40)))
    labels.write_text("id,label\n" + "".join(f"{node},{node % 3}\n" for node in range(40)))
    return BuildPlan(edges=edges, features=features, labels=labels, parts=4, partitioner="stream")


def interrupting(remove: Callable[[Path], object]) -> Callable[..., None]:
    """In place of `shutil.rmtree`: where a working folder is to go in the end, it goes in part only."""
    real = shutil.rmtree

    def rmtree(path: Path, ignore_errors: bool = False) -> None:
        if ignore_errors or not path.name.startswith("."):
            real(path, ignore_errors)
            return
        remove(path)
        raise KeyboardInterrupt

    return rmtree


@pytest.fixture
def contents(plan: BuildPlan, tmp_path: Path) -> dict[str, bytes]:
    return bytes_in(build_store(plan, tmp_path / "undisturbed").folder)


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("removed", [None, *WORKING])
def test_a_store_survives_an_interrupted_cleaning_up_and_the_next_build_by_force(
    plan: BuildPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: dict[str, bytes], removed: str | None
) -> None:
    folder, work = tmp_path / "store", tmp_path / ".store.building"
    with monkeypatch.context() as patch:
        patch.setattr(journal.shutil, "rmtree", interrupting(lambda left: removed and (left / removed).unlink()))
        with pytest.raises(UserError, match=r"store: is finished, .* delete .*building"):
            build_store(plan, folder)
    assert work.exists()
    assert bytes_in(folder) == contents
    for _ in range(2):
        build_store(plan, folder, force=True)
        assert list(damaged_blocks(folder)) == []
        assert bytes_in(folder) == contents
        assert not work.exists()


def test_what_an_interrupted_replacement_has_left_is_in_nobodys_way(
    plan: BuildPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: dict[str, bytes]
) -> None:
    folder = tmp_path / "store"
    build_store(plan, folder)
    with monkeypatch.context() as patch:
        patch.setattr(journal.shutil, "rmtree", interrupting(lambda left: None))
        with pytest.raises(UserError, match="is finished"):
            build_store(plan, folder, force=True)
    assert (tmp_path / ".store.building" / "replaced").is_dir()
    build_store(plan, folder, force=True)
    assert bytes_in(folder) == contents
    assert not (tmp_path / ".store.building").exists()


def test_the_command_does_not_ask_to_go_on_with_what_is_finished(
    plan: BuildPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(journal.shutil, "rmtree", interrupting(lambda left: None))
    monkeypatch.setenv("COLUMNS", "200")
    assert call(monkeypatch, "partition", str(plan.edges), str(tmp_path / "store"), "-k", "4") == 2
    said = capsys.readouterr().err
    assert "is finished" in said
    assert "goes on" not in said
    assert Store.open(tmp_path / "store").num_parts == 4


@pytest.mark.parametrize("name", [ROWPTR, COL, NODES, FEATURES, LABELS])
def test_nothing_is_sealed_that_lacks_a_file(plan: BuildPlan, tmp_path: Path, name: str) -> None:
    folder = build_store(plan, tmp_path / "store").folder
    facts = {key: value for key, value in read_description(folder).items() if key not in ("files", "digest")}
    seal(folder, facts)
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name}: is missing"):
        seal(folder, facts)


@pytest.mark.parametrize("moment", ["before the move", "in the cleaning up"])
def test_an_inference_that_is_interrupted_at_its_very_end_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    store = clustered_store(tmp_path / "store")
    config, spec = BandanaConfig(encoder=EncoderConfig(width=8)), GraphSpec(store.num_nodes, store.num_features)
    torch.manual_seed(0)
    model = TrainedModel(name="bandana", config=config, spec=spec, method=Bandana(config, spec))
    infer(model, store, tmp_path / "undisturbed")

    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "before the move":
            patch.setattr(inferring, "move_into_place", interrupt)
        else:
            patch.setattr(inferring.shutil, "rmtree", interrupting(lambda left: None))
        with pytest.raises((KeyboardInterrupt, UserError)) as caught:
            infer(model, store, tmp_path / "out")
    assert (tmp_path / "out").exists() == ("is finished" in str(caught.value)) == (moment == "in the cleaning up")
    assert (tmp_path / ".out.inferring" / "plan.json").exists()
    infer(model, store, tmp_path / "out", force=True)
    assert bytes_in(tmp_path / "out") == bytes_in(tmp_path / "undisturbed")
    assert not (tmp_path / ".out.inferring").exists()
