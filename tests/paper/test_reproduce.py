"""The machinery of `bandana reproduce`: keys, memory, order, failures, rows from elsewhere, and the command."""

import csv
import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bandana.cli import app
from bandana.config import to_table
from bandana.errors import UserError
from bandana.experiment import Experiment
from bandana.paper import cache as caching
from bandana.paper import reproduce
from bandana.paper.artifact import Artifact, Piece, Result, Scope
from bandana.paper.cache import Cache, Entry
from bandana.paper.catalogue import PAPER_ORDER, artifacts, find
from bandana.paper.cookbook import recipe
from bandana.paper.costs import calibrate, units
from bandana.paper.pieces import config_name, configuration, digest_of, training
from bandana.paper.reproduce import Plan, open_pieces, run_pieces, survey
from bandana.paper.rows import read_rows, result_in, to_rows
from bandana.paper.standing import standing_of
from bandana.paper.work import _statements, kind_of, work
from bandana.paper.write_out import command_of
from bandana.workers import Outcome


def counted(name: str = "karate") -> Piece:
    return Piece("statistics", {"dataset": name})


def trained(method: str = "bandana", dataset: str = "karate", seed: int = 0, **changes: Any) -> Piece:
    return training(recipe(method, dataset, "node", changes), seed)


def plan(tmp_path: Path, *pieces: Piece, **more: Any) -> Plan:
    artifact = Artifact(name="mine", kind="table", title="Mine", pieces=lambda scope: pieces, show=lambda results: [])
    return Plan(
        artifacts=[artifact], scope=Scope(), cache=Cache(tmp_path / "cache", "cpu", None), out=tmp_path / "out", **more
    )


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """Pieces are done here instead of in other processes; gives those that were begun."""
    begun: list[Piece] = []

    def carry_out(function: Any, pieces: Iterable[tuple[Any, ...]], **options: Any) -> Iterator[Outcome]:
        for arguments in pieces:
            begun.append(arguments[0])
            try:
                yield Outcome(arguments, function(*arguments), "")
            except Exception as problem:
                yield Outcome(arguments, None, f"{type(problem).__name__}: {problem}")

    monkeypatch.setattr(reproduce, "carry_out", carry_out)
    return begun


def test_a_key_is_that_of_the_content_and_not_of_the_way_it_is_written(tmp_path: Path) -> None:
    cache = Cache(tmp_path, "cpu", None)
    key = cache.key(Piece("mask-ratio", {"dataset": "karate", "seed": 0}))
    assert key == cache.key(Piece("mask-ratio", {"seed": 0, "dataset": "karate"}))
    assert cache.key(Piece("mask-ratio", {"dataset": "karate", "seed": 1})) != key
    assert cache.key(Piece("statistics", {"dataset": "karate", "seed": 0})) != key
    assert cache.key(Piece("mask-ratio", {"dataset": "digits", "seed": 0})) != key
    sent = json.loads(json.dumps(trained().arguments, default=list))
    assert cache.key(Piece("experiment", sent)) == cache.key(trained())


def test_a_key_changes_with_data_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, piece = Cache(tmp_path, "cpu", None), counted()
    before = cache.key(piece)
    monkeypatch.setattr(caching, "content_of", lambda dataset, root: "other edges")
    with_other_data = cache.key(piece)
    monkeypatch.undo()
    monkeypatch.setattr(caching, "code_version", lambda kind: "other statements")
    assert len({before, with_other_data, cache.key(piece)}) == 3


def test_only_what_is_about_the_device_depends_on_it(tmp_path: Path) -> None:
    cpu, gpu = Cache(tmp_path, "cpu", None), Cache(tmp_path, "cuda", None)
    assert cpu.key(counted()) == gpu.key(counted())
    timed = Piece("growth", {"component": "total", "variable": "n", "base": [1, 1, 1, 1], "doublings": 2})
    assert cpu.key(timed) != gpu.key(timed)


