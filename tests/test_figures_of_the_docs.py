"""Tables of README.md and docs/speed.md say what the committed rows say; tests/paper has those of the findings."""

import csv
from functools import cache
from pathlib import Path
from statistics import fmean, stdev

import pytest

from bandana.paper.published import published

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
README, SPEED = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/speed.md"))
H200 = "h200-torch2.11.0"
SETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics")
METRIC = {"node": "micro_f1", "link": "auc"}
LINES = {
    "**bandana**": ("bandana", "node", "clean"),
    "untrained encoder": ("untrained encoder", "node", "clean"),
    "raw features": ("raw features", "node", "clean"),
    "**bandana**, raw logits (`clean`)": ("bandana", "link", "clean"),
    "bandana, float32 sigmoid (`paper`)": ("bandana", "link", "paper"),
    "resource allocation": ("resource allocation", "link", "clean"),
    "Adamic-Adar": ("Adamic-Adar", "link", "clean"),
    "common neighbours": ("common neighbours", "link", "clean"),
}
"""Of the README's results: method, task and protocol."""
Scores = dict[tuple[str, str, str, str], dict[int, float]]


@cache
def scores(file: str) -> Scores:
    """In %, by method, data set, task and protocol, and by seed."""
    found: Scores = {}
    with (RESULTS / f"{file}.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            after_the_sigmoid = (row["task"], row["protocol"]) == ("link", "paper")
            if figure := row["auc_sigmoid32" if after_the_sigmoid else METRIC[row["task"]]]:
                key = row["method"], row["dataset"], row["task"], row["protocol"]
                found.setdefault(key, {})[int(row["seed"])] = 100 * float(figure)
    return found


def rows_of(file: str) -> list[dict[str, str]]:
    with (RESULTS / f"{file}.csv").open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("label", LINES)
def test_results_in_the_readme(label: str) -> None:
    method, task, protocol = LINES[label]
    figures = [scores(f"bandana-seeds-{H200}")[method, name, task, protocol].values() for name in SETS]
    assert f"| {label} | {' | '.join(f'{fmean(each):.2f} ± {stdev(each):.2f}' for each in figures)} |\n" in README


@pytest.mark.parametrize("task", METRIC)
def test_figures_beside_them(task: str) -> None:
    printed = [published(METRIC[task])["bandana", name] for name in SETS]
    assert f"| published | {' | '.join(f'{score.mean:.2f} ± {score.sd:.2f}' for score in printed)} |\n" in README
    floor = [
        scores("smoothed-features-seeds-epyc-torch2.13.0")["smoothed_features", name, task, "clean"].values()
        for name in SETS
    ]
    assert (
        f"| smoothed features | {' | '.join(f'{fmean(each):.2f} ± {stdev(each):.2f}' for each in floor)} |\n" in README
    )


def apart(file: str, other: str, dataset: str, task: str) -> str:
    """The mean difference of the seeds that two files share, and its standard error."""
    one, two = (scores(each)["bandana", dataset, task, "clean"] for each in (file, other))
    differences = [one[seed] - two[seed] for seed in one.keys() & two.keys()]
    mean = fmean(differences)
    sign = "" if abs(mean) < 0.005 else "+" if mean > 0 else "−"
    return f"{sign}{abs(mean):.2f} ± {stdev(differences) / len(differences) ** 0.5:.2f}"


@pytest.mark.parametrize(
    ("file", "other", "words"),
    [
        ("bandana-tf32-seeds", "bandana-again-seeds", "`tf32`, {task}, {metric}"),
        ("bandana-bf16-seeds", "bandana-again-seeds", "`bf16`, {task}, {metric}"),
        ("bandana-again-seeds", "bandana-seeds", "{task}, {metric}"),
    ],
)
@pytest.mark.parametrize(("task", "plural", "metric"), [("node", "nodes", "micro-F1"), ("link", "links", "AUC")])
def test_precisions_and_kernels(file: str, other: str, words: str, task: str, plural: str, metric: str) -> None:
    cells = [apart(f"{file}-{H200}", f"{other}-{H200}", name, task) for name in SETS]
    assert f"| {words.format(task=plural, metric=metric)} | {' | '.join(cells)} |\n" in SPEED


def test_a_cpu_against_the_kernels_of_today() -> None:
    for name, title in (("cora", "Cora"), ("pubmed", "PubMed")):
        nodes, links = (
            apart("bandana-cpu-seeds-epyc-torch2.13.0", f"bandana-again-seeds-{H200}", name, task) for task in METRIC
        )
        line = next(line for line in SPEED.splitlines() if line.startswith(f"- {title}, "))
        assert line.endswith(f"against today's kernels {nodes} and {links}")


def test_steps_on_the_card() -> None:
    """Whole lines of what the benchmark printed."""
    blocks = SPEED.split("```\n")[1::2]
    assert len(blocks) == 2
    for block, file in zip(blocks, ("gpu", "matrix-product"), strict=True):
        kept = (RESULTS / f"{file}-{H200}.txt").read_text(encoding="utf-8").splitlines()
        assert set(block.splitlines()) <= set(kept)


def test_throughput_of_many_seeds() -> None:
    epoch = {(row["task"], row["jobs"]): 1e3 * float(row["per_epoch"]) for row in rows_of(f"jobs-epochs-{H200}")}
    for task, digits in (("node", 2), ("link", 3)):
        alone, shared = epoch[task, "1"], epoch[task, "16"]
        said = f"{task}s {alone:.2f} and {shared:.{digits}f} ms, **{alone / shared:.2f} times**"
        assert said in SPEED


def test_more_processes_and_other_graphs() -> None:
    """Every run of several seeds at a time, against the last one of single seeds before it."""
    titles, alone, found = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}, {}, []
    for row in rows_of(f"jobs-more-{H200}"):
        cell, time = (row["dataset"], row["task"]), 1e3 * float(row["per_epoch"])
        if row["jobs"] == "1":
            alone[cell] = time
            continue
        name = f"{titles[cell[0]]}, {cell[1]}s"
        found.append((name, f"{row['jobs']} | {alone[cell]:.3f} | {time:.3f} | {alone[cell] / time:.2f} times |"))
    assert len(found) == 7
    for name, figures in found:
        assert f"| {name} | {figures}" in SPEED or f"| {name}, again | {figures}" in SPEED
