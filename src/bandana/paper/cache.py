"""What was computed before, as one small file for each piece of work, so that nothing is computed twice."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bandana.data.datasets import find_dataset, load, presence
from bandana.files import write_text
from bandana.graph import Features, SparseFeatures
from bandana.paper.artifact import Piece
from bandana.paper.pieces import configuration, dataset_of
from bandana.paper.work import code_version, kind_of

MISSING = "missing"


class Entry(NamedTuple):
    """A piece that was done: its values, or why there are none, and how long it took."""

    values: Mapping[str, Any] | None
    failure: str
    seconds: float


@dataclass(frozen=True)
class Cache:
    """A folder of finished pieces.

    Attributes:
        folder: Where they are.
        device: Type of the device that is used now, for pieces that are about the device.
        data_root: Where raw data lie.
    """

    folder: Path
    device: str
    data_root: Path | None

    def get(self, key: str) -> Entry | None:
        """What became of the piece with this key; a damaged file counts as nothing."""
        try:
            table = json.loads(self._file(key).read_text(encoding="utf-8"))
            return Entry(table["values"], table["failure"], table["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, piece: Piece, entry: Entry, environment: Mapping[str, str]) -> None:
        """Remember what became of a piece, with its configuration beside it.

        Raises:
            UserError: The folder cannot be written to.
        """
        file = self._file(self.key(piece))
        made = datetime.now(UTC).isoformat(timespec="seconds")
        facts = {"made": made, "device": self.device, "environment": dict(environment)}
        table = {"work": piece.work, "arguments": piece.arguments, **entry._asdict(), **facts}
        write_text(file.with_suffix(".toml"), configuration(piece))
        write_text(file, json.dumps(table, indent=1, default=list) + "\n")

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def key(self, piece: Piece) -> str:
        """Equal for equal work on equal data by equal code."""
        dataset, kind = dataset_of(piece), kind_of(piece.work)
        facts = [
            piece.work,
            json.dumps(piece.arguments, sort_keys=True, default=list),
            "" if dataset is None else content_of(dataset, self.data_root),
            code_version(piece.work),
            self.device if kind.about_device else "",
        ]
        return f"{piece.work}-{hashlib.sha256(chr(10).join(facts).encode()).hexdigest()[:24]}"


@cache
def content_of(dataset: str, data_root: Path | None) -> str:
    """Changes with any edge, feature, label or official split; `MISSING` for data that are not here."""
    if presence(find_dataset(dataset), data_root) == "not here":
        return MISSING
    data = load(dataset, data_root)
    graph, digest = data.graph, hashlib.sha256()
    tensors = [graph.edge_index, *_of_features(graph.x), graph.y, graph.weight]
    if data.node_split is not None:
        tensors += [data.node_split.train, data.node_split.valid, data.node_split.test]
    if data.edge_split is not None:
        tensors += [*data.edge_split.valid, *data.edge_split.test]
    for tensor in tensors:
        digest.update(b"none" if tensor is None else _bytes(tensor))
    return digest.hexdigest()


def _of_features(x: Features) -> list[Tensor]:
    """All that tells two matrices apart: of a sparse one its size, and which of its entries is stored where."""
    if not isinstance(x, SparseFeatures):
        return [x]
    return [torch.tensor(x.shape), x.structure.rowptr, x.structure.col, x.values]


def _bytes(tensor: Tensor) -> bytes:
    array = tensor.contiguous().numpy()
    return f"{array.dtype} {array.shape}".encode() + array.tobytes()
