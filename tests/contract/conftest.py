"""The contract suite runs over the registry: a new method is checked without a line being written here.

`cls` is every method in turn; `learner` is every one that has a loss to descend, which floors have not.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method
from bandana.parts.floor import Floor
from bandana.registry import all_methods

METHODS = all_methods()
LEARNERS = {name: method for name, method in METHODS.items() if not issubclass(method, Floor)}


@pytest.fixture(params=METHODS.values(), ids=METHODS.keys())
def cls(request: pytest.FixtureRequest) -> type[Method]:
    """Each registered method."""
    method: type[Method] = request.param
    return method


@pytest.fixture(params=LEARNERS.values(), ids=LEARNERS.keys())
def learner(request: pytest.FixtureRequest) -> type[Method]:
    """Each registered method that learns."""
    method: type[Method] = request.param
    return method


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether any number was drawn so far from a generator that a clock handed out in this test."""
    handed: list[tuple[torch.Generator, Tensor]] = []
    original = Clock.generator

    def remember(clock: Clock, device: torch.device) -> torch.Generator:
        generator = original(clock, device)
        handed.append((generator, generator.get_state()))
        return generator

    monkeypatch.setattr(Clock, "generator", remember)
    return lambda: any(not generator.get_state().equal(state) for generator, state in handed)


@pytest.fixture(scope="session")
def build() -> Callable[..., Method]:
    """Build a method for a graph from its default configuration, ready for its first step."""

    def make(cls: type[Method], graph: Graph, seed: int = 0, config: object = None) -> Method:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            method = cls(cls.Config() if config is None else config, GraphSpec.of(graph))  # type: ignore[call-arg]
        method.prepare(graph)
        return method

    return make


@pytest.fixture(scope="session")
def loss_of() -> Callable[..., Tensor]:
    """The loss of a full-batch step in training mode."""

    def loss(method: Method, graph: Graph, *, seed: int = 0, step: int = 0, links: Tensor | None = None) -> Tensor:
        method.train()
        batch = Batch(graph, graph.links if links is None else links)
        return method.loss(batch, Clock(seed, epoch=1, step=step, num_epochs=10))

    return loss


@pytest.fixture(scope="session")
def embed() -> Callable[..., Tensor]:
    """The embedding as everything around a method takes it."""

    @torch.no_grad()
    def run(method: Method, graph: Graph) -> Tensor:
        method.eval()
        return method.embed(graph)

    return run
