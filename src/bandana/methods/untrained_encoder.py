"""Untrained encoder: the floor that knows the graph and has learned nothing.

Idea. A GCN with random weights already averages features over neighbourhoods, and a random projection keeps most of
what it is given. Much of what a trained encoder scores is this; only the rest was learned.

Equations and where they are:
    H_k = elu(Â H_{k-1} W_k), H_0 = X, W_k Xavier-uniform                parts.encoders.Stack, engine.gcn_weights
    Z = [H_1 ‖ … ‖ H_K], or H_K alone                                    `UntrainedEncoder.embed`

Paper: none of its own; Veličković et al., "Deep Graph Infomax", ICLR 2019, sets such an encoder beside its own.
Deviations: neither biases nor batch norm, which at their initial values do nothing in evaluation.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bandana.engine.propagate import gcn_weights
from bandana.graph import Graph
from bandana.method import GraphSpec, MethodFacts
from bandana.parts.encoders import Stack
from bandana.parts.floor import Floor
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class UntrainedEncoderConfig:
    """The shape of the encoder."""

    num_layers: int = 2
    width: int = 256
    activation: Literal["elu", "relu", "none"] = "elu"
    readout: Literal["concat", "last"] = "concat"
    """What an embedding is: all layers side by side, or the last one."""

    def __post_init__(self) -> None:
        if self.num_layers < 1:
            raise ValueError(f"num_layers: must be at least 1, got {self.num_layers}")
        if self.width < 1:
            raise ValueError(f"width: must be at least 1, got {self.width}")


@register("untrained_encoder")
class UntrainedEncoder(Floor):
    """A GCN at its initial weights."""

    Config = UntrainedEncoderConfig
    facts = MethodFacts(
        family="floor",
        year=2019,
        paper="Veličković et al., Deep Graph Infomax, ICLR 2019 (as a row of its tables)",
        cost="O(layers · (edges · width + nodes · width²)) once",
    )

    def __init__(self, config: UntrainedEncoderConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        widths = [spec.num_features, *[config.width] * config.num_layers]
        self.encoder = Stack(widths, name=config.activation, bias=False).requires_grad_(False)

    def embed(self, graph: Graph) -> Tensor:
        messages = gcn_weights(graph.structure, graph.weight)
        layers: list[Tensor] = self.encoder(graph.x, graph.structure, [messages] * self.config.num_layers)
        return torch.cat(layers, dim=1) if self.config.readout == "concat" else layers[-1]
