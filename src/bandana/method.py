"""The contract between a method and everything around it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from bandana.engine.streams import generator, generator_seed
from bandana.graph import Graph

_WHOLE_EPOCH = -1  # sets these streams apart from those that end in a number of links


@dataclass(frozen=True, slots=True)
class Clock:
    """Where training stands. All randomness of a step is a function of ``seed`` and ``step`` alone.

    That is why an interrupted run continues bit for bit: no generator state has to be saved.
    """

    seed: int
    epoch: int = 0
    step: int = 0
    num_epochs: int = 1
    place: tuple[int, ...] = ()
    """Further words of its streams, where several parts of a graph take the same step: which one this is."""
    recorded: "RecordedClock | None" = None
    """Where a step that is recorded once and replayed reads the time: there `step` and `epoch` stand still."""
    generators: "Generators | None" = None
    """What several methods that take a step together draw from, one after the other."""

    @property
    def counter(self) -> int | Tensor:
        """The step, as noise that belongs to edges takes it."""
        return self.recorded.step if self.recorded else self.step

    @property
    def epoch_counter(self) -> int | Tensor:
        """The epoch, as weights that change with it take it."""
        return self.recorded.epoch if self.recorded else self.epoch

    def generator(self, device: torch.device) -> torch.Generator:
        """A fresh generator for this step. Ask once per step."""
        if self.generators:
            return self.generators.step
        return self.recorded.generator if self.recorded else generator(device, *self.step_stream)

    def epoch_generator(self, device: torch.device) -> torch.Generator:
        """A generator that starts anew with every epoch, for what all of its steps share. Ask once per step."""
        if self.generators:
            return self.generators.epoch
        return self.recorded.epoch_generator if self.recorded else generator(device, *self.epoch_stream)

    @property
    def step_stream(self) -> tuple[int, ...]:
        """Name of the randomness of this step."""
        return self.seed, self.step, *self.place

    @property
    def epoch_stream(self) -> tuple[int, ...]:
        """Name of the randomness of this epoch."""
        return self.seed, self.epoch, _WHOLE_EPOCH, *self.place


class Generators(NamedTuple):
    """Randomness of a step and of an epoch."""

    step: torch.Generator
    epoch: torch.Generator


class RecordedClock(NamedTuple):
    """The time as whoever replays a step sets it before each replay: scalar tensors, and generators in their places."""

    step: Tensor
    epoch: Tensor
    generator: torch.Generator
    epoch_generator: torch.Generator

    @classmethod
    def on(cls, device: torch.device) -> "RecordedClock":
        step, epoch = (torch.zeros((), dtype=torch.long, device=device) for _ in range(2))
        return cls(step, epoch, torch.Generator(device), torch.Generator(device))

    def set(self, clock: Clock) -> None:
        """Show the time of a step."""
        self.step.fill_(clock.step)
        self.epoch.fill_(clock.epoch)
        self.generator.manual_seed(generator_seed(*clock.step_stream))
        self.epoch_generator.manual_seed(generator_seed(*clock.epoch_stream))


class Batch(NamedTuple):
    """What one step sees: the training graph, and the links whose loss is taken in this step."""

    graph: Graph
    links: Tensor
    """Entries of `Graph.links`; all of them in a full-batch step."""


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """The shape of the graph a method is built for."""

    num_nodes: int
    num_features: int

    def __post_init__(self) -> None:
        for name, count in (("num_nodes", self.num_nodes), ("num_features", self.num_features)):
            if not 0 <= count < 1 << 63:
                raise ValueError(f"{name}: must be a count that fits into 64 bits, got {str(count)[:20]}")

    @classmethod
    def of(cls, graph: Graph) -> "GraphSpec":
        return cls(graph.num_nodes, graph.num_features)


class Method(nn.Module, ABC):
    """A way to learn node embeddings. Subclasses implement `loss` and `embed`; every other hook has a default.

    A subclass is built as ``cls(config, spec)``, names its configuration class in `Config`, and touches neither
    labels nor held-out edges: neither is in the graph it receives.
    """

    Config: ClassVar[type[Any]]
    facts: ClassVar["MethodFacts"]
    replayable: bool = False
    """Whether every step does the same work on tensors of the same shapes, reads no result back to the host, and takes
    from the clock nothing but counters and generators. Then a GPU records one step and replays it."""
    shardable: ClassVar[bool] = False
    """Whether the loss is a mean over the batch's links, in a single turn, that needs nothing of the graph beyond the
    batch. Then it can be learned from the parts of a store, by any number of processes."""

    @abstractmethod
    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """The scalar to descend at this step."""

    @abstractmethod
    def embed(self, graph: Graph) -> Tensor:
        """``[nodes, width]`` deterministic embeddings. Called in evaluation mode without gradients."""

    def prepare(self, graph: Graph) -> None:
        """Take one-off statistics of the training graph before the first step."""

    def turns(self, batch: Batch, clock: Clock) -> Iterator[tuple[str, Tensor]]:
        """The losses of one step, each with the name of the parameter group it moves, in order."""
        yield "main", self.loss(batch, clock)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The parameters that each turn moves; none at all for a floor, which is evaluated as it was built."""
        return {"main": list(self.parameters())}

    def rate_of(self, group: str) -> float:
        """The learning rate of a parameter group, as a multiple of the recipe's."""
        return 1.0

    def after_step(self, clock: Clock) -> None:
        """Update what follows the weights, such as a moving average."""

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor | None:
        """``[pairs]`` logits of the method's own link decoder for ``[2, pairs]`` nodes; None if it has none."""
        return None

    def has_decoder(self) -> bool:
        """Whether it can `score_edges`."""
        return type(self).score_edges is not Method.score_edges

    def diagnostics(self) -> dict[str, float]:
        """Numbers worth recording besides the loss, such as the mask ratio of the last step."""
        return {}


class MethodFacts(NamedTuple):
    """What ``bandana methods`` tells about a method."""

    family: str
    year: int
    paper: str
    cost: str
    tasks: tuple[str, ...] = ("node", "link")
