"""Meters for a stretch of work: time, memory of the process, memory of tensors. Each has `start` and `stop`."""

import ctypes
import gc
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch
from torch.profiler import ProfilerActivity, profile

from bandana.training.memory import highest_bytes

MEGABYTE = 1e6


class Meter(Protocol):
    """Measures what happens between `start` and `stop`."""

    def start(self) -> None: ...

    def stop(self) -> float: ...


class Stopwatch:
    """Seconds of wall time, or of another clock, such as `time.process_time` on a machine that others use too."""

    def __init__(self, device: torch.device, clock: Callable[[], float] = time.perf_counter) -> None:
        self._device, self._clock = device, clock

    def start(self) -> None:
        synchronize(self._device)
        self._started = self._clock()

    def stop(self) -> float:
        synchronize(self._device)
        return self._clock() - self._started


class ResidentPeak:
    """Megabytes by which the resident memory of the process rose at its highest; NaN where the system cannot tell.

    Linux sets the high-water mark of a process back when asked. Memory that was freed but kept by the allocator would
    hide what is used next, so it is handed back first.
    """

    def start(self) -> None:
        gc.collect()
        try:
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
            self._before = resident("VmRSS")
        except (OSError, AttributeError):
            self._before = float("nan")

    def stop(self) -> float:
        return resident("VmHWM") - self._before if self._before == self._before else self._before


class TensorPeak:
    """Megabytes by which the memory of torch's tensors rose at its highest, as its profiler counts allocations."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def start(self) -> None:
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            self._before = torch.cuda.memory_allocated(self._device)
            return
        self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self._profile.start()

    def stop(self) -> float:
        if self._device.type == "cuda":
            return (torch.cuda.max_memory_allocated(self._device) - self._before) / MEGABYTE
        self._profile.stop()
        return highest_bytes(self._profile) / MEGABYTE


def synchronize(device: torch.device) -> None:
    """Wait for the device; a CPU is never behind."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def resident(field: str) -> float:
    """Megabytes of a memory field of the process, such as VmRSS or VmHWM."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return float("nan") if found is None else int(found[1]) * 1024 / MEGABYTE
