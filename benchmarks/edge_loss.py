"""The edge loss of decoders with many hidden units on a GPU: each of its kernels, in several tilings.

    python benchmarks/edge_loss.py
    python benchmarks/edge_loss.py cora --precisions tf32 --share 6

First the error of loss and gradients against double precision. Then milliseconds of each kernel, the best tiling first
(pairs, hidden units, columns, warps, tiles loaded ahead, programs per core, registers at most), and of the whole loss
with its own tilings and with the best. With `--share` the process may use that many per cent of the cores (see
shared_card.py), and times are also given as parts of the whole card. Tilings are compiled by several processes first.
"""

import argparse
import os
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from bandana.devices import SHARE, resolve_device, shared_gpu
from bandana.engine import edge_loss
from bandana.engine.edge_loss import DecoderWeights
from bandana.training.trainer import Precision
from bandana.workers import carry_out

TORCH_PRECISION = {"float32": "highest", "tf32": "high", "bf16": "medium"}
NAMES = ("loss", "nodes", "hidden weights", "hidden bias", "last weights", "last bias")
SORTED_FROM = 65_536  # nodes: negatives then come sorted, see engine.negatives
REPEATS, ROUNDS = 10, 3


class Shape(NamedTuple):
    """A call of the edge loss in training: small layers stand below each other."""

    nodes: int
    width: int
    hidden: int
    pairs: int
    dropout: float


SHAPES = {
    "cora": Shape(3 * 2_708, 256, 256, 3 * 3 * 4_486, 0.0),
    "physics": Shape(34_493, 256, 128, 3 * 210_768, 0.2),
    "arxiv-size": Shape(169_343, 256, 256, 3 * 998_000, 0.0),
    "photo-link": Shape(3 * 7_650, 256, 256, 3 * 3 * 101_219, 0.2),
}
"""Node recipes with more than 64 hidden units, and the one for links."""

TILINGS: dict[str, dict[str, list[tuple[Any, ...]]]] = {
    "_THERE": {
        "tf32x3": [
            (64, 256, 32, 8, 2),
            (128, 128, 32, 8, 3),
            (128, 128, 32, 8, 2),
            (64, 128, 32, 4, 3),
            (64, 128, 32, 4, 2),
        ],
        "tf32": [
            (128, 256, 32, 8, 3),
            (128, 256, 32, 8, 4),
            (128, 256, 32, 8, 2),
            (64, 256, 32, 4, 3),
            (64, 256, 32, 4, 2),
            (128, 128, 32, 8, 3),
            (128, 128, 32, 8, 2, 1, 128),
        ],
        "bf16": [
            (128, 256, 64, 8, 3),
            (128, 256, 64, 8, 2),
            (128, 256, 32, 8, 3),
            (128, 256, 32, 8, 4),
            (128, 128, 64, 4, 2),
            (128, 128, 32, 4, 3),
            (64, 256, 64, 4, 3),
            (64, 256, 64, 4, 2),
            (64, 256, 32, 4, 3),
            (64, 256, 32, 4, 2),
        ],
    },
    "_WEIGHTS": {
        precision: [
            (64, 128, 128, 4, 3, 2),
            (64, 256, 64, 4, 3, 2),
            (32, 256, 64, 4, 3, 2),
            (128, 256, 64, 8, 2, 2, 128),
            (64, 256, 64, 8, 3, 1),
            (64, 256, 64, 8, 5, 1),
            (64, 256, 64, 8, 3, 2, 128),
            (32, 256, 64, 8, 3, 2, 128),
            (64, 256, 128, 8, 3, 1),
            (32, 256, 128, 8, 3, 1),
            (64, 128, 64, 4, 3, 2),
            (64, 128, 64, 4, 3, 3, 168),
            (32, 128, 64, 4, 3, 3, 168),
        ]
        for precision in ("tf32x3", "tf32", "bf16")
    },
    "_NODES": {
        precision: [
            (64, 256, 64, 4, 1, 2),
            (32, 256, 64, 4, 1, 2),
            (32, 256, 64, 4, 1, 3, 168),
            (64, 256, 128, 8, 1, 1),
            (128, 256, 64, 4, 1, 2),
            (64, 256, 64, 4, 2, 2),
            (64, 256, 64, 4, 3, 1),
            (128, 256, 64, 8, 1, 1),
            (128, 256, 64, 8, 2, 1),
            (64, 256, 64, 8, 1, 1),
            (64, 256, 128, 8, 1, 1),
            (64, 256, 64, 4, 2, 3, 168),
            (64, 256, 32, 4, 1, 3, 168),
            (64, 256, 32, 4, 2, 3, 168),
        ]
        for precision in ("tf32x3", "tf32", "bf16")
    },
}


