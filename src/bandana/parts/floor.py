"""What a method must beat: embeddings that nothing was learned for."""

import torch
from torch import Tensor, nn

from bandana.method import Batch, Clock, Method


class Floor(Method):
    """A method that is judged as it was built: its loss is zero, and no step moves anything."""

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        return torch.zeros((), device=batch.graph.device)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {}
