"""One training step of Bandana on a GPU against the card's limits and against the plain reference, in one run.

    python benchmarks/gpu.py --csv gpu.csv
    python benchmarks/gpu.py cora photo --precisions float32 tf32

The floor of a step is what the card would need at least: the larger of bytes over its copy bandwidth and floating-point
operations over its matrix rate, both measured here first. README.md says how bytes and operations are counted.
"""

import argparse
import csv
import gc
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from io import StringIO
from pathlib import Path
from typing import NamedTuple, get_args

import torch
from reference import ReferenceTraining

from bandana.data.datasets import load
from bandana.data.splits import split_edges
from bandana.experiment import Experiment, build
from bandana.graph import Graph, SparseFeatures
from bandana.method import GraphSpec
from bandana.paper.cookbook import recipe
from bandana.training.trainer import Precision, TrainingState, edge_batches, pretrain

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics", "arxiv-size")
ARXIV_NODES, ARXIV_EDGES, ARXIV_FEATURES = 169_343, 1_970_000, 128
FLOAT = 4
ADDENDS = {"float32": 3, "tf32": 2, "bf16": 1}
"""Numbers of bfloat16 that a number of the decoder is written as on the way back."""
SEED = 0
WARM_UP = 15
REFERENCE_WARM_UP = 3


class Card(NamedTuple):
    """What the card can do: bytes copied per second, and operations per second by precision."""

    copy: float
    matrix: dict[str, float]


class Work(NamedTuple):
    """What a step must move and compute; `chosen` of its operations multiply by zeros and ones."""

    bytes: float
    flops: float
    chosen: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured for one data set and precision. Steps are full-batch; an epoch is one of the recipe."""

    dataset: str
    precision: str
    nodes: int
    edges: int
    step_ms: float
    reference_ms: float
    ratio: float
    epoch_ms: float
    epoch_steps: int
    peak_mb: float
    reference_peak_mb: float
    gigabytes: float
    gigaflops: float
    floor_ms: float
    times_floor: float


def seconds(action: Callable[[], object], repeats: int) -> float:
    """Mean time of an action on the GPU."""
    action()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        action()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / repeats


def measure_card() -> Card:
    """Copy a gigabyte; multiply square matrices. Three TF32 products are one of single precision too."""
    source = torch.empty(1 << 28, device="cuda")
    target = torch.empty_like(source)
    copy = 2 * FLOAT * source.numel() / seconds(lambda: target.copy_(source), 20)
    size, rates = 8192, {}
    for precision in get_args(Precision):
        torch.set_float32_matmul_precision({"float32": "highest"}.get(precision, "high"))
        a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
        rates[precision] = 2 * size**3 / seconds(lambda a=a: a @ a, 10)
    torch.set_float32_matmul_precision("highest")
    rates["float32"] = max(rates["float32"], rates["tf32"] / 3)
    return Card(copy, rates)


def count(graph: Graph, experiment: Experiment) -> Work:
    """Rows gathered, added and written once each, and the products of matrices; see README.md."""
    encoder, hidden = experiment.model.encoder, experiment.model.decoder_width
    width, layers, nodes, edges = encoder.width, encoder.num_layers, graph.num_nodes, graph.num_edges
    pairs = graph.links.numel() + edges
    if isinstance(graph.x, SparseFeatures):
        entries = graph.x.values.numel() * (1 - encoder.dropout)
        moved, flops = 2 * entries * width * FLOAT, 4 * entries * width
    else:
        moved, flops = 2 * graph.x.numel() * FLOAT, 4 * graph.x.numel() * width
    moved += layers * (2 * edges + 4 * pairs + 12 * nodes) * width * FLOAT
    decoded = layers * 2 * pairs * width * hidden
    flops += (layers - 1) * 6 * nodes * width**2 + layers * 4 * edges * width + 3 * decoded
    return Work(moved, flops, 2 * decoded)


def floor(work: Work, card: Card, precision: Precision) -> float:
    """The seconds that a step takes at least: to move its bytes, or to multiply.

    What passed the hidden layer is zeros and ones, which bfloat16 holds, so the way back of the decoder takes as many
    products in bfloat16 as the other factor has addends.
    """
    multiplied = (work.flops - work.chosen) / card.matrix[precision]
    chosen = work.chosen * ADDENDS[precision] / card.matrix["bf16"]
    return max(work.bytes / card.copy, multiplied + chosen)


def training_graph(dataset: str, experiment: Experiment) -> Graph:
    """The training edges of a data set, or random ones at the size of ogbn-arxiv with power-law degrees."""
    if dataset != "arxiv-size":
        split = experiment.split
        return split_edges(load(dataset).graph, split.valid_edges, split.test_edges, seed=SEED).train
    draw = torch.Generator().manual_seed(SEED)
    rank = torch.rand(2, int(ARXIV_EDGES * 0.507), generator=draw).square_().mul_(ARXIV_NODES).long()
    x = torch.randn(ARXIV_NODES, ARXIV_FEATURES, generator=draw)
    node_of_rank = torch.randperm(ARXIV_NODES, generator=draw)
    return Graph.from_edges(node_of_rank[rank], num_nodes=ARXIV_NODES, x=x)


def start_afresh() -> None:
    """Forget what earlier trainings held, recordings and workspaces included, and the highest memory so far."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()  # one per stream, and every recording has its own
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def train(graph: Graph, experiment: Experiment, batch: int, precision: Precision, epochs: int) -> tuple[float, float]:
    """Milliseconds of an epoch through the trainer that users run, and its peak memory in megabytes."""
    start_afresh()
    method = build(experiment, GraphSpec.of(graph), SEED).to(graph.device)
    started = 0.0

    def watch(state: TrainingState) -> None:
        nonlocal started
        if state.epoch == WARM_UP:
            torch.cuda.synchronize()
            started = time.perf_counter()

    total = WARM_UP + epochs
    schedule = replace(
        experiment.training, epochs=total, evaluate_every=total, edge_batch_size=batch, precision=precision
    )
    pretrain(method, graph, schedule, seed=SEED, on_epoch=watch)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / epochs * 1e3, torch.cuda.max_memory_allocated() / 1e6


