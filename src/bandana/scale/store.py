"""A graph on disk, read through memory maps: rows in the order of parts, edges by receiving node.

Files of a store, all plain arrays: ``rowptr.npy [nodes + 1]``, ``col.npy [edges]``, ``features.npy [nodes, features]``,
``labels.npy [nodes]``, ``nodes.parquet`` with the user's ids, and ``store.json``, which describes and seals them.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from bandana.engine.structure import build_structure
from bandana.errors import UserError
from bandana.graph import SPARSE_BELOW_DENSITY, Graph, compact, dense, identity_features
from bandana.scale.seal import COL, FEATURES, LABELS, NODES, ROWPTR, read_description, seal

Array = npt.NDArray[Any]
FeatureType = Literal["float16", "float32"]
ID_GROUP = 1 << 16
"""Ids that are written, and read again, at a time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Store:
    """A sealed store. Arrays are read-only maps of the files: what is touched of them counts as memory until `release`.

    Attributes:
        folder: Where it is.
        num_nodes: Rows.
        num_edges: Directed entries; an undirected link counts twice.
        num_features: Columns of the features, 0 if there are none.
        num_values: Features that are not zero.
        directed: Whether edges go one way only.
        part_starts: ``[parts + 1]`` part ``p`` is the rows ``part_starts[p]:part_starts[p + 1]``.
        rowptr: ``[nodes + 1]`` int64, first entry of each receiving node.
        col: ``[edges]`` int32 or int64, senders, ascending within a row; no self-loops and no duplicates.
        features: ``[nodes, features]`` float16 or float32, or None.
        labels: ``[nodes]`` int64, -1 for unlabelled, or None.
        feature_names: One per feature where they have names.
        label_names: What the labels 0, 1, 2, … are called, or None.
        notes: What was understood, left out or merged when it was built.
        digest: Of all of its content.
    """

    folder: Path
    num_nodes: int
    num_edges: int
    num_features: int
    num_values: int
    directed: bool
    part_starts: Tensor
    rowptr: Array
    col: Array
    features: Array | None
    labels: Array | None
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...] | None
    notes: tuple[str, ...]
    digest: str

    @classmethod
    def open(cls, folder: Path) -> "Store":
        """Map a store.

        Raises:
            UserError: It is no store, is of another version, or its files do not fit its description.
        """
        table = read_description(folder)
        nodes, edges, width = table["num_nodes"], table["num_edges"], table["num_features"]
        index = ("int32", "int64")
        store = cls(
            folder=folder,
            num_nodes=nodes,
            num_edges=edges,
            num_features=width,
            num_values=table["num_values"],
            directed=table["directed"],
            part_starts=torch.tensor(table["part_starts"], dtype=torch.int64),
            rowptr=_mapped(folder / ROWPTR, (nodes + 1,), ("int64",)),
            col=_mapped(folder / COL, (edges,), index),
            features=_mapped(folder / FEATURES, (nodes, width), ("float16", "float32")) if width else None,
            labels=_mapped(folder / LABELS, (nodes,), ("int64",)) if LABELS in table["files"] else None,
            feature_names=tuple(table["feature_names"]),
            label_names=None if table["label_names"] is None else tuple(table["label_names"]),
            notes=tuple(table["notes"]),
            digest=table["digest"],
        )
        starts = store.part_starts
        ends_meet = starts.numel() > 1 and int(starts[0]) == 0 and int(starts[-1]) == nodes
        if not ends_meet or bool((starts.diff() < 0).any()) or store.rowptr[0] != 0 or store.rowptr[-1] != edges:
            raise UserError(f"{folder}: its parts or rows do not cover its nodes and edges; build the store anew.")
        return store

    @property
    def num_parts(self) -> int:
        return self.part_starts.numel() - 1

    @cached_property
    def node_ids(self) -> pa.ChunkedArray:
        """``[nodes]`` the user's own ids in row order, all text or all whole numbers; read when first asked for.

        Raises:
            UserError: They are of another store, which has taken this one's place.
        """
        ids = pq.read_table(self.folder / NODES, columns=["id"])["id"]
        self.refuse_replaced()
        return ids

    def id_batches(self) -> Iterator[pa.Array]:
        """The ids in row order, a few at a time, for those who cannot hold all of them."""
        with pq.ParquetFile(self.folder / NODES) as file:
            for batch in file.iter_batches(ID_GROUP, columns=["id"]):
                yield batch.column(0)
        self.refuse_replaced()

    def refuse_replaced(self) -> None:
        """Make sure that files which are opened by name belong to the arrays that were mapped before.

        Raises:
            UserError: Another store has taken this one's place since it was opened.
        """
        if read_description(self.folder)["digest"] != self.digest:
            raise UserError(f"{self.folder}: another store has taken its place meanwhile; start the command again.")

    def rows(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """The entries of the rows ``start:stop``, in memory.

        Returns:
            ``rowptr [rows + 1]``, from 0, and ``col [entries]``, senders as rows of the whole store; both int64.

        Raises:
            UserError: They point outside of the graph.
        """
        pointers = self.rowptr[start : stop + 1].astype(np.int64)
        first, last = int(pointers[0]), int(pointers[-1])
        sound = 0 <= first <= last <= self.num_edges and bool((np.diff(pointers) >= 0).all())
        col = self.col[first:last].astype(np.int64) if sound else np.empty(0, np.int64)
        if not sound or (col.size and not 0 <= col.min() <= col.max() < self.num_nodes):
            raise UserError(f"{self.folder}: rows {start} to {stop} point outside of the graph; run bandana verify.")
        release(self.rowptr, self.col)
        return torch.from_numpy(pointers - first), torch.from_numpy(col)

    @property
    def is_sparse(self) -> bool:
        """Whether the features are so empty that a graph in memory would keep them sparse."""
        return self.num_values < SPARSE_BELOW_DENSITY * self.num_nodes * self.num_features

    def feature_rows(self, start: int, stop: int) -> Tensor:
        """``[rows, features]`` float32, in memory.

        Raises:
            UserError: The graph has no features.
        """
        if self.features is None:
            raise UserError(f"{self.folder}: the graph came without features; build the store with --features.")
        block = self.features[start:stop].astype(np.float32)
        release(self.features)
        return torch.from_numpy(block)

    def graph(self) -> Graph:
        """The whole graph in memory, rows in the store's order, for those that fit."""
        rowptr, col = self.rows(0, self.num_nodes)
        row = torch.repeat_interleave(rowptr.diff())
        structure, _ = build_structure(row, col, self.num_nodes, self.num_nodes)
        return Graph(
            structure=structure,
            x=identity_features(self.num_nodes)
            if self.features is None
            else compact(self.feature_rows(0, self.num_nodes)),
            y=None if self.labels is None else torch.from_numpy(self.labels.astype(np.int64)),
            directed=self.directed,
            node_ids=self.node_ids.to_pylist(),
        )


def write_store(folder: Path, graph: Graph, parts: Tensor, features: FeatureType = "float32") -> Store:
    """Lay a graph that is in memory into a store.

    Args:
        folder: A new or empty folder.
        graph: Without edge weights, which a store does not keep.
        parts: ``[nodes]`` part of every node. The nodes of a part keep their order; a part may be empty.
        features: How precisely features are kept.

    Raises:
        UserError: The graph has weights, or the folder holds something.
    """
    if graph.weight is not None:
        raise UserError(f"{folder}: a store keeps no edge weights; drop them from the graph first.")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UserError(f"{folder}: is not empty; choose another folder for the store.")
    order = parts.argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(graph.num_nodes)
    structure, _ = build_structure(
        place[graph.structure.row], place[graph.structure.col], graph.num_nodes, graph.num_nodes
    )
    np.save(folder / ROWPTR, structure.rowptr.numpy())
    np.save(folder / COL, structure.col.numpy().astype(index_type(graph.num_nodes)))
    x = dense(graph.x)[order].numpy().astype(features) if graph.has_features else None
    if x is not None:
        np.save(folder / FEATURES, x)
    if graph.y is not None:
        np.save(folder / LABELS, graph.y[order].numpy().astype(np.int64))
    ids = range(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    pq.write_table(pa.table({"id": pa.array([ids[row] for row in order.tolist()])}), folder / NODES, ID_GROUP)
    facts = {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": 0 if x is None else graph.num_features,
        "num_values": 0 if x is None else int(np.count_nonzero(x)),
        "directed": graph.directed,
        "part_starts": [0, *torch.bincount(parts).cumsum(0).tolist()],
        "feature_names": [],
        "label_names": None,
        "notes": [],
    }
    seal(folder, facts)
    return Store.open(folder)


def index_type(num_nodes: int) -> npt.DTypeLike:
    """The smallest type that numbers the nodes."""
    return np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64


def release(*arrays: Array) -> None:
    """Let go of the pages that reading a map brought in; the next touch reads them again, mostly from the cache."""
    for array in arrays:
        mapping = getattr(array, "_mmap", None)
        if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapping.madvise(mmap.MADV_DONTNEED)


def _mapped(path: Path, shape: tuple[int, ...], types: tuple[str, ...]) -> Array:
    """A read-only map of an array, once shape and type are the expected ones."""
    try:
        array: Array = np.load(path, mmap_mode="r" if 0 not in shape else None, allow_pickle=False)
    except (OSError, ValueError) as problem:
        raise UserError(f"{path}: cannot be read as an array ({problem}); run bandana verify.") from None
    if array.shape != shape or array.dtype.name not in types or not array.flags.c_contiguous:
        raise UserError(
            f"{path}: holds {array.dtype.name} of the shape {list(array.shape)}, where {' or '.join(types)} of "
            f"{list(shape)} is due; build the store anew."
        )
    return array
