"""Every recipe loads, names the source of every value, and holds what the paper's table says."""

import csv
from importlib.resources import files
from pathlib import Path

import pytest

from bandana.config import read_toml
from bandana.data.datasets import DATASETS
from bandana.errors import UserError
from bandana.paper.cookbook import load_recipe, recipe
from bandana.registry import all_methods

BOOKS = sorted(Path(str(files("bandana.paper") / "recipes")).glob("*.toml"))


@pytest.mark.parametrize("name", all_methods())
def test_every_method_has_a_book(name: str) -> None:
    assert name in {book.stem for book in BOOKS}


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_every_value_has_a_source_and_every_source_is_used(book: Path) -> None:
    table = read_toml(book)
    used = set()
    for task in table.keys() - {"sources"}:
        for options in table[task].values():
            for value, source in options.values():
                assert value is not None
                used.add(source)
    assert used == set(table["sources"])


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("task", ["node", "link"])
def test_every_cell_of_bandana_is_a_valid_experiment(dataset: str, task: str) -> None:
    if task == "node" and not DATASETS[dataset].classes:
        assert dataset not in read_toml(BOOKS[0])["node"]
        return
    assert dataset in read_toml(next(book for book in BOOKS if book.stem == "bandana"))[task]
    experiment = recipe("bandana", dataset, task)
    assert (experiment.dataset, experiment.task) == (dataset, task)


# Appendix D.3: layers, lr, temperature, widths, dropouts, weight decays.
PAPER = {
    "cora": (3, 1e-2, 0.9, 256, 256, 0.8, 0, 5e-5, 5e-3),
    "citeseer": (5, 2e-2, 0.2, 256, 256, 0.8, 0, 5e-5, 1e-1),
    "pubmed": (2, 1e-3, 0.2, 64, 32, 0.6, 0.7, 5e-5, 5e-5),
    "photo": (2, 2e-3, 1, 256, 64, 0.8, 0.2, 5e-5, 5e-4),
    "computers": (3, 1e-3, 0.4, 256, 64, 0.5, 0.2, 0, 5e-4),
    "cs": (2, 1e-2, 1e-6, 64, 32, 0.8, 0.2, 5e-5, 1e-3),
    "physics": (2, 2e-3, 0.4, 256, 128, 0.8, 0.2, 5e-5, 1e-3),
    "ogbn-arxiv": (4, 5e-4, 0.4, 256, 256, 0.2, 0, 5e-5, 1e-4),
}


@pytest.mark.parametrize("dataset", PAPER)
def test_node_recipes_are_the_papers_table(dataset: str) -> None:
    experiment = recipe("bandana", dataset, "node")
    model, encoder = experiment.model, experiment.model.encoder
    assert PAPER[dataset] == (
        encoder.num_layers,
        experiment.training.lr,
        model.mask.temperature,
        encoder.width,
        model.decoder_width,
        encoder.dropout,
        model.decoder_dropout,
        experiment.training.weight_decay,
        experiment.probe.weight_decay,
    )
    assert encoder.batch_norm
    assert encoder.activation == "elu"


def test_changes_come_last_and_are_checked() -> None:
    changed = recipe("bandana", "cora", "node", {"model.encoder.width": 32, "training.epochs": 5})
    assert (changed.model.encoder.width, changed.training.epochs) == (32, 5)
    assert changed.model.encoder.num_layers == 3
    with pytest.raises(UserError, match=r"model\.encoder\.wdith.*Did you mean 'width'"):
        recipe("bandana", "cora", "node", {"model.encoder.wdith": 32})
    with pytest.raises(UserError, match=r"model\.encoder\.dropout.*1\.5"):
        recipe("bandana", "cora", "node", {"model.encoder.dropout": 1.5})
    with pytest.raises(UserError, match="Did you mean 'node'"):
        recipe("bandana", "cora", "nodes")  # type: ignore[arg-type]


def test_the_source_of_a_value_is_told() -> None:
    sources = load_recipe("bandana", "cora", "node").sources
    assert "hyperparameter table" in sources["model.encoder.num_layers"]
    assert "released" in sources["training.clip_norm"]


def test_published_figures_are_complete() -> None:
    with (files("bandana.paper") / "published" / "bandana.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    cells = {(row["dataset"], row["metric"]): float(row["mean"]) for row in rows}
    assert len(cells) == len(rows) == 2 * 8 + 2 * 7
    assert cells["cora", "micro_f1"] == 84.62
    assert cells["physics", "ap"] == 96.67
