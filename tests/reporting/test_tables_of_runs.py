"""Tables of figures in the terminal: whole, whatever its width."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from bandana.reporting.record import RunRecord, SeedRecord
from bandana.reporting.tables import HEADINGS, overview_table, result_table

METRICS = ("auc", "ap", "hits@50", "mrr", "decoder_auc")
FLOORS = ("raw features", "smoothed features", "untrained encoder", "common neighbours", "resource allocation")


def record(task: str, metrics: tuple[str, ...], seeds: int) -> RunRecord:
    experiment = {"method": "bandana", "dataset": "digits", "task": task, "protocol": "clean"}
    rest: dict[str, Any] = {"best_epoch": 1, "epochs": 1, "seconds": {}, "diagnostics": {}, "history": [], "split": {}}

    def row(seed: int, shift: float) -> dict[str, float]:
        return dict.fromkeys(metrics, 0.9 + shift + 0.01 * seed)

    done = [
        SeedRecord(seed=seed, metrics=row(seed, 0.05), floors={name: row(seed, 0) for name in FLOORS}, **rest)
        for seed in range(seeds)
    ]
    return RunRecord(experiment=experiment, seeds=done, device="cpu")


def shown(table: RenderableType, width: int) -> list[str]:
    written = StringIO()
    Console(width=width, file=written).print(table)
    return written.getvalue().splitlines()


@pytest.mark.parametrize(("width", "tables"), [(120, 1), (80, 2), (40, 5)])
def test_no_figure_is_cut_or_broken(width: int, tables: int) -> None:
    lines = shown(result_table(record("link", METRICS, seeds=2)), width)
    text = "\n".join(lines)
    assert "…" not in text
    assert max(map(len, lines)) <= width
    assert sum("bandana" in line for line in lines) == tables
    assert text.count("95.50 ± 0.71") == len(METRICS)
    assert text.count("90.50 ± 0.71") == len(METRICS) * len(FLOORS)
    assert all(name in text for name in (*FLOORS, *(HEADINGS[metric] for metric in METRICS)))


def test_what_fits_stays_one_table() -> None:
    lines = shown(result_table(record("link", METRICS, seeds=1)), 80)
    assert sum("bandana" in line for line in lines) == 1
    both = overview_table(record("node", ("micro_f1", "macro_f1"), 1), record("link", METRICS, 1))
    assert sum("bandana" in line for line in shown(both, 80)) == 1
