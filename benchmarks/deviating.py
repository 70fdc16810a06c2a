"""Experiments on cells that lie apart from their published figure: what each guess at the cause makes of them.

    python benchmarks/deviating.py --data-root PATH --out results --jobs 12 --seconds 240
    python benchmarks/deviating.py --data-root PATH --out results --only t_bgrl cs --list

A run is one training, looked at every few epochs (`deviating_study.py`); `deviating_pieces.py` has the list. From the
trace of validation and test scores follows what every way to choose the weights would have kept: by logits or after a
float32 sigmoid (protocols `clean` and `paper`), with the recipe's patience or over the whole training, or the last
ones; for bare embeddings, unit rows, and what the head makes of them. Embeddings of nodes go through several probes
and splits.

Runs that are still going when the time is up end there and are judged as far as they came (column `epochs`). A second
call repeats those that failed or ended before a third of their epochs (`--least`), and no other.

Writes `deviating.csv` (a row for each choice) and `deviating-trace.csv` (a row for each look).
"""

import argparse
import csv
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from compare import read
from deviating_pieces import KEYS, Piece, missing, name_of, pieces, reach
from deviating_study import FIELDS, TRACE, Row, study

from bandana.devices import resolve_device, shared_gpu
from bandana.files import write_text
from bandana.workers import Outcome, carry_out


class Sheet:
    """A table in a file, where a run that is repeated takes the place of what was there."""

    def __init__(self, path: Path, fields: Sequence[str]) -> None:
        self._path, self._fields = path, fields
        self.rows: list[Mapping[str, Any]] = [*read(path)]

    def of(self, run: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """The rows that agree with a run, in the columns that are here."""
        return [row for row in self.rows if all(row[name] == run[name] for name in run.keys() & {*self._fields})]

    def put(self, old: Sequence[Mapping[str, Any]], new: Iterable[Row]) -> None:
        """Write new rows in place of old ones."""
        gone = {id(row) for row in old}
        self.rows = [row for row in self.rows if id(row) not in gone] + [
            {name: str(round(value, 6) if isinstance(value, float) else value) for name, value in row.items()}
            for row in new
        ]
        text = StringIO()
        writer = csv.DictWriter(text, self._fields, extrasaction="ignore", restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_text(self._path, text.getvalue())


def keep(outcome: Outcome, table: Sheet, trace: Sheet) -> str:
    """Write what came of a run, unless a former one came further, and return it in a few words."""
    piece: Piece = outcome.arguments[0]
    run = piece.columns
    rows, looks = outcome.result or ([{**run, "failed": outcome.failure}], [])
    old = table.of(run)
    if reach(rows) >= reach(old):
        table.put(old, rows)
        # Runs of nodes share the columns of a trace with others, and leave none when they are cut off.
        trace.put(trace.of(run) if piece.task == "link" else [], looks)
    return outcome.failure or _shown(rows[0])


def _shown(row: Mapping[str, Any]) -> str:
    names = ("auc", "ap", "auc_sigmoid32", "micro_f1", "macro_f1")
    scores = " ".join(f"{name}={100 * row[name]:.1f}" for name in names if row.get(name) is not None)
    return f"{scores}, epoch {row['best_epoch']} of {row['epochs']}, {row['seconds']:.0f} s"


def asked(piece: Piece, names: Collection[str]) -> bool:
    """Whether a piece has one of the names of each kind: label, method, data set, task."""
    kinds = [{getattr(each, kind) for each in pieces()} for kind in KEYS[:4]]
    own = piece.columns.values()
    return all(not kind.intersection(names) or value in names for kind, value in zip(kinds, own, strict=False))


def wanted_of(options: argparse.Namespace, rows: Iterable[Mapping[str, Any]]) -> list[Piece]:
    """What is asked for and missing, in the order in which it is begun."""
    wanted = [piece for piece in pieces() if asked(piece, options.only)]
    if options.stop:
        wanted = [replace(piece, looks=(1,), stop=options.stop, every=1) for piece in wanted]
    order = 1 if options.cheapest_first else -1
    return sorted(missing(wanted, rows, options.least), key=lambda piece: (piece.late, order * piece.cost))


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=240, help="trainings end after this time")
    parser.add_argument(
        "--least", type=float, default=1 / 3, help="repeat runs cut off before this share of the epochs"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], help="labels, methods, data sets, tasks; one of each kind named"
    )
    parser.add_argument("--cheapest-first", action="store_true", help="instead of the longest ones")
    parser.add_argument("--stop", type=int, help="end every training after so many epochs: to try the script")
    parser.add_argument("--list", action="store_true", help="name what is missing, and run nothing")
    options, started = parser.parse_args(), time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    table, trace = Sheet(options.out / "deviating.csv", FIELDS), Sheet(options.out / "deviating-trace.csv", TRACE)
    wanted = wanted_of(options, table.rows)
    if options.list:
        for piece in wanted:
            print(f"{piece.cost:4.0f} s {'late ' if piece.late else ''}{name_of(piece.columns)}")
        print(len(wanted), "runs,", sum(piece.cost for piece in wanted), "process seconds")
        return
    work = [(piece, options.data_root, started + options.seconds) for piece in wanted]
    with shared_gpu(resolve_device("auto"), options.jobs):
        outcomes = carry_out(study, work, jobs=options.jobs, budget=options.seconds, limit=options.seconds + 90)
        for count, outcome in enumerate(outcomes, 1):
            shown, name = keep(outcome, table, trace), name_of(outcome.arguments[0].columns)
            print(f"{time.time() - started:5.0f} s {count}/{len(work)} {name}: {shown}", flush=True)


if __name__ == "__main__":
    main()
