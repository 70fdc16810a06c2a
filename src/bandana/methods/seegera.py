"""SeeGera: random posteriors for nodes and for features, learned while links and feature entries are held back.

Idea. Nodes and feature columns both get semi-implicit Gaussian embeddings: a node's mean comes from a GCN that reads
coin flips next to the features, a feature's from the means of the nodes that have it. Draws from both reconstruct the
links, as inner products of nodes, and the features, from each node and the features it has. In every step some links
and some feature entries are missing from what the encoders see.

Equations (of the authors' code, "correlated" variant) and where they are:
    exactly a share of links and of non-zero entries hidden               `hide_entries`, `SeeGera._visible`
    node means from noise and features, log variances from features       `SeeGera._nodes`, parts.semi_implicit
    feature means and log variances from those of their nodes             `SeeGera._attributes`
    links against inner products; features against a GCN on both          `SeeGera._misfit`, engine.adjacency_loss,
                                                                          engine.attribute_loss
    importance-weighted bound, mixture density, warm-up                   `SeeGera.loss`, parts.semi_implicit

Paper: Li et al., "SeeGera: Self-supervised Semi-implicit Graph Variational Auto-encoders with Masking", WWW 2023.
Deviations: an embedding is the node's mean at the noise's average, one half, where the authors draw new noise even in
evaluation: repeatable, and the same however the nodes are numbered. Adjacency, links and features are never dense N x N
or N x F matrices; the numbers are the same. The losses ask all pairs and entries, so a step always takes the whole
graph. Kept although they look odd, as in the code: links are held against the whole training graph but weighted by the
number of visible ones, features against what the encoder saw of them; a network of one graph layer ends in a ReLU; the
mixture's kernel vanishes beneath its floor (see `log_mixture`). Left out: the variant with independent features.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from bandana.engine.adjacency_loss import adjacency_loss, kipf_balance
from bandana.engine.attribute_loss import AttributeLoss, attribute_balance, attribute_loss
from bandana.engine.dropout import dropout
from bandana.engine.pair_loss import dot_products
from bandana.engine.propagate import EdgeWeights, gcn_weights, propagate, row_sums
from bandana.engine.structure import Structure
from bandana.graph import Features, Graph, SparseFeatures
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.encoders import Stack, project
from bandana.parts.semi_implicit import (
    Perceptron,
    Posterior,
    bernoulli_noise,
    importance_weighted,
    log_mixture,
    log_prior,
    mean_noise,
    noisy_means,
    warm_up,
)
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
        if self.kernel_floor <= 0:
            raise ValueError(f"kernel_floor: must be positive, got {self.kernel_floor}")


class Visible(NamedTuple):
    """What a step lets the encoders see, the links to reconstruct, and the weight and factor of their loss."""

    x: Features
    structure: Structure
    edges: EdgeWeights
    link_balance: tuple[float, float]


def hide_entries(values: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Set exactly ``⌊rate · count⌋`` of the non-zero values to zero, each as likely as another."""
    if rate == 0:
        return values
    present = (values != 0).flatten()
    keys = torch.rand(present.shape, generator=generator, device=values.device).masked_fill(~present, 2.0)
    hidden = (present.sum().double() * rate).floor()
    places = torch.arange(keys.numel(), device=values.device)
    rank = torch.empty_like(places).scatter_(0, keys.argsort(), places)
    return values.where((rank >= hidden).view_as(values), 0)


def in_shares(x: Features) -> Features:
    """Rows divided by the sum of their absolute values; rows of zeros stay."""
    if not isinstance(x, SparseFeatures):
        return normalize(x, p=1)
    total = row_sums(x.structure, x.values.abs()).clamp(min=1e-12)
    return SparseFeatures(x.structure, x.values / total[x.structure.row])


def transposed(x: Features) -> Features:
    """Features by node become nodes by feature."""
    if not isinstance(x, SparseFeatures):
        return x.T
    mine = x.structure
    place = torch.empty_like(mine.transposed_entry)
    place[mine.transposed_entry] = torch.arange(mine.num_entries, device=place.device)
    structure = Structure(
        rowptr=mine.transposed_rowptr,
        row=mine.col[mine.transposed_entry],
        col=mine.transposed_col,
        transposed_rowptr=mine.rowptr,
        transposed_col=mine.col,
        transposed_entry=place,
    )
    return SparseFeatures(structure, x.values[mine.transposed_entry])


