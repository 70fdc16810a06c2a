"""One graph attention, forward and backward, on a GPU: the kernels against the plain functions, in one run.

    python benchmarks/attention.py
    python benchmarks/attention.py photo --repeats 200

Both are recorded as CUDA graphs and replayed, as in training, with attention dropout. The error is the largest over the
output and the gradients of vectors and scores, each against the plain functions in float64, without dropout and in the
norm of the tensor. TB/s is what the kernels reach if a vector is read once per edge and head each way, and no more.
"""

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bandana.data.datasets import load
from bandana.engine import attention, kernels
from bandana.engine.attention import Shares
from bandana.engine.structure import Structure

DATASETS = ("photo", "computers", "physics")
SHAPES = ((4, 128), (1, 512))
DROP = 0.1
SEED = 0
WARM_UP = 3
FLOAT = 4


class Functions(NamedTuple):
    """A way of computing attention."""

    shares: Callable[..., Shares]
    attend: Callable[..., Tensor]


CHOSEN = Functions(attention.attention_shares, attention.attend)
PLAIN = Functions(attention.attention_shares_plainly, attention.attend_plainly)


class Inputs(NamedTuple):
    """Vectors ``[nodes, heads · width]``, scores ``[heads, nodes]`` of senders and receivers, and what pulls back."""

    h: Tensor
    sender: Tensor
    receiver: Tensor
    pull: Tensor


def draw(structure: Structure, heads: int, width: int) -> Inputs:
    generator = torch.Generator().manual_seed(SEED)
    nodes, device = structure.num_rows, structure.rowptr.device
    shapes = (nodes, heads * width), (heads, nodes), (heads, nodes), (nodes, heads * width)
    return Inputs(*(torch.randn(shape, generator=generator).to(device) for shape in shapes))


def step(
    functions: Functions, structure: Structure, inputs: Inputs, generator: torch.Generator | None
) -> tuple[Tensor, ...]:
    """The output, and the gradients of vectors and scores."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs[:3]]
    h, sender, receiver = leaves
    out = functions.attend(structure, h, functions.shares(structure, sender, receiver), DROP, generator)
    return out.detach(), *torch.autograd.grad(out, leaves, inputs.pull)


def error(functions: Functions, structure: Structure, inputs: Inputs) -> float:
    exact = step(PLAIN, structure, Inputs(*(tensor.double() for tensor in inputs)), None)
    found = step(functions, structure, inputs, None)
    return max(float((one - other).norm() / other.norm()) for one, other in zip(found, exact, strict=True))


def recorded_ms(functions: Functions, structure: Structure, inputs: Inputs, repeats: int) -> float:
    """Mean milliseconds of a replayed step."""
    generator = torch.Generator(structure.rowptr.device).manual_seed(SEED)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step(functions, structure, inputs, generator)
    torch.cuda.current_stream().wait_stream(side)
    recording = torch.cuda.CUDAGraph()
    recording.register_generator_state(generator)
    with torch.cuda.graph(recording):
        step(functions, structure, inputs, generator)
    for _ in range(WARM_UP):
        recording.replay()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        recording.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / repeats * 1e3


def measure(dataset: str, repeats: int) -> None:
    """Print a line for each shape of the heads."""
    structure = load(dataset).graph.structure.to("cuda")
    for heads, width in SHAPES:
        inputs = draw(structure, heads, width)
        plain, chosen = (recorded_ms(functions, structure, inputs, repeats) for functions in (PLAIN, CHOSEN))
        gathered = 2 * structure.num_entries * heads * width * FLOAT
        print(
            f"{dataset:10}{structure.num_rows:8}{structure.num_entries:9}{int(structure.row_sizes.max()):8}"
            f"{heads:4} x{width:4}{plain:10.3f}{chosen:11.3f}{plain / chosen:7.1f}{gathered / chosen / 1e9:7.2f}"
            f"{error(PLAIN, structure, inputs):13.1e}{error(CHOSEN, structure, inputs):13.1e}",
            flush=True,
        )


def main() -> None:
    """Measure the data sets named on the command line."""
    parser = argparse.ArgumentParser(description="Time graph attention by kernels against plain torch on a GPU.")
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--repeats", type=int, default=100)
    given = parser.parse_args()
    if not (torch.cuda.is_available() and kernels.usable(torch.device("cuda", 0), torch.float32)):
        parser.error("needs a CUDA device on which triton works")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}: attention with dropout {DROP}, both ways")
    print(
        f"{'data set':10}{'nodes':>8}{'edges':>9}{'longest':>8}{'heads':>10}{'plain ms':>10}{'kernels ms':>11}"
        f"{'ratio':>7}{'TB/s':>7}{'error: plain':>13}{'kernels':>13}"
    )
    for dataset in given.datasets:
        measure(dataset, given.repeats)


if __name__ == "__main__":
    main()
