"""Of the processes of a run, the leading one alone writes."""

import os
from pathlib import Path

from processes import clustered_store, finish, launch

from bandana.scale.seal import damaged_blocks
from bandana.store_experiment import StoreExperiment, run_store

CHANGES = {
    "training.epochs": 2,
    "training.evaluate_every": 1,
    "model.encoder.width": 8,
    "shards.parts_per_group": 1,
    "shards.checkpoint_steps": 1,
    "probe.repeats": 1,
    "probe.epochs": 2,
}


def run_at_home(store: Path, homes: Path) -> None:
    """A whole run, in a working folder and with a run folder that no other process has."""
    home = homes / os.environ["RANK"]
    home.mkdir(parents=True)
    os.chdir(home)
    os.environ["TMPDIR"] = str(home)
    run_store(StoreExperiment.of("bandana", store, "node", CHANGES), device="cpu", folder=Path("run"))


def test_only_the_leading_process_writes(tmp_path: Path) -> None:
    store = clustered_store(tmp_path / "store").folder
    before = {path.name: path.stat().st_mtime_ns for path in store.iterdir()}
    assert finish(launch(run_at_home, 2, store, tmp_path / "homes")) == [0, 0]
    written = {path.name for path in (tmp_path / "homes" / "0" / "run").rglob("*")}
    assert {"config.toml", "record.json", "seed-0", "weights.safetensors", "model"} <= written
    assert list((tmp_path / "homes" / "1").iterdir()) == []
    assert {path.name: path.stat().st_mtime_ns for path in store.iterdir()} == before
    assert list(damaged_blocks(store)) == []
