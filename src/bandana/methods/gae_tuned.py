"""Tuned GAE: a plain graph autoencoder with the settings of today, the floor for link prediction that learns.

Idea. Much of what newer link predictors gained over the GAE of 2016 came from depth, width and training tricks that a
GAE can have too. Messages pass through the graph linearly, so that orthogonal node vectors keep neighbourhoods
distinguishable (the dot product of two sums counts common neighbours); the hops are added up with learned weights; and
a deep perceptron on the Hadamard product decides. Nothing is masked but the links that a step is asked about.

Equations and where they are:
    H_1 = Â [X ‖ E] W, E learned, its rows or columns orthonormal at first   `GAETuned._encode`
    H_k = Â dropout(norm(H_{k-1})), no weights and no activation             `GAETuned._encode`
    Z = Σ_k softmax(a)_k H_k, a learned, a_k = decay^(k-1) at first          `GAETuned._encode`
    logit of a pair: perceptron of z_u ⊙ z_v with residual connections       parts.deep_decoder
    mean cross entropy of links plus that of sampled non-links               `GAETuned.loss`

Paper: Ma et al., "Reconsidering the Performance of GAE in Link Prediction", CIKM 2025 (arXiv 2411.03845).
Deviations: of the paper's several encoders this is the one with weighted hops, which its scripts use on Cora, CiteSeer
and PubMed. Dropout between hops does not need the norm to be on. The gradient is clipped as a whole, not encoder and
decoder apart, and the authors' choice of the epoch by Hits@100 is a choice by AUC here.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bandana.engine.dropout import dropout
from bandana.engine.negatives import sample_negatives
from bandana.engine.propagate import EdgeWeights, gcn_weights, propagate
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.deep_decoder import DecoderActivation, DeepHadamardMLP
from bandana.parts.encoders import project
from bandana.registry import register

LARGEST_LOG = math.log(torch.finfo(torch.float32).max)


@dataclass(frozen=True, kw_only=True, slots=True)
class GAETunedConfig:
    """A linear encoder of several hops and a deep decoder, both of one width."""

    node_embedding: int = 64
    """Width of the learned vector that every node has beside its features; 0 leaves only the features."""
    width: int = 128
    num_hops: int = 2
    hop_decay: float = 1.0
    """Ratio of the initial hop weights, before their softmax, from one hop to the next."""
    layer_norm: bool = True
    """Normalise each row between hops and inside the decoder."""
    dropout: float = 0.5
    """Share that is dropped between hops and after each layer of the decoder."""
    hide_batch: bool = True
    """Pass no messages over the links that the step is asked about. One batch of all links then hides all messages."""
    decoder_layers: int = 3
    decoder_residual: bool = True
    """Give the product of the two embeddings to every layer of the decoder once more."""
    decoder_activation: DecoderActivation = "relu"
    negatives_per_link: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("node_embedding", 0), ("width", 1), ("num_hops", 1), ("decoder_layers", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: must be at least {least}, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: must lie in [0, 1), got {self.dropout}")
        for name in ("hop_decay", "negatives_per_link"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: must be positive, got {getattr(self, name)}")
        if (self.num_hops - 1) * math.log(self.hop_decay) > LARGEST_LOG:
            raise ValueError(f"hop_decay: leaves the range of numbers over {self.num_hops} hops, got {self.hop_decay}")


@register("gae_tuned")
class GAETuned(Method):
    """Plain graph autoencoder, tuned for links."""

    Config = GAETunedConfig
    facts = MethodFacts(
        family="autoencoder",
        year=2025,
        paper="Ma et al., Reconsidering the Performance of GAE in Link Prediction, CIKM 2025",
        cost="O(hops · edges · width + links · decoder layers · width²)",
        tasks=("link",),
    )
    replayable = True

    def __init__(self, config: GAETunedConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.empty(spec.num_features + config.node_embedding, config.width))
        nn.init.xavier_uniform_(self.weight)
        self.nodes: nn.Parameter | None = None
        if config.node_embedding:
            self.nodes = nn.Parameter(torch.empty(spec.num_nodes, config.node_embedding))
            nn.init.orthogonal_(self.nodes)
        self.hop_weights = nn.Parameter(config.hop_decay ** torch.arange(config.num_hops))
        self.norms = nn.ModuleList(
            nn.LayerNorm(config.width) if config.layer_norm else nn.Identity() for _ in range(config.num_hops - 1)
        )
        self.decoder = DeepHadamardMLP(
            config.width,
            config.decoder_layers,
            activation=config.decoder_activation,
            residual=config.decoder_residual,
            layer_norm=config.layer_norm,
            dropout=config.dropout,
        )

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Tell the batch's links from as many times `negatives_per_link` other pairs."""
        graph, links = batch.graph, batch.links
        generator = clock.generator(graph.device)
        messages = gcn_weights(graph.structure, _without(graph, links) if self.config.hide_batch else graph.weight)
        z = self._encode(graph, messages, generator)
        num_negatives = max(1, round(self.config.negatives_per_link * links.numel()))
        negatives = sample_negatives(graph.edge_keys, graph.num_nodes, num_negatives, generator)
        positives = torch.stack([graph.structure.row[links], graph.structure.col[links]])
        weight = torch.cat(
            [
                z.new_full((links.numel(),), 1 / max(links.numel(), 1)),
                z.new_full((num_negatives,), -1 / num_negatives),
            ]
        )
        return self.decoder.loss(z, torch.cat([positives, negatives], dim=1), weight, generator)

    def embed(self, graph: Graph) -> Tensor:
        return self._encode(graph, gcn_weights(graph.structure, graph.weight))

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return self.decoder.logits(self.embed(graph), pairs)

    def _encode(self, graph: Graph, messages: EdgeWeights, generator: torch.Generator | None = None) -> Tensor:
        """``[nodes, width]`` weighted sum of the hops."""
        hidden = project(graph.x, self.weight[: graph.num_features], 0.0, None)
        if self.nodes is not None:
            hidden = torch.addmm(hidden, self.nodes, self.weight[graph.num_features :])
        share = self.hop_weights.softmax(0)
        hidden = propagate(graph.structure, messages.values, hidden, messages.loop)
        total = share[0] * hidden
        for hop, norm in enumerate(self.norms, start=1):
            mixed = dropout(norm(hidden), self.config.dropout, generator)
            hidden = propagate(graph.structure, messages.values, mixed, messages.loop)
            total = total + share[hop] * hidden
        return total


def _without(graph: Graph, links: Tensor) -> Tensor:
    """``[edges]`` the graph's edge weights, zero along `links` and their reverse directions."""
    weight = torch.ones_like(graph.structure.col, dtype=torch.get_default_dtype())
    if graph.weight is not None:
        weight *= graph.weight
    weight.index_fill_(0, links, 0)
    if not graph.directed:
        weight.index_fill_(0, graph.structure.transposed_entry[links], 0)
    return weight
