"""The memory of tensors while something is computed."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def tensor_bytes(work: Callable[[], Any], device: torch.device) -> float:
    """By how much the memory of torch's tensors rose at its highest during `work`."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler talks on the user's terminal otherwise
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        kept = work()
    del kept
    return highest_bytes(recording)


def highest_bytes(recording: profile) -> int:
    """The highest sum of allocations that a finished profile with memory has seen on a CPU."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        recording.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    now = highest = 0
    for event in sorted((event for event in events if event.get("name") == "[memory]"), key=lambda event: event["ts"]):
        now += event["args"]["Bytes"]
        highest = max(highest, now)
    return highest
