"""The folder that ``bandana embed`` writes and the other verbs read: vectors, graph, model, report, record.

It is written beside its place and moved there whole, so that an earlier one stays until the new one is complete.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bandana import model_folder
from bandana.data.prepared import Prepared, flatten, restore
from bandana.errors import UserError
from bandana.files import write_atomically
from bandana.graph import Graph
from bandana.own.trained import TrainedModel
from bandana.reporting.embeddings import read_embeddings

EMBEDDINGS, GRAPH, MODEL, REPORT, RECORD = "embeddings.parquet", "graph.safetensors", "model", "report.html", "run.json"
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Output:
    """What was made of a graph.

    Attributes:
        graph: With the user's ids.
        embedding: ``[nodes, width]``.
        ids: Of the rows.
        label_names: What the labels are called, or None.
        record: The rest, in plain values.
    """

    folder: Path
    graph: Graph
    embedding: Tensor
    ids: Sequence[Any]
    label_names: tuple[str, ...] | None
    record: dict[str, Any]

    def model(self) -> TrainedModel:
        """The trained model."""
        return model_folder.load(self.folder / MODEL)


def write_output(folder: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a new folder, then put it in the place of `folder`.

    Raises:
        UserError: There is something else in that place, or it cannot be written.
    """
    if folder.exists() and not (folder / RECORD).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: exists and was not made by bandana embed. Choose another folder with -o.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
            fresh = Path(scratch) / "new"
            fresh.mkdir()
            fill(fresh)
            if folder.exists():
                folder.replace(Path(scratch) / "old")
            shutil.move(fresh, folder)
    except OSError as problem:
        reason = problem.strerror or problem
        raise UserError(f"{folder}: cannot be written ({reason}). Free space or choose another folder.") from None


def save_graph(path: Path, graph: Graph) -> None:
    """Keep a graph without its ids, which stand beside the vectors."""
    tensors = {name: tensor.contiguous().clone() for name, tensor in flatten(Prepared(graph)).items()}
    metadata = {"format": str(_FORMAT), "directed": str(graph.directed)}
    write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata))


def open_output(folder: Path) -> Output:
    """Read what `bandana embed` wrote.

    Raises:
        UserError: It is not such a folder, or something in it is damaged.
    """
    if not (folder / RECORD).is_file():
        raise UserError(f"{folder}: holds no {RECORD}. Name a folder that bandana embed wrote.")
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        with safe_open(folder / GRAPH, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
        graph = restore(tensors, directed=metadata["directed"] == str(True)).graph
        names = record["label_names"]
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{folder}: damaged ({problem}). Run bandana embed again.") from None
    rows = read_embeddings(folder / EMBEDDINGS)
    if rows.vectors.shape[0] != graph.num_nodes:
        raise UserError(
            f"{folder}: {rows.vectors.shape[0]} vectors for {graph.num_nodes} nodes. Run bandana embed again."
        )
    return Output(
        folder=folder,
        graph=replace(graph, node_ids=rows.node_ids),
        embedding=rows.vectors,
        ids=rows.node_ids,
        label_names=None if names is None else tuple(names),
        record=record,
    )
