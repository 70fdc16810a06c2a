"""Trainings as rows of a CSV file: results that came from elsewhere, such as from a GPU, and ours for others.

``benchmarks/published.py`` writes such rows, and every reproduction does, in ``trainings.csv``. What else is learned
from a training on a card goes the same way (column ``work``): decoders fitted to embeddings, and what an epoch takes.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from bandana.config import to_table
from bandana.errors import UserError
from bandana.paper.artifact import Piece, Result
from bandana.paper.cookbook import recipe
from bandana.paper.pieces import COST, FITTED, TRAINING, digest_of

NODE_METRICS = ("micro_f1", "macro_f1")
DECODER_HITS = ("decoder_hits@20", "decoder_hits@50", "decoder_hits@100")
LINK_METRICS = ("auc", "ap", "auc_sigmoid32", "ap_sigmoid32", "tied_share", "decoder_auc", *DECODER_HITS)
NAMES = ("method", "dataset", "task", "protocol")
NEEDED = (*NAMES, "seed", "config", "failed")
COSTS = ("epoch_seconds", "timed", "peak_mb")
WORK = (TRAINING, FITTED, COST)
"""Kinds of work that rows can stand for; where a row names none, it is a training."""
FIELDS = (
    *NAMES,
    *("seed", *NODE_METRICS, *LINK_METRICS, "mask_ratio", "best_epoch", "epochs", "pretrain_seconds", "peak_gpu_mb"),
    *("precision", "config", "failed", "work", *COSTS),
)

Row: TypeAlias = Mapping[str, str]
Key: TypeAlias = tuple[str, str]
"""What identifies a training, with the kind of work if it is another, and its seed."""
Part: TypeAlias = Literal["own", "as_published"]
"""A training of a node task has a second row, with the metrics as published."""
Parts: TypeAlias = dict[Part, dict[str, Any]]


class Rows(NamedTuple):
    """Results that came from elsewhere.

    Attributes:
        found: By training.
        files: Names of the files, in the order in which they were given.
        set_aside: For each file that has such, how many of its rows an earlier file has with other figures.
    """

    found: Mapping[Key, Result]
    files: tuple[str, ...]
    set_aside: Mapping[Path, int]


NO_ROWS = Rows({}, (), {})


def read_rows(paths: Sequence[Path]) -> Rows:
    """The results of all files. The first file that has a training counts, and success counts more than failure.

    Raises:
        UserError: A file cannot be read, or is not of this kind.
    """
    trained: dict[Key, tuple[Parts, str]] = {}
    failed: dict[Key, Result] = {}
    set_aside: dict[Path, int] = {}
    for path in paths:
        own, failures = _trainings(path)
        for key, parts in own.items():
            first, _ = trained.setdefault(key, (parts, path.name))
            other = sum(repr(values) != repr(first.get(part)) for part, values in parts.items())
            if other:
                set_aside[path] = set_aside.get(path, 0) + other
        for key, failure in failures.items():
            failed.setdefault(key, Result(None, failure, file=path.name))
    done = {key: Result(_joined(parts), file=file) for key, (parts, file) in trained.items()}
    return Rows(failed | done, tuple(path.name for path in paths), set_aside)


def found_in(rows: Rows, piece: Piece) -> Result | None:
    """What the rows say about a piece: by its configuration, or by name if its recipe is one that failed."""
    if piece.work not in WORK or not rows.found:
        return None
    table, seed = piece.arguments["experiment"], str(piece.arguments["seed"])
    found = rows.found.get((_identity(piece.work, digest_of(table)), seed))
    if found is not None or piece.work != TRAINING:
        return found
    method, dataset, task, protocol = (table[name] for name in NAMES)
    failed = rows.found.get((_name(method, dataset, task, protocol), seed))
    if failed is None:
        return None
    # A run that failed wrote no configuration down: it was that of the recipe.
    return failed if table == to_table(recipe(method, dataset, task, {"protocol": protocol})) else None


def to_rows(results: Iterable[tuple[Piece, Result]]) -> str:
    """Every training that has figures, once, in the form that `read_rows` reads."""
    lines: dict[tuple[str, int, str], dict[str, Any]] = {}
    for piece, result in results:
        if piece.work not in WORK or result.values is None:
            continue
        table, values = piece.arguments["experiment"], result.values
        config, seed = digest_of(table), int(piece.arguments["seed"])
        shared = {name: table[name] for name in NAMES} | {"seed": seed, "config": config}
        if piece.work != TRAINING:
            figures = {name: values.get(name) for name in COSTS} | dict(values.get("metrics", {}))
            lines[config, seed, piece.work] = shared | {"work": piece.work} | figures
            continue
        shared |= {name: values.get(name) for name in ("best_epoch", "epochs", "peak_gpu_mb", "precision")}
        shared |= {"pretrain_seconds": values["seconds"]["pretrain"], **values["diagnostics"]}
        lines[config, seed, "own"] = shared | dict(values["metrics"])
        if "as_published" in values:
            lines[config, seed, "published"] = shared | {"protocol": "paper"} | dict(values["as_published"])
    text = StringIO()
    writer = csv.DictWriter(text, FIELDS, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines[key] for key in sorted(lines, key=lambda key: (*(lines[key][name] for name in NAMES), *key)))
    return text.getvalue()


def _read(path: Path) -> Sequence[Row]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise UserError(f"--rows {path}: there is no such file; correct the path.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise UserError(
            f"--rows {path}: cannot be read ({problem}); give a CSV file of benchmarks/published.py."
        ) from None
    missing = [name for name in NEEDED if rows and rows[0].get(name) is None]
    if missing:
        raise UserError(
            f"--rows {path}: has no column {missing[0]!r}, so its rows cannot be matched with settings; "
            f"make it with benchmarks/published.py."
        )
    return rows


def _trainings(path: Path) -> tuple[dict[Key, Parts], dict[Key, str]]:
    """The trainings of one file that have figures, and why others have none."""
    own: dict[Key, Parts] = {}
    failures: dict[Key, str] = {}
    for number, row in enumerate(_read(path), start=2):
        try:
            if row["failed"]:
                failures[_name(*(row[name] for name in NAMES)), row["seed"]] = row["failed"]
            elif row["config"]:
                identity = _identity(row.get("work") or TRAINING, row["config"])
                own.setdefault((identity, row["seed"]), {})[_part(row)] = _values(row)
        except ValueError as problem:
            raise UserError(
                f"{path}, row {number}: holds a figure that is no number ({problem}); write it anew."
            ) from None
    return {key: parts for key, parts in own.items() if "own" in parts}, failures


def _identity(work: str, digest: str) -> str:
    return digest if work == TRAINING else f"{work} {digest}"


def _part(row: Row) -> Part:
    own = row.get("work") not in (None, "", TRAINING)
    return "as_published" if not own and row["task"] == "node" and row["protocol"] == "paper" else "own"


def _joined(parts: Parts) -> dict[str, Any]:
    return {**parts["own"], **{part: values for part, values in parts.items() if part != "own"}}


def _values(row: Row) -> dict[str, Any]:
    """What a row says about a training."""
    if row.get("work") == COST:
        return {"peak_mb": None, **_numbers(row, COSTS)}
    if row.get("work") == FITTED:
        return {"metrics": _numbers(row, LINK_METRICS)}
    if _part(row) == "as_published":
        return _numbers(row, NODE_METRICS)
    return {
        "metrics": _numbers(row, NODE_METRICS if row["task"] == "node" else LINK_METRICS),
        "diagnostics": _numbers(row, ("mask_ratio",)),
        "seconds": {"pretrain": float(row.get("pretrain_seconds") or "nan")},
        "precision": row.get("precision") or "float32",
        **_numbers(row, ("best_epoch", "epochs", "peak_gpu_mb")),
    }


def _numbers(row: Row, names: Iterable[str]) -> dict[str, float]:
    return {name: float(row[name]) for name in names if row.get(name)}


def _name(*facts: str) -> str:
    return " ".join(facts)
