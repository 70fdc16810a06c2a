"""Edges into rows by receiving node: once in the order of the ids, and once more in the order of the parts."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bandana.errors import UserError
from bandana.scale.ids import Book, Indices
from bandana.scale.plan import BuildPlan, OnProgress
from bandana.scale.reading import Stream
from bandana.scale.seal import COL, ROWPTR
from bandana.scale.sorting import Keys, sorted_distinct
from bandana.scale.store import index_type, release

READ_COL, READ_ROWPTR = "read-col.bin", "read-rowptr.npy"
"""The rows in the order of the ids, in the working folder."""


def read_links(
    plan: BuildPlan, edges: Stream, edge_rows: int, book: Book, work: Path, tell: OnProgress
) -> dict[str, Any]:
    """Read the edges into rows by receiving node, in the order of the book."""
    size, loops = len(book), 0

    def keys() -> Iterator[Keys]:
        nonlocal loops
        for piece in edges.pieces(plan.rows_at_a_time()):
            sender, receiver = (book.find(piece, column) for column in edges.wanted.ids)
            apart = sender != receiver
            loops += len(apart) - int(apart.sum())
            sender, receiver = sender[apart], receiver[apart]
            yield receiver * size + sender
            if not plan.directed:
                yield sender * size + receiver
            tell("edges", len(apart), edge_rows)

    expected = edge_rows if plan.directed else 2 * edge_rows
    counts, entries = np.zeros(size, dtype=np.int64), 0
    with (work / READ_COL).open("wb") as file:
        for block in _sorted(plan, keys(), size, expected, work, "sort", tell):
            _count_rows(counts, block)
            (block % size).astype(index_type(size)).tofile(file)
            entries += len(block)
    if not entries:
        raise UserError(
            f"{plan.edges}: every edge leads from a node to itself; check which columns hold source and target."
        )
    np.save(work / READ_ROWPTR, np.concatenate([[0], counts.cumsum()]))
    return {"entries": entries, "loops": loops, "repeated": edge_rows - loops - entries // (1 if plan.directed else 2)}


def renumber(
    plan: BuildPlan, parts: Indices, place: Indices, entries: int, work: Path, fresh: Path, tell: OnProgress
) -> dict[str, Any]:
    """Renumber the rows by parts, and write the arrays of the store."""
    size, inside, together = len(place), 0, plan.rows_at_a_time()
    rowptr = np.load(work / READ_ROWPTR, allow_pickle=False)
    col = np.memmap(work / READ_COL, index_type(size), "r")

    def keys() -> Iterator[Keys]:
        nonlocal inside
        for start in range(0, entries, together):
            stop = min(start + together, entries)
            row, sender = rows_of_entries(rowptr, start, stop), np.array(col[start:stop])
            release(col)
            inside += int((parts[row] == parts[sender]).sum())
            yield place[row] * size + place[sender]
            tell("renumber", stop - start, entries)

    counts, done = np.zeros(size, dtype=np.int64), 0
    target = np.lib.format.open_memmap(fresh / COL, "w+", np.dtype(index_type(size)), (entries,))
    for block in _sorted(plan, keys(), size, entries, work, "sort again", tell):
        _count_rows(counts, block)
        target[done : done + len(block)] = block % size
        done += len(block)
        release(target)
    target.flush()
    np.save(fresh / ROWPTR, np.concatenate([[0], counts.cumsum()]))
    return {"inside": inside / entries}


def rows_of_entries(rowptr: Indices, start: int, stop: int) -> Indices:
    """The row of each entry in ``start:stop``."""
    low = int(np.searchsorted(rowptr, start, "right")) - 1
    high = int(np.searchsorted(rowptr, stop, "left"))
    bounds = rowptr[low : high + 1].clip(start, stop)
    return np.repeat(np.arange(low, high), np.diff(bounds))


def _sorted(
    plan: BuildPlan, keys: Iterator[Keys], size: int, expected: int, work: Path, stage: str, tell: OnProgress
) -> Iterator[Keys]:
    """Keys of edges in the order of rows, a few at a time; whatever an interrupted attempt left goes first."""
    buckets = work / "buckets"
    shutil.rmtree(buckets, ignore_errors=True)
    memory = plan.memory // 2
    return sorted_distinct(keys, size**2, expected, buckets, memory, lambda count: tell(stage, count, expected))


def _count_rows(counts: Indices, keys: Keys) -> None:
    row = keys // len(counts)
    first = int(row[0])
    found = np.bincount(row - first)
    counts[first : first + len(found)] += found
