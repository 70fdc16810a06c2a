"""ARVGA: a variational graph autoencoder whose draws must also pass for draws from the prior.

Idea. Each node has a Gaussian whose draws reconstruct the links. Two forces pull the draws to N(0, I): the divergence
of each Gaussian from it, and a discriminator that has seen the draws of all nodes.

Equations, by their place in the paper, and where they are:
    variational graph encoder, mean and log-deviation                     parts.autoencoder.HeadedGCN
    a draw from each posterior                                            parts.variational.sample_gaussian
    reconstruction of the links plus divergence from the prior            parts.variational.variational_bound
    discriminator's cross entropy, prior draws against posterior draws    parts.adversarial.Discriminator.loss
    encoder's cross entropy against the discriminator                     parts.adversarial.Discriminator.suspicion
    the order of the steps (algorithm 1)                                  `ARVGA.turns`

Paper: Pan et al., "Adversarially Regularized Graph Autoencoder for Graph Embedding", IJCAI 2018.
Deviations: steps are taken as in the authors' code: five on the bound, one of the discriminator, one of the encoder
against the discriminator alone (ARGA's encoder keeps the reconstruction in that step), each with an Adam of its own.
The divergence is divided by the number of nodes twice, as there. By default pairs are sampled instead of all asked,
and layers have a bias; the authors' variant is ``loss = "dense"``, ``bias = false``. Edge weights scale messages but a
link of any weight is a link to reconstruct.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.adversarial import AdversaryConfig, Discriminator, game_groups
from bandana.parts.autoencoder import HeadedGCN, LayersConfig, Reconstruction, ReconstructionConfig
from bandana.parts.variational import sample_gaussian, variational_bound
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class ARVGAConfig:
    """An adversarially regularised variational graph autoencoder."""

    encoder: LayersConfig = field(default_factory=lambda: LayersConfig(widths=(32, 32)))
    reconstruction: ReconstructionConfig = field(default_factory=ReconstructionConfig)
    adversary: AdversaryConfig = field(default_factory=AdversaryConfig)


@register("arvga")
class ARVGA(Method):
    """Adversarially regularised variational graph autoencoder."""

    Config = ARVGAConfig
    facts = MethodFacts(
        family="adversarial variational autoencoder",
        year=2018,
        paper="Pan et al., Adversarially Regularized Graph Autoencoder for Graph Embedding, IJCAI 2018",
        cost="O(edges · width + nodes · width²), with all pairs O(nodes² · width)",
    )
    replayable = True

    def __init__(self, config: ARVGAConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        width = config.encoder.widths[-1]
        self.encoder = HeadedGCN(config.encoder, spec.num_features, num_heads=2)
        self.reconstruction = Reconstruction(config.reconstruction, width)
        self.discriminator = Discriminator(width, config.adversary.widths)

    def turns(self, batch: Batch, clock: Clock) -> Iterator[tuple[str, Tensor]]:
        generator = clock.generator(batch.graph.device)
        for _ in range(self.config.adversary.reconstruction_steps):
            yield "reconstruction", self._bound(batch, generator)
        yield "discriminator", self.discriminator.loss(self._draw(batch.graph, generator), generator)
        yield "generator", self.discriminator.suspicion(self._draw(batch.graph, generator))

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Reconstruction and divergence, which the game with the discriminator is there to regularise."""
        return self._bound(batch, clock.generator(batch.graph.device))

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return game_groups(self.encoder, self.reconstruction, self.discriminator)

    def rate_of(self, group: str) -> float:
        return self.config.adversary.rate_of(group)

    def embed(self, graph: Graph) -> Tensor:
        """The means; draws are for training and for the discriminator."""
        mean: Tensor
        mean, _ = self.encoder(graph)
        return mean

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return self.reconstruction.logits(self.embed(graph), pairs)

    def _bound(self, batch: Batch, generator: torch.Generator) -> Tensor:
        return variational_bound(self.encoder, self.reconstruction, batch, generator)

    def _draw(self, graph: Graph, generator: torch.Generator) -> Tensor:
        mean, log_std = self.encoder(graph, generator)
        return sample_gaussian(mean, log_std, generator)
