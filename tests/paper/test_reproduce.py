"""The machinery of `bandana reproduce`: memory, order, failures, what narrows it, and the command."""

import csv
import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import torch
from rich.console import Console
from sample_pieces import counted, masked, plan, trained
from typer.testing import CliRunner

from bandana.cli import app
from bandana.errors import UserError
from bandana.experiment import Experiment
from bandana.paper import costs, reproduce
from bandana.paper.artifact import Piece, Scope
from bandana.paper.cache import Cache, Entry
from bandana.paper.catalogue import PAPER_ORDER, artifacts, find
from bandana.paper.cookbook import recipe
from bandana.paper.costs import calibrate, units
from bandana.paper.grid import state_of
from bandana.paper.pieces import FITTED, TRAINING, config_name, configuration
from bandana.paper.published import published
from bandana.paper.reproduce import command_of, open_pieces, run_pieces, survey
from bandana.paper.standing import Standing, standing_of
from bandana.paper.tables import end_to_end
from bandana.paper.work import kind_of, work
from bandana.terminal import paper as terminal
from bandana.workers import Outcome


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
    bad = Piece("heuristics", {"dataset": "karate", "held_out": [0.05, 0.1]})
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
    wanted = plan(tmp_path, *[masked(seed) for seed in range(4)])
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
    assert "bandana reproduce mine --seeds 3 --datasets ogbl-ppa --data-root" in missing.result.failure
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


def test_fitting_a_decoder_is_expected_to_take_what_its_training_takes() -> None:
    trained, fitted = (
        next(piece for piece in end_to_end.pieces(Scope(methods=("t_bgrl",), datasets=("cora",))) if piece.work == kind)
        for kind in (TRAINING, FITTED)
    )
    assert calibrate([]).seconds(fitted) == calibrate([]).seconds(trained) > 100


def test_costs_are_learnt_from_pieces_of_the_same_method_first() -> None:
    quick, slow, other = trained("gae"), trained("bandana"), trained("vgae")
    costs = calibrate([(quick, 1.0), (slow, 100.0)])
    assert costs.seconds(quick) == pytest.approx(1.0)
    assert costs.seconds(slow) == pytest.approx(100.0)
    rates = sorted([1.0 / units(quick), 100.0 / units(slow)])
    assert rates[0] * units(other) < costs.seconds(other) < rates[1] * units(other)
    twice = trained("gae", **{"training.epochs": 2 * quick.arguments["experiment"]["training"]["epochs"]})
    assert costs.seconds(twice) > 1.5


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
        (["statistics", "--json"], "--json: is for --list alone"),
    ],
)
def test_mistakes_are_named(words: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["reproduce", *words])
    assert isinstance(result.exception, UserError)
    assert complaint in str(result.exception)


def test_a_piece_that_two_tables_share_is_counted_once(tmp_path: Path) -> None:
    words = [
        "--no-run",
        "--seeds",
        "1",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "a"),
        "--cache",
        str(tmp_path / "b"),
    ]
    result = CliRunner().invoke(app, ["reproduce", "targets", "mask-ablation", *words])
    assert "Pieces of work: 30 not run" in result.output, "fifteen and eighteen, of which three are the same"


@pytest.mark.slow
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
    assert all((out / name).is_file() for line in cells.values() for name in line["origins"].split())
    listed = CliRunner().invoke(app, [*words[:3], "--list", "--json", *words[3:]])
    (standing,) = json.loads(listed.output)
    assert (standing["done"], standing["pieces"], standing["state"]) == (2, 2, "done")


def unwritable_places(tmp_path: Path) -> list[Path]:
    file = tmp_path / "file"
    file.write_text("mine")
    return [file, file / "below", Path("/proc/nothing")]


@pytest.mark.parametrize("option", ["--out", "--cache"])
@pytest.mark.parametrize("number", range(3), ids=["a file", "below a file", "in /proc"])
def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_computed(
    tmp_path: Path, in_process: list[Piece], monkeypatch: pytest.MonkeyPatch, option: str, number: int
) -> None:
    def refuse(plan: object) -> list[str]:
        raise AssertionError("work was begun")

    monkeypatch.setattr(terminal, "fetch_missing", refuse)
    monkeypatch.setattr(terminal, "survey", refuse)
    place = unwritable_places(tmp_path)[number]
    places = {"--out": tmp_path / "out", "--cache": tmp_path / "cache"} | {option: place}
    words = ["reproduce", "statistics", "--quick", *(word for pair in places.items() for word in map(str, pair))]
    result = CliRunner().invoke(app, [*words, "--device", "cpu"])
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith(f"{option} {place}: must be a folder that can be written to (")
    assert str(result.exception).endswith(f"Choose another one with {option} FOLDER.")
    assert in_process == []
    assert (tmp_path / "file").read_text() == "mine"


