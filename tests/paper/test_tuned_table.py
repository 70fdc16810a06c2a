"""The table of tuned settings: both recipes, both rivals, and words that say exactly who is reached and passed."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bandana.config import to_table
from bandana.errors import UserError
from bandana.paper.artifact import Cell, Result, Scope, Score, Sheet
from bandana.paper.cache import Cache
from bandana.paper.catalogue import PAPER_ORDER, artifacts
from bandana.paper.cookbook import has_cell, load_recipe, recipe
from bandana.paper.names import called
from bandana.paper.published import published
from bandana.paper.reproduce import Plan, survey
from bandana.paper.rows import read_rows, to_rows
from bandana.paper.tables import tuned

SMALL = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics")


def made_up(scope: Scope, lead: Mapping[str, float]) -> list[Sheet]:
    """Tables in which the mean of every recipe lies so many points above the published figure of Bandana."""
    results = []
    for piece in tuned.pieces(scope):
        table, seed = piece.arguments["experiment"], piece.arguments["seed"]
        task, dataset = table["task"], table["dataset"]
        metric = {"node": "micro_f1", "link": "auc"}[task]
        name = next(n for n, e in tuned.experiments_of(dataset, task).items() if to_table(e) == table)
        figure = published(metric)["bandana", dataset].mean + lead[name] + 0.01 * (seed - (scope.seeds - 1) / 2)
        squashed = {"auc_sigmoid32": (figure - 1) / 100} if task == "link" else {}
        results.append((piece, Result({"metrics": {metric: figure / 100, **squashed}})))
    return list(tuned.show(results))


def test_it_asks_for_both_recipes_of_all_small_cells() -> None:
    pieces = tuned.pieces(Scope(seeds=1))
    tables = [piece.arguments["experiment"] for piece in pieces]
    paper = [to_table(recipe("bandana", dataset, task)) for task in ("node", "link") for dataset in SMALL]
    assert all(table in tables for table in paper)
    others = [table for table in tables if table not in paper]
    book = [
        (task, dataset) for task in ("node", "link") for dataset in SMALL if has_cell("bandana", dataset, task, "tuned")
    ]
    assert [(table["task"], table["dataset"]) for table in others] == book
    assert all(to_table(recipe("bandana", of["dataset"], of["task"], book="tuned")) == of for of in others)
    assert tuned.pieces(Scope(seeds=1, methods=("gae",))) == []
    assert artifacts()["tuned"] is tuned.ARTIFACT
    assert "tuned" in PAPER_ORDER


@pytest.mark.parametrize("dataset", [*SMALL, "digits"])
@pytest.mark.parametrize("task", ["node", "link"])
def test_a_book_has_the_cells_that_it_can_be_asked_for(dataset: str, task: str) -> None:
    if has_cell("bandana", dataset, task, "tuned"):
        assert load_recipe("bandana", dataset, task, "tuned").values
    else:
        with pytest.raises(UserError, match=f"has no {task} recipe for {dataset}"):
            load_recipe("bandana", dataset, task, "tuned")


def test_both_recipes_are_held_against_bandana_and_against_the_best_of_any_method() -> None:
    scope = Scope(seeds=9, datasets=("citeseer", "pubmed"))
    nodes, links, _ = made_up(scope, {tuned.PAPER: -0.18, tuned.TUNED: 0.18})
    cells = {(cell.row, cell.column): cell for cell in links.cells}
    assert links.rows == (
        *("recipe of the paper", "bandana-tuned"),
        *("recipe of the paper, against the best method", "bandana-tuned, against the best method"),
    )
    best = max(score.mean for (_, dataset), score in published("auc").items() if dataset == "citeseer")
    assert cells["bandana-tuned", "citeseer"].published == published("auc")["bandana", "citeseer"]
    against = cells["bandana-tuned, against the best method", "citeseer"]
    assert against.published is not None
    assert against.published.mean == best > published("auc")["bandana", "citeseer"].mean
    assert "The best published figure is that of MaskGAE-path." in against.note
    assert cells["bandana-tuned", "citeseer"].state == "higher"
    assert against.state == "lower"
    assert "Welch" in against.note
    assert "prediction interval" in nodes.cells[0].note


def test_the_notes_say_who_is_reached_and_who_is_passed() -> None:
    scope = Scope(seeds=9, datasets=("citeseer", "pubmed"))
    _, links, _ = made_up(scope, {tuned.PAPER: -0.18, tuned.TUNED: 0.18})
    told = dict(zip(links.rows, links.notes, strict=False))
    assert told["bandana-tuned"].startswith(
        "bandana-tuned: 2 of 2 means reach the published figure of Bandana, 2 pass it "
        "(above: CiteSeer (higher by the test), PubMed (higher by the test)"
    )
    assert told["bandana-tuned, against the best method"].startswith(
        "bandana-tuned: 1 of 2 means reach the best published figure of any method, 1 pass it "
        "(above: PubMed (higher by the test); below: CiteSeer (lower by the test)"
    )
    assert "0 of 2 means reach the published figure of Bandana" in told["recipe of the paper"]
    assert "CiteSeer 97.21 (MaskGAE-path), PubMed 97.26 (Bandana)" in links.notes[4]


def test_a_level_mean_reaches_but_does_not_pass() -> None:
    level = Cell(row="x", column="cora", ours=Score(95.0, 0.1, 3), published=Score(95.0, 0.1, 10), state="same")
    assert tuned.standing_note("x", [level]) == (
        "x: 1 of 1 means reach the published figure of Bandana, 0 pass it (level: Cora (no difference shown))."
    )


def test_a_mean_that_differs_behind_the_printed_digits_is_level() -> None:
    cell = Cell(row="x", column="cora", ours=Score(95.004, 0.1, 3), published=Score(95.0, 0.1, 10), state="same")
    assert "1 of 1 means reach the published figure of Bandana, 0 pass it (level" in tuned.standing_note("x", [cell])
    above = Cell(row="x", column="cora", ours=Score(95.006, 0.1, 3), published=Score(95.0, 0.1, 10), state="same")
    assert "1 pass it (above" in tuned.standing_note("x", [above])


def test_links_are_also_held_against_the_published_figure_in_its_own_scoring() -> None:
    scope = Scope(seeds=9, datasets=("citeseer", "pubmed"))
    _, logits, squashed = made_up(scope, {tuned.PAPER: -0.18, tuned.TUNED: 0.18})
    assert "after a float32 sigmoid" in squashed.title
    assert "chosen on logits" in squashed.notes[0]
    pairs = list(zip(logits.cells, squashed.cells, strict=True))
    assert all(one.published == other.published for one, other in pairs)
    assert all(one.ours.mean - other.ours.mean == pytest.approx(1) for one, other in pairs if one.ours and other.ours)
    assert {cell.state for cell in squashed.cells} == {"lower"}


def test_a_cell_without_a_tuned_recipe_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned, "has_cell", lambda method, dataset, task, book: dataset != "cs")
    tuned.experiments_of.cache_clear()
    scope = Scope(seeds=2, datasets=("cora", "cs"))
    nodes, _, _ = made_up(scope, {tuned.PAPER: 0.0, tuned.TUNED: 0.0})
    tuned.experiments_of.cache_clear()
    cells = {(cell.row, cell.column): cell for cell in nodes.cells}
    missing = "not run: there is no tuned recipe for cs, task node; to make one: bandana tune bandana cs --task node"
    assert cells["bandana-tuned", "cs"].missing == missing
    assert cells["bandana-tuned", "cs"].state == "not run"
    assert cells["recipe of the paper", "cs"].ours is not None
    assert f"CS (2 of 4 rows): {missing}." in nodes.notes


def test_rows_of_tuned_trainings_are_read(tmp_path: Path) -> None:
    scope = Scope(seeds=1, datasets=("pubmed",))
    table = to_table(recipe("bandana", "pubmed", "link", book="tuned"))
    values = {"metrics": {"auc": 0.97}, "diagnostics": {}, "seconds": {"pretrain": 1.0}, "precision": "tf32"}
    done = [(piece, Result(values)) for piece in tuned.pieces(scope) if piece.arguments["experiment"] == table]
    assert len(done) == 1
    rows = tmp_path / "rows.csv"
    rows.write_text(to_rows(done), encoding="utf-8")
    cache = Cache(tmp_path / "cache", "cpu", None)
    plan = Plan(artifacts=[tuned.ARTIFACT], scope=scope, cache=cache, out=tmp_path, rows=read_rows([rows]))
    items = survey(plan)["tuned"]
    assert [item.piece.arguments["experiment"] == table for item in items if item.result.values] == [True]


def test_a_table_says_where_several_encoders_stand_against_one() -> None:
    nodes, links, _ = made_up(Scope(seeds=2, datasets=("cora", "pubmed")), {tuned.PAPER: 0.0, tuned.TUNED: 0.0})
    copies = {name: recipe("bandana", name, "node", book="tuned").copies for name in ("cora", "pubmed")}
    several = ", ".join(f"{called(name)} {number}" for name, number in copies.items() if number is not None)
    assert several
    assert f"bandana-tuned: encoders side by side, where not one: {several}." in nodes.notes
    assert not any("side by side" in note for note in links.notes)
