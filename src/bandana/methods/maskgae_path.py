"""MaskGAE with path-wise masking: learn by predicting edges that were hidden along random walks.

Idea. Edges hidden one by one leave short ways around each of them. Here walks of one step more than the encoder has
layers start at random places, and every entry they pass over is hidden, so that what is missing hangs together. All the
rest is MaskGAE as with edge-wise masking.

Equations and where they are:
    uniform random walks of layers + 1 steps                               engine.walks.random_walks
    what they pass over is hidden, the visible rest symmetrised            parts.edge_masks.hide_walks
    encoder, dropout → GCN → batch norm → ELU in every layer               parts.encoders.Stack
    edge decoder, a perceptron on z_u ⊙ z_v                                parts.cross_decoder.CrossDecoder
    -mean log p over hidden entries - mean log(1 - p) over negatives       parts.edge_reconstruction.tell_apart
    + α · squared error of the hidden in-degree                            parts.edge_reconstruction.DegreeHead
    links of OGB: a learned vector per node, dropout → SAGE → ELU          parts.sage.SageStack
    links of OGB: Σ (1 - (z_u·z_v - z_a·z_b))², hidden uv, negative ab     engine.pair_loss.squared_auc_loss

Paper: Li et al., "What's Behind the Mask: Understanding Masked Graph Modeling for Graph Autoencoders", KDD 2023.
Deviations: a step takes the hidden entries of a batch of links instead of a batch of hidden entries, so that their
number varies a little; recipes enlarge the batch accordingly, which keeps the number of steps. Negatives are drawn anew
in every step and not once per epoch, which is the same distribution, and none of them is ever an edge, nor a node with
itself. Walks follow the direction of a directed graph, whose visible part is not symmetrised.
"""

from dataclasses import dataclass

import torch

from bandana.graph import Graph
from bandana.method import MethodFacts
from bandana.parts.edge_masks import EdgeMask, WalkStart, hide_walks
from bandana.parts.edge_reconstruction import EdgeReconstruction, MaskedEdgesConfig
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskGAEPathConfig(MaskedEdgesConfig):
    """MaskGAE's autoencoder, and where the walks start that hide the graph from it."""

    start: WalkStart = "node"
    """From different nodes, or from the senders of random entries."""
    start_rate: float = 0.7
    """Share of the nodes, or of the entries, from which a walk starts."""

    def __post_init__(self) -> None:
        MaskedEdgesConfig.__post_init__(self)
        if not 0 < self.start_rate <= 1:
            raise ValueError(f"start_rate: must lie in (0, 1], got {self.start_rate}")


@register("maskgae_path")
class MaskGAEPath(EdgeReconstruction):
    """Masked graph autoencoder that hides edges along random walks."""

    Config = MaskGAEPathConfig
    config: MaskGAEPathConfig
    facts = MethodFacts(
        family="masked autoencoder",
        year=2023,
        paper="Li et al., What's Behind the Mask: Understanding Masked Graph Modeling for Graph Autoencoders, KDD 2023",
        cost="O(layers · (edges · width + nodes · width²) + edges · width · decoder width)",
    )
    replayable = True

    def hide(self, graph: Graph, generator: torch.Generator) -> EdgeMask:
        config = self.config
        return hide_walks(graph, config.start_rate, config.num_layers + 1, config.start, generator)