def test_what_is_only_shown_needs_no_cache_that_can_be_written_to(tmp_path: Path) -> None:
    for number, cache in enumerate(unwritable_places(tmp_path)):
        out = tmp_path / f"out-{number}"
        words = ["reproduce", "statistics", "--quick", "--no-run", "--out", str(out), "--cache", str(cache)]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        assert (out / "index.html").is_file()


def test_without_options_everything_is_written_below_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["reproduce", "hyperparameters", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert [path.name for path in (tmp_path / "runs" / "reproduce").iterdir()] == ["page"]
    assert (tmp_path / "runs" / "reproduce" / "page" / "index.html").is_file()


def test_a_coarse_page_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words, folder in ((["--quick"], "quick"), (["--quick", "--out", "mine"], None), ([], "page")):
        result = CliRunner().invoke(app, ["reproduce", "hyperparameters", "--no-run", "--device", "cpu", *words])
        assert result.exit_code == 0, result.output
        pages = {path.parent.name for path in (tmp_path / "runs" / "reproduce").glob("*/index.html")}
        assert folder is None or folder in pages
    assert pages == {"quick", "page"}
    assert (tmp_path / "mine" / "index.html").is_file()


def test_what_is_gone_from_a_page_is_said(tmp_path: Path) -> None:
    def reproduced(*names: str) -> str:
        words = ["reproduce", *names, "--no-run", "--out", str(tmp_path), "--cache", str(tmp_path / "c"), "--quick"]
        result = CliRunner().invoke(app, [*words, "--device", "cpu"])
        assert result.exit_code == 0, result.output
        return result.output

    assert "Gone from it" not in reproduced("hyperparameters", "masking", "statistics")
    said = reproduced("masking")
    assert "now holds only what was named. Gone from it" in said
    assert "still beside it: statistics, hyperparameters." in said
    assert (tmp_path / "statistics-1.csv").is_file()
    assert "Gone from it" not in reproduced("masking", "statistics")


def test_the_page_promises_no_seeds_that_it_may_not_have(tmp_path: Path) -> None:
    words = ["reproduce", "hyperparameters", "--seeds", "10", "--no-run", "--out", str(tmp_path), "--device", "cpu"]
    assert CliRunner().invoke(app, words).exit_code == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<dd>up to 10 seeds per cell; every cell says how many it has</dd>" in page


def test_what_has_no_small_data_shows_its_published_cells_with_that_reason(tmp_path: Path) -> None:
    words = ["reproduce", "ogb", "wiki-cs", "--quick", "--out", str(tmp_path / "out"), "--device", "cpu"]
    result = CliRunner().invoke(app, [*words, "--cache", str(tmp_path / "cache")])
    assert result.exit_code == 0, result.output
    assert "Pieces of work: none is needed." in result.output
    for name, table in (
        ("ogb-1", "ogbl-collab"),
        ("ogb-2", "ogbl-ppa"),
        ("ogb-3", "ogbn-mag"),
        ("wiki-cs-1", "wiki-cs"),
    ):
        lines = list(csv.DictReader((tmp_path / "out" / f"{name}.csv").open()))
        means = {(line["row"], line["column"]): float(line["published_mean"]) for line in lines}
        assert means == {place: score.mean for place, score in published(table).items()}
        assert {(line["ours_mean"], line["verdict"]) for line in lines} == {("", "not run")}
        (reason,) = {line["note"] for line in lines if line["row"] == "bandana"}
        assert reason == "Not run: for --quick there is no small data of this kind."


def test_a_data_set_that_was_not_asked_for_is_no_want_of_small_data(tmp_path: Path) -> None:
    words = [
        "reproduce",
        "targets",
        "statistics",
        "--quick",
        "--datasets",
        "cora,two_moon",
        "--no-run",
        "--device",
        "cpu",
    ]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")])
    assert result.exit_code == 0, result.output
    assert "small data of this kind" not in (tmp_path / "out" / "targets.md").read_text(encoding="utf-8")


def test_what_is_not_run_is_named_with_a_command_that_would_run_it(tmp_path: Path) -> None:
    for scope in (Scope(seeds=10, methods=("gae",)), Scope(quick=True)):
        wanted = replace(plan(tmp_path, masked(0)), scope=scope)
        (item,) = survey(wanted)["mine"]
        assert item.result.failure == f"not run yet; to run it: {command_of('mine', scope)}"


def test_work_that_artifacts_share_is_named_with_the_command_of_each(tmp_path: Path) -> None:
    alone = plan(tmp_path, masked(0))
    wanted = replace(alone, artifacts=[*alone.artifacts, replace(alone.artifacts[0], name="other")])
    for name, (item,) in survey(wanted).items():
        assert item.result.failure.endswith(command_of(name, wanted.scope))


def test_a_process_that_was_killed_need_not_have_wanted_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Outcome((masked(0), "cpu", None, None), None, "the process ended with code -9")
    monkeypatch.setattr(reproduce, "carry_out", lambda *arguments, **options: [killed])
    wanted = plan(tmp_path, masked(0))
    (done,) = run_pieces(wanted, [masked(0)], device="cpu")
    (item,) = survey(wanted)["mine"]
    assert item.result.failure == done.failure
    assert "was killed" in done.failure
    assert state_of(done.failure) == "failed"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["link-prediction", "--datasets", "karate"],
            "--datasets karate leaves nothing of it; there are the data sets ",
        ),
        (
            ["mask-ratios", "--methods", "gae,vgae"],
            "--methods gae,vgae leaves nothing of it; there are the data sets cora",
        ),
        (["targets", "--quick", "--datasets", "cora"], "with --quick there are the data sets digits and the methods"),
        (["manifold", "--datasets", "cora", "--methods", "gae"], "the data sets swiss_roll, two_moon and the methods"),
    ],
)
def test_what_leaves_nothing_is_refused(tmp_path: Path, words: list[str], complaint: str) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["reproduce", *words, "--no-run", "--out", str(out)])
    assert isinstance(result.exception, UserError)
    assert complaint in str(result.exception)
    assert not out.exists()


