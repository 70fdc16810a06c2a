"""Tables written out: every field arrives in CSV, Markdown stays a table, and LaTeX can be set."""

import csv
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sample_sheets import cell, sample_claims, sample_picture, sample_sheet

from bandana.paper.artifact import Score, Sheet
from bandana.paper.published import published
from bandana.reporting.latex import to_latex, to_latex_of_two
from bandana.reporting.marks import best_places, mark_of, number_texts
from bandana.reporting.sheets import CELL_FIELDS, file_names, to_csv, to_markdown

PACKAGES = r"% needs \usepackage{booktabs,longtable,pdflscape}"
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)


def lines_of(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(table.splitlines()))


def test_csv_has_every_field_of_every_cell() -> None:
    sheet = sample_sheet()
    lines = lines_of(to_csv(sheet))
    assert tuple(lines[0]) == CELL_FIELDS
    assert [(line["row"], line["column"]) for line in lines] == [(c.row, c.column) for c in sheet.cells]
    for line, c in zip(lines, sheet.cells, strict=True):
        assert (float(line["ours_mean"]) if line["ours_mean"] else None) == (c.ours and c.ours.mean)
        assert int(line["seeds"]) == (c.ours.seeds if c.ours else 0)
        assert line["note"] == c.note
        assert line["origins"] == " ".join(c.origins)
        both = c.ours is not None and c.published is not None
        assert line["difference"] == (f"{c.ours.mean - c.published.mean:.10g}" if both else "")
    words = [
        "same",
        "undecided",
        "higher",
        "lower",
        "not tested",
        "no published figure",
        "not run",
        "out of memory",
        "failed",
    ]
    assert [line["verdict"] for line in lines] == words
    assert lines[0]["protocol"] == "linear probe"


def test_csv_of_a_figure_and_of_a_statement_has_the_numbers() -> None:
    assert lines_of(to_csv(sample_picture()))[1] == {"x": "2", "y": str(1 / 3), "name": "b,c"}
    found = [lines_of(to_csv(claim))[0] for claim in sample_claims()]
    assert [line["verdict"] for line in found] == ["holds", "does not hold", "open"]
    assert {line["value"] for line in found} == {"0.25"}


def test_markdown_shows_ours_over_the_published_figure() -> None:
    text = to_markdown(sample_sheet(), ["nodes-1.csv", "nodes-1.tex"])
    assert "| Bandana | **84.50 ± 0.50** (10) =<br>*84.62 ± 0.37* |" in text
    assert "| SeeGera | not run<br>*84.62 ± 0.37* | out of memory | failed<br>*84.62 ± 0.37* |" in text
    assert "▼ lower than published" in text
    assert text.endswith("- Three sentences & more.\n")
    assert "\n\n[nodes-1.csv](nodes-1.csv) · [nodes-1.tex](nodes-1.tex)\n\n" in text
    claim = to_markdown(sample_claims()[1], ["theory-2.csv"])
    assert "**✗ does not hold.** Counted.\n\n- ratio: 0.25\n\n[theory-2.csv](theory-2.csv)" in claim


def test_markdown_shows_a_drawing_and_leads_to_its_numbers() -> None:
    picture = sample_picture()
    text = to_markdown(picture, file_names("depth", 1, picture))
    assert "![Depth](depth-1.svg)" in text
    assert "2 rows of numbers: x, y, name. [depth-1.csv](depth-1.csv)" in text


