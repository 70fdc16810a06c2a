"""ARGA: a graph autoencoder whose embeddings must pass for draws from a Gaussian.

Idea. The autoencoder is trained as ever, but now and then a discriminator learns to tell its embeddings from draws of
N(0, I), and the encoder learns to fool it. That shapes the embeddings as a whole, where the reconstruction looks only
at pairs.

Equations, by their place in the paper, and where they are:
    graph convolutional encoder, with noise on its hidden layer           parts.autoencoder.HeadedGCN
    reconstruction of the links from dot products                         parts.autoencoder.Reconstruction
    discriminator's cross entropy, prior draws against embeddings         parts.adversarial.Discriminator.loss
    encoder's cross entropy against the discriminator                     parts.adversarial.Discriminator.suspicion
    the order of the steps (algorithm 1)                                  `ARGA.turns`

Paper: Pan et al., "Adversarially Regularized Graph Autoencoder for Graph Embedding", IJCAI 2018.
Deviations: steps are taken as in the authors' code: five on the reconstruction, one of the discriminator, one of the
encoder on both terms, each with an Adam of its own. That code adds the hidden noise when it evaluates too; here
embeddings are free of noise, so that they can be repeated. By default pairs are sampled instead of all asked, and
layers have a bias; the authors' variant is ``loss = "dense"``, ``bias = false``. Edge weights scale messages but a link
of any weight is a link to reconstruct.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.adversarial import AdversaryConfig, Discriminator, game_groups
from bandana.parts.autoencoder import HeadedGCN, LayersConfig, Reconstruction, ReconstructionConfig
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class ARGAConfig:
    """An adversarially regularised graph autoencoder."""

    encoder: LayersConfig = field(default_factory=lambda: LayersConfig(widths=(32, 32)))
    noise: float = 0.1
    """Standard deviation of the noise on the last hidden layer, in training."""
    reconstruction: ReconstructionConfig = field(default_factory=ReconstructionConfig)
    adversary: AdversaryConfig = field(default_factory=AdversaryConfig)

    def __post_init__(self) -> None:
        if not 0 <= self.noise < math.inf:
            raise ValueError(f"noise: must not be negative nor infinite, got {self.noise}")


@register("arga")
class ARGA(Method):
    """Adversarially regularised graph autoencoder."""

    Config = ARGAConfig
    facts = MethodFacts(
        family="adversarial autoencoder",
        year=2018,
        paper="Pan et al., Adversarially Regularized Graph Autoencoder for Graph Embedding, IJCAI 2018",
        cost="O(edges · width + nodes · width²), with all pairs O(nodes² · width)",
    )
    replayable = True

    def __init__(self, config: ARGAConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        width = config.encoder.widths[-1]
        self.encoder = HeadedGCN(config.encoder, spec.num_features, num_heads=1, noise=config.noise)
        self.reconstruction = Reconstruction(config.reconstruction, width)
        self.discriminator = Discriminator(width, config.adversary.widths)

    def turns(self, batch: Batch, clock: Clock) -> Iterator[tuple[str, Tensor]]:
        generator = clock.generator(batch.graph.device)
        for _ in range(self.config.adversary.reconstruction_steps):
            yield "reconstruction", self._misfit(batch, generator)
        yield "discriminator", self.discriminator.loss(self._encode(batch.graph, generator), generator)
        z = self._encode(batch.graph, generator)
        yield "generator", self.discriminator.suspicion(z) + self.reconstruction.loss(z, batch, generator)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """The reconstruction, which the game with the discriminator is there to regularise."""
        return self._misfit(batch, clock.generator(batch.graph.device))

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return game_groups(self.encoder, self.reconstruction, self.discriminator)

    def rate_of(self, group: str) -> float:
        return self.config.adversary.rate_of(group)

    def embed(self, graph: Graph) -> Tensor:
        return self._encode(graph)

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return self.reconstruction.logits(self._encode(graph), pairs)

    def _misfit(self, batch: Batch, generator: torch.Generator) -> Tensor:
        return self.reconstruction.loss(self._encode(batch.graph, generator), batch, generator)

    def _encode(self, graph: Graph, generator: torch.Generator | None = None) -> Tensor:
        z: Tensor
        (z,) = self.encoder(graph, generator)
        return z
