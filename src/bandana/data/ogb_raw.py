"""Reads the Open Graph Benchmark's raw files as its archives unpack them, without its package.

Tables are compressed CSV files of numbers, which pyarrow parses. Link splits are torch files.
"""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bandana.data.prepared import Prepared
from bandana.data.raw_files import RawFiles, reading
from bandana.data.splits import NodeSplit, Pairs
from bandana.data.unpickling import read_tensors
from bandana.graph import Graph

FIRST_YEAR = 2010
"""ogbl-collab: collaborations before this year are left out of the training graph, as in the paper."""

_SITE = "https://snap.stanford.edu/ogb/data"
_PARTS = ("train", "valid", "test")


def arxiv() -> RawFiles:
    """Citations between computer-science papers, taken in both directions; split by year."""
    raw = ("edge", "node-feat", "node-label")
    split = (f"split/time/{part}.csv.gz" for part in _PARTS)
    return RawFiles(
        folder="ogbn_arxiv",
        files=(*(f"raw/{file}.csv.gz" for file in raw), *split),
        url=f"{_SITE}/nodeproppred/arxiv.zip",
        read=_read_arxiv,
    )


def mag() -> RawFiles:
    """Of a graph of four kinds of nodes only papers citing papers, taken in both directions; split by year."""
    raw = ("relations/paper___cites___paper/edge", "node-feat/paper/node-feat", "node-label/paper/node-label")
    split = (f"split/time/paper/{part}.csv.gz" for part in _PARTS)
    return RawFiles(
        folder="ogbn_mag",
        files=(*(f"raw/{file}.csv.gz" for file in raw), *split),
        url=f"{_SITE}/nodeproppred/mag.zip",
        read=_read_mag,
    )


def collab() -> RawFiles:
    """Authors who wrote together; split by year."""
    return _link_files("ogbl_collab", "time", f"{_SITE}/linkproppred/collab.zip", _read_collab)


def ppa() -> RawFiles:
    """Proteins that associate; split by how the association was found."""
    return _link_files("ogbl_ppa", "throughput", f"{_SITE}/linkproppred/ppassoc.zip", _read_ppa)


def _link_files(folder: str, split: str, url: str, read: Callable[[Path], Prepared]) -> RawFiles:
    return RawFiles(folder, ("raw/node-feat.csv.gz", *(f"split/{split}/{part}.pt" for part in _PARTS)), url, read)


def read_columns(path: Path, dtype: torch.dtype) -> Tensor:
    """Read a compressed CSV file of numbers without a header line.

    Returns:
        ``[columns, rows]`` in `dtype`, which is int64 or float32.

    Raises:
        UserError: The file is cut short, or holds something else.
    """
    from pyarrow import csv, float32, int64

    with reading(path):
        with gzip.open(path, "rt") as lines:
            names = [str(column) for column, _ in enumerate(lines.readline().split(","))]
        kind = int64() if dtype == torch.int64 else float32()
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=names),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, kind)),
        )
        if any(column.null_count for column in table.columns):
            raise ValueError("a value is missing")
        return torch.from_numpy(np.stack([column.to_numpy() for column in table.columns]))


def _read_arxiv(folder: Path) -> Prepared:
    raw = folder / "raw"
    return _citations(
        edges=raw / "edge.csv.gz",
        features=raw / "node-feat.csv.gz",
        labels=raw / "node-label.csv.gz",
        split=folder / "split" / "time",
    )


def _read_mag(folder: Path) -> Prepared:
    raw = folder / "raw"
    return _citations(
        edges=raw / "relations" / "paper___cites___paper" / "edge.csv.gz",
        features=raw / "node-feat" / "paper" / "node-feat.csv.gz",
        labels=raw / "node-label" / "paper" / "node-label.csv.gz",
        split=folder / "split" / "time" / "paper",
    )


def _read_collab(folder: Path) -> Prepared:
    split = folder / "split" / "time"
    published = read_tensors(split / "train.pt")
    with reading(split / "train.pt"):
        recent = published["edge"][published["year"].view(-1) >= FIRST_YEAR]
    return _links(folder, split, recent)


def _read_ppa(folder: Path) -> Prepared:
    split = folder / "split" / "throughput"
    published = read_tensors(split / "train.pt")
    with reading(split / "train.pt"):
        return _links(folder, split, published["edge"])


def _citations(edges: Path, features: Path, labels: Path, split: Path) -> Prepared:
    y = read_columns(labels, torch.int64)[0]
    graph = Graph.from_edges(
        read_columns(edges, torch.int64),
        num_nodes=y.numel(),
        x=read_columns(features, torch.float32).t(),
        y=y,
    )
    return Prepared(graph, NodeSplit(*(_nodes(split / f"{part}.csv.gz", graph.num_nodes) for part in _PARTS)))


def _nodes(path: Path, num_nodes: int) -> Tensor:
    nodes = read_columns(path, torch.int64)[0].sort().values
    with reading(path):
        if nodes.numel() and not 0 <= int(nodes[0]) <= int(nodes[-1]) < num_nodes:
            raise ValueError(f"names nodes {int(nodes[0])} to {int(nodes[-1])}, but there are {num_nodes}")
    return nodes


def _links(folder: Path, split: Path, train: Tensor) -> Prepared:
    x = read_columns(folder / "raw" / "node-feat.csv.gz", torch.float32).t()
    graph = Graph.from_edges(train.t(), num_nodes=x.shape[0], x=x)
    return Prepared(graph, held_out=(_pairs(split / "valid.pt"), _pairs(split / "test.pt")))


def _pairs(path: Path) -> Pairs:
    published = read_tensors(path)
    with reading(path):
        return Pairs(published["edge"].t().contiguous().long(), published["edge_neg"].t().contiguous().long())
