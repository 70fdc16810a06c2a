"""LaTeX cells of two lines, figures of two tables in one as the paper sets them, and tables that fit their pages."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from sample_sheets import PUBLISHED, cell, sample_sheet

from bandana.paper.artifact import Result, Scope, Score, Sheet
from bandana.paper.catalogue import artifacts
from bandana.reporting.latex import to_latex, to_latex_of_two
from bandana.reporting.sheets import to_markdown

COLUMNS = ("cora", "computers")


def two() -> tuple[Sheet, Sheet]:
    """Micro- and macro-F1: one cell with both, one without a second published figure, and a row that was not run."""
    micro = (
        cell("bandana", "cora", Score(84.5, 0.5, 10)),
        cell("bandana", "computers", Score(89.2, 0.4, 10), Score(89.62, 0.09, 10)),
        cell("seegera", "cora", None),
        cell("seegera", "computers", Score(88.0, None, 1), Score(88.39, 0.26, 10)),
    )
    macro = (
        cell("bandana", "cora", Score(83.0, 0.3, 10), Score(82.97, 0.92, 10)),
        cell("bandana", "computers", Score(95.0, 0.1, 10), Score(87.79, 0.2, 10)),
        cell("seegera", "cora", None, Score(82.88, 0.66, 10)),
        cell("seegera", "computers", Score(86.0, None, 1), None),
    )
    rows = ("bandana", "seegera")
    upper = Sheet(title="Micro-F1", rows=rows, columns=COLUMNS, cells=micro, notes=("Both.", "Three are tested."))
    return upper, Sheet(title="Macro-F1", rows=rows, columns=COLUMNS, cells=macro, notes=("Both.", "Two are."))


def test_each_cell_has_the_first_figure_over_the_second() -> None:
    text = to_latex_of_two(*two())
    assert r"Bandana & \shortstack{84.50 $\pm$ 0.50\\83.00 $\pm$ 0.30} & " in text
    assert r"\shortstack{\textbf{89.20} $\pm$ 0.40\\\textbf{95.00}$\uparrow$ $\pm$ 0.10} \\" in text
    assert r"\quad\textit{published} & \shortstack{84.62 $\pm$ 0.37\\82.97 $\pm$ 0.92} & " in text
    assert r"SeeGera & not run & \shortstack{\underline{88.00}?\\\underline{86.00}} \\*[1pt]" in text
    assert r"\shortstack{88.39 $\pm$ 0.26\\--} \\[2pt]" in text
    assert r"\caption{Micro-F1; in the second line of a cell: Macro-F1}" in text
    assert "Both. First line: Three are tested. Second line: Two are." in text


def test_equal_figures_are_both_shown_and_other_tables_refused() -> None:
    upper, lower = two()
    assert r"\shortstack{84.50 $\pm$ 0.50\\84.50 $\pm$ 0.50}" in to_latex_of_two(upper, upper)
    with pytest.raises(ValueError, match="'Micro-F1' and 'Macro-F1' must have the same rows and columns"):
        to_latex_of_two(upper, replace(lower, columns=("cora",)))


@pytest.mark.parametrize(("name", "pairs"), [("node-classification", [(0, 1)]), ("link-prediction", [(0, 1), (2, 3)])])
def test_the_large_tables_are_set_as_in_the_paper(name: str, pairs: list[tuple[int, int]]) -> None:
    artifact = artifacts()[name]
    pieces = artifact.pieces(Scope(seeds=1, datasets=("cora", "physics"), methods=("gae", "bandana")))
    shown = artifact.show([(piece, Result(None, "not run yet")) for piece in pieces])
    sheets = [sheet for sheet in shown if isinstance(sheet, Sheet)]
    assert [(sheets.index(sheet), sheets.index(sheet.below)) for sheet in sheets if sheet.below] == pairs
    for first, _ in pairs:
        text = to_latex(sheets[first])
        assert len(re.findall(r"\\begin\{(tabular|longtable)\}", text)) == 2
        assert r"\shortstack{84.62 $\pm$ 0.37\\82.97 $\pm$ 0.92}" in text or name == "link-prediction"


def large(rows: int, columns: int) -> Sheet:
    """As many rows and columns as asked for, with floors, a long name, words and long notes, and another one below."""
    names = ("bandana, weights chosen after the sigmoid", *(f"method_{number}" for number in range(1, rows)))
    data = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics", "ogbn-arxiv")[:columns]
    floors = names[7::9]
    cells = tuple(
        cell(name, column, None, None, state="out of memory", note="OutOfMemoryError")
        if name in floors and column == "cora"
        else cell(name, column, Score(88 - number / 7, 0.5, 10), None if name in floors else PUBLISHED)
        for number, name in enumerate(names)
        for column in data
    )
    notes = ("Rows without a published figure are floors, and bandana_tuned is newer than the paper.",) * 9
    sheet = Sheet(title="Micro-F1 (%) of nodes", rows=names, columns=data, cells=cells, notes=notes)
    return replace(sheet, below=replace(sheet, title="Macro-F1 (%) of nodes"))


def test_a_table_longer_than_a_page_breaks_over_pages_and_its_notes_follow_it() -> None:
    sheet = large(24, 6)
    alone, both = to_latex(sheet).split(r"\caption")[1:]
    for text in (alone, both):
        assert not re.search(r"\\(begin|end)\{(table|tabular)", text)
        body, _, after = text.partition(r"\end{longtable}")
        lines = body.partition(r"\endfoot")[2].split("\n")[1:-1]
        ours = [line for line in lines if not line.startswith(r"\quad\textit{published}")]
        assert [line.split(" & ")[0] for line in ours] == [
            r"\raggedright Bandana, weights chosen after the sigmoid",
            *(rf"method\_{number}" for number in range(1, 24)),
        ]
        # The published figures stay on the page of ours.
        assert all(lines[place - 1].endswith(r"\\*[1pt]") for place, line in enumerate(lines) if line not in ours)
        assert "Below ours stand the published figures." in after
        assert sheet.notes[0] in after.replace("\\", "")
    assert r"\end{landscape}" in both
    assert r"\end{landscape}" not in alone


def test_a_table_that_fits_a_page_floats_no_wider_than_its_text() -> None:
    text = to_latex(large(3, 3))
    assert text.count(r"\begin{table}") == text.count(r"\resizebox{\ifdim\width>\linewidth") == 2
    assert "longtable}\n" not in text.partition("\n")[2]


def pdflatex(folder: Path, tables: str) -> str:
    """What LaTeX says of a document of tables, once it knows how wide the columns of all pages are."""
    head = "\\documentclass{article}\n\\usepackage{booktabs,longtable,pdflscape}\n\\begin{document}\n"
    (folder / "t.tex").write_text(f"{head}{tables}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    for _ in range(2):
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
        output = done.stdout.decode(errors="replace")
        assert done.returncode == 0, output[-2000:]
    return output


needs_pdflatex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")


@needs_pdflatex
def test_latex_sets_both_tables(tmp_path: Path) -> None:
    upper, lower = two()
    assert not re.search("Overfull", pdflatex(tmp_path, to_latex(replace(upper, below=lower))))


@needs_pdflatex
@pytest.mark.parametrize("columns", [2, 5, 8])
def test_no_table_runs_off_its_page(tmp_path: Path, columns: int) -> None:
    tables = [to_latex(large(rows, columns)) for rows in (1, *range(4, 25))]
    assert any(r"\begin{table" in table for table in tables)
    assert any(r"\begin{longtable" in table for table in tables)
    output = pdflatex(tmp_path, "\\clearpage\n".join(tables))
    assert "Output written" in output
    assert "Float too large" not in output
    assert not [points for points in re.findall(r"Overfull \\[hv]box \(([\d.]+)pt", output) if float(points) > 1]


def test_an_option_keeps_its_hyphens_and_a_long_name_is_broken() -> None:
    (cora, *_), _ = (sheet.cells for sheet in two())
    name = "bandana, weights chosen after the sigmoid"
    sheet = Sheet(title="t", rows=(name,), columns=("cora",), cells=(replace(cora, row=name),), notes=("use --seeds",))
    assert "use -{}-seeds" in to_latex(sheet)
    assert r"\begin{tabular}{p{10em}c}" in to_latex(sheet)


def test_the_legend_names_what_stands_in_brackets() -> None:
    assert "Ours, seeds in brackets" in to_markdown(sample_sheet(), [])
    assert "Ours, sizes in brackets" in to_markdown(sample_sheet(counted="sizes"), [])