class Call(NamedTuple):
    """What the edge loss is asked for."""

    z: Tensor
    decoder: DecoderWeights
    pairs: Tensor
    weight: Tensor


def call(shape: Shape) -> Call:
    """Random embeddings of the size that normalised layers have, a third of the pairs sorted by their first node."""
    draw = torch.Generator("cuda").manual_seed(0)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=draw, device="cuda")

    z = normal(shape.nodes, shape.width)
    decoder = DecoderWeights(
        normal(shape.hidden, shape.width) / shape.width**0.5,
        normal(shape.hidden),
        normal(2, shape.hidden) / shape.hidden**0.5,
        normal(2),
    )
    pairs = torch.randint(shape.nodes, (2, shape.pairs), generator=draw, device="cuda")
    links = shape.pairs // 3
    pairs[0, :links] = pairs[0, :links].sort().values
    if shape.nodes > SORTED_FROM:
        pairs[0, links:] = pairs[0, links:].sort().values
    weight = torch.full((shape.pairs,), -1.0 / shape.pairs, device="cuda")
    weight[:links] = normal(links).abs() / shape.pairs
    return Call(z, decoder, pairs, weight)


def milliseconds(action: Callable[[], object], repeats: int = REPEATS) -> float:
    """Of an action that a CUDA graph repeats, the best of some rounds."""
    action()
    torch.cuda.synchronize()
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording):
        for _ in range(repeats):
            action()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    rounds = []
    for _ in range(ROUNDS):
        begin.record()
        recording.replay()
        end.record()
        torch.cuda.synchronize()
        rounds.append(begin.elapsed_time(end) / repeats)
    return min(rounds)


def stages(given: Call, rate: float, precision: str) -> dict[str, Callable[[], Any]]:
    """The three kernels of the wide edge loss, each ready to be called alone."""
    from bandana.engine.kernels import wide_edge_back as back
    from bandana.engine.kernels import wide_edge_loss as wide

    slope, offset = edge_loss.margin_layer(given.decoder)
    scale = wide.keep_scale(rate) if rate else 1.0
    seed = torch.tensor([7], device="cuda") if rate else None
    pairs = back.Pairs(given.z, *given.pairs, seed, round(wide.LEVELS / scale), precision)
    factors = pairs._replace(z=given.z.to(wide._STORED.get(precision, given.z.dtype)))
    there, folded, powers = wide._split(given.decoder.hidden_weight, slope, scale, precision)
    head = given.weight, there, given.decoder.hidden_bias, slope, offset
    bits, grad, _ = wide._to_hidden(factors, *head)
    passed = back.Passed(bits, powers, grad)
    return {
        "_THERE": lambda: wide._to_hidden(factors, *head),
        "_WEIGHTS": lambda: back.to_weights(factors, passed, slope.numel()),
        "_NODES": lambda: back.to_nodes(pairs, passed, folded),
    }


def tilings(kernel: str, hidden: int) -> dict[str, Any]:
    """Those that the package uses, by precision; they are changed here to be compared."""
    from bandana.engine.kernels import wide_edge_back, wide_edge_loss

    few = kernel == "_WEIGHTS" and hidden <= wide_edge_back._NARROW.units
    name = "_WEIGHTS_OF_FEW" if few else kernel
    own: dict[str, Any] = getattr(wide_edge_loss if kernel == "_THERE" else wide_edge_back, name)
    return own


def compile_tiling(name: str, precision: str, kernel: str, tiling: tuple[int, ...]) -> None:
    """Run a kernel once on a few pairs, which leaves it in triton's cache."""
    from bandana.engine.kernels import wide_edge_loss as wide

    torch.set_float32_matmul_precision(TORCH_PRECISION[precision])
    inside = wide.PRECISIONS[TORCH_PRECISION[precision]]
    shape = SHAPES[name]._replace(nodes=100, pairs=300)
    one = stages(call(shape), shape.dropout, inside)[kernel]
    tilings(kernel, shape.hidden)[inside] = wide.Tiling(*tiling)
    one()
    torch.cuda.synchronize()


def candidates(shapes: list[str], precisions: list[str]) -> Iterator[tuple[str, str, str, tuple[int, ...]]]:
    """What has to be compiled. Shapes with equal widths and dropout share their kernels."""
    inside = {"float32": "tf32x3"}
    kinds = {(SHAPES[name].width, SHAPES[name].hidden, SHAPES[name].dropout > 0): name for name in shapes}
    for name in kinds.values():
        for precision in precisions:
            for kernel, lists in TILINGS.items():
                for tiling in dict.fromkeys((*one[:5], 1, *one[6:]) for one in lists[inside.get(precision, precision)]):
                    yield name, precision, kernel, tiling


