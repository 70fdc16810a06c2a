"""GAE: embeddings whose dot products give the graph back.

Idea. A GCN maps each node to a vector, and two nodes are linked with a probability that grows with the dot product of
their vectors. Nothing is hidden from the encoder: it learns by reconstructing the very links that it reads.

Equations (numbers of the paper) and where they are:
    embeddings Z = GCN(X, A) (4)                                          `GAE._encode`, parts.encoders.Stack
    links with the probabilities σ(Z Zᵀ) (4)                              parts.autoencoder.Reconstruction
    weighted cross entropy over all pairs (first term of 3, reweighted)   engine.adjacency_loss
    the same over links and as many sampled non-links                     engine.pair_loss

Paper: Kipf and Welling, "Variational Graph Auto-Encoders", NIPS workshop on Bayesian deep learning, 2016.
Deviations: by default pairs are sampled instead of all asked, and layers have a bias; the paper's own variant is
``loss = "dense"``, ``bias = false``. A perceptron as decoder, batch norm and an activation on the embeddings are not in
the paper. Edge weights scale messages but a link of any weight is a link to reconstruct.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bandana.engine.propagate import gcn_weights
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.autoencoder import LayersConfig, Reconstruction, ReconstructionConfig
from bandana.parts.encoders import Stack
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class GAEConfig:
    """A graph autoencoder, from the small linear one of the paper to a wide one with batch norm and a perceptron."""

    encoder: LayersConfig = field(default_factory=LayersConfig)
    activate_last: bool = False
    """Whether the embeddings come out of an activation like every other layer."""
    reconstruction: ReconstructionConfig = field(default_factory=ReconstructionConfig)


@register("gae")
class GAE(Method):
    """Graph autoencoder."""

    Config = GAEConfig
    facts = MethodFacts(
        family="autoencoder",
        year=2016,
        paper="Kipf and Welling, Variational Graph Auto-Encoders, NIPS workshop 2016",
        cost="O(edges · width + nodes · width²), with all pairs O(nodes² · width)",
    )
    replayable = True
    shardable = True

    def __init__(self, config: GAEConfig, spec: GraphSpec) -> None:
        super().__init__()
        layers = config.encoder
        self.encoder = Stack(
            [spec.num_features, *layers.widths],
            name=layers.activation,
            activate_last=config.activate_last,
            bias=layers.bias,
            batch_norm=layers.batch_norm,
            dropout=layers.dropout,
        )
        self.reconstruction = Reconstruction(config.reconstruction, layers.widths[-1])

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        generator = clock.generator(batch.graph.device)
        return self.reconstruction.loss(self._encode(batch.graph, generator), batch, generator)

    def embed(self, graph: Graph) -> Tensor:
        return self._encode(graph)

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return self.reconstruction.logits(self._encode(graph), pairs)

    def _encode(self, graph: Graph, generator: torch.Generator | None = None) -> Tensor:
        messages = [gcn_weights(graph.structure, graph.weight)] * len(self.encoder.weights)
        layers: list[Tensor] = self.encoder(graph.x, graph.structure, messages, generator)
        return layers[-1]
