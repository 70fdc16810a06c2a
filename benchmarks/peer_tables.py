"""The page of `peers.py`: who is best where, who is not, and what it took. Nothing here is measured."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from figures import Score
from peer_methods import PEERS

Row = Mapping[str, str]
Cells = dict[tuple[str, str], Score]
"""Scores by method and data set."""


class Table(NamedTuple):
    """One figure over all methods and data sets."""

    task: str
    metric: str
    heading: str


TABLES = (
    Table("link", "auc", "Links: AUC in %, by dot product"),
    Table("link", "ap", "Links: average precision in %, by dot product"),
    Table("link", "cosine_auc", "Links: AUC in %, by cosine"),
    Table("node", "micro_f1", "Node labels: micro-F1 in %"),
    Table("node", "macro_f1", "Node labels: macro-F1 in %"),
)
BLIND = " ◦"


def page(rows: Sequence[Row], ours: str) -> str:
    """All tables as Markdown, with a sentence on each that says where `ours` is not the best."""
    parts = [
        "Mean ± standard deviation over seeds; the best mean of each column is **bold**. "
        f"Packages with{BLIND} do not read the nodes' features. `benchmarks/peers.py` says how this is measured."
    ]
    for table in TABLES:
        cells = scores(rows, table)
        if cells:
            parts += [f"## {table.heading}", grid(cells, best=True), verdict(cells, ours)]
    parts += ["## Seconds, mean over seeds", cost(rows, "seconds", "{:.1f}")]
    parts += ["## Seconds of the processor, mean over seeds", cost(rows, "cpu_seconds", "{:.1f}")]
    parts += ["## Peak memory above the start in MB, mean over seeds", cost(rows, "peak_mb", "{:.0f}")]
    parts += ["## What was asked of each", asked(), failures(rows)]
    threads = sorted({row["threads"] for row in rows if row.get("threads")})
    parts.append(f"Threads: {', '.join(threads) or 'none'}. Python {platform.python_version()}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def scores(rows: Iterable[Row], table: Table) -> Cells:
    """Mean and deviation over seeds, in percent."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["task"] == table.task and row.get(table.metric):
            values.setdefault((row["method"], row["dataset"]), []).append(100 * float(row[table.metric]))
    return {
        key: Score(fmean(found), stdev(found) if len(found) > 1 else None, len(found)) for key, found in values.items()
    }


def verdict(cells: Cells, ours: str) -> str:
    """Where `ours` has the best mean among all methods, and who is better elsewhere by how much."""
    won, lost = [], []
    for dataset in _in_order(dataset for method, dataset in cells if method == ours):
        others = {method: score.mean for (method, name), score in cells.items() if name == dataset and method != ours}
        if not others:
            continue
        best = max(others, key=others.__getitem__)
        behind = others[best] - cells[ours, dataset].mean
        if behind > 0:
            lost.append(f"{dataset} ({best} by {behind:.2f})")
        else:
            won.append(dataset)
    if not won and not lost:
        return ""
    text = f"{ours} has the best mean on {len(won)} of {len(won) + len(lost)} data sets"
    return f"{text}; others are better on {', '.join(lost)}." if lost else f"{text}."


def grid(cells: Mapping[tuple[str, str], object], *, best: bool = False) -> str:
    """Methods down, data sets across."""
    methods, datasets = (_in_order(key[place] for key in cells) for place in (0, 1))
    winners = {}
    for (method, dataset), score in cells.items():
        if best and isinstance(score, Score):
            winners[dataset] = max(winners.get(dataset, (-1.0, "")), (score.mean, method))
    lines = [f"| | {' | '.join(datasets)} |", f"|---|{'---|' * len(datasets)}"]
    for method in methods:
        shown = [str(cells.get((method, dataset), "–")) for dataset in datasets]
        for place, dataset in enumerate(datasets):
            if winners.get(dataset, ("", ""))[1] == method:
                shown[place] = f"**{shown[place]}**"
        lines.append(f"| {method}{_mark(method)} | {' | '.join(shown)} |")
    return "\n".join(lines)


def cost(rows: Iterable[Row], field: str, form: str) -> str:
    """What one embedding took, by data set and task."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.get(field):
            values.setdefault((row["method"], f"{row['dataset']}, {row['task']}"), []).append(float(row[field]))
    return grid({key: form.format(fmean(found)) for key, found in values.items()})


def asked() -> str:
    """Package, version and settings of every peer."""
    lines = [
        f"- **{name}**{_mark(name)}: {peer.package} {peer.version()}; {peer.settings}." for name, peer in PEERS.items()
    ]
    return "\n".join(lines)


def failures(rows: Iterable[Row]) -> str:
    """Runs without a figure, and why."""
    last = {tuple(row[name] for name in ("method", "dataset", "task", "seed")): row for row in rows}
    failed = [row for row in last.values() if row.get("failed")]
    lines = [
        f"- {row['method']}, {row['dataset']}, {row['task']}, seed {row['seed']}: {row['failed']}" for row in failed
    ]
    return "\n".join(["Without a figure:", "", *lines]) if lines else ""


def _mark(method: str) -> str:
    return BLIND if method in PEERS and not PEERS[method].reads_features else ""


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
