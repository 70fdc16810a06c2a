"""The published figures: whole, well-formed, and those of the paper's source wherever that is at hand."""

import os
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from bandana.data.datasets import DATASETS
from bandana.errors import UserError
from bandana.paper.published import METRICS, printed, published, published_figures, table_names
from bandana.registry import all_methods

SMALL = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics")
AUTOENCODERS = ("t_bgrl", "s2gae", "maskgae_edge", "maskgae_path", "bandana")
OGB = ("maskgae_edge", "maskgae_path", "bandana")
TIMED = ("vgae", "gca", "seegera", "maskgae", "bandana")
LARGE = ("cora", "citeseer", "pubmed", "ogbn-arxiv", "ogbl-collab")
MASKS = ("Bernoulli", "uniform", "truncated Gaussian", "Boltzmann-Gibbs", "+ layer-wise masking", "Bandana")
OPTIONS = (
    *("model.encoder.num_layers", "training.lr", "model.mask.temperature", "model.encoder.width"),
    *("model.decoder_width", "model.encoder.dropout", "model.decoder_dropout", "training.weight_decay"),
    "probe.weight_decay",
)


def lines(table: str, rows: tuple[str, ...], columns: tuple[str, ...], *, turned: bool = False) -> Iterator[list]:
    """The printed lines of a table as places in ours; `turned` where the paper's rows are our columns."""
    for row in rows:
        yield [(table, (column, row) if turned else (row, column)) for column in columns]


def layout() -> dict[str, list[list[tuple[str, tuple[str, str]]]]]:
    """For every small table of the paper, by its label: the cells of each line, in reading order."""
    ratios = tuple(name for name in (*SMALL, "ogbn-arxiv", "ogbl-collab"))
    ends = [
        line
        for method in AUTOENCODERS
        for kind in ("end-to-end", "dot-product")
        for line in lines(kind, (method,), SMALL)
    ]
    data = ("swiss_roll", "two_moon", *SMALL, "wikics", "ogbn-arxiv", "ogbn-mag", "ogbl-collab", "ogbl-ppa")
    semi = [
        [("semi-supervised", (method, f"{dataset} {share} %")) for share in (10, 5, 1)]
        for dataset in ("cs", "physics")
        for method in ("maskgae_edge", "bandana")
    ]
    return {
        "maskablation": list(lines("mask-ablation", MASKS, SMALL[:3])),
        "maskratio": list(lines("mask-ratios", ratios, ("calculated", "measured"))),
        "data": list(lines("statistics", data, ("nodes", "edges", "features", "classes", "density"))),
        "hyperparameter": list(lines("hyperparameters", OPTIONS, (*SMALL, "ogbn-arxiv"))),
        "timespace": [line for kind in ("time", "memory") for line in lines(kind, LARGE, TIMED, turned=True)],
        "dpp": ends,
        "collab": list(lines("ogbl-collab", OGB, ("hits@20", "hits@50"))),
        "ppa": list(lines("ogbl-ppa", OGB, ("hits@50", "hits@100"))),
        "mag": list(lines("ogbn-mag", OGB, ("micro_f1", "macro_f1"))),
        "wikics": list(lines("wiki-cs", ("gca", "bandana"), ("micro_f1", "macro_f1"))),
        "semi": semi,
    }


@pytest.fixture(scope="module")
def source() -> str:
    """The paper's LaTeX source, which lies beside the data where it is at hand."""
    path = Path(os.environ.get("BANDANA_DATA", "")).parent / "paper" / "bandana.tex"
    if not os.environ.get("BANDANA_DATA") or not path.is_file():
        pytest.skip("needs the paper's source: paper/bandana.tex beside the folder that BANDANA_DATA points at")
    return path.read_text(encoding="utf-8")


def body(source: str, label: str) -> list[str]:
    """The lines of a table that hold a figure, without what only changes their looks."""
    text = source.split(rf"\label{{table:{label}}}", 1)[1].split(r"\midrule", 1)[1].split(r"\bottomrule", 1)[0]
    text = re.sub(r"\(\\textcolor[^()]*\)", "", text)
    text = re.sub(r"\\(?:arrayrulecolor|cmidrule)(?:\[[^\]]*\])?(?:\(\))?\{[^}]*\}", "", text)
    return [line for line in re.split(r"\\\\", text) if "&" in line]


def figures_of(line: str) -> list[str]:
    """The figures of a line, without the name that it begins with; a dash for none."""
    cells = [re.sub(r"\{\\bf ([^}]*)\}|\\underline\{([^}]*)\}", r"\1\2", cell).strip() for cell in line.split("&")]
    return [cell for cell in cells if re.fullmatch(r"--|OOM|[>\d][\d,.e± -]*", cell)]


def as_printed(table: str, place: tuple[str, str]) -> tuple[float, float | None, int | None] | str:
    cell = printed(table).get(place)
    if cell is None:
        return "--"
    return cell.text if cell.score is None else (cell.score.mean, cell.score.sd, cell.score.last_digit)


