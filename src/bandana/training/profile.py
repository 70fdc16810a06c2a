"""Where the time of training goes: operation by operation, between them, and in looks at the validation data."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.profiler import ProfilerActivity, profile

from bandana.graph import Graph
from bandana.method import Method
from bandana.training.steps import WARM_UP, own_stream
from bandana.training.trainer import TrainingConfig, TrainingState, pretrain

WARM_UP_EPOCHS, TIMED_EPOCHS, PROFILED_EPOCHS = 10, 10, 10
WARM_UP_LOOKS = WARM_UP + 1
"""By then a look is recorded."""
BETWEEN, LOOKS = "between operations", "looks at validation data"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """What one kind of operation costs in an epoch, itself alone."""

    name: str
    calls: float
    milliseconds: float
    share: float


def profile_training(
    method: Method,
    graph: Graph,
    config: TrainingConfig,
    *,
    seed: int,
    monitor: Callable[[], float] | None = None,
) -> list[Operation]:
    """Train a few epochs and return the operations of the later ones, the dearest first.

    On a GPU these are its kernels, on a CPU torch's operators; a floor has none. What the clock says of an epoch on a
    GPU beyond its kernels is `BETWEEN` them; a CPU's operators take longer while they are watched than by the clock.
    `LOOKS` is what an epoch bears of the monitor. The method is left partly trained.
    """
    if not method.parameter_groups():
        return []
    on_gpu = graph.device.type == "cuda"
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler writes between our tables
    recording = profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU], acc_events=True)
    clock: list[float] = []

    def watch(state: TrainingState) -> None:
        if state.epoch in (WARM_UP_EPOCHS, WARM_UP_EPOCHS + TIMED_EPOCHS):
            _wait(graph.device)
            clock.append(time.perf_counter())
        if state.epoch == WARM_UP_EPOCHS + TIMED_EPOCHS:
            recording.start()

    epochs = WARM_UP_EPOCHS + TIMED_EPOCHS + PROFILED_EPOCHS
    schedule = replace(config, epochs=epochs, evaluate_every=epochs, warmup_epochs=0)
    pretrain(method, graph, schedule, seed=seed, on_epoch=watch)
    _wait(graph.device)
    recording.stop()
    spent, calls = {}, {}
    for event in recording.key_averages():
        microseconds = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        spent[event.key], calls[event.key] = microseconds / PROFILED_EPOCHS / 1e3, event.count / PROFILED_EPOCHS
    if on_gpu:
        by_the_clock = 1e3 * (clock[1] - clock[0]) / TIMED_EPOCHS
        spent[BETWEEN], calls[BETWEEN] = max(by_the_clock - sum(spent.values()), 0.0), 1.0
    if monitor is not None:
        with own_stream(graph.device):
            look = _look(method, monitor)
        spent[LOOKS], calls[LOOKS] = look / config.evaluate_every, 1 / config.evaluate_every
    total = sum(spent.values()) or 1.0
    operations = [
        Operation(name=name, calls=calls[name], milliseconds=cost, share=cost / total)
        for name, cost in spent.items()
        if cost
    ]
    return sorted(operations, key=lambda operation: operation.milliseconds, reverse=True)


@torch.no_grad()
def _look(method: Method, monitor: Callable[[], float]) -> float:
    """Milliseconds of one look; its number is read, so a GPU is waited for."""
    method.eval()
    for _ in range(WARM_UP_LOOKS):
        monitor()
    started = time.perf_counter()
    monitor()
    return 1e3 * (time.perf_counter() - started)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
