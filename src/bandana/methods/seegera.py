"""SeeGera: random posteriors for nodes and for features, learned while links and feature entries are held back.

Idea. Nodes and feature columns both get semi-implicit Gaussian embeddings: a node's mean comes from a GCN that reads
coin flips next to the features, a feature's from the means of the nodes that have it. Draws from both reconstruct the
links, as inner products of nodes, and the features, from each node and the features it has. In every step some links
and some feature entries are missing from what the encoders see.

Equations (of the authors' code, "correlated" variant) and where they are:
    exactly a share of links and of non-zero entries hidden               parts.views.masked_view
    node means from noise and features, log variances from features       parts.semi_implicit.node_posterior
    feature means and log variances from those of their nodes             parts.semi_implicit.group_posterior
    dropout of both draws, before anything is decoded                     `SeeGera._misfit`
    links against inner products                                          engine.adjacency_loss
    features against a GCN on both                                        parts.feature_rebuilding
    importance-weighted bound, mixture density, warm-up                   `SeeGera.loss`, parts.semi_implicit

Paper: Li et al., "SeeGera: Self-supervised Semi-implicit Graph Variational Auto-encoders with Masking", WWW 2023.
Deviations: an embedding is the node's mean at the noise's average, one half, where the authors draw new noise even in
evaluation: repeatable, and the same however the nodes are numbered. Adjacency, links and features are never dense N x N
or N x F matrices; the numbers are the same. The losses ask all pairs and entries, so a step always takes the whole
graph. Kept although they look odd, as in the code: links are held against the whole training graph but weighted by the
number of visible ones, features against what the encoder saw of them; a network of one graph layer ends in a ReLU; the
mixture's kernel vanishes beneath its floor (see parts.semi_implicit.log_mixture). Left out: the variant with
independent features.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bandana.engine.adjacency_loss import adjacency_loss, kipf_balance
from bandana.engine.attribute_loss import AttributeLoss, RowBlocks, row_blocks
from bandana.engine.dropout import dropout
from bandana.engine.pair_loss import dot_products
from bandana.graph import Graph, SparseFeatures
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.encoders import Stack, project
from bandana.parts.feature_matrix import in_shares, transposed
from bandana.parts.feature_rebuilding import rebuilding_loss
from bandana.parts.semi_implicit import (
    Perceptron,
    bernoulli_noise,
    graph_stack,
    group_posterior,
    importance_weighted,
    joint_divergence,
    mean_noise,
    node_posterior,
    noisy_means,
    warm_up,
)
from bandana.parts.views import View, masked_view, num_unmasked, whole_view
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class SeeGeraConfig:
    """SeeGera with correlated features and masking; both mask rates at zero turn the masking off."""

    encoder: Literal["gcn", "mlp"] = "gcn"
    encoder_layers: int = 2
    decoder_layers: int = 2
    """Graph layers from the embeddings to the features."""
    hidden_width: int = 128
    width: int = 128
    noise_width: int = 5
    """Coin flips per node."""
    dropout: float = 0.0
    attribute_loss: AttributeLoss = "mse"
    """How features are compared: squared error for any, ``bce`` for those between 0 and 1."""
    edge_mask: float = 0.2
    """Share of the links that the encoders do not see."""
    feature_mask: float = 0.1
    """Share of the non-zero feature entries that nobody sees."""
    num_samples: int = 1
    """Draws whose likelihoods are averaged in the bound (K of the authors' code)."""
    num_others: int = 1
    """Further means that estimate the mixture's density (J)."""
    kernel_floor: float = 1e-10
    """Added to the mixture's kernel before its logarithm; see `log_mixture`."""

    def __post_init__(self) -> None:
        for name in ("encoder_layers", "decoder_layers", "hidden_width", "width", "noise_width", "num_samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        for name in ("dropout", "edge_mask", "feature_mask"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: must lie in [0, 1), got {getattr(self, name)}")
        if self.num_others < 0:
            raise ValueError(f"num_others: must not be negative, got {self.num_others}")
        if not 0 < self.kernel_floor < math.inf:
            raise ValueError(f"kernel_floor: must be positive and finite, got {self.kernel_floor}")


@register("seegera")
class SeeGera(Method):
    """Semi-implicit variational autoencoder of links and features, with masking."""

    Config = SeeGeraConfig
    facts = MethodFacts(
        family="variational autoencoder",
        year=2023,
        paper="Li et al., SeeGera: Self-supervised Semi-implicit Graph Variational Auto-encoders with Masking, "
        "WWW 2023",
        cost="O(samples · nodes · (nodes + features) · width)",
    )
    replayable = True

    def __init__(self, config: SeeGeraConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        self._blocks: RowBlocks | None = None
        hidden, width, rate = config.hidden_width, config.width, config.dropout
        upper = [*[hidden] * (config.encoder_layers - 1), width]
        network = graph_stack if config.encoder == "gcn" else Perceptron
        self.node_mean = network([config.noise_width + spec.num_features, *upper], rate)
        self.node_log_variance = network([spec.num_features, *upper], rate)
        self.attribute_mean = Perceptron([width, hidden, width], rate)
        self.attribute_log_variance = Perceptron([width, hidden, width], rate)
        lower = [2 * width, *[hidden] * (config.decoder_layers - 1)]
        self.decoder = Stack(lower, bias=False, dropout=rate)
        self.decoder_out = nn.Parameter(nn.init.xavier_uniform_(torch.empty(lower[-1], spec.num_features)))

    def prepare(self, graph: Graph) -> None:
        self._blocks = row_blocks(graph.x.structure) if isinstance(graph.x, SparseFeatures) else None

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Explain links and features by one draw or several, and keep their mixtures near a standard Gaussian."""
        config, graph, generator = self.config, batch.graph, clock.generator(batch.graph.device)
        seen = masked_view(graph, config.edge_mask, config.feature_mask, generator)
        copies = config.num_samples + config.num_others
        noise = bernoulli_noise(graph.num_nodes, copies, config.noise_width, generator)
        networks = self.node_mean, self.node_log_variance
        nodes = node_posterior(*networks, seen.x, noise, config.num_samples, seen.structure, seen.edges, generator)
        networks = self.attribute_mean, self.attribute_log_variance
        attributes = group_posterior(in_shares(transposed(seen.x)), nodes, *networks, generator)
        z, a = nodes.sample(generator), attributes.sample(generator)
        divergence = joint_divergence([nodes, attributes], [z, a], config.kernel_floor)
        shown, draws = num_unmasked(graph, config.edge_mask), zip(z.unbind(1), a.unbind(1), strict=True)
        misfit = [self._misfit(*draw, seen, shown, generator) for draw in draws]
        return importance_weighted(-torch.stack(misfit) - warm_up(clock.epoch_counter) * divergence)

    def embed(self, graph: Graph) -> Tensor:
        noise = mean_noise(graph.num_nodes, self.config.noise_width, graph.device)
        whole = whole_view(graph)
        return noisy_means(self.node_mean, whole.x, noise, whole.structure, whole.edges).squeeze(1)

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return dot_products(self.embed(graph), pairs)

    def _misfit(self, z: Tensor, a: Tensor, seen: View, num_links: int, generator: torch.Generator) -> Tensor:
        """How badly one draw, ``[nodes, width]`` and ``[features, width]``, explains the links and the features."""
        z, a = (dropout(draw, self.config.dropout, generator) for draw in (z, a))
        weight, scale = kipf_balance(z.shape[0], num_links)
        links = adjacency_loss(z, seen.structure, positive_weight=weight, scale=scale)
        both = torch.cat([z, project(in_shares(seen.x), a, 0.0, None)], dim=1)
        kind, decoder = self.config.attribute_loss, (self.decoder, self.decoder_out)
        return links + rebuilding_loss(*decoder, both, seen, kind, generator, self._blocks)
