"""What tables and figures say beside their numbers: why some are missing, which test was made, and what is not read."""

from collections.abc import Callable, Mapping

import pytest

from bandana.data.datasets import DATASETS
from bandana.paper.artifact import Artifact, Picture, Piece, Result, Scope, Sheet
from bandana.paper.catalogue import artifacts
from bandana.paper.cookbook import recipe
from bandana.paper.figures import depth, embedding_size, temperature
from bandana.paper.grid import Reading, beside, make_sheet, of_training, percent
from bandana.paper.names import called
from bandana.paper.pieces import training
from bandana.paper.published import published, published_figures, table_names
from bandana.paper.rows import DECODER_HITS
from bandana.paper.tables import complexity
from bandana.registry import all_methods
from bandana.reporting.latex import to_latex
from bandana.reporting.marks import best_places, mark_of
from bandana.reporting.sheets import to_csv, to_markdown

NOT_YET = "not run yet; to run it: bandana reproduce x"
NO_DATA = "not run: data set missing; with its files: bandana reproduce x --datasets pubmed --data-root FOLDER"


def reading(metric: str = "micro_f1") -> Reading:
    return Reading(of_training(), percent("metrics", metric), "", "probes")


def results_of(failures: Mapping[tuple[str, str], str]) -> list[tuple[Piece, Result]]:
    return [
        (training(recipe(method, dataset, "node"), 0), Result(None if text else {"metrics": {"micro_f1": 0.8}}, text))
        for (method, dataset), text in failures.items()
    ]


def sheet_of(artifact: str, results: list[tuple[Piece, Result]], title: str) -> Sheet:
    (found,) = (sheet for sheet in artifacts()[artifact].show(results) if sheet.title.startswith(title))  # type: ignore[union-attr]
    assert isinstance(found, Sheet)
    return found


def figures_for(artifact: str, scope: Scope, share: Callable[[int], float]) -> list[tuple[Piece, Result]]:
    names = ("auc", "auc_sigmoid32", "ap", "ap_sigmoid32", "decoder_auc", *DECODER_HITS)
    pieces = artifacts()[artifact].pieces(scope)
    return [(piece, Result({"metrics": dict.fromkeys(names, share(piece.arguments["seed"]))})) for piece in pieces]


# Missing figures


def test_every_reason_for_a_missing_figure_is_told_once_with_its_columns() -> None:
    failures = {
        ("gae", "cora"): "",
        ("bandana", "cora"): NOT_YET,
        ("gae", "citeseer"): NOT_YET,
        ("bandana", "citeseer"): NOT_YET,
        ("gae", "pubmed"): NO_DATA,
        ("bandana", "pubmed"): NO_DATA,
        ("gae", "physics"): "OutOfMemoryError: 1 GiB",
        ("bandana", "physics"): "OutOfMemoryError: 2 GiB",
    }
    assert make_sheet("t", results_of(failures), reading(), {}).notes == (
        f"Cora (1 of 2 rows), CiteSeer: {NOT_YET}.",
        f"PubMed: {NO_DATA}.",
        "Physics: out of memory, as the note of each cell says.",
    )


def test_reasons_of_several_tables_are_told_together_and_by_row_where_rows_are_empty() -> None:
    failures = {("gae", "cora"): "", ("bandana", "cora"): NOT_YET, ("gae", "cs"): "", ("bandana", "cs"): NOT_YET}
    assert make_sheet("t", results_of(failures), reading(), {}).notes == (f"Bandana: {NOT_YET}.",)
    parts = [make_sheet("t", results_of({place: text}), reading(), {}) for place, text in failures.items()]
    assert beside(parts).notes == (f"Bandana: {NOT_YET}.",)
    assert (beside(parts).rows, beside(parts).columns) == (("gae", "bandana"), ("cora", "cs"))


@pytest.mark.parametrize("name", ["ogb", "statistics", "complexity", "link-prediction", "wiki-cs", "tuned"])
def test_tables_without_results_give_reason_and_command(name: str) -> None:
    artifact = artifacts()[name]
    for sheet in artifact.show([(piece, Result(None, NOT_YET)) for piece in artifact.pieces(Scope(seeds=1))]):
        assert isinstance(sheet, Sheet)
        told = [note for note in sheet.notes if "to run it: bandana reproduce x" in note]
        assert len(told) == (0 if sheet.title.startswith("Average rank") else 1)


