"""Every recipe loads, names the source of every value, and holds what the paper's table says."""

from importlib.resources import files
from pathlib import Path

import pytest

from bandana.config import read_toml
from bandana.data.datasets import DATASETS
from bandana.errors import UserError
from bandana.paper.artifact import Scope
from bandana.paper.catalogue import artifacts
from bandana.paper.cookbook import load_recipe, recipe
from bandana.paper.published import published_figures
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


@pytest.mark.parametrize("name", all_methods())
def test_every_book_has_the_tasks_that_the_method_declares_and_every_cell_loads(name: str) -> None:
    table = read_toml(next(book for book in BOOKS if book.stem == name))
    assert table.keys() - {"sources"} == set(all_methods()[name].facts.tasks)
    for task in table.keys() - {"sources"}:
        assert table[task].keys() <= DATASETS.keys() | {"defaults"}
        for dataset in DATASETS.keys() & table[task].keys() | {"cora"}:
            assert recipe(name, dataset, task).task == task


@pytest.mark.parametrize("name", sorted(all_methods().keys() & {method for method, _, _ in published_figures()}))
def test_every_figure_of_the_two_large_tables_has_a_recipe_of_its_own(name: str) -> None:
    table = read_toml(next(book for book in BOOKS if book.stem == name))
    cells = {
        ("node" if metric.endswith("f1") else "link", dataset)
        for (method, dataset, metric), figure in published_figures().items()
        if method == name and figure.mean is not None
    }
    assert {(task, dataset) for task, dataset in cells if dataset not in table.get(task, {})} == set()


@pytest.mark.parametrize("table", [name for name, artifact in artifacts().items() if artifact.kind == "table"])
def test_what_a_table_trains_has_a_recipe_of_its_own(table: str) -> None:
    """The defaults of a book alone are nobody's choice for a data set; floors have nothing to choose."""
    trained = [piece.arguments.get("experiment") for piece in artifacts()[table].pieces(Scope(seeds=1))]
    cells = {(one["method"], one["task"], one["dataset"]) for one in trained if one}
    books = {book.stem: read_toml(book) for book in BOOKS}
    learning = [cell for cell in cells if all_methods()[cell[0]].facts.family != "floor"]
    assert [(name, task, dataset) for name, task, dataset in learning if dataset not in books[name][task]] == []


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("task", ["node", "link"])
def test_every_cell_of_bandana_is_a_valid_experiment(dataset: str, task: str) -> None:
    if task == "node" and not DATASETS[dataset].classes:
        assert dataset not in read_toml(next(book for book in BOOKS if book.stem == "bandana"))["node"]
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
    """Two tables of two metrics each, with the rows that they have, and the small tables of two more data sets."""
    figures = published_figures()
    methods = {method for method, _, _ in figures}
    assert len(methods) == 17
    no_nodes, no_links = {"sig_vae", "t_bgrl"}, {"costa"}
    extra = [("gca", "wikics"), *(("bandana", name) for name in ("wikics", "ogbn-mag"))]
    extra += [(method, "ogbn-mag") for method in ("maskgae_edge", "maskgae_path")]
    main, nodes = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics"), ("micro_f1", "macro_f1")
    expected = {(m, d, metric) for m in methods - no_nodes for d in (*main, "ogbn-arxiv") for metric in nodes}
    expected |= {(m, d, metric) for m in methods - no_links for d in main for metric in ("auc", "ap")}
    expected |= {(m, d, metric) for m, d in extra for metric in nodes}
    assert figures.keys() == expected - {("seegera", "computers", "macro_f1")}


def test_published_figures_are_percentages_or_say_why_not() -> None:
    for figure in published_figures().values():
        assert figure.note in {"", "OOM", "quoted", "implemented by the Bandana authors"}
        assert (figure.mean is None) == (figure.sd is None) == (figure.note == "OOM")
        if figure.mean is not None and figure.sd is not None:
            assert 10 < figure.mean < 100
            assert 0 <= figure.sd < 10


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (("bandana", "cora", "micro_f1"), "84.62 ± 0.37"),
        (("bandana", "physics", "ap"), "96.67 ± 0.05"),
        (("gae", "photo", "auc"), "71.45 ± 0.95"),
        (("graphmae2", "ogbn-arxiv", "macro_f1"), "50.42 ± 0.00"),
        (("maskgae_path", "cs", "ap"), "80.84 ± 0.58"),
        (("grace", "physics", "auc"), "OOM"),
    ],
)
def test_published_figures_are_those_of_the_paper(cell: tuple[str, str, str], shown: str) -> None:
    assert str(published_figures()[cell]) == shown


def test_notes_say_who_made_a_figure() -> None:
    figures = published_figures()
    assert figures["seegera", "computers", "micro_f1"].note == "quoted"
    theirs = {(method, metric) for (method, _, metric), figure in figures.items() if "implemented" in figure.note}
    assert {method for method, metric in theirs if metric == "micro_f1"} == {"gae", "vgae", "arga", "arvga"}
    links = {"grace", "gca", "cca_ssg", "graphmae", "graphmae2"}
    assert {method for method, metric in theirs if metric == "auc"} == links
