"""GraphSAGE layers: the mean of a node's neighbours through one map, and the node itself through another."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from bandana.engine.propagate import mean_weights, propagate
from bandana.engine.structure import Structure
from bandana.graph import Features
from bandana.parts.encoders import ActivationName, activation, project


class SageStack(nn.Module):
    """Layers ``act(mean of neighbours of dropout(X) · W + dropout(X) · V + b)`` of any widths."""

    def __init__(self, widths: Sequence[int], *, name: ActivationName = "relu", dropout: float = 0.0) -> None:
        """Build the layers.

        Args:
            widths: Of the input and of every layer's output.
            name: Activation after each layer.
            dropout: Share of each layer's input that is dropped in training.
        """
        super().__init__()
        self.dropout = dropout
        shapes = list(pairwise(widths))
        self.neighbours = nn.ParameterList(torch.empty(shape) for shape in shapes)
        self.own = nn.ParameterList(torch.empty(shape) for shape in shapes)
        self.biases = nn.ParameterList(torch.empty(width) for width in widths[1:])
        self.activations = nn.ModuleList(activation(name) for _ in shapes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All uniform up to one over the root of the layer's input width, as torch's own linear layers."""
        for layer in zip(self.neighbours, self.own, self.biases, strict=True):
            bound = 1 / math.sqrt(max(layer[0].shape[0], 1))
            for parameter in layer:
                nn.init.uniform_(parameter, -bound, bound)

    def forward(
        self, x: Features, structure: Structure, weight: Tensor | None, generator: torch.Generator | None = None
    ) -> list[Tensor]:
        """Encode all nodes.

        Args:
            x: ``[nodes, features]``.
            structure: Edges by receiving node.
            weight: ``[edges]`` edge weights, which the means are weighed with; None means ones.
            generator: Randomness for dropout; None for evaluation.

        Returns:
            One ``[nodes, width]`` per layer.
        """
        hidden, outputs, shares = x, [], mean_weights(structure, weight)
        layers = zip(self.neighbours, self.own, self.biases, self.activations, strict=True)
        for neighbours, own, bias, activate in layers:
            # Both maps read the same input: what is dropped is dropped for both.
            both = project(hidden, torch.cat([neighbours, own], dim=1), self.dropout, generator)
            around, itself = both.chunk(2, dim=1)
            hidden = activate(propagate(structure, shares, around) + itself + bias)
            outputs.append(hidden)
        return outputs