@pytest.mark.parametrize("failure", [NOT_YET, "OutOfMemoryError: 1 GiB"])
def test_a_method_that_gives_no_such_figure_is_told_so_and_no_command(failure: str) -> None:
    """The first seed is missing, and the other one has values without this figure."""
    first, second = (training(recipe("t_bgrl", "cora", "link"), seed) for seed in (0, 1))
    results = [(first, Result(None, failure)), (second, Result({"metrics": {"auc": 0.9, "auc_sigmoid32": 0.8}}))]
    sheet = make_sheet("t", results, reading("decoder_auc"), {})
    (cell,) = sheet.cells
    assert (cell.ours, cell.state) == (None, "not run")
    assert cell.missing == "not run: the method gives no such figure"
    assert not any("bandana reproduce" in text for text in (cell.note, *sheet.notes))


def test_a_decoder_that_is_fitted_afterwards_counts_end_to_end_alone() -> None:
    arguments = training(recipe("t_bgrl", "cora", "link"), 0).arguments
    trained = Result({"metrics": {"auc": 0.9, "auc_sigmoid32": 0.8}})
    fitted = Result({"metrics": {"decoder_auc": 0.7, "decoder_ap": 0.6}})
    results = [(Piece("experiment", arguments), trained), (Piece("fitted decoder", arguments), fitted)]
    shown = {
        title: [cell.ours and cell.ours.mean for cell in sheet_of("end-to-end", results, title).cells]
        for title in ("AUC (%) end to end", "AUC (%) by dot products on", "AUC (%) by dot products after")
    }
    assert list(shown.values()) == [[pytest.approx(70)], [pytest.approx(90)], [pytest.approx(80)]]


def test_memory_that_no_gpu_measured_is_not_laid_to_the_method() -> None:
    piece = artifacts()["time-and-memory"].pieces(Scope(datasets=("cora",), methods=("bandana",)))[0]
    result = Result({"epoch_seconds": 1.0, "timed": 3, "peak_mb": None})
    (cell,) = sheet_of("time-and-memory", [(piece, result)], "Peak GPU memory").cells
    assert cell.missing == "not run: memory is read on a GPU only, see --device cuda"


# Ties


def test_the_share_of_tied_pairs_stands_last_beside_both_scorings() -> None:
    scope = Scope(seeds=2, datasets=("cora", "photo"), methods=("gae", "bandana"))
    results = [
        (
            piece,
            Result(
                {"metrics": {"auc": 0.9, "ap": 0.9, "auc_sigmoid32": 0.7, "ap_sigmoid32": 0.7, "tied_share": share}}
            ),
        )
        for piece in artifacts()["link-prediction"].pieces(scope)
        for share in [0.25 + piece.arguments["seed"] / 2]
    ]
    shown = artifacts()["link-prediction"].show(results)
    ties, auc = shown[-1], sheet_of("link-prediction", results, "AUC (%), after")
    assert isinstance(ties, Sheet)
    assert (ties.rows, ties.columns) == (auc.rows, auc.columns)
    assert "bandana, weights chosen after the sigmoid" in ties.rows
    assert {cell.ours.mean for cell in ties.cells if cell.ours} == {50.0}
    assert {(cell.published, cell.state) for cell in ties.cells} == {(None, "no published figure")}
    assert ties.highest_is_best is None
    assert len(ties.notes) == 1
    assert "docs/ties.md" in ties.notes[0]


# Published figures


def test_figures_of_the_large_tables_name_the_table_they_come_from() -> None:
    figures = published_figures()
    assert len(figures) == 473
    assert figures["bandana", "cora", "micro_f1"].source == "Table 1 (nodeclas)"
    assert figures["bandana", "cora", "auc"].source == "Table 2 (linkpred)"
    assert figures["bandana", "ogbn-mag", "micro_f1"].source == "Table 10c (mag)"
    assert figures["gca", "wikics", "macro_f1"].source == "Table 11 (wikics)"


def test_links_of_ogb_are_tested_as_means_of_runs() -> None:
    results = figures_for("ogb", Scope(seeds=3, datasets=("ogbl-collab",)), lambda seed: 0.5 + 0.01 * seed)
    notes = [cell.note for cell in sheet_of("ogb", results, "ogbl-collab").cells if cell.row == "bandana"]
    assert len(notes) == 2
    assert all("Welch" in note for note in notes)


def test_all_three_methods_are_trained_on_every_set_of_ogb_and_stand_beside_the_published_figures() -> None:
    methods, names = ("maskgae_edge", "maskgae_path", "bandana"), ("ogbl-collab", "ogbl-ppa", "ogbn-mag")
    pieces = artifacts()["ogb"].pieces(Scope(seeds=1))
    trained = [(p.arguments["experiment"]["dataset"], p.arguments["experiment"]["method"]) for p in pieces]
    assert trained == [(name, method) for name in names for method in methods]
    for name in names[:2]:
        sheet = sheet_of("ogb", figures_for("ogb", Scope(seeds=1, datasets=(name,)), lambda seed: 0.5), name)
        assert sheet.rows == methods
        assert {(cell.row, cell.column): cell.published for cell in sheet.cells} == published(name)
        assert all(cell.ours is not None and cell.ours.mean == 50 for cell in sheet.cells)


