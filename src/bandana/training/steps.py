"""Steps of training: taken as they are written, or recorded once on a GPU and replayed.

A step of a small graph is two hundred short kernels, and launching them from Python takes longer than running them. A
recording (CUDA graph) launches them all at once. What differs from step to step (the batch's links, the number of the
step and of the epoch, the places of the random generators) is written into fixed memory before each replay, so that a
replayed step draws the same numbers as the step that it stands for. Steps of several trainings are recorded side by
side, and then share the card.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from bandana.method import Batch, Clock, Method, RecordedClock

WARM_UP = 3
"""Times that something is done as written before it is recorded: by then, all is compiled and allocated."""
_MOST_RECORDINGS = 16


@dataclass(eq=False)
class Turns:
    """How one training takes its steps; see `Method.turns`."""

    method: Method
    optimizers: Mapping[str, torch.optim.Optimizer]
    clip_norm: float
    precision: str
    device: torch.device
    seen: Counter[int] = field(default_factory=Counter)
    """Steps taken as written, by the number of links in the batch."""

    def __call__(self, batch: Batch, clock: Clock) -> Tensor:
        """Move the weights; return the loss."""
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

    def __post_init__(self) -> None:
        # Made before any recording: what is made inside one is made anew in every replay.
        self.time = RecordedClock.on(self.device)
        """Where a recording reads the time of its step."""


class Request(NamedTuple):
    """A step that a training wants taken."""

    turns: Turns
    batch: Batch
    clock: Clock


Result = TypeVar("Result")
Training: TypeAlias = Generator[Request, Tensor, Result]
"""A training asks for its steps one by one, gets the loss of each, and returns something in the end."""


class Recording(NamedTuple):
    """Steps recorded side by side: what to replay, where the links are read, and where the losses are left."""

    graph: torch.cuda.CUDAGraph
    links: list[Tensor]
    losses: list[Tensor]
    turns: list[Turns]


class StepTaker:
    """Takes steps, by replay where that is possible."""

    def __init__(self) -> None:
        self._recordings: dict[tuple[tuple[int, int], ...], Recording] = {}

    def take(self, requests: Sequence[Request]) -> list[Tensor]:
        """The losses of some steps, one of each training; the next call may overwrite them."""
        ready = [_is_ready(request) for request in requests]
        if not all(ready):
            return [self._take_alone(request, alone) for request, alone in zip(requests, ready, strict=True)]
        return self._replay(requests)

    def _take_alone(self, request: Request, ready: bool) -> Tensor:
        if ready:
            return self._replay([request])[0]
        request.turns.seen[request.batch.links.numel()] += 1
        with matmul_precision(request.turns.precision):
            return request.turns(request.batch, request.clock)

    def _replay(self, requests: Sequence[Request]) -> list[Tensor]:
        key = tuple((id(turns), batch.links.numel()) for turns, batch, _ in requests)
        if key not in self._recordings:
            if len(self._recordings) >= _MOST_RECORDINGS:
                self._recordings.pop(next(iter(self._recordings)))
            self._recordings[key] = _record(requests)
        recording = self._recordings[key]
        for links, (turns, batch, clock) in zip(recording.links, requests, strict=True):
            links.copy_(batch.links)
            turns.time.set(clock)
        recording.graph.replay()
        return recording.losses


def _is_ready(request: Request) -> bool:
    turns, batch, _ = request
    replayable = turns.device.type == "cuda" and turns.method.replayable
    return replayable and turns.seen[batch.links.numel()] >= WARM_UP


def _record(requests: Sequence[Request]) -> Recording:
    """Record steps without taking them, each on a stream of its own."""
    graph, losses = torch.cuda.CUDAGraph(), []
    links = [request.batch.links.clone() for request in requests]
    for turns, _, _ in requests:
        graph.register_generator_state(turns.time.generator)
        graph.register_generator_state(turns.time.epoch_generator)
    trunk = torch.cuda.current_stream()
    branches = [_stream(trunk.device, number) for number in range(len(requests))]
    with matmul_precision(requests[0].turns.precision), torch.cuda.graph(graph, stream=trunk):
        for branch, own_links, (turns, batch, clock) in zip(branches, links, requests, strict=True):
            fixed = replace(clock, recorded=turns.time)
            branch.wait_stream(trunk)
            with torch.cuda.stream(branch):
                losses.append(turns(batch._replace(links=own_links), fixed))
        for branch in branches:
            trunk.wait_stream(branch)
    return Recording(graph, links, losses, [turns for turns, _, _ in requests])


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
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    """The same few streams for everything: torch keeps a workspace for each that ever multiplied, tens of megabytes."""
    return torch.cuda.Stream(device)


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, a stream other than the default one, as recording needs it."""
    if device.type != "cuda":
        yield
        return
    stream = _stream(torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index), 0)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)