def train_reference(graph: Graph, experiment: Experiment, epochs: int) -> tuple[float, float]:
    """The same for full-batch epochs of the reference."""
    start_afresh()
    torch.manual_seed(SEED)
    full_batch = replace(experiment.training, edge_batch_size=0)
    reference = ReferenceTraining(graph, experiment.model, full_batch)
    for _ in range(REFERENCE_WARM_UP):
        reference()
    spent = seconds(reference, epochs) * 1e3
    return spent, torch.cuda.max_memory_allocated() / 1e6


def measure(dataset: str, precisions: list[Precision], card: Card, epochs: int) -> list[Row]:
    """The rows of one data set."""
    experiment = recipe("bandana", "ogbn-arxiv" if dataset == "arxiv-size" else dataset, "node")
    graph = training_graph(dataset, experiment).to("cuda")
    work, batch = count(graph, experiment), experiment.training.edge_batch_size
    reference_ms, reference_peak = float("nan"), float("nan")
    try:
        reference_ms, reference_peak = train_reference(graph, experiment, max(epochs // 20, 2))
    except torch.cuda.OutOfMemoryError:
        print(f"{dataset}: the reference does not fit the card")
    rows = []
    for precision in precisions:
        step_ms, peak = train(graph, experiment, 0, precision, epochs)
        steps = len(list(edge_batches(graph, batch, SEED, 1)))
        epoch_ms = train(graph, experiment, batch, precision, max(epochs // steps, 5))[0] if steps > 1 else step_ms
        floor_ms = 1e3 * floor(work, card, precision)
        rows.append(
            Row(
                dataset=dataset,
                precision=precision,
                nodes=graph.num_nodes,
                edges=graph.num_edges,
                step_ms=step_ms,
                reference_ms=reference_ms,
                ratio=reference_ms / step_ms,
                epoch_ms=epoch_ms,
                epoch_steps=steps,
                peak_mb=peak,
                reference_peak_mb=reference_peak,
                gigabytes=work.bytes / 1e9,
                gigaflops=work.flops / 1e9,
                floor_ms=floor_ms,
                times_floor=step_ms / floor_ms,
            )
        )
        write(rows[-1])
    return rows


HEADER = (
    f"{'data set':11}{'precision':>10}{'step ms':>9}{'reference':>11}{'ratio':>7}{'epoch ms (steps)':>18}"
    f"{'peak MB':>9}{'reference':>11}{'GB':>7}{'GFLOP':>8}{'floor ms':>10}{'times':>7}"
)


def write(row: Row) -> None:
    """Print one line of the table."""
    print(
        f"{row.dataset:11}{row.precision:>10}{row.step_ms:9.2f}{row.reference_ms:11.1f}{row.ratio:7.1f}"
        f"{row.epoch_ms:13.2f} ({row.epoch_steps:2d}){row.peak_mb:9.0f}{row.reference_peak_mb:11.0f}"
        f"{row.gigabytes:7.2f}{row.gigaflops:8.0f}{row.floor_ms:10.3f}{row.times_floor:7.1f}",
        flush=True,
    )


def main() -> None:
    """Measure the card, then the data sets named on the command line."""
    parser = argparse.ArgumentParser(description="Time a training step on a GPU against its limits and a reference.")
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--precisions", nargs="+", default=get_args(Precision), choices=get_args(Precision))
    parser.add_argument("--epochs", type=int, default=100, help="full-batch steps that are timed")
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    args = parser.parse_args()
    card = measure_card()
    rates = ", ".join(f"{name} {rate / 1e12:.0f} TFLOP/s" for name, rate in card.matrix.items())
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}: copies {card.copy / 1e12:.2f} TB/s, {rates}")
    print(HEADER)
    with args.csv.open("w", newline="") if args.csv else nullcontext(StringIO()) as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)])
        table.writeheader()
        for dataset in args.datasets:
            table.writerows(asdict(row) for row in measure(dataset, args.precisions, card, args.epochs))
            file.flush()


if __name__ == "__main__":
    main()
