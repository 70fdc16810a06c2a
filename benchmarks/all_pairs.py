"""The losses over all pairs of nodes on a GPU: fused kernels against the plain functions, in one run.

    python benchmarks/all_pairs.py --csv all-pairs.csv
    python benchmarks/all_pairs.py --nodes 2708 --widths 128 --precisions float32 --tilings

Milliseconds are of a loss with its gradients, recorded once and replayed, as a training on a GPU takes it. `share` is
the rate at which the fused kernels multiply over the rate at which torch multiplies large square matrices in the same
precision; products that a kernel makes of several bfloat16 ones count once. Errors are the largest against double
precision, over the largest number of the result, and are taken with the fewest nodes only. A width or a card for which
there is no kernel shows no fused time. `--tilings` prints the time of other cuts instead: rows and keys of a tile,
warps, stages.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, fields
from io import StringIO
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from bandana.engine import adjacency_loss as adjacency
from bandana.engine import info_nce as contrast
from bandana.engine import kernels
from bandana.engine.structure import Structure, build_structure
from bandana.training.steps import Recorded, matmul_precision, own_stream

PRECISIONS = {"float32": "highest", "tf32": "high", "bf16": "medium"}
TEMPERATURE = 0.4
LINKS_PER_NODE = 5
SIG_VAE_WIDTH, SIG_VAE_DRAWS = 16, 20
REPLAYS = 10
NONE = float("nan")


class Problem(NamedTuple):
    """A loss, where it stands, and the operations of the products that its kernels make.

    Attributes:
        name: Of the loss.
        loss: Of ``z``.
        z: ``[draws, nodes, width]``.
        kernel: Which one the public function takes for such a tensor, if any.
        flops: Of the fused products.
    """

    name: str
    loss: Callable[[Tensor], Tensor]
    z: Tensor
    kernel: Callable[[Tensor], object | None]
    flops: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured for a loss, a size and a precision."""

    loss: str
    nodes: int
    width: int
    draws: int
    precision: str
    plain_ms: float
    fused_ms: float
    ratio: float
    share: float
    loss_error: float
    gradient_error: float


def contrastive(nodes: int, width: int, intra: bool) -> Problem:
    """InfoNCE of two views: products for the totals, again for the gradient, and back."""
    pairs = (2 * nodes) ** 2 if intra else 2 * nodes**2

    def loss(z: Tensor) -> Tensor:
        return contrast.info_nce(z[0], z[1], TEMPERATURE, intra=intra)

    name = "contrast, both" if intra else "contrast, other"
    return Problem(name, loss, leaf(2, nodes, width), contrast._kernel_for, 6.0 * pairs * width)


def likelihood(nodes: int, width: int, draws: int) -> Problem:
    """The cross entropy of all pairs against random links, of one or several draws."""
    structure = random_links(nodes)
    weight, scale = adjacency.kipf_balance(nodes, structure.num_entries)

    def loss(z: Tensor) -> Tensor:
        return adjacency.adjacency_loss(z, structure, positive_weight=weight, scale=scale).sum()

    z = leaf(draws, nodes, width) / width**0.5
    return Problem("likelihood", loss, z, adjacency._kernel_for, 4.0 * draws * nodes**2 * width)


def problems(nodes: list[int], widths: list[int]) -> Iterator[Problem]:
    """Both losses at every size, and SIG-VAE's twenty narrow draws at the smallest."""
    for count, width in product(nodes, widths):
        yield contrastive(count, width, intra=True)
        yield contrastive(count, width, intra=False)
        yield likelihood(count, width, draws=1)
    yield likelihood(min(nodes), SIG_VAE_WIDTH, SIG_VAE_DRAWS)


def leaf(*shape: int) -> Tensor:
    """Random numbers on the card, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).cuda()


def random_links(nodes: int) -> Structure:
    """Some links of every node, without self-loops."""
    draw = torch.Generator().manual_seed(1)
    row = torch.arange(nodes).repeat_interleave(LINKS_PER_NODE)
    col = (row + torch.randint(1, nodes, row.shape, generator=draw)) % nodes
    keys = (row * nodes + col).unique()
    structure, _ = build_structure(keys // nodes, keys % nodes, nodes, nodes)
    return structure.to("cuda")


def with_gradient(problem: Problem, z: Tensor) -> tuple[Tensor, Tensor]:
    """The loss and its gradient at `z`."""
    z = z.detach().requires_grad_()
    loss = problem.loss(z)
    return loss.detach(), torch.autograd.grad(loss, z)[0]


def milliseconds(problem: Problem) -> float:
    """Of the loss with its gradient, replayed."""
    with own_stream(problem.z.device):
        step = Recorded(lambda: with_gradient(problem, problem.z)[1])
        for _ in range(5):
            step()
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(REPLAYS):
            step()
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / REPLAYS * 1e3


def matrix_rate(precision: str) -> float:
    """Operations per second of torch's product of large square matrices."""
    size = 8192
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    torch.cuda.synchronize()
    a @ a
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(REPLAYS):
        a @ a
    torch.cuda.synchronize()
    return 2 * size**3 * REPLAYS / (time.perf_counter() - started)