def graph_stack(widths: list[int], rate: float) -> Stack:
    """Graph layers with ReLU between them and, if there is only one, behind it."""
    return Stack(widths, activate_last=len(widths) == 2, bias=False, dropout=rate)


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

    def __init__(self, config: SeeGeraConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        hidden, width, rate = config.hidden_width, config.width, config.dropout
        upper = [*[hidden] * (config.encoder_layers - 1), width]
        network: Callable[[list[int], float], Stack] = graph_stack if config.encoder == "gcn" else Perceptron
        self.node_mean = network([config.noise_width + spec.num_features, *upper], rate)
        self.node_log_variance = network([spec.num_features, *upper], rate)
        self.attribute_mean = Perceptron([width, hidden, width], rate)
        self.attribute_log_variance = Perceptron([width, hidden, width], rate)
        lower = [2 * width, *[hidden] * (config.decoder_layers - 1)]
        self.decoder = Stack(lower, bias=False, dropout=rate)
        self.decoder_out = nn.Parameter(nn.init.xavier_uniform_(torch.empty(lower[-1], spec.num_features)))

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Explain links and features by one draw or several, and keep their mixtures near a standard Gaussian."""
        generator = clock.generator(batch.graph.device)
        seen = self._visible(batch.graph, generator)
        nodes = self._nodes(seen, generator)
        attributes = self._attributes(seen, nodes, generator)
        z, a = nodes.sample(generator), attributes.sample(generator)
        floor = self.config.kernel_floor
        mixture = torch.cat([log_mixture(nodes, z, floor), log_mixture(attributes, a, floor)])
        priors = log_prior(z).mean(0) / z.shape[0] + log_prior(a).mean(0) / a.shape[0]
        divergence = mixture.mean(0) / mixture.shape[0] - priors
        misfit = [self._misfit(*draw, seen, generator) for draw in zip(z.unbind(1), a.unbind(1), strict=True)]
        return importance_weighted(-torch.stack(misfit) - warm_up(clock.epoch_counter) * divergence)

    def embed(self, graph: Graph) -> Tensor:
        noise = mean_noise(graph.num_nodes, self.config.noise_width, graph.device)
        edges = self._heard(gcn_weights(graph.structure, graph.weight))
        return noisy_means(self.node_mean, graph.x, noise, graph.structure, edges).squeeze(1)

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return dot_products(self.embed(graph), pairs)

    def _visible(self, graph: Graph, generator: torch.Generator) -> Visible:
        """The graph without the hidden links, both directions of each, and without the hidden feature entries."""
        links, reverse = graph.links, graph.structure.transposed_entry
        shown = hide_entries(torch.ones(links.numel(), device=graph.device), self.config.edge_mask, generator)
        keep = torch.ones(graph.num_edges, device=graph.device)
        keep[links] = shown
        if not graph.directed:
            keep[reverse[links]] = shown
        edges = gcn_weights(graph.structure, keep if graph.weight is None else keep * graph.weight)
        num_hidden = int(links.numel() * self.config.edge_mask) * (1 if graph.directed else 2)
        balance = kipf_balance(graph.num_nodes, graph.num_edges - num_hidden)
        rate, x = self.config.feature_mask, graph.x
        if isinstance(x, SparseFeatures):
            x = SparseFeatures(x.structure, hide_entries(x.values, rate, generator))
        else:
            x = hide_entries(x, rate, generator)
        return Visible(x, graph.structure, edges, balance)

    def _heard(self, edges: EdgeWeights) -> EdgeWeights | None:
        """The messages between nodes, to which a perceptron is deaf."""
        return edges if self.config.encoder == "gcn" else None

    def _nodes(self, seen: Visible, generator: torch.Generator) -> Posterior:
        config, edges = self.config, self._heard(seen.edges)
        copies = config.num_samples + config.num_others
        noise = bernoulli_noise(seen.structure.num_rows, copies, config.noise_width, generator)
        means = noisy_means(self.node_mean, seen.x, noise, seen.structure, edges, generator)
        layers = None if edges is None else [edges] * config.encoder_layers
        log_variance = self.node_log_variance(seen.x, seen.structure, layers, generator)[-1]
        return Posterior.of(means, config.num_samples, log_variance)

    def _attributes(self, seen: Visible, nodes: Posterior, generator: torch.Generator) -> Posterior:
        """The posterior of each feature from those of the nodes that have it, in shares."""
        shares = in_shares(transposed(seen.x))
        node_means = torch.cat([nodes.means, nodes.others], dim=1)
        num_features, copies, width = shares.shape[0], node_means.shape[1], node_means.shape[2]
        averages = project(shares, node_means.flatten(1), 0.0, None).view(num_features * copies, width)
        means = self.attribute_mean(averages, generator=generator)[-1].view(num_features, copies, width)
        averages = project(shares, nodes.log_variance, 0.0, None)
        log_variance = self.attribute_log_variance(averages, generator=generator)[-1]
        return Posterior.of(means, self.config.num_samples, log_variance)

    def _misfit(self, z: Tensor, a: Tensor, seen: Visible, generator: torch.Generator) -> Tensor:
        """How badly one draw, ``[nodes, width]`` and ``[features, width]``, explains the links and the features."""
        config, (structure, edges) = self.config, (seen.structure, seen.edges)
        z, a = dropout(z, config.dropout, generator), dropout(a, config.dropout, generator)
        weight, scale = seen.link_balance
        links = adjacency_loss(z, structure, positive_weight=weight, scale=scale)

        both = torch.cat([z, project(in_shares(seen.x), a, 0.0, None)], dim=1)
        hidden = [both, *self.decoder(both, structure, [edges] * (config.decoder_layers - 1), generator)][-1]
        # The last layer averages over neighbours before it widens to all features, not after: the same and far less.
        hidden = propagate(structure, edges.values, dropout(hidden, config.dropout, generator), edges.loop)
        pattern, targets = seen.x if isinstance(seen.x, SparseFeatures) else (None, seen.x)
        weight_of_ones, scale_of_features = attribute_balance(targets, seen.x.shape[0] * seen.x.shape[1])
        features = attribute_loss(
            hidden,
            self.decoder_out,
            targets,
            pattern,
            kind=config.attribute_loss,
            rectify=config.decoder_layers == 1,
            positive_weight=weight_of_ones,
        )
        return links + scale_of_features * features
