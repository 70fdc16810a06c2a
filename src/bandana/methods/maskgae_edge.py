"""MaskGAE with edge-wise masking: learn by predicting edges that were hidden one by one.

Idea. Most directed entries of the adjacency are hidden at random. A GCN encodes what is left, and a small perceptron
on the product of two embeddings tells hidden edges from pairs that are not linked; a second one predicts how many of
its edges each node has lost. Hiding edges takes redundancy out of what neighbouring nodes see, so that the easy answer
(the pair shares its neighbourhood) no longer does.

Equations and where they are:
    each entry hidden with probability p, the visible rest symmetrised     parts.edge_masks.hide_entries
    encoder, dropout → GCN → batch norm → ELU in every layer               parts.encoders.Stack
    edge decoder, a perceptron on z_u ⊙ z_v                                parts.cross_decoder.CrossDecoder
    -mean log p over hidden entries - mean log(1 - p) over negatives       parts.edge_reconstruction.tell_apart
    + α · squared error of the hidden in-degree                            parts.edge_reconstruction.DegreeHead
    links of OGB: a learned vector per node, dropout → SAGE → ELU          parts.sage.SageStack
    links of OGB: Σ (1 - (z_u·z_v - z_a·z_b))², hidden uv, negative ab     engine.pair_loss.squared_auc_loss

Paper: Li et al., "What's Behind the Mask: Understanding Masked Graph Modeling for Graph Autoencoders", KDD 2023.
Deviations: a step takes the hidden entries of a batch of links instead of a batch of hidden entries, so that their
number varies a little; recipes enlarge the batch by 1/p, which keeps the number of steps. Negatives are drawn anew in
every step and not once per epoch, which is the same distribution, and none of them is ever an edge, nor a node with
itself. On a directed graph the visible part is not symmetrised.
"""

from dataclasses import dataclass

import torch

from bandana.graph import Graph
from bandana.method import MethodFacts
from bandana.parts.edge_masks import EdgeMask, hide_entries
from bandana.parts.edge_reconstruction import EdgeReconstruction, MaskedEdgesConfig
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskGAEEdgeConfig(MaskedEdgesConfig):
    """MaskGAE's autoencoder, and how much of the graph is hidden from it."""

    mask_rate: float = 0.7
    """Chance of each directed entry to be hidden; an undirected link disappears with its square."""

    def __post_init__(self) -> None:
        MaskedEdgesConfig.__post_init__(self)
        if not 0 < self.mask_rate <= 1:
            raise ValueError(f"mask_rate: must lie in (0, 1], got {self.mask_rate}")


@register("maskgae_edge")
class MaskGAEEdge(EdgeReconstruction):
    """Masked graph autoencoder that hides edges independently of each other."""

    Config = MaskGAEEdgeConfig
    config: MaskGAEEdgeConfig
    facts = MethodFacts(
        family="masked autoencoder",
        year=2023,
        paper="Li et al., What's Behind the Mask: Understanding Masked Graph Modeling for Graph Autoencoders, KDD 2023",
        cost="O(layers · (edges · width + nodes · width²) + edges · width · decoder width)",
    )
    replayable = True

    def hide(self, graph: Graph, generator: torch.Generator) -> EdgeMask:
        return hide_entries(graph, self.config.mask_rate, generator)