def largest_error(actual: Tensor, expected: Tensor) -> float:
    """Over the largest number that was expected."""
    return float((actual.double() - expected).abs().max() / expected.abs().max())


def measure(problem: Problem, precision: str, rate: float, check: bool) -> Row:
    """One row of the table."""
    draws, nodes, width = problem.z.shape
    with matmul_precision(PRECISIONS[precision]):
        with patch.object(kernels, "usable", return_value=False):
            plain_ms = milliseconds(problem)
        fused_ms = milliseconds(problem) if problem.kernel(problem.z) else NONE
        errors = [NONE, NONE]
        if check:
            exact = with_gradient(problem, problem.z.double())
            errors = [largest_error(*pair) for pair in zip(with_gradient(problem, problem.z), exact, strict=True)]
    return Row(
        loss=problem.name,
        nodes=nodes,
        width=width,
        draws=draws,
        precision=precision,
        plain_ms=plain_ms,
        fused_ms=fused_ms,
        ratio=plain_ms / fused_ms,
        share=problem.flops / (fused_ms / 1e3) / rate,
        loss_error=errors[0],
        gradient_error=errors[1],
    )


HEADER = (
    f"{'loss':16}{'nodes':>7}{'width':>6}{'draws':>6}{'precision':>10}{'plain ms':>10}{'fused ms':>10}{'ratio':>7}"
    f"{'share':>7}{'loss error':>12}{'gradient error':>16}"
)


def write(row: Row) -> None:
    """Print one line of the table."""
    print(
        f"{row.loss:16}{row.nodes:7}{row.width:6}{row.draws:6}{row.precision:>10}{row.plain_ms:10.3f}"
        f"{row.fused_ms:10.3f}{row.ratio:7.2f}{row.share:7.2f}{row.loss_error:12.1e}{row.gradient_error:16.1e}",
        flush=True,
    )


def try_tilings(problem: Problem, precision: str) -> None:
    """Print the time of every way to cut the work that the card takes, one kernel at a time."""
    from bandana.engine.kernels import info_nce, pair_likelihood
    from bandana.engine.kernels.all_pairs import Tiling

    tables = {"likelihood": pair_likelihood._TILINGS}
    if problem.name != "likelihood":
        tables = {"totals": info_nce._TOTALS, "pull": info_nce._PULL}
    (_, nodes, width), precise = problem.z.shape, PRECISIONS[precision]
    sizes = product((64, 128), (32, 64, 128), (4, 8), (1, 2))
    for kernel, size in product(tables, list(sizes)):
        tiling = Tiling(*size, returns=kernel != "totals")
        with ExitStack() as stack:
            stack.enter_context(matmul_precision(precise))
            for name, table in tables.items():
                # Where the tables end, the kernel beside the one that is tried needs some tiling too.
                some = {width: Tiling(64, 32, 4, 2, returns=name != "totals")}
                beside = table[precise] if width <= max(table[precise]) else some
                stack.enter_context(patch.dict(table, {precise: {width: tiling} if name == kernel else beside}))
            if not problem.kernel(problem.z):
                continue
            try:
                spent = f"{milliseconds(problem):.3f} ms"
            except Exception as refusal:  # too many registers or too much memory, each by its own name
                spent = type(refusal).__name__
        print(f"{problem.name}, {nodes} x {width}, {precision}, {kernel}: {size} {spent}", flush=True)


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description="Time the losses over all pairs of nodes, fused against plain.")
    parser.add_argument("--nodes", type=int, nargs="+", default=[2_708, 19_717, 34_493])
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--precisions", nargs="+", default=["float32", "tf32"], choices=list(PRECISIONS))
    parser.add_argument("--tilings", action="store_true", help="try other ways to cut the work instead")
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a CUDA device.")
    if args.tilings:
        for problem, precision in product(problems(args.nodes, args.widths), args.precisions):
            try_tilings(problem, precision)
        return
    rates = {}
    for precision in args.precisions:
        with matmul_precision(PRECISIONS[precision]):
            rates[precision] = matrix_rate(precision)
    shown = ", ".join(f"{name} {rate / 1e12:.0f} TFLOP/s" for name, rate in rates.items())
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}: {shown}")
    print(HEADER)
    with args.csv.open("w", newline="") if args.csv else nullcontext(StringIO()) as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)])
        table.writeheader()
        for problem, precision in product(problems(args.nodes, args.widths), args.precisions):
            smallest = problem.z.shape[1] == min(args.nodes)
            row = measure(problem, precision, rates[precision], check=smallest)
            write(row)
            table.writerow(asdict(row))
            file.flush()


if __name__ == "__main__":
    main()
