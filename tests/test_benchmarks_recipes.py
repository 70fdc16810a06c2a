"""Recipes are held against each other with the same seeds, and the best is told by its mean."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bandana.paper.cookbook import recipe
from bandana.workers import Outcome

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def recipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import recipes

    yield recipes
    sys.modules.pop("recipes")


def test_a_recipe_is_a_book_and_changes(recipes: ModuleType) -> None:
    tuned = recipe("bandana", "citeseer", "link", book="tuned")
    assert recipes.experiment_of("citeseer", "link", "tuned") == tuned
    changed = recipes.experiment_of("citeseer", "link", "tuned,training.lr=0.5,model.encoder.width=7")
    assert (changed.training.lr, changed.model.encoder.width) == (0.5, 7)
    assert changed.monitor == tuned.monitor


def test_all_get_the_same_seeds_and_the_best_is_told_first(
    recipes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worse, better = "tuned,training.lr=0.25", "tuned,training.lr=0.75"
    asked: list[tuple[str, int]] = []

    def carried_out(work: Any, pieces: Any, jobs: int) -> Iterator[Outcome]:
        for piece in pieces:
            written, seed, experiment, *_ = piece
            asked.append((written, seed))
            if seed == 6 and written == worse:
                yield Outcome(piece, None, "RuntimeError: diverged")
            else:
                yield Outcome(piece, experiment.training.lr, "")

    monkeypatch.setattr(recipes, "carry_out", carried_out)
    rows = tmp_path / "rows.csv"
    arguments = [
        "citeseer",
        "--task",
        "link",
        "--csv",
        str(rows),
        "--first-seed",
        "5",
        "--seeds",
        "2",
        "--device",
        "cpu",
    ]
    monkeypatch.setattr(sys, "argv", ["recipes.py", *arguments, "--recipes", worse, better])
    recipes.main()
    assert asked == [(worse, 5), (better, 5), (worse, 6), (better, 6)]
    assert rows.read_text().splitlines() == [
        "recipe,seed,score",
        f'"{worse}",5,0.25',
        f'"{better}",5,0.75',
        f'"{better}",6,0.75',
    ]
    told = capsys.readouterr().out.splitlines()
    assert f"{worse} 6 RuntimeError: diverged" in told
    assert told[-2:] == [f"75.00 ± 0.00 (2 seeds) {better}", f"25.00 ± – (1 seed) {worse}"]


def test_a_wrong_book_is_refused_by_name(
    recipes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.csv"
    monkeypatch.setattr(sys, "argv", ["recipes.py", "citeseer", "--csv", str(rows), "--recipes", "tunned"])
    with pytest.raises(SystemExit):
        recipes.main()
    assert "tunned" in capsys.readouterr().err
    assert not rows.exists()
