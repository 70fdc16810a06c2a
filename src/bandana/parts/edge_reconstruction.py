"""Learning by telling hidden edges from pairs that are none: the step that masked edge autoencoders have in common.

`tell_apart` sets up the pairs of a step for any decoder, `side_by_side` those of a loss that compares them one to one.
`EdgeReconstruction` is the autoencoder of MaskGAE without its mask; a method says what is hidden and gets everything
else from here.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from bandana.engine.dropout import dropout
from bandana.engine.negatives import sample_negatives
from bandana.engine.pair_loss import dot_products, squared_auc_loss
from bandana.engine.propagate import gcn_weights, row_sums
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method
from bandana.parts.cross_decoder import CrossDecoder
from bandana.parts.edge_masks import EdgeMask, visible_weights
from bandana.parts.encoders import Stack
from bandana.parts.sage import SageStack


def both_directions(graph: Graph, links: Tensor) -> Tensor:
    """The entries of some links: themselves, and in an undirected graph their reverses behind them."""
    return links if graph.directed else torch.cat([links, graph.structure.transposed_entry[links]])


def tell_apart(
    graph: Graph, entries: Tensor, hidden: Tensor, negatives: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The pairs of a step and their signed weights: a mean over hidden entries, and one over as many negatives.

    The number of hidden entries depends on the draw, the shapes do not: an entry that is not hidden has weight zero,
    and so has a negative at a random place for it. Without a hidden entry all weights are zero.

    Args:
        graph: Where the entries are.
        entries: ``[entries]`` candidates of this step.
        hidden: ``[edges]`` one for each entry that is to be predicted.
        negatives: ``[2, entries]`` pairs (sender, receiver) to hold against them, in any order.
        generator: Source of randomness, on the graph's device.

    Returns:
        ``pairs [2, 2·entries]`` (sender, receiver) and ``weight [2·entries]``, positive first.
    """
    positives = torch.stack([graph.structure.col[entries], graph.structure.row[entries]])
    asked = hidden[entries]
    # Negatives may come in order and hidden entries in clusters; only a random matching keeps the negatives uniform.
    matching = torch.randperm(entries.numel(), generator=generator, device=graph.device)
    weight = torch.cat([asked, -asked[matching]]) / asked.sum().clamp(min=1)
    return torch.cat([positives, negatives], dim=1), weight


