"""Writes our figures beside the published ones: a summary, average ranks, and a page of tables.

    python benchmarks/compare.py results/methods-seeds.csv --out results --name methods

Reads the rows that `published.py` writes, from one file or several; `figures.py` says how they are compared.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from figures import DATASETS, DEVIATIONS_APART, METRICS, POINTS_APART, PROTOCOLS, Cell, Rank, Row, compare, latest, rank

from bandana.paper.published import published_figures
from bandana.reporting.tables import HEADINGS

KINDS = {"node": "Node classification", "link": "Link prediction"}


def summary_rows(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """Cells as lines of a file."""
    return [
        {
            "dataset": cell.dataset,
            **{name: getattr(cell.table, name) for name in ("task", "protocol")},
            "method": cell.method,
            "metric": cell.table.metric,
            "ours": cell.text,
            "seeds": cell.ours.seeds if cell.ours else 0,
            "published": str(cell.published or ""),
            "difference": "" if cell.difference is None else f"{cell.difference:.2f}",
            "apart": "yes" if cell.apart else "",
            "failed": cell.failure,
        }
        for cell in sorted(cells, key=lambda cell: (cell.dataset, *cell.table[:2], cell.method))
    ]


def rank_rows(ranks: Sequence[Rank]) -> list[dict[str, object]]:
    """Ranks as lines of a file."""
    lines = [row.table._asdict() | row._asdict() for row in ranks]
    return [
        {name: _number(value) if isinstance(value, float) else value for name, value in line.items() if name != "table"}
        for line in lines
    ]


def page(rows: Sequence[Row], cells: Sequence[Cell], ranks: Sequence[Rank]) -> str:
    """All tables as Markdown."""
    by_table = defaultdict(list)
    for cell in cells:
        by_table[cell.table].append(cell)
    parts = [
        "Percent, mean ± standard deviation over pre-training seeds (number of seeds), and the published figure below. "
        f"**Bold**: more than {POINTS_APART} points and {DEVIATIONS_APART:g} deviations of ours from the published "
        "mean. Ranks are averages over the data sets where a method has a figure, among methods with published ones. "
        "Names with capitals or spaces are floors of Bandana's runs: its features, its encoder before training, and "
        "counts of shared neighbours."
    ]
    order = {metric: place for metrics in METRICS.values() for place, metric in enumerate(metrics)}
    for table in sorted(by_table, key=lambda t: (t.task != "node", PROTOCOLS.index(t.protocol), order[t.metric])):
        title = f"## {KINDS[table.task]}, {table.protocol} protocol: {HEADINGS.get(table.metric, 'tied pairs')}"
        parts += [title, _score_table(by_table[table], [row for row in ranks if row.table == table])]
    parts += ["## Average ranks, over the cells that both sides have", _rank_table(ranks)]
    parts += ["## Cells that lie apart", _apart_table(cells), "## Failed runs", _failure_table(rows)]
    return "\n\n".join(parts) + "\n"


def _score_table(cells: Sequence[Cell], ranks: Sequence[Rank]) -> str:
    known = {(cell.method, cell.dataset): cell for cell in cells}
    present = {cell.dataset for cell in cells}
    datasets = [name for name in DATASETS if name in present] + sorted(present - {*DATASETS})
    rank_of = {row.method: row for row in ranks}
    place_of = {row.method: place for place, row in enumerate(ranks)}
    lines = []
    for method in sorted({cell.method for cell in cells}, key=lambda name: (place_of.get(name, len(ranks)), name)):
        place, found = rank_of.get(method), [known.get((method, dataset)) for dataset in datasets]
        lines.append([method, *map(_ours, found), _number(place and place.ours)])
        if any(cell and cell.published for cell in found):
            figures = [str(cell.published or "") if cell else "" for cell in found]
            lines.append(["published", *figures, _number(place and place.published)])
    return markdown(["", *datasets, "rank"], lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _ours(cell: Cell | None) -> str:
    if cell is None:
        return ""
    text = f"**{cell.text}**" if cell.apart else cell.text
    return f"{text} ({cell.ours.seeds})" if cell.ours else text


def _rank_table(ranks: Sequence[Rank]) -> str:
    heads = ["task", "protocol", "metric", "method", "ours", "published", "data sets"]
    shared = [row for row in ranks if row.shared_cells]
    return markdown(
        heads,
        [
            [*row.table, row.method, f"{row.shared_ours:.2f}", f"{row.shared_published:.2f}", row.shared_cells]
            for row in shared
        ],
    )


def _apart_table(cells: Sequence[Cell]) -> str:
    far = sorted((cell for cell in cells if cell.apart), key=lambda cell: (cell.table, -abs(cell.difference or 0)))
    heads = ["task", "protocol", "metric", "method", "data set", "ours", "seeds", "published", "difference"]
    return markdown(
        heads,
        [
            [*c.table, c.method, c.dataset, c.text, c.ours.seeds if c.ours else 0, c.published, f"{c.difference:+.2f}"]
            for c in far
        ],
    )


def _failure_table(rows: Iterable[Row]) -> str:
    names = ["method", "dataset", "task", "protocol", "seed", "failed"]
    return markdown(names, [[row[name] for name in names] for row in latest(rows) if row.get("failed")])


def markdown(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A table, or a word where it would be empty."""
    body = [f"| {' | '.join(str(item).replace('|', '/') for item in line)} |" for line in lines]
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *body]) if body else "None."


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(rows: Sequence[Row], folder: Path, name: str) -> list[Cell]:
    """Write the summary, the ranks and the page of `rows`; return the cells."""
    published = published_figures()
    cells = compare(rows, published)
    ranks = rank(cells, published)
    folder.mkdir(parents=True, exist_ok=True)
    for what, lines in (("summary", summary_rows(cells)), ("ranks", rank_rows(ranks))):
        if lines:
            with (folder / f"{name}-{what}.csv").open("w", newline="", encoding="utf-8") as file:
                table = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
                table.writeheader()
                table.writerows(lines)
    (folder / f"{name}.md").write_text(page(rows, cells, ranks), encoding="utf-8")
    return cells


def main() -> None:
    """Compare the files named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=Path, nargs="+", help="files of rows; of two rows of a run the later is taken")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="methods")
    options = parser.parse_args()
    rows = [row for path in options.seeds for row in read(path)]
    print((options.out / f"{options.name}.md").absolute() if write(rows, options.out, options.name) else "no rows")


if __name__ == "__main__":
    main()
