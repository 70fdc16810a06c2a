"""Small jobs of several processes on this machine, started as torchrun would start them."""

import os
import socket
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from bandana.errors import UserError
from bandana.graph import Graph
from bandana.scale.distributed import World, joined
from bandana.scale.store import Store, write_store

CLEAN_PROCESSES = get_context("forkserver")  # imports torch once, and forks before anything has run
CLEAN_PROCESSES.set_forkserver_preload(
    # The last one is what an optimiser imports when the first is built.
    ["bandana.scale.training", "bandana.registry", "safetensors.torch", "pytest", "torch._dynamo"]
)

Work = Callable[..., None]


def clustered_store(folder: Path, num_parts: int = 8, nodes_per_part: int = 12, seed: int = 0) -> Store:
    """Parts with many links inside, some between, and features that tell them apart a little."""
    random = torch.Generator().manual_seed(seed)
    num_nodes = num_parts * nodes_per_part
    part = torch.arange(num_nodes) // nodes_per_part
    inside = torch.randint(num_nodes, (2, 5 * num_nodes), generator=random)
    inside[1] = part[inside[0]] * nodes_per_part + inside[1] % nodes_per_part
    between = torch.randint(num_nodes, (2, 2 * num_nodes), generator=random)
    x = torch.randn(num_nodes, 6, generator=random) + torch.randn(num_parts, 6, generator=random)[part]
    graph = Graph.from_edges(torch.cat([inside, between], 1), num_nodes=num_nodes, x=x, y=part % 3)
    return write_store(folder, graph, part)


def start(work: Work, size: int, *arguments: Any, agent_port: int | None = None) -> list[BaseProcess]:
    """Begin ``work(world, *arguments)`` in `size` processes that have met.

    Args:
        work: A function of a module.
        size: Number of processes.
        arguments: Of the function, behind the world.
        agent_port: Where torchrun's own exchange of addresses listens; None to do without.
    """
    return launch(_meet, size, work, *arguments, agent_port=agent_port)


def launch(work: Work, size: int, *arguments: Any, agent_port: int | None = None) -> list[BaseProcess]:
    """Begin ``work(*arguments)`` in `size` processes that are told of each other, and have yet to meet."""
    told = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(agent_port or _free_port())}
    told["GLOO_SOCKET_IFNAME"] = "lo"  # a machine's own name need not lead anywhere
    told["TORCHELASTIC_USE_AGENT_STORE"] = str(agent_port is not None)
    processes = [
        CLEAN_PROCESSES.Process(target=_work, args=(work, {**told, "RANK": str(rank)}, arguments))
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    return processes


def finish(processes: list[BaseProcess], patience: float = 60) -> list[int | None]:
    """Wait for the processes to end; return their exit codes."""
    ends = time.monotonic() + patience
    for process in processes:
        process.join(max(ends - time.monotonic(), 0))
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return codes


def _work(work: Work, told: dict[str, str], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ |= told
    try:
        work(*arguments)
    except UserError:
        raise SystemExit(2) from None  # as the command line does


def _meet(work: Work, *arguments: Any) -> None:
    with joined(torch.device("cpu"), patience_seconds=20) as world:
        work(world, *arguments)


def alone(work: Work, *arguments: Any) -> None:
    """The same in this process."""
    work(World(0, 1, torch.device("cpu")), *arguments)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