def test_artifacts_that_need_no_work_are_not_refused() -> None:
    settings, everything = find(["hyperparameters"]), find(["all"])
    karate, gae = Scope(datasets=("karate",)), Scope(methods=("gae",))
    assert not any(artifact.pieces(karate) for artifact in settings)
    assert not all(artifact.pieces(gae) for artifact in everything)
    reproduce.refuse_nothing(settings, karate)
    reproduce.refuse_nothing(everything, gae)


def test_links_of_the_page_lead_to_configurations_wherever_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cache = Cache(tmp_path / "cache", "cpu", None)
    for piece in artifacts()["statistics"].pieces(Scope(quick=True)):
        cache.put(piece, Entry(dict.fromkeys(("nodes", "edges", "features", "classes", "density"), 7), "", 1.0), {})
    common = ["reproduce", "statistics", "--quick", "--no-run", "--cache", str(cache.folder), "--device", "cpu"]
    for out in ("results/here", str(tmp_path / "there")):
        result = CliRunner().invoke(app, [*common, "--out", out])
        assert result.exit_code == 0, result.output
        page = (Path(out) / "index.html").read_text(encoding="utf-8")
        details = json.loads(page.partition('id="details">')[2].partition("</script>")[0])
        links = [link for cell in details for _, link in cell["links"]]
        assert len(links) == len(details) > 0
        for link in links:
            assert (Path(out) / unquote(link)).is_file()
        assert str(tmp_path) not in (Path(out) / "statistics-1.csv").read_text(encoding="utf-8")


