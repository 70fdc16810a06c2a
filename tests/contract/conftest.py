"""The contract suite runs over the registry: a new method is checked without a line being written here."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method
from bandana.registry import all_methods

METHODS = all_methods()


@pytest.fixture(params=METHODS.values(), ids=METHODS.keys())
def cls(request: pytest.FixtureRequest) -> type[Method]:
    """Each registered method."""
    method: type[Method] = request.param
    return method


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
