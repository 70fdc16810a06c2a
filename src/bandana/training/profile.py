"""Where the time of training goes, operation by operation."""

from dataclasses import dataclass, replace

import torch
from torch.profiler import ProfilerActivity, profile

from bandana.graph import Graph
from bandana.method import Method
from bandana.training.trainer import TrainingConfig, TrainingState, pretrain

WARM_UP_EPOCHS, PROFILED_EPOCHS = 10, 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """What one kind of operation costs in an epoch, itself alone."""

    name: str
    calls: float
    milliseconds: float
    share: float


def profile_training(method: Method, graph: Graph, config: TrainingConfig, *, seed: int) -> list[Operation]:
    """Train a few epochs and return the operations of the later ones, the dearest first.

    On a GPU these are its kernels, on a CPU torch's operators; a floor has none. The method is left partly trained.
    """
    if not method.parameter_groups():
        return []
    on_gpu = graph.device.type == "cuda"
    recording = profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU], acc_events=True)

    def watch(state: TrainingState) -> None:
        if state.epoch == WARM_UP_EPOCHS:
            recording.start()

    epochs = WARM_UP_EPOCHS + PROFILED_EPOCHS
    pretrain(
        method, graph, replace(config, epochs=epochs, evaluate_every=epochs, warmup_epochs=0), seed=seed, on_epoch=watch
    )
    if on_gpu:
        torch.cuda.synchronize()
    recording.stop()
    events = recording.key_averages()
    spent = {event.key: event.self_device_time_total if on_gpu else event.self_cpu_time_total for event in events}
    total = sum(spent.values()) or 1.0
    operations = [
        Operation(
            name=event.key,
            calls=event.count / PROFILED_EPOCHS,
            milliseconds=spent[event.key] / PROFILED_EPOCHS / 1e3,
            share=spent[event.key] / total,
        )
        for event in events
        if spent[event.key]
    ]
    return sorted(operations, key=lambda operation: operation.milliseconds, reverse=True)