def test_comments_and_docstrings_are_no_statements(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.py" for name in "abc"]
    files[0].write_text('"""One."""\ndef f(x):\n    """Two."""\n    return x  # three\n')
    files[1].write_text("def f( x ):\n    return x\n")
    files[2].write_text("def f(x):\n    return -x\n")
    same, also_same, other = map(_statements, files)
    assert same == also_same != other


def test_two_kinds_of_work_cannot_share_a_name() -> None:
    kind_of("statistics")
    with pytest.raises(ValueError, match="two kinds of work are called 'statistics'"):
        work("statistics")(lambda arguments, device, data_root: {})
    with pytest.raises(UserError, match="Did you mean 'statistics'"):
        kind_of("statistic")


def test_what_is_remembered_comes_back_and_damage_counts_as_nothing(tmp_path: Path) -> None:
    cache, piece = Cache(tmp_path, "cpu", None), trained()
    assert cache.get(cache.key(piece)) is None
    entry = Entry({"metrics": {"micro_f1": 0.5}}, "", 1.5)
    cache.put(piece, entry, {"torch": "x"})
    assert cache.get(cache.key(piece)) == entry
    (file,) = tmp_path.glob("*.json")
    (config,) = tmp_path.glob("*.toml")
    assert Experiment.from_table(tomllib.loads(config.read_text())) == recipe("bandana", "karate", "node")
    for damage in ("", "{", "[]", '{"values": {}}'):
        file.write_text(damage)
        assert cache.get(cache.key(piece)) is None


def test_a_configuration_is_one_file_for_all_seeds() -> None:
    assert config_name(trained(seed=0)) == config_name(trained(seed=5))
    assert configuration(trained(seed=0)) == configuration(trained(seed=5))
    assert config_name(trained()) != config_name(trained(**{"training.lr": 0.5}))


def test_first_seeds_come_before_second_ones_and_the_cheap_before_the_dear(tmp_path: Path) -> None:
    pieces = [trained(dataset=name, seed=seed) for seed in (1, 0) for name in ("digits", "karate", "two_moon")]
    left = open_pieces(survey(plan(tmp_path, *pieces, *pieces)))
    named = [(piece.arguments["seed"], piece.arguments["experiment"]["dataset"]) for piece in left]
    assert named == [(seed, name) for seed in (0, 1) for name in ("karate", "digits", "two_moon")]


def test_nothing_is_done_twice_and_failures_are_kept_until_asked_for(tmp_path: Path, in_process: list[Piece]) -> None:
    bad = Piece("mask-ratio", {"dataset": "karate"})
    wanted = plan(tmp_path, counted(), bad)
    done = list(run_pieces(wanted, open_pieces(survey(wanted)), device="cpu"))
    assert sorted(bool(piece.failure) for piece in done) == [False, True]
    good, failed = survey(wanted)["mine"]
    assert good.result.values is not None
    assert good.result.values["nodes"] == 34
    assert failed.result.failure == "KeyError: 'seed'"
    assert open_pieces(survey(wanted)) == []
    assert open_pieces(survey(wanted), retry_failed=True) == [bad]


def test_stopping_loses_only_what_is_in_flight(
    tmp_path: Path, in_process: list[Piece], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = plan(tmp_path, *[Piece("mask-ratio", {"dataset": "karate", "seed": seed}) for seed in range(4)])
    first = open_pieces(survey(wanted))
    runs = run_pieces(wanted, first, device="cpu")
    assert [next(runs).piece, next(runs).piece] == first[:2]
    runs.close()
    assert open_pieces(survey(wanted)) == first[2:]
    list(run_pieces(wanted, first[2:], device="cpu"))
    assert in_process == first


def test_data_that_are_not_here_are_named_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDANA_CACHE", str(tmp_path / "nothing"))
    monkeypatch.delenv("BANDANA_DATA", raising=False)
    root = tmp_path / "root"
    root.mkdir()
    wanted = plan(tmp_path, counted("ogbl-ppa"), counted())
    wanted = replace(wanted, cache=replace(wanted.cache, data_root=root))
    missing, here = survey(wanted)["mine"]
    assert missing.result.values is None
    assert missing.result.failure.startswith("not run: data set missing")
    assert "bandana reproduce mine --datasets ogbl-ppa" in missing.result.failure
    assert open_pieces(survey(wanted), retry_failed=True) == [here.piece]
    standing = standing_of(wanted.artifacts[0], [missing, here], calibrate([]))
    assert (standing.pieces, standing.done, standing.state) == (2, 0, "not begun; no data: ogbl-ppa")


def test_downloads_are_tried_once_and_those_that_fail_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load(name: str, root: Path | None) -> None:
        asked.append(name)
        raise UserError("no network")

    monkeypatch.setattr(reproduce, "load", load)
    monkeypatch.setattr(reproduce, "presence", lambda info, root: "not here" if "ogb" in info.name else "built in")
    wanted = plan(tmp_path, counted("ogbl-ppa"), trained(), trained(dataset="ogbn-mag"), counted("ogbl-ppa"))
    assert reproduce.fetch_missing(wanted) == asked == ["ogbl-ppa", "ogbn-mag"]


def test_costs_are_learnt_from_pieces_of_the_same_method_first() -> None:
    quick, slow, other = trained("gae"), trained("bandana"), trained("vgae")
    costs = calibrate([(quick, 1.0), (slow, 100.0)])
    assert costs.seconds(quick) == pytest.approx(1.0)
    assert costs.seconds(slow) == pytest.approx(100.0)
    rates = sorted([1.0 / units(quick), 100.0 / units(slow)])
    assert rates[0] * units(other) < costs.seconds(other) < rates[1] * units(other)
    twice = trained("gae", **{"training.epochs": 2 * quick.arguments["experiment"]["training"]["epochs"]})
    assert costs.seconds(twice) > 1.5


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
    found = result_in(rows, training(experiment, 1))
    assert found is not None
    assert found.values is not None
    assert (found.values["metrics"], found.values["as_published"]) == (clean, published)
    assert result_in(rows, training(experiment, 2)) is None
    other = recipe("bandana", "cora", "node", {"training.lr": 0.5})
    assert result_in(rows, training(other, 1)) is None
    assert result_in(rows, counted()) is None
    in_tf32 = recipe("bandana", "cora", "node", {"training.precision": "tf32"})
    assert digest_of(to_table(in_tf32)) == digest_of(to_table(experiment))


def test_a_failed_row_speaks_for_the_recipe_alone_and_only_until_something_is_known(tmp_path: Path) -> None:
    experiment = recipe("gca", "karate", "node")
    failed = {**row(experiment, 0, failed="OutOfMemoryError: too much"), "config": ""}
    rows = read_rows([rows_file(tmp_path / "a.csv", failed)])
    assert result_in(rows, training(experiment, 0)) == Result(None, "OutOfMemoryError: too much")
    assert result_in(rows, training(recipe("gca", "karate", "node", {"training.lr": 0.5}), 0)) is None
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
    with pytest.raises(UserError, match=r"d\.csv: cannot be read"):
        read_rows([tmp_path / "d.csv"])


def test_every_artifact_says_what_it_is_and_sends_only_plain_values() -> None:
    for name, artifact in artifacts().items():
        assert artifact.name == name
        assert artifact.title
        for piece in artifact.pieces(Scope(quick=True)):
            kind_of(piece.work)
            assert json.loads(json.dumps(piece.arguments, default=list))
    assert find(["all"]) == list(artifacts().values())
    assert find(["statistics", "targets"]) == [artifacts()["targets"], artifacts()["statistics"]]
    assert set(PAPER_ORDER) <= set(artifacts())


def test_the_command_of_an_artifact_can_be_typed_again() -> None:
    scope = Scope(seeds=10, datasets=("cora", "cs"), methods=("gae",))
    assert command_of("targets", scope) == "bandana reproduce targets --seeds 10 --datasets cora,cs --methods gae"
    assert command_of("targets", Scope(quick=True)) == "bandana reproduce targets --quick"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["tragets"], "Did you mean 'targets'"),
        ([], "name an artifact or 'all'"),
        (["all", "--datasets", "coral"], "Did you mean 'cora'"),
        (["all", "--methods", "bandanna"], "Did you mean 'bandana'"),
    ],
)
def test_mistakes_are_named(words: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["reproduce", *words])
    assert isinstance(result.exception, UserError)
    assert complaint in str(result.exception)


