"""Graph encoders. An encoder returns the output of every layer; which of them matter is the method's business."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from bandana.engine.dropout import dropped_product
from bandana.engine.propagate import EdgeWeights, propagate, propagate_with_dropout
from bandana.engine.structure import Structure
from bandana.graph import Features, SparseFeatures
from bandana.method import GraphSpec
from bandana.parts.feature_masks import hide

ActivationName = Literal["elu", "relu", "prelu", "leaky", "none"]
RRELU_MEAN_SLOPE = (1 / 8 + 1 / 3) / 2


def activation(name: ActivationName) -> nn.Module:
    """An activation; `leaky` has the mean slope of RReLU, which is what RReLU is outside training.

    In place where it can be: a layer's output before its activation is needed by nobody else.
    """
    match name:
        case "elu":
            return nn.ELU(inplace=True)
        case "relu":
            return nn.ReLU(inplace=True)
        case "leaky":
            return nn.LeakyReLU(RRELU_MEAN_SLOPE, inplace=True)
        case "prelu":
            return nn.PReLU()
        case "none":
            return nn.Identity()


class Stack(nn.Module):
    """Layers ``act(norm(Â · dropout(X) · W + b))`` of any widths, over edge weights that the caller chooses."""

    hears_graph = True
    """Whether edges count; a network that takes the place of others may leave them out."""

    def __init__(
        self,
        widths: Sequence[int],
        *,
        name: ActivationName = "relu",
        activate_last: bool = True,
        shared_activation: bool = False,
        bias: bool = True,
        batch_norm: bool = False,
        momentum: float = 0.1,
        dropout: float = 0.0,
    ) -> None:
        """Build the layers.

        Args:
            widths: Of the input and of every layer's output.
            name: Activation after each layer.
            activate_last: Whether the last layer has one too.
            shared_activation: One module for all layers, which matters where it learns (`prelu`).
            bias: Add a bias; batch norm brings its own.
            batch_norm: Normalise over the nodes, in front of the activation.
            momentum: Share of the newest batch in batch norm's running statistics.
            dropout: Share of each layer's input that is dropped in training.
        """
        super().__init__()
        self.dropout = dropout
        self.weights = nn.ParameterList(torch.empty(before, after) for before, after in pairwise(widths))
        # Batch norm subtracts the mean, and with it any bias in front of it.
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:] if bias and not batch_norm)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width, momentum=momentum) for width in widths[1:] if batch_norm)
        first = activation(name)
        inner = [first if shared_activation or not depth else activation(name) for depth in range(len(widths) - 2)]
        last = (first if shared_activation or not inner else activation(name)) if activate_last else nn.Identity()
        self.activations = nn.ModuleList([*inner, last])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform weights, zero biases, identity norms."""
        for weight in self.weights:
            nn.init.xavier_uniform_(weight)
        for bias in self.biases:
            nn.init.zeros_(bias)
        for norm in self.norms:
            norm.reset_parameters()  # type: ignore[operator]

    def forward(
        self,
        x: Features,
        structure: Structure | None = None,
        layers: Sequence[EdgeWeights] | None = None,
        generator: torch.Generator | None = None,
        hidden_nodes: Tensor | None = None,
    ) -> list[Tensor]:
        """Encode all nodes.

        Args:
            x: ``[nodes, features]``.
            structure: Edges by receiving node.
            layers: Edge weights of each layer; None leaves the graph out, which makes this a perceptron.
            generator: Randomness for dropout; None for evaluation.
            hidden_nodes: Nodes whose features count as zero.

        Returns:
            One ``[nodes, width]`` per layer.
        """
        hidden, outputs = x, []
        for depth, weight in enumerate(self.weights):
            mixed = project(hidden, weight, self.dropout, generator)
            if depth == 0 and hidden_nodes is not None:
                mixed = hide(mixed, hidden_nodes)
            if structure is not None and layers is not None and self.hears_graph:
                mixed = propagate(structure, layers[depth].values, mixed, layers[depth].loop)
            if self.norms:
                mixed = self.norms[depth](mixed)
            elif self.biases:
                mixed = mixed + self.biases[depth]
            hidden = self.activations[depth](mixed)
            outputs.append(hidden)
        return outputs


MOST_LAYERS = 1000
"""Far beyond what anyone has trained: a slip of the pen is to be refused, and not to be built."""


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
        if not 1 <= self.num_layers <= MOST_LAYERS:
            raise ValueError(f"num_layers: must be from 1 to {MOST_LAYERS}, got {self.num_layers}")
        if self.width < 1:
            raise ValueError(f"width: must be at least 1, got {self.width}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: must lie in [0, 1), got {self.dropout}")
        if self.node_embedding < 0:
            raise ValueError(f"node_embedding: must be 0 or a width, got {self.node_embedding}")


class GCNEncoder(Stack):
    """Equal layers as `EncoderConfig` describes them, on the features or on a learned vector per node."""

    def __init__(self, config: EncoderConfig, spec: GraphSpec) -> None:
        widths = [config.node_embedding or spec.num_features, *[config.width] * config.num_layers]
        super().__init__(widths, name=config.activation, batch_norm=config.batch_norm, dropout=config.dropout)
        self.config = config
        self.embedding: nn.Parameter | None = None
        if config.node_embedding:
            self.embedding = nn.Parameter(torch.empty(spec.num_nodes, config.node_embedding))
            nn.init.xavier_uniform_(self.embedding)

    def forward(
        self,
        x: Features,
        structure: Structure | None = None,
        layers: Sequence[EdgeWeights] | None = None,
        generator: torch.Generator | None = None,
        hidden_nodes: Tensor | None = None,
    ) -> list[Tensor]:
        x = x if self.embedding is None else self.embedding
        return super().forward(x, structure, layers, generator, hidden_nodes)


def project(x: Features, weight: Tensor, drop: float, generator: torch.Generator | None) -> Tensor:
    """``dropout(x) @ weight``. Dropping stored values of sparse features is the same distribution: zeros stay zero."""
    if isinstance(x, SparseFeatures):
        return propagate_with_dropout(x.structure, x.values, weight, drop, generator)
    return dropped_product(x, weight, drop, generator)
