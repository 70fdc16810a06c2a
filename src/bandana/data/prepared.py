"""What a data set's files say once they are read, and a copy of it on disk, so that the next time is quick."""

import tempfile
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

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
    except (OSError, SafetensorError):
        return None
    return restore(tensors, directed=metadata["directed"] == str(True))


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
    """What `flatten` took apart."""
    graph = Graph(
        structure=_structure("edges", tensors),
        x=tensors["x"] if "x" in tensors else SparseFeatures(_structure("x", tensors), tensors["x.values"]),
        y=tensors.get("y"),
        weight=tensors.get("weight"),
        directed=directed,
    )
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
    return Structure(*(tensors[f"{prefix}.{field.name}"] for field in fields(Structure)))
