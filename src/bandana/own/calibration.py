"""How long a training will take and how much memory, before it starts: by training a small stand-in of the graph.

A stand-in has the graph's degrees and features but only some of its nodes, and is cut into as many batches per epoch.
Two sizes of it show whether the cost grows with the edges or with their square, and the larger one is scaled up.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from bandana.data.splits import count_pairs, split_edges
from bandana.engine.structure import build_structure
from bandana.graph import Features, Graph, SparseFeatures
from bandana.method import GraphSpec, Method
from bandana.training.memory import tensor_bytes
from bandana.training.trainer import TrainingConfig, TrainingState, pretrain

STAND_IN_LINKS = 20_000
SMALLER = 4
"""How many times smaller the second stand-in is."""
TIMED_EPOCHS = 2
SQUARE_ABOVE = 1.5
"""Exponents between two sizes are linear below this, quadratic above: in between there is only noise."""
TYPICAL_PROCESS = 400 << 20
EXPECTED_SHARE = 0.75
COPIES_OF_VECTORS = 6
"""Held once training is over: of the whole graph, of the graph without the held-out links, of the untrained encoder, at
unit length, in the index of the map, and in the table that is written."""
ROUNDS = 10
SEED = 0

Build = Callable[[GraphSpec], Method]


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """Of the whole training: seconds, and bytes of memory at the highest.

    Training that may stop early is expected to take three quarters of its epochs. The bytes are those of the process
    on a CPU, with judging the vectors and the report, and those on the card on a GPU.
    """

    seconds: float
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cost:
    """What one graph costs: its split, one epoch, one look at the validation links, and tensors at their highest.

    `node_bytes` are those of one vector.
    """

    links: int
    split_s: float
    epoch_s: float
    embed_s: float
    tensor_bytes: float
    node_bytes: int


def estimate(graph: Graph, build: Build, training: TrainingConfig) -> Estimate:
    """Train a stand-in for a moment and scale up.

    Args:
        graph: With its features as the method will see them, on the device to train on.
        build: Makes an untrained method.
        training: The schedule.
    """
    links = graph.links.numel()
    large = _measure(stand_in(graph, STAND_IN_LINKS), build, training, STAND_IN_LINKS / links)
    growth = square = links / large.links
    if growth > 1:
        part = STAND_IN_LINKS // SMALLER
        small = _measure(stand_in(graph, part), build, training, part / links)
        square = growth ** _power(small, large, large.epoch_s / small.epoch_s)
        per_link = (large.tensor_bytes - small.tensor_bytes) / (large.links - small.links)
        tensors = large.tensor_bytes + max(per_link, 0) * (links - large.links)
        if _power(small, large, large.tensor_bytes / small.tensor_bytes) == 2:
            tensors = large.tensor_bytes * growth**2
    else:
        tensors = large.tensor_bytes
    epochs = training.epochs * (EXPECTED_SHARE if training.patience_evaluations and training.epochs > 1 else 1)
    looks = epochs / training.evaluate_every
    seconds = growth * (large.split_s + (looks + 2) * large.embed_s) + square * epochs * large.epoch_s
    # The whole graph stays beside the training graph, and splitting sorts copies of both.
    graphs = 3 * _graph_bytes(graph)
    if graph.device.type == "cuda":
        return Estimate(seconds=seconds, bytes=round(_graph_bytes(graph) + graphs + tensors))
    vectors = COPIES_OF_VECTORS * graph.num_nodes * large.node_bytes
    return Estimate(seconds=seconds, bytes=round(resident_bytes() + graphs + tensors + vectors))


def stand_in(graph: Graph, links: int) -> Graph:
    """A random graph with about `links` links that has some of the nodes, with their degrees and features.

    Where links are many for each node, more nodes with lower degrees stand for them: so few would all be linked to each
    other. A graph that has no more links than that stands for itself.
    """
    have = graph.links.numel()
    if have <= links:
        return graph
    draw = torch.Generator().manual_seed(SEED)
    sparse_enough = math.ceil((math.sqrt(2) if graph.directed else 2) * math.sqrt(links)) + 1
    count = min(max(math.ceil(graph.num_nodes * links / have), sparse_enough), graph.num_nodes)
    nodes = torch.randperm(graph.num_nodes, generator=draw)[:count].sort().values.to(graph.device)
    popularity = graph.structure.row_sizes[nodes].double().cpu() + 1e-9
    edges = _distinct_links(popularity, links, graph.directed, draw)
    return Graph.from_edges(edges.to(graph.device), num_nodes=count, x=_rows(graph.x, nodes), directed=graph.directed)


def resident_bytes() -> int:
    """Memory of this process now; a typical number where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return TYPICAL_PROCESS
    return pages * 4096