def parsed(text: str) -> tuple[float, float | None, int | None] | str:
    """Mean, deviation and the power of ten of the last digit."""
    if text in ("--", "OOM") or text.startswith(">"):
        return text
    mean, _, sd = text.replace(",", "").partition("±")
    return float(mean), float(sd) if sd else None, int(Decimal(mean.strip()).as_tuple().exponent)


@pytest.mark.parametrize("label", layout())
def test_small_tables_are_those_of_the_source(source: str, label: str) -> None:
    expected = layout()[label]
    found = [figures for figures in map(figures_of, body(source, label)) if figures]
    assert [[parsed(text) for text in line] for line in found] == [
        [as_printed(*cell) for cell in line] for line in expected
    ]


def test_orders_of_growth_are_those_of_the_source(source: str) -> None:
    names = {r"\mathcal{O}(": "", r"\vert\mathcal{E}\vert": "|E|", r"\vert\mathcal{V}\vert": "n", "^2": "²", ")$": ""}
    components = ("bandwidth masking", "encoding", "decoding", "bandwidth prediction", "total")
    for component, line in zip(components, body(source, "complexity"), strict=True):
        for side, text in zip(("time", "space"), line.split("&")[1:], strict=True):
            for old, new in {**names, "$": "", " ": "", "\n": ""}.items():
                text = text.replace(old, new)
            assert printed("complexity")[component, side].text.replace(" ", "") == text


@pytest.mark.parametrize(("label", "metrics"), [("nodeclas", METRICS[:2]), ("linkpred", METRICS[2:])])
def test_large_tables_are_those_of_the_source(source: str, label: str, metrics: tuple[str, str]) -> None:
    figures = published_figures()
    datasets = (*SMALL, "ogbn-arxiv")
    methods = dict.fromkeys(name for name, dataset, metric in figures if metric == metrics[0] and dataset == "cora")
    expected = [
        [
            str(figures[cell])
            for dataset in datasets
            if (cell := (name, dataset, metric)) in figures and figures[cell].mean
        ]
        for name in methods
        for metric in metrics
    ]
    found = [re.findall(r"\d+\.\d\d ± \d+\.\d\d", line) for line in body(source, label)]
    assert sorted(filter(None, found)) == sorted(expected)


def test_average_ranks_are_those_of_the_source(source: str) -> None:
    for label, task in (("nodeclas", "node classification"), ("linkpred", "link prediction")):
        text = "".join(body(source, label)).replace(r"\bf ", "")
        found = re.findall(r"\\multirow\{-?2\}\{\*\}\{(\d+\.\d)\}", text)
        ours = [score.mean for (_, column), score in published("average-ranks").items() if column == task]
        assert sorted(map(float, found)) == sorted(ours)


def test_every_cell_names_its_table_unit_and_runs() -> None:
    known = {*all_methods(), "maskgae", *DATASETS, *MASKS, *OPTIONS}
    for table in set(table_names()) - {"complexity"}:
        for (row, _), cell in printed(table).items():
            assert row in known, row
            assert re.match(r"Table \d+[abc]? \([a-z]+\)", cell.source)
            assert cell.unit in {"%", "s", "MB", "share", "count", "per mille", "setting", "rank"}
            assert (cell.score is None) == bool(cell.text)
            assert cell.score is None or cell.score.seeds in (1, 3, 10)


def test_zeros_at_the_end_of_a_figure_are_kept() -> None:
    assert printed("mask-ratios")["photo", "measured"].score == (0.963, None, 1, -4)
    assert printed("average-ranks")["gae", "node classification"].score == (10.3, None, 1, -1)
    assert printed("auc")["grace", "cora"].score == (81.8, 0.45, 10, -2)
    assert printed("time")["vgae", "ogbl-collab"].score == (1250, None, 1, 1)  # 1.25e03


def test_words_are_kept_apart_from_figures() -> None:
    assert ("gca", "ogbn-arxiv") not in published("memory")
    assert printed("memory")["gca", "ogbn-arxiv"].text == ">24,576"
    assert printed("auc")["gca", "physics"].text == "OOM"
    assert published("complexity") == {}


def test_tables_repeat_each_other_where_the_paper_does() -> None:
    """The same run is printed in several tables; four cells of Table 9 differ from Table 2, and say so."""
    micro, auc = published("micro_f1"), published("auc")
    assert published("mask-ablation")["Bandana", "cora"] == micro["bandana", "cora"]
    assert published("semi-supervised")["bandana", "cs 10 %"] == micro["bandana", "cs"]
    differing = {place for place, score in published("dot-product").items() if score.mean != auc[place].mean}
    assert differing == {(f"maskgae_{kind}", dataset) for kind in ("edge", "path") for dataset in ("cs", "physics")}
    assert all(f"Table 2 prints {auc[place].mean}" in printed("dot-product")[place].note for place in differing)


def test_a_table_that_does_not_exist_is_named() -> None:
    with pytest.raises(UserError, match=r"published table 'mask-ratio' does not exist\. Did you mean 'mask-ratios'"):
        published("mask-ratio")
