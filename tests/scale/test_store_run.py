"""``bandana run METHOD STORE``: a run folder like any other, and a sentence where a store cannot be served."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from processes import clustered_store

from bandana import model_folder
from bandana.__main__ import main
from bandana.errors import UserError
from bandana.experiment import embed
from bandana.scale.store import Store, write_store
from bandana.store_experiment import StoreExperiment, run_store

QUICK = ("training.epochs=4", "training.evaluate_every=2", "model.encoder.width=8", "probe.repeats=1", "probe.epochs=5")
SETTINGS = [word for text in (*QUICK, "shards.parts_per_group=1") for word in ("--set", text)]


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command beside a store of eight parts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    clustered_store(tmp_path / "store")

    def call(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["bandana", *words])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Answer(code, *capsys.readouterr())

    return call


def test_a_run_on_a_store_leaves_a_record_a_model_and_vectors(command: Command, tmp_path: Path) -> None:
    words = ("run", "bandana", "store", *SETTINGS, "--device", "cpu", "--seeds", "2", "--out", "out")
    first = command(*words)
    assert first.code == 0, first.err
    assert "micro-F1" in first.out
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert set(record["summary"]) >= {"auc", "ap", "micro_f1", "macro_f1"}
    assert set(record["seeds"][0]["floors"]) >= {"untrained encoder", "raw features"}
    assert record["seeds"][0]["split"]["parts"] == "8 of 8"
    assert not list((tmp_path / "out").rglob("checkpoint*"))

    again = command("run", "out/config.toml", "--device", "cpu", "--seeds", "2", "--out", "out", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["summary"] == record["summary"]

    assert command("infer", "store", "--model", "out/seed-0/model", "-o", "vectors").code == 0
    model, store = model_folder.load(tmp_path / "out/seed-0/model"), Store.open(tmp_path / "store")
    vectors = torch.from_numpy(np.load(tmp_path / "vectors" / "embeddings.npy"))
    torch.testing.assert_close(vectors, embed(model.method, store.graph()), rtol=1e-5, atol=1e-6)


def test_the_command_that_is_shown_can_be_typed_as_it_stands(command: Command, tmp_path: Path) -> None:
    store, out = "a [b] store", "runs of é"
    (tmp_path / "store").rename(tmp_path / store)
    answer = command("run", "bandana", store, *SETTINGS, "--device", "cpu", "--out", out)
    (shown,) = [line for line in answer.out.splitlines() if "bandana infer" in line]
    words = ["bandana", "infer", store, "--model", f"{out}/seed-0/model", "-o", "FOLDER"]
    assert shlex.split(shown.partition(": ")[2]) == words


def test_a_training_on_a_store_that_stops_early_says_why(command: Command) -> None:
    hasty = ("training.epochs=40", "training.evaluate_every=1", "training.patience_evaluations=1", "training.lr=9")
    words = [word for text in hasty for word in ("--set", text)]
    answer = command("run", "bandana", "store", *SETTINGS, *words, "--device", "cpu", "--out", "out")
    assert answer.code == 0, answer.err
    assert "store, seed 0: stopped early, after" in " ".join(answer.err.split())


def test_too_few_labels_are_told_before_training_and_links_do_without(command: Command, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    few = replace(store.graph(), y=torch.where(torch.arange(store.num_nodes) % 20 == 0, store.graph().y, -1))
    write_store(tmp_path / "few", few, torch.arange(store.num_nodes) // 12)
    words = ("run", "bandana", "few", *SETTINGS, "--device", "cpu", "--out", "out")
    refused = command(*words, "--task", "node")
    assert refused.code == 2
    assert "only 5 of the nodes" in refused.err
    assert not (tmp_path / "out").exists()
    links = command(*words, "--task", "link")
    assert links.code == 0, links.err
    assert set(json.loads((tmp_path / "out" / "record.json").read_text())["summary"]) >= {"auc", "ap"}
    said = "not classified, because too few of the 96 that are judged have labels"
    assert json.loads((tmp_path / "out" / "seed-0" / "record.json").read_text())["split"]["nodes"] == said
    assert f"Nodes are {said}." in " ".join(links.out.split())


def test_nodes_of_a_store_without_labels_are_not_classified(command: Command, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    write_store(tmp_path / "bare", replace(store.graph(), y=None), torch.arange(store.num_nodes) // 12)
    refused = command("run", "bandana", "bare", "--task", "node", *SETTINGS, "--device", "cpu", "--out", "out")
    assert refused.code == 2
    assert "bare: has no labels; give bandana partition some, or use --task link." in " ".join(refused.err.split())
    assert not (tmp_path / "out").exists()


def test_a_record_has_the_floors_and_the_certificate_of_one_in_memory(command: Command, tmp_path: Path) -> None:
    assert command("run", "bandana", "store", *SETTINGS, "--device", "cpu", "--task", "link", "--out", "out").code == 0
    record = json.loads((tmp_path / "out" / "seed-0" / "record.json").read_text())
    floors = {"common neighbours", "Adamic-Adar", "resource allocation", "untrained encoder", "raw features"}
    assert set(record["floors"]) == floors
    assert set(record["split"]["checks"]) >= {
        "no negative is a link of any part",
        "no negative repeats within validation or test",
        "validation and test share no negative",
    }


def test_a_run_is_never_taken_for_one_on_another_graph_in_the_same_place(command: Command, tmp_path: Path) -> None:
    words = ("run", "gae", "store", *QUICK_GAE, "--device", "cpu", "--task", "link")
    assert command(*words, "--out", "out").code == 0
    record = (tmp_path / "out" / "record.json").read_bytes()
    shutil.rmtree(tmp_path / "store")
    clustered_store(tmp_path / "store", seed=1)
    again = command(*words, "--out", "out")
    assert again.code == 2
    assert "out: holds a run on another graph" in " ".join(again.err.split())
    from_file = command("run", "out/config.toml", "--device", "cpu", "--out", "elsewhere")
    assert from_file.code == 2
    assert "store: holds another graph than when this configuration was written" in " ".join(from_file.err.split())
    assert (tmp_path / "out" / "record.json").read_bytes() == record
    assert not (tmp_path / "elsewhere").exists()
    assert command(*words, "--out", "fresh").code == 0


@pytest.mark.parametrize(("seeds", "complaint"), [((0, 2**32), "whole numbers from 0 to 4294967295"), ((), "is none")])
def test_seeds_that_would_repeat_others_are_refused(tmp_path: Path, seeds: tuple[int, ...], complaint: str) -> None:
    experiment = StoreExperiment.of("gae", clustered_store(tmp_path / "store").folder, "link", {})
    with pytest.raises(UserError, match=f"seeds: .*{complaint}"):
        run_store(experiment, seeds=seeds, device="cpu", folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_store_of_few_parts_is_learned_from_without_being_asked(command: Command, tmp_path: Path) -> None:
    for parts in (1, 3, 5):
        store = clustered_store(tmp_path / f"of {parts}", num_parts=parts, nodes_per_part=30)
        shards = StoreExperiment.of("gae", store.folder, "link", {}).shards
        assert shards.parts_per_group * shards.groups_per_step <= parts
    settings = [word for word in QUICK_GAE[:4] if "shards" not in word]
    assert command("run", "gae", "of 3", *settings, "--device", "cpu", "--task", "link", "--out", "out").code == 0


def test_other_settings_in_the_same_folder_are_refused(command: Command) -> None:
    words = ("run", "gae", "store", *QUICK_GAE, "--device", "cpu", "--out", "out", "--task", "link")
    assert command(*words).code == 0
    other = command(*words, "--set", "training.lr=0.5")
    assert other.code == 2
    assert "other settings" in other.err
    again = command("run", "out/config.toml", "--set", "method=bandana", "--device", "cpu", "--out", "out")
    assert again.code == 2
    assert "--set method: follows from the arguments" in again.err


QUICK_GAE = [
    word
    for text in ("training.epochs=1", "model.encoder.widths=[8, 4]", "shards.parts_per_group=1", "probe.repeats=1")
    for word in ("--set", text)
]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("grace", "store"), "bandana, gae"),
        (("bandana", "store", "--jobs", "2"), "--jobs"),
        (("bandana", "store", "--protocol", "paper"), "protocol"),
        (("bandana", "store", "--set", "training.edge_batch_size=10"), "training.edge_batch_size"),
        (("bandana", "store", "--set", "model.encoder.node_embedding=4"), "node embeddings"),
        (("bandana", "store", "--set", "shards.parts_per_group=3"), "the store has 8 parts"),
        (("bandana", "store", "--set", "shards.parts=3"), "shards.parts"),
        (("bandana", "store", "--set", "method=gae"), "--set method: follows from the arguments; say bandana run"),
        (("bandana", "store", "--set", "dataset=cora"), "--set dataset: follows from the arguments"),
        (("bandana", "store", "--set", "contents=''"), "--set contents: follows from the arguments"),
        (("bandana", "store", "--estimate", "--set", "method=gae"), "--set method: follows from the arguments"),
        (("bandana", "store", "--set", "shards.parts_per_group=1", "--set", "model.target=released"), "released"),
    ],
)
def test_what_a_store_cannot_serve_ends_in_a_sentence(command: Command, words: tuple[str, ...], said: str) -> None:
    answer = command("run", *words, "--device", "cpu", "--out", "out")
    assert answer.code == 2
    assert said in " ".join(answer.err.split())
    assert answer.err.startswith("Error: ") or "\nError: " in answer.err


def test_advice_about_groups_can_be_followed_in_the_same_folder(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not divide, or asks for more parts than there are, is refused before the folder belongs to it."""
    words = ("run", "gae", "store", *QUICK_GAE, "--device", "cpu", "--out", "out", "--task", "link")
    with monkeypatch.context() as three:
        for name, value in {"WORLD_SIZE": "3", "RANK": "0"}.items():
            three.setenv(name, value)
        refused = command(*words)
    assert refused.code == 2
    assert "set it to a multiple of 3" in " ".join(refused.err.split())
    assert not (tmp_path / "out").exists()
    assert command(*words, "--set", "shards.groups_per_step=9").code == 2
    assert not (tmp_path / "out").exists()
    assert command(*words, "--set", "shards.groups_per_step=3").code == 0


@pytest.mark.parametrize("option", [("--jobs", "2"), ("--recipe", "tuned"), ("--profile",)])
@pytest.mark.parametrize("estimate", [(), ("--estimate",)])
def test_options_that_a_store_does_not_know_are_refused_in_an_estimate_as_well(
    command: Command, option: tuple[str, ...], estimate: tuple[str, ...]
) -> None:
    refused = command("run", "bandana", "store", *SETTINGS, "--device", "cpu", *option, *estimate)
    assert refused.code == 2
    assert f"{option[0]}: is not for runs on a store" in refused.err
