"""A few rows of a table on their way into a store, and a few rows of a store through a model, timed."""

import math
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as pi
import pyarrow.parquet as pq
import torch

from bandana.errors import UserError
from bandana.parts.encoders import project
from bandana.scale.blocks import ALIGNED
from bandana.scale.build import _open_edges, build_store
from bandana.scale.estimate import InferencePiece, PartitionPiece, Sizes, pass_cells
from bandana.scale.features import choose_numbers, feature_names, write_features
from bandana.scale.ids import collect_ids
from bandana.scale.inference import Encoder, _convolve, _inputs, degree_scale
from bandana.scale.partitioning import metis_fits
from bandana.scale.plan import BuildPlan
from bandana.scale.reading import Stream, open_stream
from bandana.scale.store import Store

EDGE_ROWS, FEATURE_ROWS = 200_000, 20_000
FEW_PARTS = 64
"""Parts of a store that is only made for its timing."""
ENTRIES = 300_000
_HEAD = 1 << 20


class PartitionSample(NamedTuple):
    """What is known of a graph before it is read: about its sizes, rows of its edges, and the time of a few of them.

    Attributes:
        sizes: Nodes are counted by their features, or reckoned from how fast new ones turn up.
        rows: Of the table of edges.
        metis: Whether METIS would assign the parts.
        piece: The timing.
    """

    sizes: Sizes
    rows: int
    metis: bool
    piece: PartitionPiece


def time_partition(plan: BuildPlan) -> PartitionSample:
    """Build a small store from the first rows of a plan's tables.

    Raises:
        UserError: A table is not as it should be, or cannot be counted.
    """
    edges = _open_edges(plan)
    rows, clock = count_rows(edges), _Stages()
    with TemporaryDirectory() as folder:
        parse_s, table = _first_rows(edges, EDGE_ROWS)
        pq.write_table(table, Path(folder) / "edges.parquet")
        sizes = _sizes(plan, edges, table, rows)
        metis = plan.partitioner == "metis" or (plan.partitioner == "auto" and metis_fits(sizes.entries, plan.memory))
        few = replace(
            plan,
            edges=Path(folder) / "edges.parquet",
            header="guess",
            features=None,
            labels=None,
            parts=min(plan.parts, FEW_PARTS, _distinct(table)),
            partitioner="metis" if metis else "stream",
        )
        started = time.perf_counter()
        store = build_store(few, Path(folder) / "store", on_progress=clock.tell)
        total_s = time.perf_counter() - started
        features_s, feature_rows = _time_features(plan, Path(folder))
    passed = clock.placed / store.num_nodes * pass_cells(store.num_nodes, store.num_edges, store.num_parts)
    piece = PartitionPiece(
        rows=table.num_rows,
        read_s=total_s - clock.parts_s + 2 * parse_s,
        cells=(store.num_edges if metis else passed) or 1,
        parts_s=clock.parts_s,
        feature_rows=feature_rows,
        features_s=features_s,
    )
    return PartitionSample(sizes, rows, metis, piece)


def count_rows(stream: Stream) -> int:
    """Rows of a table: by what its file says about itself, or as many as lines of the usual length fit into a text.

    Raises:
        UserError: The text is packed, which says nothing about its length.
    """
    if stream.layout is None:
        if stream.head.startswith(b"PAR1"):
            return int(pq.read_metadata(stream.path).num_rows)
        with pa.memory_map(str(stream.path)) as mapped:
            if stream.head.startswith(b"ARROW1"):
                file = pi.open_file(mapped)
                return sum(file.get_batch(number).num_rows for number in range(file.num_record_batches))
            return sum(batch.num_rows for batch in pi.open_stream(mapped))
    if stream.head.startswith(b"\x1f\x8b"):
        raise UserError(f"{stream.path}: packed text does not tell how long it is; unpack it, or leave --estimate out.")
    with stream.path.open("rb") as text:
        head = text.read(_HEAD)
    return max(round(stream.path.stat().st_size / len(head) * max(head.count(b"\n"), 1)), 1)


def time_inference(encoder: Encoder, store: Store) -> InferencePiece:
    """Take some rows of a store through every layer; what other rows would have become is taken as zero."""
    start, stop = _middle_rows(store)
    entries = int(store.rowptr[stop] - store.rowptr[start])
    scale, widths = degree_scale(store), encoder.widths
    output = output_width(encoder)
    with TemporaryDirectory() as folder, torch.no_grad():
        shape = (store.num_nodes, max(widths))
        between = np.lib.format.open_memmap(Path(folder) / "between.npy", "w+", np.dtype(np.float32), shape)
        project_s = convolve_s = write_s = 0.0
        for _ in range(2):  # the first time is slower by what happens only once
            times = [time.perf_counter()]
            rows = project(encoder.prepare(_inputs(encoder, store, start, stop)), encoder.layers[0].weight, 0.0, None)
            times.append(time.perf_counter())
            for depth, layer in enumerate(encoder.layers):
                between[start:stop, : rows.shape[1]] = rows
                between.flush()
                rows = _convolve(layer, store, between[:, : widths[depth]], scale, start, stop)
                if depth + 1 < len(encoder.layers):
                    rows = project(rows, encoder.layers[depth + 1].weight, 0.0, None)
            times.append(time.perf_counter())
            vectors = pa.array(np.zeros((stop - start) * output, dtype=np.float32))
            lists = pa.FixedSizeListArray.from_arrays(vectors, output)
            pq.write_table(pa.table({"embedding": lists}), Path(folder) / "vectors.parquet")
            times.append(time.perf_counter())
            project_s, convolve_s, write_s = np.diff(times).tolist()
    return InferencePiece(stop - start, max(entries, 1), project_s, convolve_s, write_s)


