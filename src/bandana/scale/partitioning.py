"""Which part every node belongs to: by METIS where the graph fits into memory, else by passing over it row by row.

The passing one follows Stanton and Kliot, "Streaming Graph Partitioning for Large Distributed Graphs", KDD 2012: a node
joins the part that holds most of its neighbours, less so the fuller the part is. Passing again with what is known by
then helps, as Nishimura and Ugander found ("Restreaming Graph Partitioning", KDD 2013). Nodes are placed a few at a
time, which is what makes it fast in numpy; those of one go do not see each other's new places.
"""

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from bandana.errors import UserError

Indices = npt.NDArray[np.int64]
Rows = Callable[[int, int], tuple[Indices, Indices]]
"""From a range of rows to their pointers, from 0, and their columns."""

METIS_BYTES = 120
"""Memory that METIS takes per directed edge, generously."""
PASSES = 16
SETTLED = 0.002
"""Passing ends when a smaller share of the nodes moved."""
SLACK = 1.1
"""How much larger than the mean a part may become; without some room, nodes of full parts cannot change places."""
AT_A_TIME, AT_LEAST = 1024, 64
"""Nodes that are placed together, and into how many goes the nodes are cut at least."""


def metis_fits(num_edges: int, memory: int) -> bool:
    """Whether METIS is here, and has enough memory."""
    return find_spec("pymetis") is not None and num_edges * METIS_BYTES <= memory


def metis_parts(rowptr: Indices, col: Indices, num_parts: int, directed: bool, seed: int) -> Indices:
    """``[nodes]`` parts by METIS, which keeps links inside of parts well, and all of the graph in memory.

    Raises:
        UserError: pymetis is not installed.
    """
    if find_spec("pymetis") is None:
        raise UserError(
            "--partitioner metis: needs pymetis; install bandana-graph[scale], or use --partitioner stream."
        )
    import pymetis

    if directed:
        rowptr, col = _both_ways(rowptr, col)
    links = pymetis.CSRAdjacency(rowptr, col)
    _, parts = pymetis.part_graph(num_parts, links, options=pymetis.Options(seed=seed))
    return np.asarray(parts, dtype=np.int64)


def stream_parts(
    rows: Rows, num_nodes: int, num_parts: int, on_rows: Callable[[int], None] = lambda count: None
) -> Indices:
    """``[nodes]`` parts by passing over the rows, in memory of the size of the nodes alone.

    Args:
        rows: Reads a range of rows.
        num_nodes: Rows there are.
        num_parts: Parts to make; none gets more than `SLACK` times the mean.
        on_rows: Told how many rows were placed, for progress bars.
    """
    capacity = max(int(SLACK * num_nodes / num_parts), -(-num_nodes // num_parts))
    together = min(AT_A_TIME, -(-num_nodes // AT_LEAST))
    parts, sizes = np.full(num_nodes, -1), np.zeros(num_parts, dtype=np.int64)
    for _ in range(PASSES):
        moved = 0
        for start in range(0, num_nodes, together):
            stop = min(start + together, num_nodes)
            before = parts[start:stop]
            sizes -= np.bincount(before[before >= 0], minlength=num_parts)
            after = _placed(*rows(start, stop), parts, sizes, capacity)
            sizes += np.bincount(after, minlength=num_parts)
            moved += int((before != after).sum())
            parts[start:stop] = after
            on_rows(stop - start)
        if moved < SETTLED * num_nodes:
            break
    return parts


def _placed(rowptr: Indices, col: Indices, parts: Indices, sizes: Indices, capacity: int) -> Indices:
    """The parts of a few nodes: where their neighbours are, the best placed first, the rest where there is room."""
    count, num_parts = len(rowptr) - 1, len(sizes)
    row, known = np.repeat(np.arange(count), np.diff(rowptr)), parts[col]
    slots = (row * num_parts + known)[known >= 0]
    neighbours = np.bincount(slots, minlength=count * num_parts).reshape(count, num_parts)
    score = neighbours * (1 - sizes / capacity)
    best: Indices = score.argmax(1)
    value = score[np.arange(count), best]
    order = np.lexsort((-value, best))
    first = np.searchsorted(best[order], np.arange(num_parts))
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count) - first[best[order]]
    room = capacity - sizes
    fits = (value > 0) & (rank < room[best])
    room -= np.bincount(best[fits], minlength=num_parts)
    emptiest = np.argsort(-room, kind="stable")
    rest = np.flatnonzero(~fits)
    best[rest] = np.repeat(emptiest, np.minimum(room[emptiest], len(rest)))[: len(rest)]
    return best


def _both_ways(rowptr: Indices, col: Indices) -> tuple[Indices, Indices]:
    from scipy.sparse import csr_array

    size = len(rowptr) - 1
    links = csr_array((np.ones(len(col), dtype=np.int8), col, rowptr), shape=(size, size))
    both = (links + links.T).tocsr()
    return np.asarray(both.indptr, dtype=np.int64), np.asarray(both.indices, dtype=np.int64)
