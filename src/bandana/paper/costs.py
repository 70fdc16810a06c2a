"""How long a piece will take: a rough count of its operations, set right by how long others of its kind took."""

from collections.abc import Iterable, Mapping
from functools import cache
from statistics import median
from typing import Any, NamedTuple

from bandana.data.datasets import find_dataset
from bandana.paper.artifact import Piece
from bandana.paper.pieces import COST, FITTED, TRAINING

TRAININGS = {TRAINING, FITTED, COST, "manifold", "karate-masking", "ego-entropy"}
"""Kinds of work that are mostly the training of the experiment they name."""
UNTRAINED = "untrained_encoder"
ALL_PAIRS = {"gca", "grace", "seegera", "sig_vae"}
"""Methods that look at all pairs of nodes in every step."""
PAIRS_PER_EDGE = 50
"""Pairs of nodes that cost about as much as one edge."""
PROBE_EPOCHS_PER_EPOCH = 10
"""Epochs of a probe that cost about as much as one of training."""
UNITS_PER_SECOND = {"cpu": 150_000, "cuda": 5_000_000}
"""Nodes and edges that two cores, or a GPU, pass in a second of training, all layers and the decoder included."""
SECONDS = {"mask-ratio": 0.5, "statistics": 0.5, "component-masking": 0.5}
"""What work of other kinds takes until one has been seen; what is not named takes `OTHER_SECONDS`."""
OTHER_SECONDS = 10.0
EDGES_GROWN_PER_SECOND = 10_000
"""Edges of the smallest graph that growth is measured on, over all graphs that it grows to."""


class Costs(NamedTuple):
    """Seconds per unit of work: of a group of pieces that are alike, of a kind of work, or before anything is known."""

    by_group: Mapping[str, float]
    by_kind: Mapping[str, float]
    device: str

    def seconds(self, piece: Piece) -> float:
        """Expected seconds of a piece."""
        rough = 1 / UNITS_PER_SECOND[self.device] if _trains(piece) else 1.0
        rate = self.by_group.get(_group(piece), self.by_kind.get(piece.work, rough))
        return units(piece) * rate


def calibrate(finished: Iterable[tuple[Piece, float]], device: str = "cpu") -> Costs:
    """Learn from pieces that are done and the seconds they took; `device` says where to start from."""
    by_group: dict[str, list[float]] = {}
    by_kind: dict[str, list[float]] = {}
    for piece, seconds in finished:
        rate = seconds / units(piece)
        by_group.setdefault(_group(piece), []).append(rate)
        by_kind.setdefault(piece.work, []).append(rate)
    return Costs(_medians(by_group), _medians(by_kind), device)


def units(piece: Piece) -> float:
    """A count of operations: epochs times edges, or times pairs of nodes, for a training; seconds for other work."""
    if piece.work == "growth":
        return float(piece.arguments["base"][1]) / EDGES_GROWN_PER_SECOND
    if not _trains(piece):
        return SECONDS.get(piece.work, OTHER_SECONDS)
    table = piece.arguments["experiment"]
    probed = piece.work == TRAINING and table["task"] == "node"
    probe = int(table["probe"]["epochs"]) / PROBE_EPOCHS_PER_EPOCH if probed else 0
    epochs, dataset = int(table["training"]["epochs"]), str(table["dataset"])
    return epochs * _step(table["method"], dataset) + probe * _size(dataset)


def _trains(piece: Piece) -> bool:
    """Whether a training is most of the work; one of a whole table counts as such, whatever its method."""
    table = piece.arguments.get("experiment", {})
    return piece.work in TRAININGS and bool(table) and (piece.work == TRAINING or table["method"] != UNTRAINED)


def _step(method: str, dataset: str) -> float:
    nodes = find_dataset(dataset).nodes
    return nodes**2 / PAIRS_PER_EDGE if method in ALL_PAIRS else _size(dataset)


@cache
def _size(dataset: str) -> float:
    info = find_dataset(dataset)
    return info.nodes + (info.edges or 10 * info.nodes)


def _group(piece: Piece) -> str:
    table: Mapping[str, Any] = piece.arguments.get("experiment", {})
    return f"{piece.work} {table.get('method', '')}"


def _medians(rates: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in rates.items()}
