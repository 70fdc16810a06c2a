"""The tables: which work they ask for, what that work gives on graphs small enough to check, and how it is shown."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import pytest
import torch

from bandana.config import to_table
from bandana.data.bundled import karate
from bandana.data.datasets import load
from bandana.data.splits import split_edges
from bandana.experiment import run_seed
from bandana.paper.artifact import Artifact, Piece, Result, Scope, Score, Sheet
from bandana.paper.catalogue import artifacts
from bandana.paper.cookbook import recipe
from bandana.paper.grid import Reading, by_digits, make_cell, make_sheet, of_training, percent, state_of
from bandana.paper.pieces import HEURISTICS, TRAINING, training
from bandana.paper.published import Printed, printed
from bandana.paper.tables import complexity, mask_ablation, node_classification, semi_supervised, targets
from bandana.paper.variants import contrast_notes, variant_of, variant_pieces
from bandana.paper.work import kind_of

CPU = torch.device("cpu")
TABLES = [artifact for artifact in artifacts().values() if artifact.kind == "table"]
SHORT = {"training.epochs": 2, "training.evaluate_every": 1, "probe.epochs": 3, "probe.repeats": 2}


def do(piece: Piece) -> dict[str, Any]:
    return kind_of(piece.work).function(piece.arguments, CPU, None)


def key(piece: Piece) -> str:
    return f"{piece.work} {sorted(piece.arguments.items())}"


def invented(piece: Piece) -> dict[str, Any]:
    """Values such as this kind of work gives, but made up."""
    share = 0.5 + len(str(piece.arguments)) % 40 / 100
    names = ("micro_f1", "macro_f1", "auc", "ap", "auc_sigmoid32", "ap_sigmoid32", "decoder_auc", "tied_share")
    hits = {f"decoder_hits@{k}": share for k in (20, 50, 100)}
    if piece.work == TRAINING:
        metrics = dict.fromkeys(names, share) | hits
        return {"metrics": metrics, "as_published": metrics}
    if piece.work == HEURISTICS:
        heuristics = ("common neighbours", "Adamic-Adar", "resource allocation")
        return {"metrics": {name: {"auc": share, "ap": share} for name in heuristics}}
    return {
        "growth": {"values": [1, 2, 4], "seconds": [1.0, 2.0, 4.0], "mb": [1.0, 2.0, 4.0]},
        "mask-ratio": {"calculated": share, "measured": share},
        "fitted decoder": {"metrics": {"decoder_auc": share}},
        "statistics": dict.fromkeys(("nodes", "edges", "features", "classes", "density"), 7),
        "pretraining-cost": {"epoch_seconds": share, "timed": 3, "peak_mb": 100.0},
    }[piece.work]


def sheets(artifact: Artifact, results: Sequence[tuple[Piece, Result]]) -> list[Sheet]:
    shown = list(artifact.show(results))
    assert all(isinstance(sheet, Sheet) for sheet in shown)
    return shown  # type: ignore[return-value]


@pytest.mark.parametrize("artifact", TABLES, ids=lambda artifact: artifact.name)
@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
def test_every_table_has_each_cell_once_and_in_its_place(artifact: Artifact, quick: bool) -> None:
    pieces = artifact.pieces(Scope(seeds=1, quick=quick))
    for sheet in sheets(artifact, [(piece, Result(invented(piece), origin="a.toml")) for piece in pieces]):
        places = Counter((cell.row, cell.column) for cell in sheet.cells)
        assert places
        assert set(places.values()) == {1}
        assert {row for row, _ in places} == set(sheet.rows)
        assert {column for _, column in places} == set(sheet.columns)
        assert all(cell.ours is not None for cell in sheet.cells if cell.state not in ("not run",))


@pytest.mark.parametrize("artifact", TABLES, ids=lambda artifact: artifact.name)
def test_without_results_no_table_shows_a_number(artifact: Artifact) -> None:
    pieces = artifact.pieces(Scope(seeds=1))
    failure = "not run: data set missing; with its files: bandana reproduce x"
    for sheet in sheets(artifact, [(piece, Result(None, failure)) for piece in pieces]):
        if artifact.name != "hyperparameters":
            assert all(cell.ours is None and cell.state == "not run" for cell in sheet.cells)


@pytest.mark.parametrize(
    "table", ["node-classification", "link-prediction", "mask-ablation", "semi-supervised", "end-to-end"]
)
def test_every_printed_figure_of_the_large_tables_has_a_cell(table: str) -> None:
    names = {"node-classification": "micro_f1", "link-prediction": "auc"}
    artifact = artifacts()[table]
    pieces = artifact.pieces(Scope(seeds=1))
    first = sheets(artifact, [(piece, Result(invented(piece))) for piece in pieces])[0]
    cells = {(cell.row, cell.column): cell for cell in first.cells}
    wanted = {place: cell.score for place, cell in printed(names.get(table, table)).items() if cell.score is not None}
    others = {"wikics", "ogbn-mag"}  # printed in tables of their own
    for (row, column), score in wanted.items():
        if column not in others:
            assert cells[row, column].published == score


def test_the_scope_narrows_data_sets_methods_and_seeds() -> None:
    pieces = node_classification.pieces(Scope(seeds=2, datasets=("cora", "cs"), methods=("gae", "bandana")))
    named = [
        (p.arguments["seed"], p.arguments["experiment"]["method"], p.arguments["experiment"]["dataset"]) for p in pieces
    ]
    assert sorted(named) == sorted((s, m, d) for s in (0, 1) for m in ("gae", "bandana") for d in ("cora", "cs"))
    assert len(node_classification.pieces(Scope(seeds=3))) == 3 * 18 * 8


def test_tables_share_trainings() -> None:
    node = {key(piece) for piece in node_classification.pieces(Scope(seeds=1))}
    assert {key(piece) for piece in artifacts()["wiki-cs"].pieces(Scope(seeds=1))}.isdisjoint(node)
    few_labels = semi_supervised.pieces(Scope(seeds=1))
    assert sum(key(piece) in node for piece in few_labels) == 4  # two methods on two data sets with 10 % labels
    links = {key(piece) for piece in artifacts()["link-prediction"].pieces(Scope(seeds=1))}
    end_to_end = artifacts()["end-to-end"].pieces(Scope(seeds=1))
    own = {piece.arguments["experiment"]["method"] for piece in end_to_end if key(piece) not in links}
    assert own == {"t_bgrl"}, "only a decoder that is fitted afterwards is work of this table alone"
    aligned = targets.pieces(Scope(seeds=1, datasets=("cora",)))[0]
    assert key(aligned) in node


@pytest.mark.parametrize("variants", [mask_ablation.VARIANTS, targets.VARIANTS], ids=["mask ablation", "targets"])
def test_variants_are_told_apart_by_their_settings(variants: Mapping[str, Mapping[str, Any]]) -> None:
    pieces = variant_pieces(Scope(seeds=1), variants, ["cora"])
    names = [variant_of(variants)(piece.arguments["experiment"]) for piece in pieces]
    assert names == list(variants)
    assert len({key(piece) for piece in pieces}) == len(variants)


def test_paired_contrasts_are_differences_over_common_seeds() -> None:
    figures = {"aligned": (0.80, 0.82, 0.84), "constant": (0.81, 0.84, 0.85)}
    results = [
        (
            training(recipe("bandana", "cora", "node", targets.VARIANTS[name]), seed),
            Result({"metrics": {"micro_f1": value}}),
        )
        for name, values in figures.items()
        for seed, value in enumerate(values)
    ]
    reading = Reading(of_training(variant_of(targets.VARIANTS)), percent("metrics", "micro_f1"), "", "probes")
    (note,) = contrast_notes("aligned", results, reading)
    differences = [1.0, 2.0, 1.0]
    t = fmean(differences) / (stdev(differences) / math.sqrt(3))
    p = 1 - t / math.sqrt(2 + t * t)  # Student's t with two degrees of freedom, in closed form, two-sided
    assert f"constant {fmean(differences):+.2f} (p = {p:.2g})" in note


def test_a_cell_is_the_mean_over_the_seeds_that_have_a_figure() -> None:
    piece = training(recipe("gae", "cora", "node"), 0)
    values = [0.81, 0.83, 0.88]
    members = [(piece, Result({"metrics": {"micro_f1": value}}, origin="c.toml")) for value in values]
    members.append((piece, Result(None, "OutOfMemoryError: x", "never-written.toml")))
    reading = Reading(of_training(), percent("metrics", "micro_f1"), "how", "probes")
    cell = make_cell(("gae", "cora"), members, reading, Printed(Score(84.0, 0.2, 10), "%", "Table 1"))
    scaled = [100 * value for value in values]
    assert cell.ours == Score(pytest.approx(fmean(scaled)), pytest.approx(stdev(scaled)), 3)
    assert cell.state == "same"
    assert "1 of 4 seeds" in cell.note
    assert cell.origins == ("c.toml",)


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        ("not run yet; to run it: x", "not run"),
        ("OutOfMemoryError: CUDA out of memory", "out of memory"),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory", "out of memory"),
        ("the process was killed, perhaps because the machine had no memory left", "failed"),
        ("ValueError: no", "failed"),
    ],
)
def test_why_there_is_no_figure_becomes_a_state(failure: str, state: str) -> None:
    assert state_of(failure) == state


@pytest.mark.parametrize(
    ("ours", "printed_mean", "state"),
    [
        (10556, 10556.0, "same"),
        (10557, 10556.0, "higher"),
        (10555, 10556.0, "lower"),
        (0.14401, 0.144, "same"),
        (0.1446, 0.144, "higher"),
        (1e-6, 1e-6, "same"),
        (2e-6, 1e-6, "higher"),
        (0.0005, 5e-4, "same"),
    ],
)
def test_figures_without_chance_agree_in_every_printed_digit(ours: float, printed_mean: float, state: str) -> None:
    assert by_digits(Score(ours, None, 1), Score(printed_mean, None, 1))[0] == state


def test_a_zero_at_the_end_of_a_printed_figure_is_a_digit_too() -> None:
    printed_ratio = printed("mask-ratios")["ogbn-arxiv", "calculated"].score
    assert printed_ratio is not None
    assert (printed_ratio.mean, printed_ratio.last_digit) == (0.914, -4)  # 0.9140
    assert by_digits(Score(0.91397, None, 1), printed_ratio)[0] == "same"
    assert by_digits(Score(0.9136, None, 1), printed_ratio)[0] == "lower"


@pytest.mark.parametrize(
    ("table", "row", "column", "said"),
    [
        ("micro_f1", "gae", "cora", "The published figure is of an implementation by the Bandana authors."),
        ("micro_f1", "seegera", "computers", "The published figure is quoted from the method's own paper."),
        ("memory", "gca", "ogbn-arxiv", "The paper prints >24,576. That means out of memory, on a card of 24 GB."),
        ("micro_f1", "gca", "physics", "The paper prints OOM. That means out of memory, on a card of 24 GB."),
        ("end-to-end", "t_bgrl", "cora", "The published figure is of a decoder that was fine-tuned."),
    ],
)
def test_remarks_follow_each_other_as_sentences(table: str, row: str, column: str, said: str) -> None:
    piece = training(recipe("gae", "cora", "node"), 0)
    reading = Reading(of_training(), percent("metrics", "micro_f1"), "", "probes")
    failure = "not run: data set missing; with its files: bandana reproduce x --data-root FOLDER"
    absent = make_cell((row, column), [(piece, Result(None, failure))], reading, printed(table)[row, column])
    assert absent.note == f"Not run: data set missing; with its files: bandana reproduce x --data-root FOLDER. {said}"
    assert absent.missing == failure


def test_a_printed_want_of_memory_is_told_beside_our_figure() -> None:
    piece = training(recipe("grace", "physics", "node"), 0)
    reading = Reading(of_training(), percent("metrics", "micro_f1"), "", "probes")
    results = [(piece, Result({"metrics": {"micro_f1": 0.9}}))]
    (cell,) = make_sheet("t", results, reading, printed("micro_f1")).cells
    assert cell.state == "no published figure"
    assert "The paper prints OOM." in cell.note
    assert (cell.published, cell.printed) == (None, "OOM")


def test_a_training_gives_what_an_experiment_gives() -> None:
    experiment = recipe("bandana", "karate", "node", SHORT)
    values = do(training(experiment, 3))
    record = run_seed(experiment, load("karate"), 3, CPU, floors=False).record
    assert values["metrics"] == record.metrics
    paper = run_seed(recipe("bandana", "karate", "node", {**SHORT, "protocol": "paper"}), load("karate"), 3, CPU).record
    assert values["as_published"] == paper.metrics


def test_counts_of_shared_neighbours_are_the_floors_of_the_same_split() -> None:
    experiment = recipe("bandana", "karate", "link", SHORT)
    floors = run_seed(experiment, load("karate"), 2, CPU).record.floors
    held_out = (experiment.split.valid_edges, experiment.split.test_edges)
    values = do(Piece(HEURISTICS, {"dataset": "karate", "held_out": held_out, "seed": 2}))
    assert values["metrics"] == {name: floors[name] for name in values["metrics"]}
    assert len(values["metrics"]) == 3


def test_mask_ratios_are_those_of_the_training_edges() -> None:
    experiment = recipe("bandana", "karate", "node")
    values = do(Piece("mask-ratio", {"experiment": to_table(experiment), "seed": 1}))
    train = split_edges(karate(), experiment.split.valid_edges, experiment.split.test_edges, seed=1).train
    degree = Counter(train.structure.row.tolist())
    assert values["calculated"] == pytest.approx(1 - 34 / sum(degree.values()))
    # Shares add up to one over the neighbours of every node that has any.
    assert values["measured"] == pytest.approx(1 - len(degree) / sum(degree.values()), abs=1e-6)


def test_a_graph_is_counted() -> None:
    values = do(Piece("statistics", {"dataset": "karate"}))
    assert (values["nodes"], values["edges"], values["classes"]) == (34, 156, 4)
    assert values["density"] == pytest.approx(1000 * 156 / (34 * 33))


def test_the_recipes_hold_the_printed_settings() -> None:
    (sheet,) = sheets(artifacts()["hyperparameters"], [])
    assert len(sheet.cells) == 9 * 8
    assert {cell.state for cell in sheet.cells} == {"same"}


@pytest.mark.parametrize(
    ("order", "variable", "power"),
    [("K d |E| + K d² n", "d", 2), ("K d |E| + K d² n", "n", 1), ("|E|", "K", 0), ("d |E|", "|E|", 1)],
)
def test_the_largest_power_of_an_order(order: str, variable: str, power: int) -> None:
    assert complexity.largest_power(order, variable) == power


def test_a_power_is_fitted_and_held_against_the_order() -> None:
    assert complexity.fitted_power([1, 2, 4, 8], [3 * value**1.5 for value in (1, 2, 4, 8)]).mean == pytest.approx(1.5)
    assert complexity.fitted_power([1, 2, 4, 8], [3.0] * 4) == Score(0.0, 0.0, 4)
    piece = complexity.pieces(Scope())[1]
    assert piece.arguments["variable"] == "|E|"
    for power, state in ((1.0, "same"), (0.3, "same"), (2.0, "higher")):
        costs = [float(value) ** power for value in (1, 2, 4, 8)]
        result = Result({"values": [1, 2, 4, 8], "seconds": costs, "mb": costs})
        time, space = (sheet.cells[0] for sheet in complexity.show([(piece, result)]))
        assert time.state == space.state == state
        assert time.protocol.startswith("the quickest of five calls at |E| = 1, 2")
        assert space.protocol.startswith("the highest memory of tensors in a call")


@pytest.mark.parametrize("component", complexity.COMPONENTS)
def test_growth_is_measured(component: str) -> None:
    piece = Piece("growth", {"component": component, "variable": "|E|", "base": [20, 60, 4, 2], "doublings": 2})
    values = do(piece)
    assert values["values"] == [60, 120]
    assert all(seconds > 0 for seconds in values["seconds"])
    assert 0 < values["mb"][0] <= values["mb"][1]
    assert do(piece)["mb"] == values["mb"]


def test_memory_grows_as_the_tensors_of_a_component_do() -> None:
    base = {"component": "bandwidth prediction", "base": [500, 20_000, 4, 1], "doublings": 3}
    for variable, power in (("n", 0.0), ("|E|", 1.0), ("d", 0.0), ("K", 1.0)):
        values = do(Piece("growth", {**base, "variable": variable}))
        assert complexity.fitted_power(values["values"], values["mb"]).mean == pytest.approx(power, abs=0.1)


def test_pretraining_is_timed_and_scaled_to_the_epochs_of_the_paper() -> None:
    artifact = artifacts()["time-and-memory"]
    piece = next(p for p in artifact.pieces(Scope(quick=True)) if p.arguments["experiment"]["method"] == "bandana")
    table = {**piece.arguments["experiment"], "dataset": "karate"}
    piece = Piece(piece.work, {**piece.arguments, "experiment": table})
    values = do(piece)
    assert values["epoch_seconds"] > 0
    assert values["peak_mb"] is None
    time, memory = sheets(artifact, [(piece, Result(values))])
    assert time.cells[0].ours == Score(pytest.approx(500 * values["epoch_seconds"]), None, 1)
    assert memory.cells[0].state == "not run"
