"""GraphMAE: learn by recovering the features of nodes that were hidden.

Idea. Half of the nodes show a learned token in place of their features. An attention encoder reads the graph; then the
codes of the same nodes are blanked, so that a decoder of one attention layer must recover their features from what the
neighbours know. Features are compared by direction only, and what is already well predicted counts less.

Equations and where they are:
    token in place of the features of hidden nodes, some with another node's   parts.feature_masks.cover
    encoder, graph attention                                                   parts.attention.GATEncoder
    blanking of the hidden nodes' codes before decoding                        parts.feature_masks.hide
    decoder, one graph attention layer                                         parts.feature_decoder.FeatureDecoder
    scaled cosine error over the hidden nodes                                  parts.feature_decoder.scaled_cosine_error

Paper: Hou et al., "GraphMAE: Self-Supervised Masked Graph Autoencoders", KDD 2022.
Deviations: A node that shows another's features shares that node's dropout draw. The decoder has no attention vector
for receivers: with their codes blanked it would never matter. An edge of weight w takes part in the attention as w
edges. With `edge_drop`, every node keeps exactly one self-loop. When the number of replaced nodes rounds to zero, none
is replaced. Steps are full-batch: which links are in a batch does not matter.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.attention import GATConfig, GATEncoder, thinned
from bandana.parts.feature_decoder import FeatureDecoder
from bandana.parts.feature_masks import draw_feature_mask, hide
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphMAEConfig:
    """GraphMAE as its authors run it."""

    encoder: GATConfig = field(default_factory=GATConfig)
    mask_rate: float = 0.5
    """Share of the nodes that is hidden."""
    replace_rate: float = 0.05
    """Share of the hidden nodes that show another node's features instead of the token."""
    exponent: float = 3.0
    """Of the scaled cosine error."""
    edge_drop: float = 0.0
    """Share of the directed edges that the encoder does without in each step; the decoder has them all."""

    def __post_init__(self) -> None:
        if not 0 < self.mask_rate < 1:
            raise ValueError(f"mask_rate: must lie in (0, 1), got {self.mask_rate}")
        for name in ("replace_rate", "edge_drop"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: must lie in [0, 1), got {getattr(self, name)}")
        if not 1 <= self.exponent < math.inf:
            raise ValueError(f"exponent: must be at least 1 and finite, got {self.exponent}")


@register("graphmae")
class GraphMAE(Method):
    """Masked autoencoder of node features."""

    Config = GraphMAEConfig
    facts = MethodFacts(
        family="masked autoencoder",
        year=2022,
        paper="Hou et al., GraphMAE: Self-Supervised Masked Graph Autoencoders, KDD 2022",
        cost="O(layers · (edges · width + nodes · width²) + feature entries · width + features · width²)",
    )
    replayable = True

    def __init__(self, config: GraphMAEConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        self.encoder = GATEncoder(config.encoder, spec.num_features)
        self.token = nn.Parameter(torch.zeros(1, spec.num_features))
        self.bridge = nn.Linear(config.encoder.width, config.encoder.width, bias=False)
        self.decoder = FeatureDecoder(config.encoder, spec.num_features, blind=True)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Hide nodes, encode, blank their codes, decode their features."""
        graph, config = batch.graph, self.config
        generator = clock.generator(graph.device)
        mask = draw_feature_mask(graph.num_nodes, config.mask_rate, config.replace_rate, generator)
        visible = thinned(graph, config.edge_drop, generator)
        z = self.encoder(graph.x, graph.structure, visible, generator, mask, self.token)
        codes = hide(self.bridge(z), mask.nodes)
        return self.decoder.loss(codes, graph, mask.nodes, config.exponent, generator)

    def embed(self, graph: Graph) -> Tensor:
        z: Tensor = self.encoder(graph.x, graph.structure, graph.weight)
        return z
