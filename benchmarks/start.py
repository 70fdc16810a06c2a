"""How soon processes answer that have made an optimiser: forks of a process that has imported for all, against spawned.

    python benchmarks/start.py --jobs 16

`first` includes the start of that process, `again` does not. Where there is a card every process opens it and takes a
step there.
"""

import argparse
import time
from unittest.mock import patch

import torch

from bandana import workers
from bandana.devices import resolve_device, shared_gpu


def take_step(device: torch.device) -> None:
    import bandana.experiment  # noqa: F401 (what a seed needs; forks have it already)

    weight = torch.ones(1000, 1000, device=device, requires_grad=True)
    (weight @ weight).sum().backward()
    torch.optim.Adam([weight]).step()
    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds_to_answers(jobs: int, device: torch.device, *, forked: bool) -> float:
    started = time.perf_counter()
    with patch.object(workers, "_CAN_FORK", forked), workers.Team(take_step, jobs) as team:
        for outcome in team.carry_out([(device,)] * jobs):
            assert not outcome.failure, outcome.failure
        return time.perf_counter() - started


def main() -> None:
    """Begin as many processes as the command line says, one way and the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=6, help="processes, two or more")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device = resolve_device(options.device)
    print(f"torch {torch.__version__}, {device.type}, {options.jobs} processes")
    with shared_gpu(device, options.jobs):
        spawned, first, again = (
            seconds_to_answers(options.jobs, device, forked=forked) for forked in (False, True, True)
        )
    print(f"spawned {spawned:.2f} s, first forks {first:.2f} s, again {again:.2f} s")
    print(f"spawned against forked: {spawned / first:.1f}, again {spawned / again:.1f}")


if __name__ == "__main__":
    main()
