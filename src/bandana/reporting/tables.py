"""Tables for the terminal, with every figure beside its floors."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from io import StringIO

from rich.console import Console, ConsoleOptions, Group
from rich.table import Table
from rich.text import Text

from bandana.reporting.record import RunRecord
from bandana.training.profile import Operation

_LONGEST_NAME = 60
_UNLIMITED = 10_000
"""Characters in a line that no table reaches."""
Summary = Mapping[str, tuple[float, float]]

HEADINGS = {
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "auc": "AUC",
    "ap": "AP",
    "auc_sigmoid32": "AUC (σ in float32)",
    "ap_sigmoid32": "AP (σ in float32)",
    "hits@50": "Hits@50",
    "mrr": "MRR",
    "decoder_auc": "AUC (decoder)",
}
_OVERVIEW = ("micro_f1", "macro_f1", "auc", "ap", "hits@50")
_COLUMNS = {
    ("node", "clean"): ("micro_f1", "macro_f1"),
    ("node", "paper"): ("micro_f1", "macro_f1"),
    ("link", "clean"): ("auc", "ap", "hits@50", "mrr", "decoder_auc"),
    ("link", "paper"): ("auc_sigmoid32", "ap_sigmoid32", "auc", "ap"),
}


def percent(value: tuple[float, float] | None) -> str:
    """``97.24 ± 0.11``; the deviation is left out where there is only one value."""
    if value is None:
        return "–"
    mean, deviation = value
    return f"{100 * mean:.2f}" if deviation != deviation else f"{100 * mean:.2f} ± {100 * deviation:.2f}"


def result_table(record: RunRecord) -> Group:
    """The method beside its floors, with protocol and number of seeds in the title."""
    experiment = record.experiment
    task, protocol, count = experiment["task"], experiment["protocol"], len(record.seeds)
    kind = "node classification" if task == "node" else "link prediction"
    seeds = f"{count} pre-training seed{'s' if count > 1 else ''}"
    columns = [name for name in _COLUMNS[task, protocol] if name in record.summary]
    rows = {**record.floors, experiment["method"]: record.summary}
    figures = Figures(columns, rows, highlight=experiment["method"])
    return Group(Text(f"{experiment['dataset']}: {kind}, {protocol} protocol, {seeds}, %", "italic"), figures)


def overview_table(nodes: RunRecord, links: RunRecord) -> Group:
    """Both tasks of one method on one data set in a single table, beside the floors of each."""
    rows: dict[str, Summary] = {}
    for record in (nodes, links):
        for label, summary in {**record.floors, record.experiment["method"]: record.summary}.items():
            rows[label] = {**rows.pop(label, {}), **summary}
    method, dataset, protocol = (nodes.experiment[name] for name in ("method", "dataset", "protocol"))
    title = f"{dataset}: node classification and link prediction, {protocol} protocol, %"
    return Group(f"[italic]{title}[/italic]", Figures(_OVERVIEW, rows, highlight=method))


@dataclass(frozen=True)
class Figures:
    """A table of figures that is never cut: where the terminal is too narrow, its columns come in several tables.

    Attributes:
        columns: Metrics, in order.
        rows: The figures of each method and floor.
        highlight: The row that stands out.
    """

    columns: Sequence[str]
    rows: Mapping[str, Summary]
    highlight: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        yield from self._fitting(self.columns, console, options)

    def _fitting(self, columns: Sequence[str], console: Console, options: ConsoleOptions) -> Iterator[Table]:
        table, half = self._table(columns), (len(columns) + 1) // 2
        needed = console.measure(table, options=options.update(width=_UNLIMITED)).maximum
        if needed <= options.max_width or len(columns) == 1:
            yield table
            return
        yield from self._fitting(columns[:half], console, options)
        yield from self._fitting(columns[half:], console, options)

    def _table(self, columns: Sequence[str]) -> Table:
        table = Table()
        table.add_column("", no_wrap=True)
        for name in columns:
            table.add_column(HEADINGS[name], justify="right", no_wrap=True)
        for label, summary in self.rows.items():
            cells = [percent(summary.get(name)) for name in columns]
            table.add_row(label, *cells, style="bold" if label == self.highlight else "dim")
        return table


def profile_table(operations: Sequence[Operation], most: int = 15) -> Table:
    """The dearest operations of an epoch of training."""
    total = sum(operation.milliseconds for operation in operations)
    table = Table("operation", title=f"one epoch of training: {total:.2f} ms", title_justify="left")
    for name in ("ms", "share", "calls"):
        table.add_column(name, justify="right")
    for operation in operations[:most]:
        name = operation.name if len(operation.name) <= _LONGEST_NAME else f"{operation.name[:_LONGEST_NAME]}…"
        table.add_row(name, f"{operation.milliseconds:.3f}", f"{operation.share:.1%}", f"{operation.calls:g}")
    return table


def profile_csv(operations: Sequence[Operation]) -> str:
    """All operations of an epoch of training, the dearest first."""
    text = StringIO()
    table = csv.DictWriter(text, [field.name for field in fields(Operation)], lineterminator="\n")
    table.writeheader()
    table.writerows(asdict(operation) for operation in operations)
    return text.getvalue()
