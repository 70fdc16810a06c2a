"""SIG-VAE: a variational graph autoencoder whose posterior means are random too.

Idea. A Gaussian for each node is a poor guess when neighbours hang together or a node has several plausible places. So
coin flips are laid next to the features and run through the GCN that gives the mean: averaged over the flips, the
posterior is a mixture that can bend, and the flips of a node reach its neighbours. Its density has no closed form; it
is estimated from a handful of further means, and several draws are weighted by how well they explain the graph.

Equations (of the authors' code, which differs from the paper's text) and where they are:
    means μ = GCN([e ‖ x]) with Bernoulli noise e                         parts.semi_implicit.noisy_means
    log variance from a second GCN on x alone, z = μ + ε · exp(½ log σ²)  parts.semi_implicit.node_posterior, Posterior
    weighted cross entropy of all pairs against z zᵀ                      engine.adjacency_loss
    log density of the mixture at z                                       parts.semi_implicit.log_mixture
    importance-weighted bound with a warm-up of the regulariser           `SIGVAE.loss`, parts.semi_implicit

Paper: Hasanzadeh et al., "Semi-Implicit Graph Variational Auto-Encoders", NeurIPS 2019.
Deviations: an embedding is the mean at the noise's average, one half, where the authors average the means over drawn
noise: repeatable, and the same however the nodes are numbered. Only the inner-product decoder is here, not the
Bernoulli-Poisson one. The loss asks all pairs, so a step always takes the whole graph. Edge weights scale messages, but
a link of any weight is a link to reconstruct.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bandana.engine.adjacency_loss import adjacency_loss, kipf_balance
from bandana.engine.pair_loss import dot_products
from bandana.engine.propagate import gcn_weights
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.encoders import Stack
from bandana.parts.semi_implicit import (
    Posterior,
    bernoulli_noise,
    importance_weighted,
    log_mixture,
    log_prior,
    mean_noise,
    node_posterior,
    noisy_means,
    warm_up,
)
from bandana.registry import register

KERNEL_FLOOR = 1e-10


@dataclass(frozen=True, kw_only=True, slots=True)
class SIGVAEConfig:
    """Two-layer encoders and an inner-product decoder, as in the authors' code."""

    hidden_width: int = 32
    width: int = 16
    noise_width: int = 32
    """Coin flips per node."""
    num_samples: int = 3
    """Draws whose likelihoods are averaged in the bound (K of the authors' code)."""
    num_others: int = 5
    """Further means that estimate the mixture's density (J)."""

    def __post_init__(self) -> None:
        for name in ("hidden_width", "width", "noise_width", "num_samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if self.num_others < 0:
            raise ValueError(f"num_others: must not be negative, got {self.num_others}")


@register("sig_vae")
class SIGVAE(Method):
    """Semi-implicit graph variational autoencoder."""

    Config = SIGVAEConfig
    facts = MethodFacts(
        family="variational autoencoder",
        year=2019,
        paper="Hasanzadeh et al., Semi-Implicit Graph Variational Auto-Encoders, NeurIPS 2019",
        cost="O(samples · nodes² · width)",
        tasks=("link",),
    )
    replayable = True

    def __init__(self, config: SIGVAEConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        upper = [config.hidden_width, config.width]
        self.mean = Stack([config.noise_width + spec.num_features, *upper], activate_last=False, bias=False)
        self.log_variance = Stack([spec.num_features, *upper], activate_last=False, bias=False)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Explain the graph by several draws, and keep the mixture they come from near a standard Gaussian."""
        graph = batch.graph
        generator = clock.generator(graph.device)
        posterior = self._posterior(graph, generator)
        z = posterior.sample(generator)
        divergence = (log_mixture(posterior, z, KERNEL_FLOOR) - log_prior(z)).mean(0) / graph.num_nodes
        weight, scale = kipf_balance(graph.num_nodes, graph.num_edges)
        misfit = adjacency_loss(z.transpose(0, 1), graph.structure, positive_weight=weight, scale=scale)
        done = clock.epoch_counter - 1  # the authors count epochs from zero
        return importance_weighted(-misfit - warm_up(done) * divergence)

    def embed(self, graph: Graph) -> Tensor:
        edges = gcn_weights(graph.structure, graph.weight)
        noise = mean_noise(graph.num_nodes, self.config.noise_width, graph.device)
        return noisy_means(self.mean, graph.x, noise, graph.structure, edges).squeeze(1)

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return dot_products(self.embed(graph), pairs)

    def _posterior(self, graph: Graph, generator: torch.Generator) -> Posterior:
        config = self.config
        edges = gcn_weights(graph.structure, graph.weight)
        copies = config.num_samples + config.num_others
        noise = bernoulli_noise(graph.num_nodes, copies, config.noise_width, generator)
        networks = self.mean, self.log_variance
        return node_posterior(*networks, graph.x, noise, config.num_samples, graph.structure, edges, generator)
