"""What a data set's files say once they are read, and a copy of it on disk, so that the next time is quick."""

import tempfile
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bandana.data.splits import NodeSplit, Pairs
from bandana.engine.structure import Structure
from bandana.graph import Graph, SparseFeatures


class Prepared(NamedTuple):
    """A graph as it was published, with the published split where there is one.

    Attributes:
        graph: The whole graph, or the training part of it where links are held out.
        node_split: Official training, validation and test nodes.
        held_out: Official validation and test pairs.
    """

    graph: Graph
    node_split: NodeSplit | None = None
    held_out: tuple[Pairs, Pairs] | None = None


def remember(path: Path, fingerprint: str, prepared: Prepared) -> None:
    """Write a copy to `path` in one step. Where nothing can be written there is none: it only saves time."""
    metadata = {"fingerprint": fingerprint, "directed": str(prepared.graph.directed)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, ignore_cleanup_errors=True) as scratch:
            fresh = Path(scratch) / path.name
            save_file(flatten(prepared), fresh, metadata)
            fresh.replace(path)
    except (OSError, SafetensorError):
        return


def recall(path: Path, fingerprint: str) -> Prepared | None:
    """The copy at `path`, if it is whole and was made of the files that `fingerprint` stands for."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("fingerprint") != fingerprint:
                return None
            # Copied into aligned memory: the last bits of a matrix product depend on where its operands begin.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
        return restore(tensors, directed=metadata["directed"] == str(True))
    except (OSError, SafetensorError, ValueError, KeyError):
        return None


def flatten(prepared: Prepared) -> dict[str, Tensor]:
    """Everything as named tensors."""
    graph, nodes, held_out = prepared
    tensors = _name("edges", graph.structure)
    if isinstance(graph.x, SparseFeatures):
        tensors |= {**_name("x", graph.x.structure), "x.values": graph.x.values}
    else:
        tensors["x"] = graph.x
    if nodes is not None:
        tensors |= {f"nodes.{field.name}": getattr(nodes, field.name) for field in fields(NodeSplit)}
    for part, pairs in zip(("valid", "test"), held_out or (), strict=False):
        tensors |= {f"{part}.positive": pairs.positive, f"{part}.negative": pairs.negative}
    optional = {"y": graph.y, "weight": graph.weight}
    return tensors | {name: value for name, value in optional.items() if value is not None}


def restore(tensors: dict[str, Tensor], directed: bool) -> Prepared:
    """What `flatten` took apart.

    Raises:
        ValueError: An entry of the graph points out of it, or it is not of one piece.
    """
    graph = Graph(
        structure=_structure("edges", tensors),
        x=tensors["x"] if "x" in tensors else SparseFeatures(_structure("x", tensors), tensors["x.values"]),
        y=tensors.get("y"),
        weight=tensors.get("weight"),
        directed=directed,
    )
    _check_sizes(graph)
    nodes = held_out = None
    if "nodes.train" in tensors:
        nodes = NodeSplit(*(tensors[f"nodes.{field.name}"] for field in fields(NodeSplit)))
    if "valid.positive" in tensors:
        valid, test = (Pairs(tensors[f"{part}.positive"], tensors[f"{part}.negative"]) for part in ("valid", "test"))
        held_out = valid, test
    return Prepared(graph, nodes, held_out)


def _name(prefix: str, structure: Structure) -> dict[str, Tensor]:
    return {f"{prefix}.{field.name}": getattr(structure, field.name) for field in fields(Structure)}


def _structure(prefix: str, tensors: dict[str, Tensor]) -> Structure:
    structure = Structure(*(tensors[f"{prefix}.{field.name}"] for field in fields(Structure)))
    if not _is_sound(structure):
        raise ValueError("its edges or features point out of the graph")
    return structure


def _is_sound(structure: Structure) -> bool:
    """Whether nothing that follows its indices leaves it, which takes a tenth of the time that sorting it would."""
    entries, parts = structure.num_entries, [getattr(structure, field.name) for field in fields(Structure)]
    if not all(part.dtype == torch.int64 and part.ndim == 1 for part in parts):
        return False
    pointers = structure.rowptr, structure.transposed_rowptr
    indices = {
        "row": structure.num_rows,
        "col": structure.num_cols,
        "transposed_col": structure.num_rows,
        "transposed_entry": entries,
    }
    if not all(_ascend(pointer, entries) for pointer in pointers):
        return False
    if not all(_lie_below(getattr(structure, name), bound, entries) for name, bound in indices.items()):
        return False
    reached = torch.zeros(entries, dtype=torch.bool)
    reached[structure.transposed_entry] = True
    return bool(reached.all())


def _ascend(pointers: Tensor, end: int) -> bool:
    """Whether pointers go from 0 to the end and never back."""
    if not pointers.numel() or (int(pointers[0]), int(pointers[-1])) != (0, end):
        return False
    return bool((pointers.diff() >= 0).all())


def _lie_below(indices: Tensor, bound: int, count: int) -> bool:
    return indices.numel() == count and (not count or bool(indices.min() >= 0 and indices.max() < bound))


def _check_sizes(graph: Graph) -> None:
    """All tensors are of one graph."""
    nodes, x = graph.num_nodes, graph.x
    sizes = [graph.structure.num_cols == nodes, len(x.shape) == 2 and x.shape[0] == nodes]
    sizes += [x.values.shape == x.structure.col.shape] if isinstance(x, SparseFeatures) else []
    sizes += [
        values.shape == (size,)
        for values, size in ((graph.y, nodes), (graph.weight, graph.num_edges))
        if values is not None
    ]
    if not all(sizes):
        raise ValueError("its parts are not of one graph")
