"""Trainings as rows: which of them count, which are set aside, and what a page says of where they came from."""

import csv
from collections.abc import Iterable
from pathlib import Path

import pytest
from sample_pieces import counted, plan
from typer.testing import CliRunner

from bandana.cli import app
from bandana.config import to_table
from bandana.errors import UserError
from bandana.experiment import Experiment
from bandana.paper.artifact import Piece, Result, Scope
from bandana.paper.cache import Entry
from bandana.paper.cookbook import recipe
from bandana.paper.pieces import COST, FITTED, digest_of, training
from bandana.paper.reproduce import survey
from bandana.paper.rows import found_in, read_rows, to_rows
from bandana.paper.tables import mask_ablation, targets, time_and_memory

FIELDS = ("method", "dataset", "task", "protocol", "seed", "micro_f1", "macro_f1", "auc", "config", "failed")


def rows_file(path: Path, *rows: dict[str, object], fields: Iterable[str] = FIELDS) -> Path:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(fields), restval="", extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    return path


def row(experiment: Experiment, seed: int, protocol: str = "clean", **more: object) -> dict[str, object]:
    names = {"method": experiment.method, "dataset": experiment.dataset, "task": experiment.task}
    return {**names, "protocol": protocol, "seed": seed, "config": digest_of(to_table(experiment)), **more}


def test_rows_from_elsewhere_count_where_settings_and_seed_agree(tmp_path: Path) -> None:
    experiment = recipe("bandana", "cora", "node")
    clean, published = {"micro_f1": 0.8, "macro_f1": 0.7}, {"micro_f1": 0.8, "macro_f1": 0.75}
    rows = read_rows(
        [rows_file(tmp_path / "a.csv", row(experiment, 1, **clean), row(experiment, 1, "paper", **published))]
    )
    found = found_in(rows, training(experiment, 1))
    assert found is not None
    assert found.values is not None
    assert (found.values["metrics"], found.values["as_published"]) == (clean, published)
    assert found_in(rows, training(experiment, 2)) is None
    other = recipe("bandana", "cora", "node", {"training.lr": 0.5})
    assert found_in(rows, training(other, 1)) is None
    assert found_in(rows, counted()) is None
    in_tf32 = recipe("bandana", "cora", "node", {"training.precision": "tf32"})
    assert digest_of(to_table(in_tf32)) == digest_of(to_table(experiment))


def test_a_failed_row_speaks_for_the_recipe_alone_and_only_until_something_is_known(tmp_path: Path) -> None:
    experiment = recipe("gca", "karate", "node")
    failed = {**row(experiment, 0, failed="OutOfMemoryError: too much"), "config": ""}
    rows = read_rows([rows_file(tmp_path / "a.csv", failed)])
    assert found_in(rows, training(experiment, 0)) == Result(None, "OutOfMemoryError: too much", file="a.csv")
    assert found_in(rows, training(recipe("gca", "karate", "node", {"training.lr": 0.5}), 0)) is None
    wanted = plan(tmp_path, training(experiment, 0), rows=rows)
    assert survey(wanted)["mine"][0].result.failure == "OutOfMemoryError: too much"
    wanted.cache.put(training(experiment, 0), Entry({"metrics": {}}, "", 1.0), {})
    assert survey(wanted)["mine"][0].result.failure == ""


def test_files_that_are_no_rows_are_refused(tmp_path: Path) -> None:
    experiment = recipe("gae", "cora", "node")
    without = rows_file(tmp_path / "b.csv", row(experiment, 0), fields=[name for name in FIELDS if name != "config"])
    with pytest.raises(UserError, match=r"b\.csv: has no column 'config'"):
        read_rows([without])
    with pytest.raises(UserError, match=r"c\.csv, row 2: holds a figure that is no number"):
        read_rows([rows_file(tmp_path / "c.csv", row(experiment, 0, micro_f1="high"))])
    with pytest.raises(UserError, match=r"^--rows .*d\.csv: there is no such file; correct the path\.$"):
        read_rows([tmp_path / "d.csv"])
    with pytest.raises(UserError, match=f"^--rows {tmp_path}: cannot be read"):
        read_rows([tmp_path])