def side_by_side(
    graph: Graph, entries: Tensor, hidden: Tensor, negatives: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Every hidden entry of a step with a negative of its own; what is not hidden has one too, and weight zero.

    Args:
        graph: Where the entries are.
        entries: ``[entries]`` candidates of this step.
        hidden: ``[edges]`` one for each entry that is to be predicted.
        negatives: ``[2, entries]`` pairs (sender, receiver) to hold against them, in any order.
        generator: Source of randomness, on the graph's device.

    Returns:
        ``positives [2, entries]`` and ``negatives [2, entries]``, each (sender, receiver), and ``weight [entries]``.
    """
    positives = torch.stack([graph.structure.col[entries], graph.structure.row[entries]])
    # Entries and negatives may both come in order, so that neighbours in number would meet again and again.
    matching = torch.randperm(entries.numel(), generator=generator, device=graph.device)
    return positives, negatives[:, matching], hidden[entries]


class DegreeHead(nn.Module):
    """Perceptron from an embedding to a degree: linear, dropout, ReLU in every layer; the last one drops nothing."""

    def __init__(self, in_width: int, width: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        widths = [in_width, *[width] * (num_layers - 1), 1]
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))

    def forward(self, z: Tensor, generator: torch.Generator | None) -> Tensor:
        """``[nodes]`` degrees, never negative."""
        for layer in self.layers[:-1]:
            z = dropout(layer(z), self.dropout, generator).relu()
        degrees: Tensor = self.layers[-1](z).relu()
        return degrees.squeeze(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedEdgesConfig:
    """An autoencoder that predicts hidden edges; what is hidden is the business of those that extend it."""

    num_layers: int = 2
    width: int = 128
    """Of all layers of the encoder but the last."""
    out_width: int = 64
    """Of the encoder's last layer."""
    dropout: float = 0.8
    """Share of each encoder layer's input that is dropped in training."""
    decoder_layers: int = 2
    """Linear layers of the edge decoder, and of the degree decoder."""
    decoder_width: int = 32
    decoder_dropout: float = 0.2
    degree_weight: float = 0.003
    """What the squared error of the predicted hidden degree counts beside the loss of the edges; 0 leaves it out."""
    readout: Literal["concat", "last"] = "concat"
    """What an embedding is: all layers side by side, or the last one."""
    layer: Literal["gcn", "sage"] | None = None
    """Layers of the encoder: GCN layers with batch norm, or SAGE layers without. `gcn` counts as not set, and what is
    not set is not written into a run's settings."""
    node_embedding: int | None = None
    """Width of a learned vector per node that replaces the features. 0 reads the features and counts as not set."""
    objective: Literal["cross_entropy", "squared_auc"] | None = None
    """`cross_entropy`: of a perceptron on the product of two embeddings, as means over hidden entries and negatives.
    `squared_auc`: the dot products of hidden entries are to exceed those of their negatives by one; the squared misses
    are added up, and there is no perceptron. The former counts as not set."""

    def __post_init__(self) -> None:
        for name, usual in (("layer", "gcn"), ("node_embedding", 0), ("objective", "cross_entropy")):
            if getattr(self, name) == usual:
                object.__setattr__(self, name, None)
        if (self.node_embedding or 0) < 0:
            raise ValueError(f"node_embedding: must be 0 or a width, got {self.node_embedding}")
        for name in ("num_layers", "width", "out_width", "decoder_layers", "decoder_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        for name in ("dropout", "decoder_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: must lie in [0, 1), got {getattr(self, name)}")
        if not 0 <= self.degree_weight < math.inf:
            raise ValueError(f"degree_weight: must not be negative nor infinite, got {self.degree_weight}")


class EdgeReconstruction(Method):
    """Encode what is visible; predict the hidden edges and how many of them each node has lost."""

    def __init__(self, config: MaskedEdgesConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        inputs = config.node_embedding or spec.num_features
        widths = [inputs, *[config.width] * (config.num_layers - 1), config.out_width]
        self.encoder: Stack | SageStack
        if config.layer == "sage":
            self.encoder = SageStack(widths, name="elu", dropout=config.dropout)
        else:
            self.encoder = Stack(widths, name="elu", batch_norm=True, dropout=config.dropout)
        self.node_vectors: nn.Parameter | None = None
        if config.node_embedding:
            self.node_vectors = nn.Parameter(torch.empty(spec.num_nodes, config.node_embedding))
            nn.init.xavier_uniform_(self.node_vectors)
        decoder = config.decoder_width, config.decoder_layers, config.decoder_dropout
        self.decoder: CrossDecoder | None = None
        if config.objective != "squared_auc":
            self.decoder = CrossDecoder(1, config.out_width, *decoder, drop="inputs")
        self.degree_head = DegreeHead(config.out_width, *decoder) if config.degree_weight else None
        self._hidden_share = torch.tensor(float("nan"))

    @abstractmethod
    def hide(self, graph: Graph, generator: torch.Generator) -> EdgeMask:
        """The mask of an epoch."""

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Misfit of the batch's hidden entries and as many negatives, and the error of the hidden degrees."""
        graph, links = batch
        generator = clock.generator(graph.device)
        mask = self.hide(graph, clock.epoch_generator(graph.device))
        z = self._encode(graph, visible_weights(graph, mask), generator)[-1]
        entries = both_directions(graph, links)
        negatives = sample_negatives(graph.edge_keys, graph.num_nodes, entries.numel(), generator).flip(0)
        if self.decoder is None:
            loss = squared_auc_loss(z, *side_by_side(graph, entries, mask.hidden, negatives, generator))
        else:
            pairs, weight = tell_apart(graph, entries, mask.hidden, negatives, generator)
            loss = self.decoder.loss(z.unsqueeze(1), pairs, weight, generator)
        if self.degree_head is not None:
            error = mse_loss(self.degree_head(z, generator), row_sums(graph.structure, mask.hidden))
            loss = loss + self.config.degree_weight * error
        self._hidden_share = mask.hidden.mean()
        return loss

    def embed(self, graph: Graph) -> Tensor:
        layers = self._encode(graph, graph.weight)
        return torch.cat(layers, dim=1) if self.config.readout == "concat" else layers[-1]

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        z = self._encode(graph, graph.weight)[-1]
        return dot_products(z, pairs) if self.decoder is None else self.decoder.logits(z.unsqueeze(1), pairs)

    def diagnostics(self) -> dict[str, float]:
        return {"mask_ratio": float(self._hidden_share)}

    def _encode(self, graph: Graph, weight: Tensor | None, generator: torch.Generator | None = None) -> list[Tensor]:
        x = graph.x if self.node_vectors is None else self.node_vectors
        layers: list[Tensor]
        if isinstance(self.encoder, SageStack):
            layers = self.encoder(x, graph.structure, weight, generator)
        else:
            messages = gcn_weights(graph.structure, weight)
            layers = self.encoder(x, graph.structure, [messages] * self.config.num_layers, generator)
        return layers
