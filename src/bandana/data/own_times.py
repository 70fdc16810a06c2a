"""When the edges of somebody's own graph appeared: numbers or dates, and the first time of every edge."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from bandana.data.columns import MISSING, is_number
from bandana.data.own_source import Source
from bandana.data.own_values import Indices, Numbers, is_text, numbers
from bandana.engine.structure import entry_keys
from bandana.errors import UserError
from bandana.graph import Graph

RULE = "a number or a date such as 2024-03-05"


def times_of_rows(edges: Source, column: str | None, *, insisted: bool) -> tuple[Numbers | None, list[str]]:
    """``[rows]`` times, or None, and a remark on a column that has the name of one and cannot be read as one.

    Raises:
        UserError: It cannot be read, and somebody insists on it.
    """
    if column is None:
        return None, []
    try:
        return moments(edges, column), []
    except UserError as problem:
        if insisted:
            raise
        return None, [f"No times are taken from column {column!r}: {problem}"]


def moments(source: Source, column: str) -> Numbers:
    """``[rows]`` points in time: numbers as they are, dates (ISO 8601) as seconds since 1970.

    Raises:
        UserError: A time is missing or cannot be read.
    """
    values = source.table[column]
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        times = _since_1970(values)
    elif is_text(values.type):  # dates that are written in several ways, or no dates; others come as what they are
        times = _read(source, column)
    elif pa.types.is_time(values.type):
        raise UserError(f"{source.name}: column {column!r} holds times of day, and a time is {RULE}; name another.")
    else:
        times = numbers(source, column)
    wrong = ~np.isfinite(times)
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(
            f"{source.row(row)}: the time in column {column!r} is missing or infinite; fill it in or drop the row."
        )
    return times


def first_times(graph: Graph, sender: Indices, receiver: Indices, time: Numbers) -> Tensor:
    """``[edges]`` the earliest time of each edge, in the structure's order."""
    apart = torch.from_numpy(np.flatnonzero(sender != receiver))
    start, end = torch.from_numpy(sender)[apart], torch.from_numpy(receiver)[apart]
    when = torch.tensor(time)[apart]
    if not graph.directed:
        start, end, when = torch.cat([start, end]), torch.cat([end, start]), torch.cat([when, when])
    entry = torch.searchsorted(graph.edge_keys, entry_keys(end, start, graph.num_nodes))
    return torch.full((graph.num_edges,), torch.inf, dtype=torch.float64).scatter_reduce_(0, entry, when, "amin")


def _since_1970(values: Any) -> Numbers:
    microseconds = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).cast(pa.float64(), safe=False)
    return np.asarray(microseconds.fill_null(float("nan")).to_numpy(), dtype=np.float64) / 1e6


def _read(source: Source, column: str) -> Numbers:
    seen: dict[str, float] = {}
    whole = source.table[column].cast(pa.large_string())  # what trims takes no views of strings, as of Polars
    texts = pc.utf8_trim_whitespace(whole).fill_null("").to_pylist()
    for row, text in enumerate(texts):
        if text in seen:
            continue
        moment = float("nan") if text in MISSING else _moment(text)
        if moment is None:
            where = f"{source.row(row)}: {text[:40]!r} in column {column!r}"
            raise UserError(f"{where} is no time, which is {RULE}; correct it or drop the row.")
        seen[text] = moment
    numbers_too = next((text for text in seen if is_number(text)), None)
    if numbers_too is not None and not all(is_number(text) or text in MISSING for text in seen):
        raise UserError(
            f"{source.row(texts.index(numbers_too))}: {numbers_too[:40]!r} in column {column!r} is a number where "
            f"other rows have dates; write all times in one of these ways."
        )
    return np.array([seen[text] for text in texts])


def _moment(text: str) -> float | None:
    """A number as it is, a date in seconds since 1970, in UTC unless it says otherwise."""
    if is_number(text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