def test_what_was_trained_is_written_as_rows_that_can_be_read_again(tmp_path: Path) -> None:
    node, link = recipe("gae", "karate", "node"), recipe("gae", "karate", "link")
    facts = {"diagnostics": {}, "seconds": {"pretrain": 1.5}, "precision": "float32", "best_epoch": 3, "epochs": 4}
    ranked = {"auc": 0.5, "ap": 0.25, "decoder_hits@20": 0.1, "decoder_hits@50": 0.2, "decoder_hits@100": 0.3}
    results = [
        (
            training(node, 1),
            Result({"metrics": {"micro_f1": 0.5, "macro_f1": 0.25}, "as_published": {"micro_f1": 0.75}, **facts}),
        ),
        (training(link, 0), Result({"metrics": ranked, **facts, "diagnostics": {"mask_ratio": 0.7}})),
        (training(link, 2), Result(None, "not run yet")),
    ]
    path = tmp_path / "trainings.csv"
    path.write_text(to_rows(results + results[:1]), encoding="utf-8")
    rows = read_rows([path])
    assert len(rows.found) == 2
    for piece, result in results[:2]:
        found = found_in(rows, piece)
        assert found is not None
        assert found.values is not None
        assert result.values is not None
        assert {name: found.values[name] for name in result.values} == result.values


def test_the_first_file_that_has_a_training_counts(tmp_path: Path) -> None:
    experiment = recipe("bandana", "cora", "node")
    published = row(experiment, 0, "paper", micro_f1=0.9)
    first = rows_file(tmp_path / "first.csv", row(experiment, 0, micro_f1=0.8), published)
    second = rows_file(
        tmp_path / "second.csv",
        row(experiment, 0, micro_f1=0.7),  # other figures
        published,  # the same
        row(experiment, 1, micro_f1=0.6),  # known here only
    )
    for files, expected, set_aside in (
        ([first, second], 0.8, {second: 1}),
        ([second, first], 0.7, {first: 1}),
        ([first, first], 0.8, {}),
    ):
        rows = read_rows(files)
        found = found_in(rows, training(experiment, 0))
        assert found is not None
        assert found.values is not None
        assert (found.values["metrics"]["micro_f1"], found.file) == (expected, files[0].name)
        assert found.values["as_published"] == {"micro_f1": 0.9}
        assert rows.set_aside == set_aside
    alone = found_in(read_rows([first, second]), training(experiment, 1))
    assert alone is not None
    assert alone.file == "second.csv"


def test_rows_that_were_written_again_are_no_others(tmp_path: Path) -> None:
    experiment = recipe("bandana", "cora", "node")
    file = rows_file(
        tmp_path / "a.csv", row(experiment, 0, micro_f1=0.1 + 0.2), row(experiment, 0, "paper", micro_f1=1)
    )
    found = found_in(read_rows([file]), training(experiment, 0))
    assert found is not None
    again = tmp_path / "again.csv"
    again.write_text(to_rows([(training(experiment, 0), found)]), encoding="utf-8")
    assert read_rows([file, again]).set_aside == {}


def test_the_command_tells_what_it_set_aside_and_the_page_where_its_rows_are_from(tmp_path: Path) -> None:
    experiment = recipe("bandana", "cora", "node")
    given = [row(experiment, seed, micro_f1=0.8 + seed / 100, macro_f1=0.7) for seed in (0, 1)]
    other = [row(experiment, 0, micro_f1=0.1, macro_f1=0.1), row(experiment, 5, micro_f1=0.1, macro_f1=0.1)]
    files = [rows_file(tmp_path / "h200.csv", *given), rows_file(tmp_path / "old.csv", *other)]
    words = ["reproduce", "targets", "--no-run", "--datasets", "cora", "--seeds", "2", "--out", str(tmp_path / "out")]
    words += [word for file in files for word in ("--rows", str(file))]
    result = CliRunner().invoke(app, [*words, "--cache", str(tmp_path / "cache"), "--device", "cpu"])
    assert result.exit_code == 0, result.output
    told = " ".join(result.stderr.split())
    assert "old.csv: rows set aside, because a file named before it has other figures of the same trainings: 1." in told
    assert "h200.csv:" not in told
    notes = (tmp_path / "out" / "targets.md").read_text(encoding="utf-8")
    assert "bit for bit" not in notes  # one file gave all
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<dt>rows of h200.csv</dt><dd>trainings: 2; cells that show them: 1</dd>" in page
    assert "<dt>rows of old.csv</dt><dd>trainings: 0; cells that show them: 0</dd>" in page
    assert "the one that wrote this page" in page


