"""Features of hidden nodes, recovered from the codes of their neighbours by one linear layer over the graph."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bandana.engine.propagate import gcn_weights, propagate
from bandana.graph import Graph
from bandana.parts.feature_decoder import cosines_with_features
from bandana.parts.feature_masks import hide


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveryConfig:
    """How much it matters that the features of hidden nodes are recovered. Not asked for by default."""

    weight: float | None = None
    """Of the error in the loss; without it, no node is hidden."""
    hidden: float | None = None
    """Share of the nodes whose features are hidden; 0.3 where it is not set."""

    def __post_init__(self) -> None:
        if not 0 <= (self.weight or 0) < math.inf:
            raise ValueError(f"weight: must be a number from 0 on, got {self.weight}")
        if self.hidden is not None and not 0 < self.hidden < 1:
            raise ValueError(f"hidden: must lie in (0, 1), got {self.hidden}")
        object.__setattr__(self, "weight", self.weight or None)

    @property
    def share(self) -> float:
        return 0.3 if self.hidden is None else self.hidden


class FeatureRecovery(nn.Module):
    """``Â · hide(Z B) · W + b``: codes of hidden nodes are blanked, so that neighbours must know their features."""

    def __init__(self, width: int, num_features: int) -> None:
        super().__init__()
        self.bridge = nn.Parameter(torch.empty(width, width))
        self.weight = nn.Parameter(torch.empty(width, num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        for weight in (self.bridge, self.weight):
            nn.init.xavier_uniform_(weight)

    def loss(self, codes: Tensor, graph: Graph, nodes: Tensor) -> Tensor:
        """One minus the mean cosine between the features of some nodes and what is decoded for them.

        Args:
            codes: ``[nodes, width]`` of all nodes.
            graph: Whose features are the target, over all its edges.
            nodes: ``[m]`` the hidden ones, which are asked for.
        """
        plain = gcn_weights(graph.structure, graph.weight)
        mixed = propagate(graph.structure, plain.values, hide(codes @ self.bridge, nodes), plain.loop)
        return 1 - cosines_with_features(mixed.index_select(0, nodes), self.weight, self.bias, graph.x, nodes).mean()
