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
from scipy.sparse import coo_array, csr_array

from bandana.errors import UserError

Indices = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
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


def placed_together(num_nodes: int) -> int:
    """How many nodes are placed in one go."""
    return min(AT_A_TIME, -(-num_nodes // AT_LEAST))


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
    together = placed_together(num_nodes)
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
    best, value = _preferred(rowptr, parts[col], 1 - sizes / capacity)
    order = np.lexsort((-value, best))
    ordered = best[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    room = capacity - sizes
    fits = (value > 0) & (rank < room[best])
    rest = np.flatnonzero(~fits)
    if len(rest):
        room -= np.bincount(best[fits], minlength=len(sizes))
        emptiest = np.argsort(-room, kind="stable")
        enough = int(np.searchsorted(room[emptiest].cumsum(), len(rest))) + 1
        best[rest] = np.repeat(emptiest[:enough], room[emptiest[:enough]])[: len(rest)]
    return best


def _preferred(rowptr: Indices, known: Indices, emptiness: Scores) -> tuple[Indices, Scores]:
    """The part that each of a few nodes would rather join, and how much.

    Only parts with a neighbour in them are compared, so that the time is that of the neighbours, however many parts
    there are.

    Args:
        rowptr: ``[nodes + 1]`` first neighbour of each node.
        known: ``[neighbours]`` their parts; -1 where none is known yet.
        emptiness: ``[parts]`` share of each part that is free.

    Returns:
        ``[nodes]`` parts, of equally good ones the first, and ``[nodes]`` neighbours there times emptiness. A node with
        no neighbour in any part that has room gets part 0 and value 0.
    """
    count, seen = len(rowptr) - 1, known >= 0
    node = np.repeat(np.arange(count), np.diff(rowptr))[seen]
    cells = (np.ones(len(node)), (node, known[seen]))
    neighbours = coo_array(cells, shape=(count, len(emptiness))).tocsc()  # adds up, and in time linear in the cells
    node, part = neighbours.indices, np.repeat(np.arange(len(emptiness)), np.diff(neighbours.indptr))
    score = neighbours.data * emptiness[part]
    best, value = np.zeros(count, dtype=np.int64), np.zeros(count)
    np.maximum.at(value, node, score)
    top = np.flatnonzero((score == value[node]) & (score > 0))[::-1]  # backwards: the first of equals is written last
    best[node[top]] = part[top]
    return best, value


def _both_ways(rowptr: Indices, col: Indices) -> tuple[Indices, Indices]:
    size = len(rowptr) - 1
    links = csr_array((np.ones(len(col), dtype=np.int8), col, rowptr), shape=(size, size))
    both = (links + links.T).tocsr()
    return np.asarray(both.indptr, dtype=np.int64), np.asarray(both.indices, dtype=np.int64)
