"""One step of training: taken as it is written, or recorded once on a GPU and replayed.

A step of a small graph is a hundred short kernels, and launching them from Python takes ten times as long as running
them. A recording (CUDA graph) launches them all at once. What differs from step to step (the batch's links, the number
of the step, the place of the random generator) is written into fixed memory before each replay, so that a replayed step
draws the same numbers as the step that it stands for.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bandana.engine.streams import generator_seed
from bandana.method import Batch, Clock, Method

Step = Callable[[Batch, Clock], Tensor]
_one_recording = Lock()  # at a time, whatever other threads train
WARM_UP_STEPS = 3
"""Steps of each batch size that are taken as written: what is compiled or allocated on first use must be, by then."""


def make_step(
    method: Method, optimizers: Mapping[str, torch.optim.Optimizer], clip_norm: float, device: torch.device
) -> Step:
    """The way to take steps on a device: returns the loss, a tensor that the next step may overwrite."""
    groups = method.parameter_groups()

    def turns(batch: Batch, clock: Clock) -> Tensor:
        total = torch.zeros((), device=device)
        for name, loss in method.turns(batch, clock):
            optimizers[name].zero_grad(set_to_none=True)
            loss.backward()
            if clip_norm:
                nn.utils.clip_grad_norm_(groups[name], clip_norm)
            optimizers[name].step()
            total += loss.detach()
        return total

    take = ReplayedTurns(turns, device) if device.type == "cuda" and method.replayable else turns

    def step(batch: Batch, clock: Clock) -> Tensor:
        loss = take(batch, clock)
        method.after_step(clock)
        return loss

    return step


class Recording(NamedTuple):
    """A recorded step: what to replay, where the links of its batch are read, and where it leaves the loss."""

    graph: torch.cuda.CUDAGraph
    links: Tensor
    loss: Tensor


class ReplayedTurns:
    """Steps that are recorded per batch size, after a few that are not, and replayed from then on."""

    def __init__(self, turns: Step, device: torch.device) -> None:
        self._turns = turns
        self._seen: Counter[int] = Counter()
        self._recordings: dict[int, Recording] = {}
        self._counter = torch.zeros((), dtype=torch.long, device=device)
        self._generator = torch.Generator(device)
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch, clock: Clock) -> Tensor:
        size = batch.links.numel()
        if self._seen[size] < WARM_UP_STEPS:
            self._seen[size] += 1
            return self._turns(batch, clock)
        recording = self._recordings.get(size) or self._record(batch, clock)
        recording.links.copy_(batch.links)
        self._counter.fill_(clock.step)
        self._generator.manual_seed(generator_seed(clock.seed, clock.step))
        recording.graph.replay()
        return recording.loss

    def _record(self, batch: Batch, clock: Clock) -> Recording:
        """Record a step without taking it."""
        graph, links = torch.cuda.CUDAGraph(), batch.links.clone()
        graph.register_generator_state(self._generator)
        fixed = replace(clock, device_step=self._counter, device_generator=self._generator)
        stream = torch.cuda.current_stream()
        with _one_recording, torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
            loss = self._turns(batch._replace(links=links), fixed)
        self._recordings[links.numel()] = Recording(graph, links, loss)
        return self._recordings[links.numel()]