@pytest.mark.parametrize("precisions", [["float32"], ["tf32", "bf16"]])
def test_a_configuration_says_where_its_rows_were_computed_in_less(tmp_path: Path, precisions: list[str]) -> None:
    experiment = recipe("bandana", "cora", "node")
    given = [row(experiment, n, micro_f1=0.8, macro_f1=0.7, precision=name) for n, name in enumerate(precisions)]
    file = rows_file(tmp_path / "a.csv", *given, fields=[*FIELDS, "precision"])
    words = ["reproduce", "targets", "--no-run", "--datasets", "cora", "--seeds", "2", "--rows", str(file)]
    words += ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache"), "--device", "cpu"]
    assert CliRunner().invoke(app, words).exit_code == 0
    (config,) = (tmp_path / "out" / "configs").iterdir()
    first = config.read_text(encoding="utf-8").splitlines()[0]
    said = f"# products of matrices behind the page: {', '.join(sorted(precisions))}"
    assert (first == said) == (precisions != ["float32"])


@pytest.mark.parametrize("artifact", ["targets", "mask-ablation"])
def test_variants_from_several_files_are_told_apart(tmp_path: Path, artifact: str) -> None:
    variants = {"targets": targets.VARIANTS, "mask-ablation": mask_ablation.VARIANTS}[artifact]
    first, *others = (recipe("bandana", "cora", "node", changes) for changes in variants.values())
    old = rows_file(tmp_path / "old.csv", row(first, 0, micro_f1=0.8))
    new = rows_file(tmp_path / "new.csv", *(row(experiment, 0, micro_f1=0.8) for experiment in others[1:]))
    words = ["reproduce", artifact, "--no-run", "--datasets", "cora", "--seeds", "1", "--out", str(tmp_path / "out")]
    words += ["--rows", str(old), "--rows", str(new), "--cache", str(tmp_path / "cache"), "--device", "cpu"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    names = list(variants)
    said = f"whose kernels may differ. old.csv: {names[0]}. new.csv: {'; '.join(names[2:])}.\n"
    assert said in (tmp_path / "out" / f"{artifact}.md").read_text(encoding="utf-8")


def test_fitted_decoders_and_costs_travel_as_rows_too(tmp_path: Path) -> None:
    experiment = recipe("t_bgrl", "cora", "link")
    arguments = {"experiment": to_table(experiment), "seed": 0}
    results = [
        (Piece(FITTED, arguments), Result({"metrics": {"decoder_auc": 0.9}})),
        (Piece(COST, arguments), Result({"epoch_seconds": 0.25, "timed": 10.0, "peak_mb": 64.0})),
        (Piece(COST, {**arguments, "seed": 1}), Result({"epoch_seconds": 0.5, "timed": 10.0, "peak_mb": None})),
    ]
    path = tmp_path / "trainings.csv"
    path.write_text(to_rows(results), encoding="utf-8")
    rows = read_rows([path])
    for piece, result in results:
        found = found_in(rows, piece)
        assert found is not None
        assert (found.values, found.file) == (result.values, "trainings.csv")
    assert found_in(rows, training(experiment, 0)) is None  # the same settings, but other work


def test_what_training_takes_on_a_card_stands_in_a_page_made_without_one(tmp_path: Path) -> None:
    (piece, *_others) = time_and_memory.pieces(Scope(datasets=("cora",), methods=("vgae",)))
    path = tmp_path / "card.csv"
    path.write_text(
        to_rows([(piece, Result({"epoch_seconds": 0.5, "timed": 10.0, "peak_mb": 64.0}))]), encoding="utf-8"
    )
    words = ["reproduce", "time-and-memory", "--no-run", "--datasets", "cora", "--methods", "vgae", "--rows", str(path)]
    words += ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache"), "--device", "cpu"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    told = (tmp_path / "out" / "time-and-memory.md").read_text(encoding="utf-8")
    assert "250" in told
    assert "64" in told
    assert "Ours from card.csv" in told