def test_configurations_that_nothing_leads_to_are_removed_and_others_left_alone(tmp_path: Path) -> None:
    cache, out = Cache(tmp_path / "cache", "cpu", None), tmp_path / "out"
    for piece in artifacts()["statistics"].pieces(Scope(quick=True)):
        cache.put(piece, Entry(dict.fromkeys(("nodes", "edges", "features", "classes", "density"), 7), "", 1.0), {})
    words = ["reproduce", "--quick", "--no-run", "--cache", str(cache.folder), "--device", "cpu", "--out", str(out)]
    stale, kept = "gae-cora-node-0123abcd.toml", ("my-own.toml", "gae-cora-node-0123abcd.txt", "other-89abcdef.toml")
    (out / "configs").mkdir(parents=True)
    for name in (stale, *kept):
        (out / "configs" / name).write_text("")
    (out / "earlier-1.csv").write_text("row,origins\nx,configs/other-89abcdef.toml\n")
    assert CliRunner().invoke(app, [*words, "statistics"]).exit_code == 0
    ours = {config_name(piece) for piece in artifacts()["statistics"].pieces(Scope(quick=True))}
    assert {path.name for path in (out / "configs").iterdir()} == {*kept, *ours}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_what_was_computed_on_a_gpu_is_shown_where_there_is_none(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", "cuda", None)
    for piece in artifacts()["complexity"].pieces(Scope(quick=True)):
        sizes = [float(2**step) for step in range(3)]
        cache.put(piece, Entry({"values": sizes, "seconds": sizes, "mb": sizes}, "", 1.0), {})
    words = ["reproduce", "complexity", "--quick", "--device", "cuda", "--cache", str(cache.folder)]
    shown = CliRunner().invoke(app, [*words, "--no-run", "--out", str(tmp_path / "out")])
    assert shown.exit_code == 0, shown.output
    assert "done." in shown.output
    (listed,) = json.loads(CliRunner().invoke(app, [*words, "--list", "--json"]).output)
    assert listed["state"] == "done"
    refused = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert isinstance(refused.exception, UserError)
    assert "torch sees no CUDA device" in str(refused.exception)


def test_the_list_names_every_artifact_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = "begun; no data: ogbl-collab, ogbl-ppa, ogbn-mag"
    row = Standing("node-classification", "table", "Classes of nodes", "Table 1", 1224, 12, 1e6, state)
    monkeypatch.setattr(terminal, "standing_of", lambda *facts: row)
    monkeypatch.setattr(terminal, "console", Console(width=80))
    result = CliRunner().invoke(app, ["reproduce", "statistics", "--list", "--quick", "--cache", str(tmp_path)])
    lines = [line.rstrip() for line in result.output.splitlines()]
    assert "node-classification   Table 1                12 of 1,224     11.6 d" in lines
    assert {"  Classes of nodes", f"  {state}"} <= set(lines)
    assert max(map(len, lines)) <= 80


def test_the_list_says_what_an_artifact_is_and_where_the_paper_has_it(tmp_path: Path) -> None:
    said = " ".join(_listed(tmp_path, "tuned", "complexity").split())
    assert "tuned beyond the paper 0 of 78" in said
    assert "Beyond the paper: Bandana with tuned settings on seven data sets" in said
    assert "complexity Table 7 0 of 20" in said
    (row,) = json.loads(_listed(tmp_path, "complexity", "--json"))
    assert (row["name"], row["printed"]) == ("complexity", "Table 7")
    unprinted = {name for name, artifact in artifacts().items() if not artifact.printed}
    assert unprinted == {"targets", "tuned", "depth-last-layer"}


def _listed(tmp_path: Path, *words: str) -> str:
    return CliRunner().invoke(app, ["reproduce", *words, "--list", "--cache", str(tmp_path)]).output


def test_what_trains_is_expected_to_take_as_long_as_its_training_would(tmp_path: Path) -> None:
    """Counts take no time, a few timed epochs of a slow method on a large graph do."""
    assert all(kind_of(name) for name in (*costs.TRAININGS, *costs.SECONDS, "growth"))
    guess = calibrate([])
    timed = {
        (piece.arguments["experiment"]["method"], piece.arguments["experiment"]["dataset"]): guess.seconds(piece)
        for piece in artifacts()["time-and-memory"].pieces(Scope())
    }
    assert timed["gca", "ogbn-arxiv"] > 300 > 10 > timed["bandana", "cora"]
    coarse, whole = (sum(map(guess.seconds, artifacts()["complexity"].pieces(Scope(quick=q)))) for q in (True, False))
    assert 20 * coarse == whole > 100
    assert guess.seconds(counted()) < 1
    untrained = artifacts()["manifold"].pieces(Scope(seeds=1, methods=("untrained_encoder",)))
    assert {guess.seconds(piece) for piece in untrained} == {costs.OTHER_SECONDS}
