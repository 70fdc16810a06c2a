"""What the README says is so: its Python runs, its commands exist, its figures are the committed ones."""

import csv
import re
from pathlib import Path
from statistics import fmean, stdev

import pytest

from bandana.cli import app
from bandana.paper.published import published_figures

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs(capsys) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    exec(compile(example, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert shown.startswith("torch.Size([500, 128])")


def test_every_command_exists() -> None:
    verbs = {command.name or command.callback.__name__ for command in app.registered_commands}
    named = set(re.findall(r"^bandana (\w+)", TEXT, flags=re.MULTILINE))
    assert named
    assert named <= verbs


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", TEXT, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def smoothed(dataset: str, metric: str) -> str:
    """The floor that was run by itself."""
    (path,) = (ROOT / "results").glob("smoothed-features-seeds-*.csv")
    rows = [row for row in csv.DictReader(path.open(encoding="utf-8")) if row["protocol"] == "clean"]
    figures = [100 * float(row[metric]) for row in rows if row["dataset"] == dataset and row[metric]]
    return f"{fmean(figures):.2f} ± {stdev(figures):.2f}"


@pytest.mark.parametrize(("metric", "heading"), [("micro_f1", "Node classification"), ("auc", "Link prediction")])
def test_the_figures_are_those_in_results(metric: str, heading: str) -> None:
    (path,) = (ROOT / "results").glob("bandana-summary-*.csv")
    rows = list(csv.DictReader(path.open(encoding="utf-8")))
    table = TEXT[TEXT.index(heading) :].split("\n\n")[1].splitlines()
    names = [cell.strip().lower() for cell in table[0].split("|")[2:-1]]
    checked = 0
    for line in table[2:]:
        label, *cells = (cell.strip() for cell in line.split("|")[1:-1])
        method = label.split(",")[0].strip("*")
        if method == "published":
            assert cells == [str(published_figures()["bandana", dataset, metric]) for dataset in names]
            continue
        if method == "smoothed features":
            assert cells == [smoothed(dataset, metric) for dataset in names]
            continue
        protocol, of = ("paper", f"{metric}_sigmoid32") if "`paper`" in label else ("clean", metric)
        for dataset, shown in zip(names, cells, strict=True):
            found = {
                row["ours"]
                for row in rows
                if (row["dataset"], row["method"], row["protocol"], row["metric"]) == (dataset, method, protocol, of)
            }
            assert found == {shown}, f"{method} on {dataset}"
            checked += 1
    assert checked >= 7 * 3