def test_one_figure_in_two_tables_gets_one_verdict() -> None:
    scope = Scope(seeds=5, datasets=("photo", "computers"), methods=("bandana",))
    share = published("auc")["bandana", "photo"].mean / 100
    for table, title in (("link-prediction", "AUC (%), after"), ("end-to-end", "AUC (%) by dot products after")):
        results = figures_for(table, scope, lambda seed: share - 0.0015 + 0.0005 * seed)
        cells = {(cell.row, cell.column): cell for cell in sheet_of(table, results, title).cells}
        photo = cells["bandana", "photo"]
        assert photo.published == published("auc")["bandana", "photo"]
        assert ("Table 2" in photo.note) == (table == "end-to-end")
        assert cells["bandana", "computers"].state == "lower"


def test_a_mean_that_differs_from_table_2_stays_without_deviation() -> None:
    results = figures_for("end-to-end", Scope(seeds=2, methods=("maskgae_edge",)), lambda seed: 0.9)
    cells = {cell.column: cell for cell in sheet_of("end-to-end", results, "AUC (%) by dot products on").cells}
    assert cells["cora"].published == published("auc")["maskgae_edge", "cora"]
    assert cells["cs"].published == published("dot-product")["maskgae_edge", "cs"]


def test_published_ranks_that_do_not_follow_from_the_published_figures_are_named() -> None:
    artifact = artifacts()["node-classification"]
    results = [(piece, Result(None, NOT_YET)) for piece in artifact.pieces(Scope(seeds=1))]
    ranks = sheet_of("node-classification", results, "Average rank")
    cells = {(cell.row, cell.column): cell.published for cell in ranks.cells}
    assert cells["costa", "all cells"].mean == pytest.approx(6.82, abs=0.01)  # type: ignore[union-attr]
    assert "As printed and recomputed: " in ranks.notes[-1]
    assert "COSTA 6.4 and 6.82" in ranks.notes[-1]
    assert "Bandana" not in ranks.notes[-1]  # 2.4375 is printed as 2.4


def growth() -> Sheet:
    piece = complexity.pieces(Scope())[1]
    result = Result({"values": [1, 2, 4], "seconds": [1.0, 2.0, 4.0], "mb": [1.0, 2.0, 4.0]})
    return complexity.show([(piece, result)])[0]


def test_the_number_in_brackets_of_a_growth_is_that_of_sizes() -> None:
    assert growth().counted == "sizes"
    heads, values = (line.split(",") for line in to_csv(growth()).splitlines())
    assert "seeds" not in heads
    assert values[heads.index("sizes")] == "3"


def test_a_growth_within_the_order_is_not_called_the_absence_of_a_difference() -> None:
    (cell,) = growth().cells
    assert cell.state == "same"
    for text in (to_markdown(growth(), []), to_latex(growth())):
        assert "grows within the paper's order" in text
        assert "no difference shown" not in text


def test_an_order_that_is_refuted_is_grave_and_no_growth_is_the_best() -> None:
    piece = complexity.pieces(Scope())[1]
    result = Result({"values": [1, 2, 4], "seconds": [1.0, 4.0, 16.0], "mb": [1.0, 2.0, 4.0]})
    seconds, megabytes = complexity.show([(piece, result)])
    tones = [mark_of(sheet.cells[0], sheet.highest_is_best).tone for sheet in (seconds, megabytes)]
    assert (seconds.cells[0].state, tones) == ("higher", ["poor", "good"])
    assert best_places(seconds) == {}


def test_times_on_another_machine_are_counted_as_side_by_side_in_every_form() -> None:
    piece = artifacts()["time-and-memory"].pieces(Scope(datasets=("cora",), methods=("bandana",)))[0]
    results = [(piece, Result({"epoch_seconds": 1.0, "timed": 3, "peak_mb": 9.0}))]
    for sheet in artifacts()["time-and-memory"].show(results):
        assert isinstance(sheet, Sheet)
        assert "side by side" in to_csv(sheet)
        assert "‖ beside the published figure, and nothing is tested" in to_markdown(sheet, [])


def test_columns_of_few_labels_stand_together_by_data_set() -> None:
    artifact = artifacts()["semi-supervised"]
    (sheet,) = artifact.show([(piece, Result(None, NOT_YET)) for piece in artifact.pieces(Scope(seeds=2))])
    assert isinstance(sheet, Sheet)
    assert sheet.columns == tuple(f"{name} {share} %" for name in ("cs", "physics") for share in (10, 5, 1))


