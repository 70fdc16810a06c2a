"""Processes that train together: the only file that knows `torch.distributed`.

``torchrun`` starts the processes and tells each its number. Without it there is one, and everything here does nothing.
"""

import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, though not marked so
from torch.nn.parallel import DistributedDataParallel

from bandana.errors import UserError, first_line

_GLOO = "/gloo/"
"""What torch puts in front of whatever goes wrong between processes on a CPU: the place in gloo's source."""

_FRESH_STORE, _KNOCK = "bandana/store", timedelta(seconds=2)


@dataclass(frozen=True, eq=False, slots=True)
class World:
    """The processes of a job, seen from one of them.

    Attributes:
        rank: Number of this process.
        size: Number of processes.
        device: Where this process computes.
        sums: Group for sums inside the loss, apart from the one that exchanges gradients: the two may interleave.
    """

    rank: int
    size: int
    device: torch.device
    sums: Any = None

    @property
    def leads(self) -> bool:
        """Whether this is the one process that writes."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, known to all; gradients go the same way back."""
        if self.size == 1:
            return tensor
        total: Tensor = _Sum.apply(tensor, self.sums)  # type: ignore[no-untyped-call]
        return total

    def agree(self, value: float) -> float:
        """What the leading process says."""
        if self.size == 1:
            return value
        said = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.broadcast(said, src=0, group=self.sums)
        return float(said)

    def wait(self) -> None:
        """Until every process has come as far."""
        if self.size > 1:
            dist.barrier(group=self.sums)

    def share(self, module: nn.Module) -> nn.Module:
        """A module whose gradients are averages over the processes."""
        if self.size == 1:
            return module
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the name is old, and the new one does something else
            shared = DistributedDataParallel(module, broadcast_buffers=False)
        # The last to go ends the group's threads. The reducer would hold Python's lock meanwhile, which they may want
        # for what a lost peer left behind: both would wait for ever. What Python knows as the group lets go of it, and
        # what a module was given last goes last.
        vars(shared)["outlives the reducer"] = shared.process_group
        return shared

    def divide(self, count: int) -> range:
        """The places out of `count` that are this process's: equally many for each, in the order of the processes.

        Raises:
            UserError: They do not divide.
        """
        if count % self.size:
            raise UserError(
                f"shards.groups_per_step: {count} groups cannot be shared out equally among {self.size} processes; "
                f"set it to a multiple of {self.size}, or start another number of processes."
            )
        own = count // self.size
        return range(self.rank * own, (self.rank + 1) * own)


@contextmanager
def joined(device: torch.device, patience_seconds: float) -> Iterator[World]:
    """Meet the other processes of the job, if ``torchrun`` started any.

    Args:
        device: CPU or CUDA; each process of a machine takes a GPU of its own.
        patience_seconds: Silence after which the others are given up.

    Raises:
        UserError: Another process ended or fell silent, or this one has no GPU of its own.
    """
    size = started_processes()
    if size == 1:
        yield World(0, 1, device)
        return
    rank = int(os.environ["RANK"])
    if device.type == "cuda":
        device = _own_gpu(int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    patience = timedelta(seconds=patience_seconds)
    try:
        _meet("nccl" if device.type == "cuda" else "gloo", rank, size, patience)
        yield World(rank, size, device, dist.new_group(timeout=patience))
    except RuntimeError as problem:
        if not _lost_a_peer(problem):
            raise
        raise UserError(
            f"Process {rank} of {size}: another process of this job ended, or was silent for {patience_seconds:g} s "
            f"({_without_places(problem)}); start the same command again, and it goes on from the last checkpoint."
        ) from None
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _own_gpu(place: int) -> torch.device:
    """The GPU of the process that has this place on its machine; NCCL does not let two processes share one."""
    count = torch.cuda.device_count()
    if place >= count:
        raise UserError(
            f"--device cuda: process {place + 1} of this machine has no GPU of its own, as there are {count}; start at "
            f"most {count} (--nproc-per-node {count}), or use --device cpu."
        )
    return torch.device("cuda", place)


def _meet(backend: str, rank: int, size: int, patience: timedelta) -> None:
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        dist.init_process_group(backend, timeout=patience)
        return
    store = _fresh_store(rank, size, patience)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=patience)


def _fresh_store(rank: int, size: int, patience: timedelta) -> TCPStore:
    """A place to exchange addresses that has never seen another launch.

    The one that ``torchrun`` offers outlives a restart, and still holds the addresses of processes that are gone
    (pytorch/pytorch, issue 135712). So it only passes on where the leading process has opened a new one; whoever reads
    an address from before the restart finds nobody there and reads again.
    """
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    offered = TCPStore(host, port, is_master=False, timeout=patience)
    if rank == 0:
        fresh = TCPStore(host, 0, size, is_master=True, timeout=patience, wait_for_workers=False)
        offered.set(_FRESH_STORE, str(fresh.port))
        return fresh
    ends = time.monotonic() + patience.total_seconds()
    while True:
        address = int(offered.get(_FRESH_STORE))
        try:
            found = TCPStore(host, address, size, is_master=False, timeout=_KNOCK, wait_for_workers=False)
        except dist.DistNetworkError:
            if time.monotonic() > ends:
                raise
            continue
        found.set_timeout(patience)
        return found


def started_processes() -> int:
    """How many processes this job has; known before they meet."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def leading() -> bool:
    """Whether this process is the only one, or the one that writes; known before they meet."""
    return os.environ.get("RANK", "0") == "0"


def _lost_a_peer(problem: RuntimeError) -> bool:
    return isinstance(problem, dist.DistError) or _GLOO in str(problem)


def _without_places(problem: RuntimeError) -> str:
    """What went wrong, without the places in torch's source."""
    return first_line(re.sub(r"\[/[^]]*\]\s*", "", str(problem))) or type(problem).__name__


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = tensor.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None