def test_words_that_the_paper_prints_stand_where_its_figure_would() -> None:
    words = cell("grace", "physics", Score(94.5, 0.5, 3), None, printed="OOM")
    absent = cell("gca", "physics", None, None, printed=">24,576 & more")
    sheet = sample_sheet(rows=("grace", "gca"), columns=("physics",), cells=(words, absent))
    text = to_markdown(sheet, [])
    assert "| GRACE | 94.50 ± 0.50 (3) ·<br>*OOM* |" in text
    assert "| GCA | not run<br>*>24,576 & more* |" in text
    latex = to_latex(sheet)
    check_latex(latex, columns=1)
    assert "\\quad\\textit{published} & OOM \\\\[2pt]" in latex
    assert r"\quad\textit{published} & $>$24,576 \& more \\[2pt]" in latex
    first, second = lines_of(to_csv(sheet))
    assert (first["published_mean"], first["published_text"], second["published_text"]) == ("", "OOM", ">24,576 & more")
    both = to_latex_of_two(sheet, sheet)
    assert "\\quad\\textit{published} & OOM \\\\[2pt]" in both


@given(ANY_TEXT)
@example("00\u0180\u1d13")  # spelled out, it is so wide that the table breaks over pages
def test_no_name_breaks_a_markdown_table_or_latex(name: str) -> None:
    sheet = sample_sheet(
        name,
        columns=(name,),
        rows=(name,),
        cells=(cell(name, name, Score(1.5, 0.5, 2), None, printed=name),),
        notes=(name,),
    )
    table = [line for line in to_markdown(sheet, []).splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table[:2]} == {3}
    check_latex(to_latex(sheet), columns=1)


def check_latex(text: str, columns: int) -> None:
    """Braces and environments close, and every line of the table has all of its columns."""
    packages, _, text = text.partition("\n")
    assert packages == PACKAGES
    bare = re.sub(r"\\\\|\\[%&$#_{}]", "", text)
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert not set(bare) & set("#%~")
    begun, ended = (re.findall(rf"\\{word}\{{([a-z*]+)\}}", text) for word in ("begin", "end"))
    assert begun == ended[::-1]
    _, head, body = re.split(r"\\toprule|\\midrule", text, maxsplit=2)
    body = re.split(r"\\bottomrule|\\end\{longtable\}", body.split(r"\endfoot")[-1])[0]
    lines = f"{head}{body}".splitlines()
    rows = [line for line in lines if re.search(r"\\\\(\*\[1pt\]|\[2pt\])?$", line)]
    assert all(len(re.findall(r"(?<!\\)&", re.sub(r"\\\\", "", row))) == columns for row in rows)
    assert len(rows) >= 2


def test_latex_stacks_means_over_deviations_and_marks_the_best() -> None:
    text = to_latex(sample_sheet())
    check_latex(text, columns=3)
    assert r"Bandana & \shortstack{\textbf{84.50}\\{\scriptsize $\pm$ 0.50}} &" in text
    assert r"\textbf{99.00}$\uparrow$" in text
    assert r"\textbf{95.50}$\approx$" in text
    assert r"\underline{70.00}$\downarrow$" in text
    assert r"gae\_x" in text
    assert r"SeeGera & not run & out of memory & failed \\*[1pt]" in text
    assert r"\quad\textit{published} & \shortstack{84.62" in text
    assert "\n\\begin{table}\n" in text
    wide = sample_sheet(columns=tuple("abcdef"), cells=())
    assert "\n\\begin{table*}\n" in to_latex(wide)


def test_latex_says_what_marks_mean_how_many_seeds_there_are_and_by_which_protocol() -> None:
    text = to_latex(sample_sheet())
    (below,) = (line for line in text.splitlines() if "smallskip" in line)
    for said in (
        "Below ours stand the published figures.",
        "the best of a column is bold and the second best underlined.",
        r"Marks: $\approx$ no difference shown, but more than 1.5 apart: not decided; ",
        r"; $\uparrow$ higher than published; $\downarrow$ lower than published; ? no test is possible",
        "; none: no difference shown, or the paper has no figure here.",
        r"Seeds behind each of our figures: 3 to 10 (Bandana), 1 to 10 (gae\_x).",
        "Protocol: linear probe.",
        r"The published $\pm$ is over 10 runs.",
        r"Three sentences \& more.",
    ):
        assert said in below
    check_latex(text, columns=3)