def output_width(encoder: Encoder) -> int:
    """Numbers of a vector."""
    return sum(encoder.widths) if encoder.readout == "concat" else encoder.widths[-1]


class _Stages:
    """Listens to a building, for the time in which parts are assigned and how many nodes were placed in it."""

    def __init__(self) -> None:
        self.placed, self.parts_s, self._began = 0, 0.0, 0.0

    def tell(self, stage: str, done: int, total: int | None) -> None:
        if stage == "parts":
            self._began = self._began or time.perf_counter()
            self.placed += done
        elif stage == "renumber" and self._began and not self.parts_s:
            self.parts_s = time.perf_counter() - self._began


def _sizes(plan: BuildPlan, edges: Stream, table: pa.Table, rows: int) -> Sizes:
    features = None if plan.features is None else open_stream(plan.features, choose_numbers)
    half, whole = _distinct(table.slice(0, table.num_rows // 2)), _distinct(table)
    growth = min(math.log2(whole / half), 1.0) if half else 1.0
    nodes = round(whole * max(rows / table.num_rows, 1.0) ** growth)
    if features is not None:
        nodes = max(count_rows(features), whole)
    elif (span := _span(edges)) is not None:
        nodes = min(nodes, span)
    return Sizes(
        nodes=nodes,
        entries=rows if plan.directed else 2 * rows,
        features=0 if features is None else len(feature_names(features)),
        parts=plan.parts,
        feature_bytes=np.dtype(plan.precision).itemsize,
    )


def _span(edges: Stream) -> int | None:
    """How many whole numbers lie between the least and the greatest id, where a Parquet file keeps these."""
    if not edges.head.startswith(b"PAR1") or not edges.has_whole_number_ids:
        return None
    about = pq.read_metadata(edges.path)
    bounds = []
    for group in range(about.num_row_groups):
        for place in range(about.num_columns):
            column = about.row_group(group).column(place)
            if column.path_in_schema in edges.wanted.ids:
                if column.statistics is None or not column.statistics.has_min_max:
                    return None
                bounds += [column.statistics.min, column.statistics.max]
    return max(bounds) - min(bounds) + 1 if bounds else None


def _first_rows(stream: Stream, count: int) -> tuple[float, pa.Table]:
    """Some rows, and the seconds that it took to understand them as text, if they are."""
    started, tables, seen = time.perf_counter(), [], 0
    for piece in stream.pieces(count):
        tables.append(piece.table)
        seen += piece.table.num_rows
        if seen >= count:
            break
    seconds = time.perf_counter() - started
    return (seconds if stream.layout is not None else 0.0), pa.concat_tables(tables).slice(0, count)


def _distinct(table: pa.Table) -> int:
    columns = (column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column for column in table.columns)
    ends = pa.chunked_array([chunk for column in columns for chunk in column.chunks])
    return int(pc.count_distinct(ends).as_py()) if len(ends) else 0


def _time_features(plan: BuildPlan, folder: Path) -> tuple[float, int]:
    if plan.features is None:
        return 0.0, 1
    parse_s, table = _first_rows(open_stream(plan.features, choose_numbers), FEATURE_ROWS)
    pq.write_table(table, folder / "features.parquet")
    started = time.perf_counter()
    stream = open_stream(folder / "features.parquet", choose_numbers)
    together = plan.rows_at_a_time(len(feature_names(stream)))
    book, _ = collect_ids([stream], together, lambda count: None)
    write_features(folder / "features.npy", stream, book, np.arange(len(book)), plan.precision, together)
    return parse_s + time.perf_counter() - started, table.num_rows


def _middle_rows(store: Store) -> tuple[int, int]:
    """Aligned rows around the middle, with not too many edges."""
    start = store.num_nodes // 2 // ALIGNED * ALIGNED
    ends = np.arange(start + ALIGNED, store.num_nodes + 1, ALIGNED)
    fitting = int(np.searchsorted(store.rowptr[ends] - store.rowptr[start], ENTRIES, "right")) if len(ends) else 0
    return start, int(ends[max(fitting, 1) - 1]) if len(ends) else store.num_nodes
