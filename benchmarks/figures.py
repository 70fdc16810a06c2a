"""Our figures beside the published ones: means over seeds, average ranks, and which cells lie apart."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from bandana.paper.published import Figure
from bandana.reporting.compare import mean_ranks as average_ranks
from bandana.reporting.compare import out_of_memory, within

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics")
METRICS = {"node": ("micro_f1", "macro_f1"), "link": ("auc", "ap", "auc_sigmoid32", "ap_sigmoid32", "tied_share")}
PUBLISHED_AS = {"auc_sigmoid32": "auc", "ap_sigmoid32": "ap"}
PROTOCOLS = ("clean", "paper")
POINTS_APART, DEVIATIONS_APART = 1.5, 3.0

Row = Mapping[str, str]
Published = Mapping[tuple[str, str, str], Figure]


class Score(NamedTuple):
    """Mean and standard deviation over seeds, in percent; the deviation of a single seed is unknown."""

    mean: float
    sd: float | None
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.sd is None else f"{self.mean:.2f} ± {self.sd:.2f}"


class Table(NamedTuple):
    """What the cells of one table share."""

    task: str
    protocol: str
    metric: str


class Cell(NamedTuple):
    """One figure of one method on one data set, ours and the published one. A failed run has no score but a reason."""

    table: Table
    method: str
    dataset: str
    ours: Score | None
    published: Figure | None
    failure: str

    @property
    def difference(self) -> float | None:
        """Ours less the published mean, where both exist."""
        if self.ours is None or self.published is None or self.published.mean is None:
            return None
        return self.ours.mean - self.published.mean

    @property
    def apart(self) -> bool:
        """Whether the means differ by more than 1.5 points and by more than three deviations of our seeds.

        Ours come from different splits and initialisations, and so hold more of what varies than the published ones.
        """
        deviation = self.ours.sd or 0.0 if self.ours else 0.0
        return self.difference is not None and abs(self.difference) > max(POINTS_APART, DEVIATIONS_APART * deviation)

    @property
    def text(self) -> str:
        """Our figure, or a word for its absence."""
        return str(self.ours) if self.ours else "OOM" if out_of_memory(self.failure) else "failed"


class Rank(NamedTuple):
    """Average ranks of a method in one table, each over the number of data sets beside it.

    Attributes:
        table: Where.
        method: Who.
        ours: By our figures, wherever we have one.
        ours_cells: Data sets behind it.
        published: By the published figures, wherever there is one.
        published_cells: Data sets behind it.
        shared_ours: By our figures, in cells that both have: comparable with the next one.
        shared_published: By the published figures in the same cells.
        shared_cells: Data sets behind both.
    """

    table: Table
    method: str
    ours: float | None
    ours_cells: int
    published: float | None
    published_cells: int
    shared_ours: float | None
    shared_published: float | None
    shared_cells: int


def score_of(values: Sequence[float]) -> Score:
    """The score of one or more seeds."""
    return Score(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def latest(rows: Iterable[Row]) -> list[Row]:
    """One row of every run: the last that succeeded, or else the last."""
    kept: dict[tuple[str, ...], Row] = {}
    for row in rows:
        run = tuple(str(row[name]) for name in ("method", "dataset", "task", "protocol", "seed"))
        if run not in kept or kept[run].get("failed") or not row.get("failed"):
            kept[run] = row
    return list(kept.values())


def compare(rows: Iterable[Row], published: Published) -> list[Cell]:
    """Every figure over all of its seeds, beside the published one."""
    runs = defaultdict(list)
    for row in latest(rows):
        runs[row["task"], row["protocol"], row["method"], row["dataset"]].append(row)
    cells = []
    for (task, protocol, method, dataset), members in sorted(runs.items()):
        failure = next((row["failed"] for row in members if row.get("failed")), "")
        for metric in METRICS[task]:
            values = [100 * float(row[metric]) for row in members if row.get(metric) not in (None, "")]
            score = score_of(values) if values else None
            if score or failure:
                figure = published.get((method, dataset, PUBLISHED_AS.get(metric, metric)))
                cells.append(Cell(Table(task, protocol, metric), method, dataset, score, figure, failure))
    return cells


def rank(cells: Sequence[Cell], published: Published) -> list[Rank]:
    """Ranks in every table that has published figures, among the methods that have some."""
    out = []
    for table in dict.fromkeys(cell.table for cell in cells):
        theirs = _published_values(table, published)
        ours: dict[str, dict[str, float]] = {method: {} for method in theirs}
        for cell in cells:
            if cell.table == table and cell.ours and cell.method in theirs and cell.dataset in DATASETS:
                ours[cell.method][cell.dataset] = cell.ours.mean
        if sum(map(bool, ours.values())) < 2:
            continue
        shared_ours, shared_theirs = within(ours, theirs), within(theirs, ours)
        ranks = [average_ranks(values) for values in (ours, theirs, shared_ours, shared_theirs)]
        for method in theirs:
            places, counts = zip(*(side.get(method, (None, 0)) for side in ranks), strict=True)
            out.append(
                Rank(
                    table,
                    method,
                    ours=places[0],
                    ours_cells=counts[0],
                    published=places[1],
                    published_cells=counts[1],
                    shared_ours=places[2],
                    shared_published=places[3],
                    shared_cells=counts[2],
                )
            )
    return sorted(out, key=lambda row: (row.table, row.ours is None, row.ours, row.method))


def _published_values(table: Table, published: Published) -> dict[str, dict[str, float]]:
    metric = PUBLISHED_AS.get(table.metric, table.metric)
    out: dict[str, dict[str, float]] = defaultdict(dict)
    for (method, dataset, of), figure in published.items():
        if of == metric and dataset in DATASETS and figure.mean is not None:
            out[method][dataset] = figure.mean
    return dict(out)
