"""Seconds and megabytes of a piece of code on a device."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from bandana.devices import torch_threads

GPU_ONLY = "memory is read on a GPU only, see --device cuda"
"""Why a measurement may have no memory."""


class Cost(NamedTuple):
    """Seconds of one call, and the megabytes by which a GPU's memory rose at its highest; None on a CPU.

    On a CPU they are seconds of computing in one thread, which other programs on the machine hardly change; several
    threads wait for each other, and compute while they do.
    """

    seconds: float
    peak_mb: float | None


def measure(function: Callable[[], object], device: torch.device, repeats: int = 5) -> Cost:
    """The quickest of several calls, after one that warms up: other work on the machine can only slow a call down."""
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    with torch_threads(1):
        function()
        times = []
        before = start_peak(device)
        for _ in range(repeats):
            wait_for(device)
            started = clock()
            function()
            wait_for(device)
            times.append(clock() - started)
        peak = peak_mb(device)
    return Cost(min(times), None if peak is None else peak - before)


def start_peak(device: torch.device) -> float:
    """Count the highest memory anew; gives what is taken already, in megabytes."""
    if device.type != "cuda":
        return 0.0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device) / 1e6


def peak_mb(device: torch.device) -> float | None:
    """The highest memory of tensors since `start_peak`, in megabytes."""
    return torch.cuda.max_memory_allocated(device) / 1e6 if device.type == "cuda" else None


def wait_for(device: torch.device) -> None:
    """Let a GPU finish what it was asked for; a CPU is never behind."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
