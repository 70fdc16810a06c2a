"""Reads the benchmark graphs whose raw files PyTorch Geometric uses, in its folder layout.

Its own classes would write a second, dense copy beside the raw files (over a gigabyte for Physics) and trust every
pickle, so the files are read here, and sparse features stay sparse all the way.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bandana.data.prepared import Prepared
from bandana.data.raw_files import RawFiles
from bandana.data.splits import NodeSplit
from bandana.data.unpickling import read_pickle
from bandana.engine.structure import build_structure
from bandana.graph import SPARSE_BELOW_DENSITY, Features, Graph, SparseFeatures

_PLANETOID_PARTS = ("tx", "allx", "y", "ty", "ally", "graph", "test.index")
_PLANETOID_VALID = 500


def planetoid(name: str) -> RawFiles:
    """One of the citation graphs, with its public split: 20 training nodes a class, 500 to choose by, 1,000 to test."""
    return RawFiles(
        folder=name,
        files=tuple(f"raw/ind.{name.lower()}.{part}" for part in _PLANETOID_PARTS),
        url="https://github.com/kimiyoung/planetoid/raw/master/data",
        read=partial(_read_planetoid, f"ind.{name.lower()}"),
    )


def npz(folder: str, file: str) -> RawFiles:
    """One of the co-purchase and co-author graphs."""
    return RawFiles(
        folder=folder,
        files=(f"raw/{file}.npz",),
        url="https://github.com/shchur/gnn-benchmark/raw/master/data/npz",
        read=partial(_read_npz, file),
    )


def wikics() -> RawFiles:
    """Links between Wikipedia articles, with their direction. Its 20 published splits are left out."""
    return RawFiles(
        folder="WikiCS",
        files=("raw/data.json",),
        url="https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset",
        read=_read_wikics,
    )


def _read_planetoid(prefix: str, folder: Path) -> Prepared:
    """Put the parts together: training nodes come first, and row ``i`` of the test part is node ``test[i]``.

    The numbers of the test nodes may have gaps: nodes without links or words, to be filled in as such.
    """
    *matrices, graph = (read_pickle(folder / "raw" / f"{prefix}.{part}") for part in _PLANETOID_PARTS[:-1])
    test_words, words, train_classes, test_classes, classes = matrices
    test = np.array((folder / "raw" / f"{prefix}.test.index").read_text().split(), dtype=np.int64)
    complete = len(test) == len(np.unique(test)) == test_words.shape[0] == len(test_classes)
    if not complete or test.min() < len(classes):
        raise ValueError(f"{prefix}.test.index does not name one new node for each of {test_words.shape[0]} rows")
    num_nodes = int(test.max()) + 1
    labels = np.zeros(num_nodes, dtype=np.int64)
    labels[: len(classes)], labels[test] = classes.argmax(axis=1), test_classes.argmax(axis=1)
    neighbours = [(node, other) for node, others in graph.items() for other in others]
    split = (
        torch.arange(len(train_classes)),
        torch.arange(len(train_classes), len(train_classes) + _PLANETOID_VALID),
        torch.from_numpy(np.sort(test)),
    )
    return Prepared(
        Graph.from_edges(
            torch.tensor(neighbours).t(),
            num_nodes=num_nodes,
            x=_features(_stacked(words, test_words, test, num_nodes)),
            y=torch.from_numpy(labels),
        ),
        NodeSplit(*split),
    )


def _read_npz(file: str, folder: Path) -> Prepared:
    with np.load(folder / "raw" / f"{file}.npz") as arrays:
        links, words = _csr(arrays, "adj").tocoo(), _csr(arrays, "attr")
        labels = torch.from_numpy(arrays["labels"]).long()
    words.data = (words.data > 0).astype(np.float32)  # that a word occurs counts, not how often
    edge_index = torch.from_numpy(np.stack([links.row, links.col]))
    return Prepared(Graph.from_edges(edge_index, num_nodes=len(labels), x=_features(words), y=labels))


def _read_wikics(folder: Path) -> Prepared:
    content = json.loads((folder / "raw" / "data.json").read_text(encoding="utf-8"))
    links = [(node, target) for node, targets in enumerate(content["links"]) for target in targets]
    labels = torch.tensor(content["labels"], dtype=torch.int64)
    graph = Graph.from_edges(
        torch.tensor(links).t(),
        num_nodes=len(labels),
        x=torch.tensor(content["features"], dtype=torch.float32),
        y=labels,
        directed=True,
    )
    return Prepared(graph)


def _csr(arrays: Any, name: str) -> Any:
    from scipy.sparse import csr_matrix

    parts = tuple(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    matrix = csr_matrix(parts, arrays[f"{name}_shape"])
    matrix.sum_duplicates()
    return matrix


def _stacked(top: Any, scattered: Any, rows: Any, num_rows: int) -> Any:
    """`top`, and below it row ``i`` of `scattered` at ``rows[i]``."""
    from scipy.sparse import csr_matrix

    top, scattered = top.tocoo(), scattered.tocoo()
    row = np.concatenate([top.row, rows[scattered.row]])
    col = np.concatenate([top.col, scattered.col])
    return csr_matrix((np.concatenate([top.data, scattered.data]), (row, col)), (num_rows, top.shape[1]))


def _features(matrix: Any) -> Features:
    """Sparse or dense as `graph.compact` would choose, without the way through a dense matrix."""
    matrix.eliminate_zeros()
    rows, cols = matrix.shape
    if matrix.nnz >= SPARSE_BELOW_DENSITY * rows * cols:
        return torch.from_numpy(matrix.toarray()).float()
    row = torch.from_numpy(np.arange(rows).repeat(np.diff(matrix.indptr)))
    structure, order = build_structure(row, torch.from_numpy(matrix.indices).long(), rows, cols)
    return SparseFeatures(structure, torch.from_numpy(matrix.data).float()[order])