def test_names_are_those_of_readers_and_files_keep_those_of_commands() -> None:
    results = figures_for("end-to-end", Scope(seeds=2, datasets=("cs",)), lambda seed: 0.9)
    sheet = sheet_of("end-to-end", results, "AUC (%) by dot products on")
    for text in (to_markdown(sheet, []), to_latex(sheet)):
        assert all(name in text for name in ("T-BGRL", "S2GAE", "MaskGAE-edge", "Bandana", "CS"))
        assert not any(name in text for name in ("t_bgrl", r"t\_bgrl", "maskgae"))
    assert "t_bgrl,cs," in to_csv(sheet)


def test_every_method_and_data_set_of_a_table_has_a_name_for_readers() -> None:
    places = {place for table in table_names() for place in published(table)}
    ours = {name for place in places for name in place if name in {*all_methods(), *DATASETS}}
    assert {name for name in ours if called(name) == name} <= {"ogbn-arxiv", "ogbn-mag", "ogbl-collab", "ogbl-ppa"}
    assert called("cs 10 %") == "CS 10 %"
    assert called("bandana, weights chosen after the sigmoid") == "Bandana, weights chosen after the sigmoid"
    assert called("bandana-tuned") == "bandana-tuned"


def test_counts_that_differ_for_a_known_reason_have_it_below_the_table() -> None:
    artifact = artifacts()["statistics"]
    for quick, said in (
        (False, ("largest components: 7,487 and 13,381 nodes", "these have 12,430")),
        (True, ("12,430",)),
    ):
        pieces = artifact.pieces(Scope(quick=quick))
        (sheet,) = artifact.show([(piece, Result(None, NOT_YET)) for piece in pieces])
        assert isinstance(sheet, Sheet)
        causes = [note for note in sheet.notes[1:] if "not run" not in note]
        assert len(causes) == len(said)
        assert all(words in note for words, note in zip(said, causes, strict=True))


def test_ranks_count_cells_and_not_seeds() -> None:
    artifact = artifacts()["node-classification"]
    results = [(piece, Result(None, NOT_YET)) for piece in artifact.pieces(Scope(seeds=1))]
    heads, *lines = (
        line.split(",") for line in to_csv(sheet_of("node-classification", results, "Average")).splitlines()
    )
    assert "cells" in heads
    assert "seeds" not in heads
    assert {line[heads.index("published_runs")] for line in lines} == {""}


# Readings of figures


@pytest.mark.parametrize(
    ("artifact", "methods", "said"),
    [
        (depth.ARTIFACT, ("bandana",), "Cora: nothing is read from a part of the depths (Bandana 1 of 8 "),
        (
            embedding_size.ARTIFACT,
            (),
            "Cora: nothing is read from a part of the pairs of widths (1 of 20 are there).",
        ),
        (temperature.ARTIFACT, (), "Cora: nothing is read from a part of the temperatures (1 of 13 are there)."),
    ],
    ids=["depth", "embedding-size", "temperature"],
)
def test_nothing_is_read_from_a_single_point(artifact: Artifact, methods: tuple[str, ...], said: str) -> None:
    pieces = artifact.pieces(Scope(seeds=1, datasets=("cora",), methods=methods))
    done = len(pieces) // 2
    results = [
        (piece, Result({"metrics": {"micro_f1": 0.8}}) if number == done else Result(None, NOT_YET))
        for number, piece in enumerate(pieces)
    ]
    (picture,) = artifact.show(results)
    assert isinstance(picture, Picture)
    assert any(note.startswith(said) for note in picture.notes)
    assert not any("best at" in note or "best with" in note for note in picture.notes[1:])
    assert not any("Both ends" in note for note in picture.notes)


def test_a_method_with_some_depths_is_not_held_against_others() -> None:
    pieces = depth.ARTIFACT.pieces(Scope(seeds=1, datasets=("cora",)))
    results = [
        (piece, Result({"metrics": {"micro_f1": 0.8}}))
        if piece.arguments["experiment"]["method"] != "maskgae_path"
        or piece.arguments["experiment"]["model"]["num_layers"] == 5
        else (piece, Result(None, NOT_YET))
        for piece in pieces
    ]
    (picture,) = depth.ARTIFACT.show(results)
    assert isinstance(picture, Picture)
    partial, read = (note for note in picture.notes if note.startswith("Cora: ") and "no result" not in note)
    assert partial == "Cora: nothing is read from a part of the depths (MaskGAE-path 1 of 8 are there)."
    assert "MaskGAE-path" not in read
    assert "Bandana is best at 1" in read
