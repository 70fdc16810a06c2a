"""A method whose every step can be told in advance."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from bandana.graph import Graph
from bandana.method import Batch, Clock, Method

SHARES = {"fast": 1.0, "slow": 0.25}


class Slope(Method):
    """Two weights, each moved by a turn of its own down a slope of one: Adam's steps are then the learning rate."""

    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self.fast = nn.Parameter(torch.tensor([start]))
        self.slow = nn.Parameter(torch.tensor([start]))

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        return self.fast.sum()

    def turns(self, batch: Batch, clock: Clock) -> Iterator[tuple[str, Tensor]]:
        yield "fast", self.loss(batch, clock)
        yield "slow", self.slow.sum()

    def embed(self, graph: Graph) -> Tensor:
        return self.fast.expand(graph.num_nodes, 1)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {"fast": [self.fast], "slow": [self.slow]}

    def rate_of(self, group: str) -> float:
        return SHARES[group]


@pytest.fixture(scope="session")
def slope() -> type[Slope]:
    return Slope
