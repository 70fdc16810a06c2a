"""Steps of training: taken as they are written, or recorded once on a GPU and replayed.

A step of a small graph is 120 to 150 short kernels, and launching them from Python takes longer than running them. A
recording (CUDA graph) launches them all at once. What differs from step to step (the batch's links, the number of the
step and of the epoch, the places of the random generators) is written into fixed memory before each replay, so that a
replayed step draws the same numbers as the step that it stands for.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bandana.method import Batch, Clock, Method, RecordedClock

WARM_UP = 3
"""Times that something is done as written before it is recorded: by then, all is compiled and allocated."""


class Recording(NamedTuple):
    """A recorded step: what to replay, where it reads the links of its batch, and where it leaves the loss."""

    graph: torch.cuda.CUDAGraph
    links: Tensor
    loss: Tensor


@dataclass(eq=False)
class Steps:
    """How one training takes its steps, by replay where that is possible; see `Method.turns`."""

    method: Method
    optimizers: Mapping[str, torch.optim.Optimizer]
    clip_norm: float
    precision: str
    device: torch.device
    _written: Counter[int] = field(init=False, default_factory=Counter)
    """Steps taken as written, by the number of links in the batch."""
    _recordings: dict[int, Recording] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        # Made before any recording: what is made inside one is made anew in every replay.
        self._time = RecordedClock.on(self.device)

    def take(self, batch: Batch, clock: Clock) -> Tensor:
        """Move the weights; return the loss, which the next step may overwrite."""
        size = batch.links.numel()
        if self._written[size] >= WARM_UP and self.device.type == "cuda" and self.method.replayable:
            return self._replay(batch, clock)
        self._written[size] += 1
        with matmul_precision(self.precision):
            return self._take_as_written(batch, clock)

    def _take_as_written(self, batch: Batch, clock: Clock) -> Tensor:
        total = torch.zeros((), device=self.device)
        groups = self.method.parameter_groups()
        for name, loss in self.method.turns(batch, clock):
            self.optimizers[name].zero_grad(set_to_none=True)
            loss.backward()
            if self.clip_norm:
                nn.utils.clip_grad_norm_(groups[name], self.clip_norm)
            self.optimizers[name].step()
            total += loss.detach()
        return total

    def _replay(self, batch: Batch, clock: Clock) -> Tensor:
        size = batch.links.numel()
        if size not in self._recordings:
            self._recordings[size] = self._record(batch, clock)
        recording = self._recordings[size]
        recording.links.copy_(batch.links)
        self._time.set(clock)
        recording.graph.replay()
        return recording.loss

    def _record(self, batch: Batch, clock: Clock) -> Recording:
        """Record a step without taking it."""
        graph, links = torch.cuda.CUDAGraph(), batch.links.clone()
        graph.register_generator_state(self._time.generator)
        graph.register_generator_state(self._time.epoch_generator)
        with matmul_precision(self.precision), torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            loss = self._take_as_written(batch._replace(links=links), replace(clock, recorded=self._time))
        return Recording(graph, links, loss)


class Recorded:
    """A function that is replayed from its fourth call on.

    It must do the same work each time, on tensors that stay where they are, and read nothing back to the host.
    """

    def __init__(self, function: Callable[[], Tensor]) -> None:
        self._function = function
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result = torch.empty(0)

    def __call__(self) -> Tensor:
        self._calls += 1
        if self._calls <= WARM_UP:
            return self._function()
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=torch.cuda.current_stream()):
                self._result = self._function()
        self._graph.replay()
        return self._result


class matmul_precision:  # noqa: N801 (a context, used like a function)
    """Torch's precision of float32 products, for a while."""

    def __init__(self, precision: str) -> None:
        self._wanted = precision

    def __enter__(self) -> None:
        self._before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self._wanted)

    def __exit__(self, *problem: object) -> None:
        torch.set_float32_matmul_precision(self._before)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """The same stream for everything: torch keeps a workspace for each that ever multiplied, tens of megabytes."""
    return torch.cuda.Stream(device)


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, a stream other than the default one, as recording needs it."""
    if device.type != "cuda":
        yield
        return
    stream = _stream(torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index))
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        torch.cuda.current_stream(device).wait_stream(stream)
