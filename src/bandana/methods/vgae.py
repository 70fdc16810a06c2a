"""VGAE: a graph autoencoder with a Gaussian for each node instead of a point.

Idea. A GCN gives each node the mean and the spread of a Gaussian. A draw from it takes the place of the embedding when
the links are reconstructed, and a second term keeps the Gaussians near the standard one. So small steps in the
embedding space mean small changes of the graph.

Equations (numbers of the paper) and where they are:
    posterior N(μ, diag σ²) with μ and log σ from two GCN heads (1)       parts.autoencoder.HeadedGCN
    a draw from it                                                        parts.variational.sample_gaussian
    links with the probabilities σ(Z Zᵀ) (2)                              parts.autoencoder.Reconstruction
    reconstruction plus divergence from the prior (3)                     parts.variational.variational_bound

Paper: Kipf and Welling, "Variational Graph Auto-Encoders", NIPS workshop on Bayesian deep learning, 2016.
Deviations: as in the authors' code, the divergence is averaged over the nodes and then divided by their number once
more; next to a reconstruction averaged over all pairs that is the bound (3) up to the weight of the links. By default
pairs are sampled instead of all asked, and layers have a bias; the authors' own variant is ``loss = "dense"``,
``bias = false``. Edge weights scale messages but a link of any weight is a link to reconstruct.
"""

from dataclasses import dataclass, field

from torch import Tensor

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.autoencoder import HeadedGCN, LayersConfig, Reconstruction, ReconstructionConfig
from bandana.parts.variational import variational_bound
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class VGAEConfig:
    """A variational graph autoencoder; the last width of the encoder is that of the mean and of the spread."""

    encoder: LayersConfig = field(default_factory=LayersConfig)
    reconstruction: ReconstructionConfig = field(default_factory=ReconstructionConfig)


@register("vgae")
class VGAE(Method):
    """Variational graph autoencoder."""

    Config = VGAEConfig
    facts = MethodFacts(
        family="variational autoencoder",
        year=2016,
        paper="Kipf and Welling, Variational Graph Auto-Encoders, NIPS workshop 2016",
        cost="O(edges · width + nodes · width²), with all pairs O(nodes² · width)",
    )
    replayable = True

    def __init__(self, config: VGAEConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.encoder = HeadedGCN(config.encoder, spec.num_features, num_heads=2)
        self.reconstruction = Reconstruction(config.reconstruction, config.encoder.widths[-1])

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        return variational_bound(self.encoder, self.reconstruction, batch, clock.generator(batch.graph.device))

    def embed(self, graph: Graph) -> Tensor:
        """The means; draws are for training."""
        mean: Tensor
        mean, _ = self.encoder(graph)
        return mean

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return self.reconstruction.logits(self.embed(graph), pairs)
