"""Graph encoders. An encoder returns the output of every layer; which of them matter is the method's business."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bandana.engine.dropout import dropout
from bandana.engine.propagate import EdgeWeights, propagate, propagate_with_dropout
from bandana.engine.structure import Structure
from bandana.graph import Features, SparseFeatures
from bandana.method import GraphSpec

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"elu": F.elu, "relu": F.relu, "none": lambda x: x}


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderConfig:
    """A stack of equal layers: dropout, convolution, batch norm, activation."""

    num_layers: int = 2
    width: int = 256
    dropout: float = 0.8
    batch_norm: bool = True
    activation: Literal["elu", "relu", "none"] = "elu"
    node_embedding: int = 0
    """Width of a learned vector per node that replaces the features; 0 reads the features."""

    def __post_init__(self) -> None:
        if self.num_layers < 1:
            raise ValueError(f"num_layers: must be at least 1, got {self.num_layers}")
        if self.width < 1:
            raise ValueError(f"width: must be at least 1, got {self.width}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: must lie in [0, 1), got {self.dropout}")
        if self.node_embedding < 0:
            raise ValueError(f"node_embedding: must be 0 or a width, got {self.node_embedding}")


class GCNEncoder(nn.Module):
    """Graph convolutions ``act(BN(Â X W))`` over edge weights that the caller chooses for every layer."""

    def __init__(self, config: EncoderConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        self.embedding = (
            nn.Parameter(torch.empty(spec.num_nodes, config.node_embedding)) if config.node_embedding else None
        )
        widths = [config.node_embedding or spec.num_features, *[config.width] * config.num_layers]
        self.weights = nn.ParameterList(torch.empty(before, after) for before, after in pairwise(widths))
        # Batch norm subtracts the mean, and with it any bias in front of it.
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:] if not config.batch_norm)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in widths[1:] if config.batch_norm)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform weights, zero biases, identity norms."""
        for parameter in [*self.weights, *([] if self.embedding is None else [self.embedding])]:
            nn.init.xavier_uniform_(parameter)
        for bias in self.biases:
            nn.init.zeros_(bias)
        for norm in self.norms:
            norm.reset_parameters()  # type: ignore[operator]

    def forward(
        self,
        x: Features,
        structure: Structure,
        layers: Sequence[EdgeWeights],
        generator: torch.Generator | None = None,
    ) -> list[Tensor]:
        """Encode all nodes.

        Args:
            x: ``[nodes, features]``.
            structure: Edges by receiving node.
            layers: Edge weights of each layer.
            generator: Randomness for dropout; None for evaluation.

        Returns:
            One ``[nodes, width]`` per layer.
        """
        hidden: Features = x if self.embedding is None else self.embedding
        outputs: list[Tensor] = []
        for depth, weights in enumerate(layers):
            projected = project(hidden, self.weights[depth], self.config.dropout, generator)
            mixed = propagate(structure, weights.values, projected, weights.loop)
            mixed = self.norms[depth](mixed) if self.norms else mixed + self.biases[depth]
            outputs.append(ACTIVATIONS[self.config.activation](mixed))
            hidden = outputs[-1]
        return outputs


def project(x: Features, weight: Tensor, drop: float, generator: torch.Generator | None) -> Tensor:
    """``dropout(x) @ weight``. Dropping stored values of sparse features is the same distribution: zeros stay zero."""
    if isinstance(x, SparseFeatures):
        return propagate_with_dropout(x.structure, x.values, weight, drop, generator)
    return dropout(x, drop, generator) @ weight