def _measure(graph: Graph, build: Build, training: TrainingConfig, share: float) -> _Cost:
    """Train a little on a graph that stands for one of which it has a share of the links.

    Time is taken with as many batches as the whole graph would have. Memory is taken with one batch, because it hardly
    depends on the batch once that fills the buffers of the decoder, which small batches would not.
    """
    started = time.perf_counter()
    split_s = 0.0
    links = graph.links.numel()
    if 20 <= links <= 0.9 * count_pairs(graph):
        split_edges(graph, 0.05, 0.05, seed=SEED)
        split_s = time.perf_counter() - started
    peak = tensor_bytes(lambda: _train(graph, build, training, epochs=1)[0], graph.device)
    method, ends = _train(graph, build, _shrunk(training, share), epochs=1 + TIMED_EPOCHS)
    started = time.perf_counter()
    with torch.no_grad():
        z = method.embed(graph)
        z.sum().item()
    embed_s = time.perf_counter() - started
    epoch_s = min((after - before for before, after in pairwise(ends)), default=embed_s)
    return _Cost(
        links=links,
        split_s=split_s,
        epoch_s=epoch_s,
        embed_s=embed_s,
        tensor_bytes=peak,
        node_bytes=z.shape[1] * z.element_size(),
    )


def _train(graph: Graph, build: Build, training: TrainingConfig, *, epochs: int) -> tuple[Method, list[float]]:
    """A method after some epochs, and when each of them ended."""
    ends: list[float] = []

    def note(state: TrainingState) -> None:
        if graph.device.type == "cuda":
            torch.cuda.synchronize(graph.device)
        ends.append(time.perf_counter())

    method = build(GraphSpec.of(graph)).to(graph.device)
    pretrain(method, graph, replace(training, epochs=epochs, warmup_epochs=0), seed=SEED, on_epoch=note)
    return method, ends


def _shrunk(training: TrainingConfig, share: float) -> TrainingConfig:
    """The same number of batches per epoch on a graph with only a share of the links."""
    if training.edge_batch_size == 0 or share >= 1:
        return training
    return replace(training, edge_batch_size=max(round(training.edge_batch_size * share), 2))


def _power(small: _Cost, large: _Cost, ratio: float) -> int:
    return 2 if math.log(ratio) / math.log(large.links / small.links) > SQUARE_ABOVE else 1


def _distinct_links(popularity: Tensor, links: int, directed: bool, draw: torch.Generator) -> Tensor:
    """``[2, ≤ links]`` pairs of nodes in proportion to their popularity; hubs run out of new partners at some point."""
    ends, count = popularity.cumsum(0) / popularity.sum(), popularity.numel()
    keys = torch.empty(0, dtype=torch.long)
    for _ in range(ROUNDS):
        pairs = torch.searchsorted(ends, torch.rand(2, links, dtype=torch.float64, generator=draw)).clamp_(
            max=count - 1
        )
        if not directed:
            pairs = pairs.sort(0).values
        pairs = pairs[:, pairs[0] != pairs[1]]
        keys = torch.cat([keys, pairs[0] * count + pairs[1]]).unique()
        if keys.numel() >= links:
            break
    keys = keys[torch.randperm(keys.numel(), generator=draw)[:links]]
    return torch.stack([keys // count, keys % count])


def _rows(x: Features, nodes: Tensor) -> Features | None:
    if not isinstance(x, SparseFeatures):
        return x[nodes]
    if x.is_identity:
        return None
    place = torch.full((x.shape[0],), -1, device=nodes.device)
    place[nodes] = torch.arange(nodes.numel(), device=nodes.device)
    keep = place[x.structure.row] >= 0
    row, col = place[x.structure.row[keep]], x.structure.col[keep]
    structure, order = build_structure(row, col, nodes.numel(), x.shape[1])
    return SparseFeatures(structure, x.values[keep][order])


def _graph_bytes(graph: Graph) -> int:
    return 8 * (4 * graph.num_edges + 2 * graph.num_nodes)
