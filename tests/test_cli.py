"""The command line as a newcomer meets it: exit codes, files, and sentences instead of tracebacks.

Starting an interpreter takes longer than a small run, so most tests call the entry point in this process.
"""

import csv
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from bandana.__main__ import main
from bandana.terminal import scale

QUICK = (
    "--set",
    "training.epochs=4",
    "--set",
    "training.evaluate_every=2",
    "--set",
    "probe.repeats=2",
    "--device",
    "cpu",
)


class Answer(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Bandana = Callable[..., Answer]


@pytest.fixture
def bandana(tmp_path: Path, monkeypatch, capsys) -> Bandana:
    """Run a command in an empty folder, as the shell would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BANDANA_DATA", raising=False)
    monkeypatch.setenv("BANDANA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["bandana", *words])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        shown = capsys.readouterr()
        return Answer(code, shown.out, shown.err)

    return call


def test_help_answers_at_once_and_names_every_verb() -> None:
    command = [sys.executable, "-m", "bandana", "--help"]
    fastest = float("inf")
    for _ in range(2):
        before = os.times()
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        after = os.times()  # seconds of the processor: others may be using it
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        fastest = min(fastest, spent)
    assert answer.returncode == 0
    assert all(verb in answer.stdout for verb in ("demo", "run", "methods", "datasets", "env"))
    assert fastest < 0.5


def test_a_run_writes_its_folder_and_the_folder_runs_again(tmp_path: Path, bandana: Bandana) -> None:
    answer = bandana("run", "bandana", "karate", "--task", "node", "--seeds", "2", *QUICK, "--out", "run")
    assert answer.returncode == 0, answer.stderr
    assert "node classification, clean protocol, 2 pre-training seeds" in " ".join(answer.stdout.split())
    assert "untrained encoder" in answer.stdout
    folder = tmp_path / "run"
    record = json.loads((folder / "record.json").read_text())
    assert [seed["seed"] for seed in record["seeds"]] == [0, 1]
    assert set(record["summary"]) >= {"micro_f1", "macro_f1"}
    assert {"torch", "bandana", "cpu"} <= set(record["environment"])
    assert record["seeds"][0]["split"]["digest"] != record["seeds"][1]["split"]["digest"]
    for seed in (0, 1):
        assert (folder / f"seed-{seed}" / "weights.safetensors").exists()
        assert not (folder / f"seed-{seed}" / "checkpoint.safetensors").exists()

    again = bandana("run", "run/config.toml", "--seeds", "2", "--device", "cpu", "--out", "again", "--json")
    assert again.returncode == 0, again.stderr
    repeated = json.loads(again.stdout)
    for one, other in zip(record["seeds"], repeated["seeds"], strict=True):
        assert one["metrics"] == other["metrics"]
    assert (folder / "config.toml").read_text() == (tmp_path / "again" / "config.toml").read_text()


def test_a_configuration_can_be_changed_on_the_way(tmp_path: Path, bandana: Bandana) -> None:
    first = bandana("run", "bandana", "karate", *QUICK, "--out", "run")
    assert first.returncode == 0, first.stderr
    changes = ("--task", "link", "--protocol", "paper", "--set", "training.epochs=2")
    other = bandana("run", "run/config.toml", *changes, "--device", "cpu", "--out", "other", "--json")
    assert other.returncode == 0, other.stderr
    experiment = json.loads(other.stdout)["experiment"]
    assert (experiment["task"], experiment["protocol"], experiment["training"]["epochs"]) == ("link", "paper", 2)


def test_an_interrupt_says_how_to_go_on(bandana: Bandana, monkeypatch) -> None:
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bandana.experiment.run_seed", interrupt)
    answer = bandana("run", "bandana", "karate", *QUICK, "--out", "run")
    assert answer.returncode == 130
    assert "the same command goes on from run" in answer.stderr


def test_the_link_task_reports_both_scorings_and_the_heuristics(tmp_path: Path, bandana: Bandana) -> None:
    answer = bandana("run", "bandana", "karate", "--task", "link", *QUICK, "--json")
    assert answer.returncode == 0, answer.stderr
    record = json.loads(answer.stdout, parse_constant=pytest.fail)  # NaN is not JSON
    seed = record["seeds"][0]
    assert {"auc", "ap", "mrr", "auc_sigmoid32", "decoder_auc"} <= set(seed["metrics"])
    assert len(seed["floors"]) == 4, "karate has no features: untrained encoder and three heuristics"
    assert next((tmp_path / "runs").iterdir()).name.startswith("bandana-karate-link-clean-")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "bandanna", "karate"), "There is no method 'bandanna'. Did you mean 'bandana'?"),
        (("run", "bandana", "krate"), "There is no data set 'krate'. Did you mean 'karate'?"),
        (("run", "bandana"), "name a data set too"),
        (("run", "bandana", "x" * 300), "There is no data set 'xxx"),
        (("run", "bandana", "karate", "--out", "x" * 300), "xxx: no file can have a name as long as this; shorten it."),
        (("similar", "x" * 300, "--id", "1"), "xxx/run.json: no file can have a name as long as this; shorten it."),
        (("embed", "edges.csv", "-o", "x" * 300), "xxx: no file can have a name as long as this; shorten it."),
        (("run", "bandana", "karate", "--task", "nodes"), "Did you mean 'node'?"),
        (
            ("run", "bandana", "karate", "--set", "training.epoch=3"),
            "training.epoch: there is no such option. Did you mean 'epochs'?",
        ),
        (
            ("run", "bandana", "karate", "--set", "training.epochs=many"),
            "training.epochs: must be a whole number, got 'many'.",
        ),
        (
            ("run", "bandana", "karate", "--set", "model.mask.distribution=normal"),
            "model.mask.distribution: 'normal' is not a choice",
        ),
        (("run", "bandana", "karate", "--set", "model.encoder.dropout=1.5"), "dropout: must lie in [0, 1), got 1.5"),
        (("run", "bandana", "karate", "--set", "epochs"), "write key=value"),
        (("run", "bandana", "karate", "--set", "method=gae"), "--set method: is an argument"),
        (("run", "bandana", "karate", "--set", "dataset=cora"), "--set dataset: is an argument"),
        (
            ("run", "bandana", "karate", "--set", "model=3"),
            "model: must be a table of options, got 3.",
        ),
        (("run", "bandana", "karate", "--set", "training.lr=nan"), "training.lr: must be a positive number, got nan"),
        (("run", "bandana", "karate", "--set", "training.weight_decay=nan"), "training.weight_decay: must be a number"),
        (("run", "bandana", "karate", "--protocol", "papr"), "protocol: 'papr' is not a choice. Did you mean 'paper'?"),
        (("run", "bandana", "karate", "--device", "tpu"), "'tpu' is not a choice"),
        (("run", "missing.toml"), "missing.toml: there is no such file"),
        (("run", "bandana", "cora", "--data-root", "nowhere"), "Data root nowhere: there is no such folder"),
    ],
)
def test_mistakes_end_in_one_sentence_and_code_2(bandana: Bandana, words: tuple[str, ...], sentence: str) -> None:
    answer = bandana(*words)
    assert answer.returncode == 2
    assert sentence in answer.stderr
    assert answer.stderr.startswith("Error: ")
    assert answer.stderr.count("\n") == 1
    assert "Traceback" not in answer.stderr


def test_a_place_that_may_not_be_seen_ends_in_one_sentence(bandana: Bandana, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even to ask whether something is there is refused in a folder of somebody else."""

    def refuse(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    monkeypatch.setattr(scale, "verify_and_show", refuse)
    answer = bandana("verify", "locked/store")
    said = "Error: locked/store: permission is denied; choose another place, or change who may use it.\n"
    assert (answer.returncode, answer.stderr) == (2, said)


@pytest.mark.parametrize(
    "words",
    [
        ("rum",),
        ("run", "bandana", "karate", "--sede", "3"),
        ("run", "bandana", "karate", "--seeds", "0"),
        ("run", "bandana", "karate", "--first-seed", str(10**23)),
    ],
)
def test_unknown_words_get_a_suggestion_and_code_2(bandana: Bandana, words: tuple[str, ...]) -> None:
    answer = bandana(*words)
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert any(hint in answer.stderr for hint in ("Did you mean 'run'?", "--seeds", "--first-seed"))


def test_settings_that_no_memory_holds_end_in_one_sentence(tmp_path: Path, bandana: Bandana) -> None:
    answer = bandana("run", "bandana", "karate", "--set", "model.encoder.width=99999999999", "-o", str(tmp_path / "a"))
    assert answer.returncode == 2
    assert "Error: memory did not suffice" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_summary_keeps_seeds_of_earlier_calls(tmp_path: Path, bandana: Bandana) -> None:
    short = ("run", "bandana", "karate", "--task", "link", "--set", "training.epochs=1", "-o", str(tmp_path / "a"))
    for first, count in ((2, 1), (0, 2)):
        assert bandana(*short, "--first-seed", str(first), "--seeds", str(count)).returncode == 0
    record = json.loads((tmp_path / "a" / "record.json").read_text())
    assert [seed["seed"] for seed in record["seeds"]] == [0, 1, 2]


def test_a_copy_of_a_seed_that_somebody_keeps_is_left_alone(tmp_path: Path, bandana: Bandana) -> None:
    words = ("run", "bandana", "karate", "--task", "link", "--set", "training.epochs=1", "-o", "a")
    assert bandana(*words).returncode == 0
    for name in ("seed-0-backup", "seed-", "seed-00"):
        shutil.copytree(tmp_path / "a" / "seed-0", tmp_path / "a" / name)
    again = bandana(*words, "--first-seed", "1")
    assert again.returncode == 0, again.stderr
    record = json.loads((tmp_path / "a" / "record.json").read_text())
    assert [seed["seed"] for seed in record["seeds"]] == [0, 1]


def test_an_occupied_folder_is_left_alone(tmp_path: Path, bandana: Bandana) -> None:
    first = bandana("run", "bandana", "karate", *QUICK, "--out", "run")
    assert first.returncode == 0, first.stderr
    before = (tmp_path / "run" / "record.json").read_bytes()
    other = bandana("run", "bandana", "karate", *QUICK, "--set", "training.lr=0.5", "--out", "run")
    assert other.returncode == 2
    assert "holds a run with other settings" in other.stderr
    assert (tmp_path / "run" / "record.json").read_bytes() == before


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, bandana: Bandana) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("precious")
    short = ("bandana", "karate", "--task", "link", *QUICK, "--out", "thesis")
    for words, mark in ((("run", *short), "config.toml"), (("tune", *short, "--trials", "1"), "search.json")):
        refused = bandana(*words)
        assert refused.returncode == 2
        assert f"thesis: is not empty and holds no {mark}" in " ".join(refused.stderr.split())
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


KILLED_AT_THE_THIRD_CHECKPOINT = """
import os, signal
from bandana.__main__ import main
from bandana.terminal import scale
from bandana.training import checkpoint

save, saved = checkpoint.save, []

def save_or_die(*arguments):
    if len(saved) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    saved.append(save(*arguments))

checkpoint.save = save_or_die
main()
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path, bandana: Bandana) -> None:
    options = ("training.epochs=5", "training.evaluate_every=1", "model.encoder.width=16")
    settings = [word for option in options for word in ("--set", option)]
    command = ("run", "bandana", "karate", "--task", "link", *QUICK[6:], *settings)  # links need no probe
    whole = bandana(*command, "--out", "whole", "--json")
    assert whole.returncode == 0, whole.stderr
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_AT_THE_THIRD_CHECKPOINT, *command, "--out", "killed"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},  # sums depend on the number of threads
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "killed" / "seed-0" / "checkpoint.safetensors").exists()
    resumed = bandana(*command, "--out", "killed", "--json")
    assert resumed.returncode == 0, resumed.stderr
    expected, found = (json.loads(answer.stdout)["seeds"][0] for answer in (whole, resumed))
    assert found["metrics"] == expected["metrics"]
    weights = [(tmp_path / name / "seed-0" / "weights.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_seeds_side_by_side_leave_the_files_of_seeds_in_turn(tmp_path: Path, bandana: Bandana) -> None:
    """Also where one of them was run before: it is read."""
    command = ("run", "bandana", "karate", *QUICK, "--set", "model.encoder.width=16", "--json")
    before = bandana(*command, "--out", "jobs-2")
    answers = [bandana(*command, "--seeds", "3", "--jobs", jobs, "--out", f"jobs-{jobs}") for jobs in ("1", "2")]
    assert [answer.returncode for answer in answers] == [0, 0], answers[1].stderr
    (first,), alone, together = (json.loads(answer.stdout)["seeds"] for answer in (before, *answers))
    assert [seed["seed"] for seed in together] == [0, 1, 2]
    for name in ("metrics", "floors", "split", "epochs"):
        assert [seed[name] for seed in together] == [seed[name] for seed in alone]
    assert together[0]["seconds"] == first["seconds"]
    for seed in range(3):
        weights = [(tmp_path / f"jobs-{jobs}" / f"seed-{seed}" / "weights.safetensors") for jobs in (1, 2)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
    assert bandana(*command, "--jobs", "0").returncode == 2


def test_a_profile_is_shown_and_kept_and_changes_nothing(tmp_path: Path, bandana: Bandana) -> None:
    command = ("run", "bandana", "karate", *QUICK, "--json")
    plain = bandana(*command, "--out", "plain")
    profiled = bandana(*command, "--profile", "--out", "profiled")
    assert profiled.returncode == 0, profiled.stderr
    assert "one epoch of training" in profiled.stderr
    assert "Optimizer.step#Adam.step" in profiled.stderr
    assert "USDT" not in profiled.stderr
    with (tmp_path / "profiled" / "profile.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["name", "calls", "milliseconds", "share"]
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1)
    assert {row["name"]: float(row["calls"]) for row in rows}["Optimizer.step#Adam.step"] == 1
    assert {row["name"]: float(row["calls"]) for row in rows}["looks at validation data"] == 0.5
    metrics = [json.loads(answer.stdout)["seeds"][0]["metrics"] for answer in (plain, profiled)]
    assert metrics[0] == metrics[1]
    assert not (tmp_path / "plain" / "profile.csv").exists()


def test_listings(bandana: Bandana) -> None:
    methods, datasets, env = (json.loads(bandana(verb, "--json").stdout) for verb in ("methods", "datasets", "env"))
    assert methods["bandana"]["year"] == 2024
    assert {row["name"]: row["presence"] for row in datasets}["digits"] == "built in"
    assert len(datasets) == 16
    assert env["bandana"]
    for verb in ("methods", "datasets", "env"):
        assert bandana(verb).returncode == 0
    shown = bandana("datasets").stdout
    assert {row["name"] for row in datasets} <= set(shown.split()), "no name is cut off"
    assert "Directed graphs: wikics." in " ".join(shown.split())