def errors(loss: Any, given: Call, exact: tuple[Tensor, ...]) -> str:
    """Of loss and gradients, in the norm of each."""
    total, gradients = loss(*given, 0.0, None)
    parts = zip(NAMES, (total, *gradients), exact, strict=True)
    return ", ".join(f"{name} {float((a.double() - e).norm() / e.norm()):.1e}" for name, a, e in parts)


def measure(name: str, precision: str, share: int) -> list[str]:
    """The lines of one shape and precision."""
    from bandana.engine.kernels import wide_edge_loss as wide

    torch.set_float32_matmul_precision(TORCH_PRECISION[precision])
    inside, shape = wide.PRECISIONS[TORCH_PRECISION[precision]], SHAPES[name]
    given, repeats = call(shape), REPEATS if shape.pairs < 1_000_000 and share == 100 else 3
    cores = torch.cuda.get_device_properties(0).multi_processor_count
    lines = [f"== {name} {tuple(shape)} {precision}, {share} % of the card, {cores} cores"]

    def row(title: str, spent: float) -> str:
        return f"{spent:10.4f} ms{spent * share / 100:10.4f} of the card  {title}"

    if share == 100:
        doubles = DecoderWeights(*(tensor.double() for tensor in given.decoder))
        total, gradients = edge_loss._loss_and_gradients(
            given.z.double(), doubles, given.pairs, given.weight.double(), 0.0, None, 1 << 17
        )
        lines.append(f"errors: {errors(wide.loss_and_gradients, given, (total, *gradients))}")
    generator = torch.cuda.default_generators[0]

    def whole() -> float:
        return milliseconds(lambda: wide.loss_and_gradients(*given, shape.dropout, generator), repeats)

    lines.append(row("the whole loss, with its own tilings", whole()))
    best, owns = {}, {kernel: tilings(kernel, shape.hidden)[inside] for kernel in TILINGS}
    for kernel, step in stages(given, shape.dropout, inside).items():
        own, spent, skipped = owns[kernel], {}, []
        for tiling in dict.fromkeys((tuple(own), *(wide.Tiling(*one) for one in TILINGS[kernel][inside]))):
            tilings(kernel, shape.hidden)[inside] = wide.Tiling(*tiling)
            try:
                spent[tuple(tiling)] = milliseconds(step, repeats)
            except Exception as problem:  # too much of something that the card has
                skipped.append(f"{tuple(tiling)} {traceback.format_exception_only(problem)[-1].strip()[:120]}")
        ranked = sorted(spent, key=spent.__getitem__)
        lines += [row(f"{kernel} {one}{' (own)' if one == tuple(own) else ''}", spent[one]) for one in ranked]
        lines += [f"           skipped: {kernel} {one}" for one in skipped]
        best[kernel], tilings(kernel, shape.hidden)[inside] = wide.Tiling(*ranked[0]), own
    for kernel, tiling in best.items():
        tilings(kernel, shape.hidden)[inside] = tiling
    lines.append(row("the whole loss, with the best tilings", whole()))
    for kernel, tiling in owns.items():  # this process goes on with other shapes
        tilings(kernel, shape.hidden)[inside] = tiling
    return lines


def main() -> None:
    """Compile, then measure what is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=["cora", "physics", "arxiv-size"], help=", ".join(SHAPES))
    parser.add_argument("--precisions", nargs="+", default=get_args(Precision), choices=get_args(Precision))
    parser.add_argument("--share", type=int, nargs="+", default=[100], help="per cent of the cores, one or several")
    parser.add_argument("--jobs", type=int, default=12, help="processes that compile")
    options = parser.parse_args()
    device, started = resolve_device("cuda"), time.perf_counter()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(device)}", flush=True)
    for outcome in carry_out(compile_tiling, candidates(options.shapes, options.precisions), jobs=options.jobs):
        if outcome.failure:
            print(f"not compiled: {outcome.arguments}: {outcome.failure.strip().splitlines()[-1][:150]}")
    print(f"compiled after {time.perf_counter() - started:.0f} s", flush=True)
    wanted = [(shape, precision) for shape in options.shapes for precision in options.precisions]
    for share in options.share:
        os.environ[SHARE] = str(share)
        with shared_gpu(device, 1 if share == 100 else 2):  # two, as one would need no service
            for outcome in carry_out(measure, [(*one, share) for one in wanted]):
                print(outcome.failure if outcome.failure else "\n".join(outcome.result), flush=True)
    print(f"all after {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
