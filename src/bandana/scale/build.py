"""From tables to a store without ever holding the edges: stage after stage, each finished one written down.

Memory is that of the nodes (ids, parts, one count each), and beside them what `BuildPlan.memory` allows.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bandana.data.columns import edge_columns
from bandana.data.own_source import Wanted
from bandana.data.tables import doubts
from bandana.errors import UserError
from bandana.files import alone, real_place, refuse_fixed, unwritable
from bandana.scale.features import choose_numbers, feature_names, write_features, write_labels
from bandana.scale.ids import Book, Indices, collect_ids, load_book, save_book
from bandana.scale.journal import Journal, clean_up, move_into_place, put_back, refuse_taken
from bandana.scale.partitioning import metis_fits, metis_parts, stream_parts
from bandana.scale.plan import BuildPlan, OnProgress
from bandana.scale.reading import Stream, open_stream, unused
from bandana.scale.rows import READ_COL, READ_ROWPTR, read_links, renumber
from bandana.scale.seal import COL, DESCRIPTION, FEATURES, KNOWN_FILES, LABELS, NODES, ROWPTR, seal
from bandana.scale.store import ID_GROUP, Store, index_type, release

IDS, PARTS = "ids.parquet", "parts.npy"
STORE_FILES = {DESCRIPTION, *KNOWN_FILES}


def build_store(
    plan: BuildPlan, folder: Path, *, force: bool = False, on_progress: OnProgress = lambda stage, done, total: None
) -> Store:
    """Make a store of a graph that need not fit into memory. Interrupted, the same call goes on where it was.

    Args:
        plan: What to make it from, and how.
        folder: Its place; nothing is there until the store is whole.
        force: Whether an earlier store may be replaced.
        on_progress: For progress bars.

    Raises:
        UserError: A table is not as it should be, or the place is taken or cannot be written to.
    """
    folder = real_place(folder)
    refuse_fixed(folder)
    refuse_taken(folder, force, STORE_FILES)
    edges = _open_edges(plan)
    features = None if plan.features is None else open_stream(plan.features, choose_numbers)
    work = folder.absolute().parent / f".{folder.name}.building"
    try:
        with alone(folder):
            put_back(work, folder)
            refuse_taken(folder, force, STORE_FILES)  # it may be there only now
            journal = Journal(work)
            try:
                finished = _build(plan, edges, features, journal, on_progress)
                move_into_place(finished, folder, force, STORE_FILES)
            except UserError as problem:
                raise journal.given_up(problem) from None
            clean_up(work, folder)
    except OSError as problem:
        raise unwritable(folder, problem, resumable=True) from None
    return Store.open(folder)


def _build(plan: BuildPlan, edges: Stream, features: Stream | None, journal: Journal, tell: OnProgress) -> Path:
    """All stages. Returns the sealed folder inside of the working folder."""
    work, fresh = journal.folder, journal.folder / "store"
    fresh.mkdir(exist_ok=True)
    streams = [edges, *([features] if features else [])]
    named = plan.decisions("edges", "source", "target", "header", "features")

    read = journal.once("ids", named, lambda: _ids(plan, streams, work, tell), work / IDS)
    book = load_book(work / IDS)
    if plan.parts > len(book):
        raise UserError(f"-k {plan.parts}: the graph has only {len(book):,} nodes; ask for fewer parts.")
    rows, ways = (work / READ_ROWPTR, work / READ_COL), plan.decisions("directed")
    links = journal.once("links", ways, lambda: read_links(plan, edges, read["edge rows"], book, work, tell), *rows)
    cut = plan.decisions("parts", "partitioner", "memory", "seed")
    journal.once("parts", cut, lambda: _parts(plan, len(book), links["entries"], work, tell), work / PARTS)
    parts = np.load(work / PARTS, allow_pickle=False)
    order = parts.argsort(kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))

    arrays = fresh / ROWPTR, fresh / COL
    laid = journal.once("rows", {}, lambda: renumber(plan, parts, place, links["entries"], work, fresh, tell), *arrays)
    about: dict[str, Any] = {"feature_names": [], "num_values": 0}
    if features is not None:
        x, form = fresh / FEATURES, plan.decisions("precision")
        about = journal.once("features", form, lambda: _features(plan, features, x, book, place, tell), x)
    labels: dict[str, Any] = {"label_names": None}
    if plan.labels is not None:
        table, y = plan.labels, fresh / LABELS
        labels = journal.once("labels", plan.decisions("labels"), lambda: write_labels(y, table, book, place), y)
    journal.once("nodes", {}, lambda: _nodes(fresh / NODES, book, order), fresh / NODES)

    facts = {
        "num_nodes": len(book),
        "num_edges": links["entries"],
        "num_features": len(about["feature_names"]),
        "directed": plan.directed,
        "part_starts": [0, *np.bincount(parts, minlength=plan.parts).cumsum().tolist()],
        **about,
        **labels,
        "notes": _notes(plan, edges, len(book), read, links, laid),
    }
    total = sum(path.stat().st_size for path in fresh.iterdir())
    seal(fresh, facts, lambda count: tell("checksums", count, total))
    return fresh


def _open_edges(plan: BuildPlan) -> Stream:
    asked = {"source": plan.source, "target": plan.target}

    def choose(names: Any) -> Wanted:
        columns = edge_columns(names, asked, str(plan.edges))
        return Wanted((columns.source, columns.target), (columns.source, columns.target))

    return open_stream(plan.edges, choose, [name for name in asked.values() if name is not None], plan.header)


def _ids(plan: BuildPlan, streams: list[Stream], work: Path, tell: OnProgress) -> dict[str, Any]:
    book, rows = collect_ids(streams, plan.rows_at_a_time(), lambda count: tell("ids", count, None))
    if len(book) ** 2 >= 1 << 63:
        raise UserError(f"{plan.edges}: names {len(book):,} nodes; a store numbers at most 3,037,000,499.")
    save_book(work / IDS, book)
    return {"edge rows": rows[0]}


def _parts(plan: BuildPlan, num_nodes: int, entries: int, work: Path, tell: OnProgress) -> dict[str, Any]:
    rowptr = np.load(work / READ_ROWPTR, allow_pickle=False)
    col = np.memmap(work / READ_COL, index_type(num_nodes), "r")
    by_metis = plan.partitioner == "metis" or (plan.partitioner == "auto" and metis_fits(entries, plan.memory))
    if plan.parts == 1:
        parts = np.zeros(num_nodes, dtype=np.int64)
    elif by_metis:
        tell("parts", 0, None)
        parts = metis_parts(rowptr, np.asarray(col), plan.parts, plan.directed, plan.seed)
    else:
        touched = 0

        def rows(start: int, stop: int) -> tuple[Indices, Indices]:
            nonlocal touched
            first, last = rowptr[start], rowptr[stop]
            touched += int(last - first) * col.itemsize
            block = np.array(col[first:last])
            if touched > plan.memory // 8:
                touched = 0
                release(col)
            return rowptr[start : stop + 1] - first, block

        parts = stream_parts(rows, num_nodes, plan.parts, lambda count: tell("parts", count, None))
    np.save(work / PARTS, parts)
    return {}


def _features(
    plan: BuildPlan, stream: Stream, path: Path, book: Book, place: Indices, tell: OnProgress
) -> dict[str, Any]:
    rows = plan.rows_at_a_time(len(feature_names(stream)))
    return write_features(path, stream, book, place, plan.precision, rows, lambda n: tell("features", n, len(book)))


def _nodes(path: Path, book: Book, order: Indices) -> dict[str, Any]:
    """Write the ids in the order of the rows."""
    schema = pa.schema([("id", book.ids.type)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, len(order), ID_GROUP):
            writer.write_table(pa.table([book.ids.take(pa.array(order[start : start + ID_GROUP]))], schema=schema))
    return {}


def _notes(
    plan: BuildPlan, edges: Stream, nodes: int, read: dict[str, Any], links: dict[str, Any], laid: dict[str, Any]
) -> list[str]:
    """What was understood, left out or merged, one sentence each."""
    source, target = edges.wanted.ids
    kind, count = ("directed edges", links["entries"]) if plan.directed else ("links", links["entries"] // 2)
    notes = [f"{plan.edges}: source {source!r}, target {target!r}.", *unused(edges, (source, target))]
    notes += doubts(edges.layout, of_edges=True)
    notes.append(f"{nodes:,} nodes and {count:,} {kind}, from {read['edge rows']:,} rows.")
    if links["loops"]:
        notes.append(f"Left out, because they lead from a node to itself: {links['loops']:,} of the edges.")
    if links["repeated"]:
        notes.append(f"Repeated or listed in both directions, and counted once: {links['repeated']:,} of the edges.")
    notes.append(f"{plan.parts:,} parts keep {laid['inside']:.1%} of the edges inside.")
    return notes
