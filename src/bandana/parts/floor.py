"""What a method must beat: embeddings that nothing was learned for."""

import torch
from torch import Tensor, nn

from bandana.graph import Graph, dense
from bandana.method import Batch, Clock, Method
from bandana.parts.readout import smooth

USUAL_STEPS = 2
"""Of smoothing: Wu et al., ICML 2019, section 4."""


class Floor(Method):
    """A method that is judged as it was built: its loss is zero, and no step moves anything."""

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        return torch.zeros((), device=batch.graph.device)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {}


def smoothed(graph: Graph, steps: int = USUAL_STEPS) -> Tensor:
    """``[nodes, features]`` features after some steps of a GCN's propagation, ``Âᵏ X``."""
    return smooth(dense(graph.x), graph, steps)
