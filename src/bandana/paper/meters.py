"""Seconds and megabytes of a piece of code on a device."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from bandana.devices import torch_threads
from bandana.training.memory import tensor_bytes

GPU_ONLY = "memory is read on a GPU only, see --device cuda"
"""Why `peak_mb` may have no memory."""


class Cost(NamedTuple):
    """Seconds of one call, and the megabytes by which the memory of tensors rose at its highest in one.

    On a CPU they are seconds of computing in one thread, which other programs on the machine hardly change; several
    threads wait for each other, and compute while they do.
    """

    seconds: float
    peak_mb: float


def measure(function: Callable[[], object], device: torch.device, repeats: int = 5) -> Cost:
    """The quickest of several calls: other work on the machine can only slow a call down.

    Those that show the memory come before, and warm up: on a CPU torch's profiler watches them, which takes time.
    """
    with torch_threads(1):
        peak = _rise_mb(function, device)
        return Cost(min(_seconds(function, device) for _ in range(repeats)), peak)


def start_peak(device: torch.device) -> None:
    """Count the highest memory anew."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_mb(device: torch.device) -> float | None:
    """The highest memory of tensors since `start_peak`, in megabytes; None on a CPU, where only `measure` knows it."""
    return torch.cuda.max_memory_allocated(device) / 1e6 if device.type == "cuda" else None


def wait_for(device: torch.device) -> None:
    """Let a GPU finish what it was asked for; a CPU is never behind."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _rise_mb(function: Callable[[], object], device: torch.device) -> float:
    """Of the second of two calls: what it frees of the first one's counts only where that was watched too."""
    tensor_bytes(function, device)
    return tensor_bytes(function, device) / 1e6


def _seconds(function: Callable[[], object], device: torch.device) -> float:
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    wait_for(device)
    started = clock()
    function()
    wait_for(device)
    return clock() - started