def test_csv_keeps_the_digits_that_are_printed() -> None:
    score = Score(68.6, 0.9, 10, last_digit=-2)
    sheet = sample_sheet(rows=("a",), columns=("b",), cells=(cell("a", "b", Score(70.123, 0.5, 3), score),))
    (line,) = lines_of(to_csv(sheet))
    assert (line["published_mean"], line["published_sd"], line["ours_mean"]) == ("68.60", "0.90", "70.123")
    assert "*68.60 ± 0.90*" in to_markdown(sheet, [])


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="install LaTeX: apt-get install texlive-latex-recommended")
def test_latex_compiles(tmp_path: Path) -> None:
    hostile = sample_sheet("a_b & 100 % of {x} ~ ^ \\ # $ < > | ± σ ≥ – ☃ é", notes=("σ_x → ∞ ²",))
    pages = "\n".join(map(to_latex, (sample_sheet(), hostile)))
    head = f"\\documentclass{{article}}\n{PACKAGES.removeprefix('% needs ')}\n\\begin{{document}}\n"
    (tmp_path / "t.tex").write_text(f"{head}{pages}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]


def test_best_and_second_are_ours_and_ties_share() -> None:
    cells = [
        cell(name, "x", Score(mean, None, 1)) for name, mean in zip("abcd", (80.001, 80.004, 79.0, 1.0), strict=True)
    ]
    sheet = Sheet(title="t", rows=tuple("abcd"), columns=("x",), cells=tuple(cells))
    assert best_places(sheet) == {("a", "x"): 1, ("b", "x"): 1, ("c", "x"): 2}
    assert best_places(replace(sheet, highest_is_best=False)) == {("d", "x"): 1, ("c", "x"): 2}
    assert best_places(replace(sheet, highest_is_best=None)) == {}
    assert best_places(replace(sheet, cells=tuple(cells[:1]))) == {}


def test_a_difference_to_the_worse_side_is_graver() -> None:
    higher, lower = sample_sheet().cells[2:4]
    assert [mark_of(higher, best).tone for best in (True, False, None)] == ["fair", "poor", "fair"]
    assert [mark_of(lower, best).tone for best in (True, False, None)] == ["poor", "fair", "fair"]


@pytest.mark.parametrize(
    ("table", "shown"),
    [
        ("statistics", {("cora", "nodes"): "2,708", ("cora", "density"): "1.44", ("pubmed", "density"): "0.23"}),
        ("mask-ratios", {("cora", "measured"): "0.7077", ("photo", "measured"): "0.9630"}),
        ("hyperparameters", {("training.lr", "cora"): "0.01", ("model.mask.temperature", "cs"): "1e-06"}),
        ("hyperparameters", {("model.encoder.width", "pubmed"): "64", ("model.decoder_dropout", "cora"): "0"}),
        ("time", {("bandana", "cora"): "19.5", ("vgae", "ogbl-collab"): "1,250"}),
        ("memory", {("bandana", "cora"): "1,459"}),
        ("auc", {("bandana", "cora"): "95.71", ("grace", "cora"): "81.80"}),
        ("average-ranks", {("sig_vae", "link prediction"): "11.0", ("bandana", "link prediction"): "1.2"}),
    ],
)
def test_figures_have_the_digits_of_their_kind(table: str, shown: dict[tuple[str, str], str]) -> None:
    figures = published(table)
    cells = {place: cell(*place, score, score) for place, score in figures.items()}
    rows, columns = (tuple(dict.fromkeys(place[axis] for place in figures)) for axis in (0, 1))
    best = None if table in ("statistics", "hyperparameters") else True
    sheet = Sheet(title=table, rows=rows, columns=columns, cells=tuple(cells.values()), highest_is_best=best)
    texts = number_texts(sheet)
    assert {place: texts(cells[place], figures[place])[0] for place in shown} == shown
