"""What an epoch takes of a card whose cores are shared: kernels of a process that may use a part of them.

    python benchmarks/shared_card.py cora --tasks node --precisions float32 tf32 --shares 100 6

A kernel that is short because it has the whole card to itself says little about many processes at once. Given 6 % of
the cores, what it takes times 0.06 is what it costs the card while others fill the rest. Shares need NVIDIA's
multi-process service, which is started for as long as this runs.
"""

import argparse
import os

import torch

from bandana.devices import SHARE, resolve_device, shared_gpu
from bandana.experiment import profile
from bandana.paper.cookbook import recipe
from bandana.training.profile import Operation
from bandana.workers import carry_out


def kernels_of(dataset: str, task: str, precision: str) -> list[Operation]:
    """The operations of an epoch of Bandana's recipe, the dearest first."""
    return profile(recipe("bandana", dataset, task, {"training.precision": precision}))  # type: ignore[arg-type]


def table(title: str, operations: list[Operation], share: int, rows: int) -> str:
    """The dearest operations, alone and as parts of the card, below their sum."""
    total = sum(operation.milliseconds for operation in operations)
    lines = [f"{title} at {share} %: {total:.3f} ms, {total * share / 100:.3f} ms of the whole card"]
    lines += [
        f"{one.milliseconds:11.4f} ms{one.calls:7.1f}x{one.milliseconds * share / 100:10.4f}  {one.name[:90]}"
        for one in operations[:rows]
    ]
    return "\n".join(lines)


def main() -> None:
    """Profile what is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--tasks", nargs="+", default=["node", "link"])
    parser.add_argument("--precisions", nargs="+", default=["float32"])
    parser.add_argument("--shares", nargs="+", type=int, default=[100, 6], help="per cent of the cores")
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args()
    device = resolve_device("cuda")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(device)}")
    wanted = [
        (dataset, task, precision)
        for dataset in options.datasets
        for task in options.tasks
        for precision in options.precisions
    ]
    for share in options.shares:
        os.environ[SHARE] = str(share)
        with shared_gpu(device, 2):  # two, as one would need no service
            for outcome in carry_out(kernels_of, wanted):
                title = " ".join(outcome.arguments)
                failed = f"{title} at {share} %: {outcome.failure}"
                print(failed if outcome.failure else table(title, outcome.result, share, options.rows), flush=True)


if __name__ == "__main__":
    main()