def test_the_command_runs_what_is_missing_in_other_processes_and_writes_everything(tmp_path: Path) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    words = ["reproduce", "statistics", "--quick", "--out", str(out), "--cache", str(cache), "--device", "cpu"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "Pieces of work: 2 done." in result.output
    assert {path.name for path in out.iterdir()} == {
        *("statistics.md", "statistics-1.csv", "statistics-1.tex", "trainings.csv", "index.html", "configs")
    }
    cells = {(line["row"], line["column"]): line for line in csv.DictReader((out / "statistics-1.csv").open())}
    assert cells["swiss_roll", "edges"]["ours_mean"] == "6712"
    assert cells["swiss_roll", "edges"]["verdict"] == "same"
    assert cells["two_moon", "edges"]["verdict"] == "higher"
    assert all(Path(name).is_file() for line in cells.values() for name in line["origins"].split())
    listed = CliRunner().invoke(app, [*words[:3], "--list", "--json", *words[3:]])
    (standing,) = json.loads(listed.output)
    assert (standing["done"], standing["pieces"], standing["state"]) == (2, 2, "done")


def test_what_was_trained_is_written_as_rows_that_can_be_read_again(tmp_path: Path) -> None:
    node, link = recipe("gae", "karate", "node"), recipe("gae", "karate", "link")
    facts = {"diagnostics": {}, "seconds": {"pretrain": 1.5}, "precision": "float32", "best_epoch": 3, "epochs": 4}
    results = [
        (
            training(node, 1),
            Result({"metrics": {"micro_f1": 0.5, "macro_f1": 0.25}, "as_published": {"micro_f1": 0.75}, **facts}),
        ),
        (training(link, 0), Result({"metrics": {"auc": 0.5, "ap": 0.25}, **facts, "diagnostics": {"mask_ratio": 0.7}})),
        (training(link, 2), Result(None, "not run yet")),
    ]
    path = tmp_path / "trainings.csv"
    path.write_text(to_rows(results + results[:1]), encoding="utf-8")
    rows = read_rows([path])
    assert len(rows) == 2
    for piece, result in results[:2]:
        found = result_in(rows, piece)
        assert found is not None
        assert found.values is not None
        assert result.values is not None
        assert {name: found.values[name] for name in result.values} == result.values
