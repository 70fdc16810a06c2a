"""The experiments on cells that lie apart: what a trace would have kept, and which runs are made again."""

import sys
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from bandana.data.datasets import load
from bandana.workers import Outcome

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
deviating, deviating_pieces, study = map(import_module, ("deviating", "deviating_pieces", "deviating_study"))
sys.path.pop(0)

Piece = deviating_pieces.Piece
LINKS = Piece(label="try", method="t_bgrl", dataset="digits", changes={"model.width": 8}, stop=3, every=1, one_way=True)
NODES = Piece(
    label="try", method="s2gae", dataset="digits", task="node", stop=2, looks=(1,), studies=("own", "unit"),
    changes={"training.edge_batch_size": 0, "model.width": 8, "probe.epochs": 2, "probe.repeats": 1},
)  # fmt: skip


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The pieces that `main` carries out, here in this process."""
    done = []

    def carry_out(work: Any, pieces: Iterable[tuple[Any, ...]], **_: Any) -> Iterator[Outcome]:
        for arguments in pieces:
            done.append(arguments[0])
            yield Outcome(arguments, work(*arguments), "")

    monkeypatch.setattr(deviating, "carry_out", carry_out)
    return done


def call(monkeypatch: pytest.MonkeyPatch, folder: Path, pieces: list[Any], *options: str) -> list[dict[str, str]]:
    monkeypatch.setattr(deviating, "pieces", lambda: iter(pieces))
    monkeypatch.setattr(sys, "argv", ["deviating.py", "--data-root", "none", "--out", str(folder), *options])
    deviating.main()
    return deviating.read(folder / "deviating.csv")


def test_a_finished_run_is_skipped_and_one_cut_off_early_is_replaced(
    tmp_path: Path, made: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cut_off = call(monkeypatch, tmp_path, [LINKS, NODES], "--seconds", "0", "--least", "0.6")
    assert {row["epochs"] for row in cut_off} == {"1"}
    rows = call(monkeypatch, tmp_path, [LINKS, NODES], "--least", "0.6")
    assert {(row["task"], row["epochs"]) for row in rows} == {("link", "3"), ("node", "2")}
    trace = [row["epoch"] for row in deviating.read(tmp_path / "deviating-trace.csv") if row["readout"] == "head"]
    assert trace == ["0", "1", "2", "3"]
    assert call(monkeypatch, tmp_path, [LINKS, NODES]) == rows
    assert made == [LINKS, NODES] * 2
    assert capsys.readouterr().out.count("\n") == 4


def test_rows_hold_every_choice_and_readout() -> None:
    rows, _ = study.study(LINKS, None, time.time() + 60)
    assert {row["readout"] for row in rows} == {"embedding", "unit rows", "head", "head, unit rows"}
    assert {row["choice"] for row in rows} == {"untrained", "patience", "whole", "last"}
    assert all(0 <= row["auc_sigmoid32"] <= 1 for row in rows)
    nodes, _ = study.study(NODES, None, time.time() + 60)
    probes = [(row["choice"], row["readout"], row["probe"]) for row in nodes]
    own = [
        ("cut off", readout, probe)
        for readout in ("embedding", "all layers")
        for probe in ("recipe", "recipe, other rows")
    ]
    assert probes == [*own, ("look", "embedding", "recipe"), ("look", "all layers", "recipe")]


def test_patience_ends_before_a_later_best_and_ties_go_to_the_later_look() -> None:
    scores = [0.1, 0.5, 0.7, 0.7, 0.6, 0.5, 0.9, 0.2]
    looks = [{"epoch": 10 * k, "valid_auc": x, "valid_auc_sigmoid32": 1 - x} for k, x in enumerate(scores)]
    chosen = {name: row["epoch"] for name, row in study.choices(looks, 10, 2).items()}
    assert chosen == {
        ("clean", "untrained"): 0,
        ("clean", "patience"): 30,
        ("clean", "whole"): 60,
        ("paper", "patience"): 10,
        ("paper", "whole"): 70,
        ("clean", "last"): 70,
    }
    assert study.best(looks, "valid_auc", 3)["epoch"] == 60


def test_the_loss_stops_where_it_has_not_fallen_for_long() -> None:
    history = [{"epoch": epoch, "loss": loss} for epoch, loss in enumerate((1.0, 0.5, 0.495, 0.49, 0.1), 1)]
    assert study.loss_stop(history, 2) == 4
    assert study.loss_stop(history, 3) == 5
    assert study.loss_stop([], 3) == 0


def test_one_way_keeps_every_link_once() -> None:
    graph = load("digits").graph
    kept = study.one_way(graph)
    assert kept.num_edges == graph.num_edges // 2
    assert bool((kept.edge_index[0] < kept.edge_index[1]).all())


def test_random_splits_have_the_size_of_public_ones() -> None:
    labels = load("digits").graph.y
    split = study.public_size(labels, 0)
    assert labels[split.train].bincount().tolist() == [20] * 10
    parts = [split.train, split.valid, split.test]
    assert [len(part) for part in parts] == [200, 500, 1000]
    assert torch.cat(parts).unique().numel() == 1700


def test_every_piece_is_a_run_of_its_own_that_its_recipe_allows() -> None:
    pieces = list(deviating_pieces.pieces())
    assert len({deviating.name_of(piece.columns) for piece in pieces}) == len(pieces)
    assert all(piece.epochs > 0 and {*piece.studies} <= {*study.STUDIES} for piece in pieces)
    assert [p.method for p in pieces if deviating.asked(p, ["cora", "node"])] == ["s2gae"]


def test_a_failure_replaces_no_result(tmp_path: Path) -> None:
    sheets = [deviating.Sheet(tmp_path / name, deviating.FIELDS) for name in ("table", "trace")]
    row = {**LINKS.columns, "epochs": 3, "best_epoch": 1, "auc": 0.5, "seconds": 1.0, "choice": "last"}
    for result, failure in (([row], []), ""), (None, "over 9 s"):
        deviating.keep(Outcome((LINKS,), result, failure), *sheets)
    assert [kept["auc"] for kept in sheets[0].rows] == ["0.5"]
