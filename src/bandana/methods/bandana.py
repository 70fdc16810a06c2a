"""Bandana: learn by predicting how much of each message was let through.

Idea. Instead of deleting edges at random, every edge gets a random *bandwidth*, a share of what its receiving node may
hear. Each layer of a GCN encoder passes messages through its own bandwidths, and one decoder, shared by the layers,
predicts them from the layer's output. No edge is ever removed, so messages still reach everywhere.

Equations (numbers of the paper) and where they are:
    bandwidths, softmax of Gaussian noise over a node's neighbours (5)   parts.masks.draw_masks
    encoding with bandwidths in place of the adjacency (6), GCN form     parts.encoders.GCNEncoder, parts.masks.Mask
    cross entropy against bandwidths, and zero for negative pairs (8)    engine.edge_loss, `_weigh`
    mean of the layers' losses (9)                                       `Bandana.loss`

Paper: Zhao et al., "Masked Graph Autoencoder with Non-discrete Bandwidths", WWW 2024.
Deviations: docs/deviations.md.
"""

import math
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

import torch
from torch import Tensor

from bandana.engine.propagate import gcn_weights
from bandana.errors import UserError
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.decoders import HadamardMLP
from bandana.parts.encoders import EncoderConfig, GCNEncoder
from bandana.parts.masks import MaskConfig, draw_masks, mean_bandwidth
from bandana.parts.negatives import draw_negatives
from bandana.registry import register

_STACKED_UP_TO = 1 << 22
"""Elements of a layer that are copied sooner than launched for. Far above, the copies are what fills the memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BandanaConfig:
    """Bandana as the paper describes it, with its ablations as options."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder_width: int = 64
    decoder_dropout: float = 0.2
    mask: MaskConfig = field(default_factory=MaskConfig)
    predict: Literal["all", "last"] = "all"
    """Which layers predict their bandwidths."""
    excluded_layers: tuple[int, ...] = ()
    """Layers, counted from 1, that never predict."""
    target: Literal["aligned", "released", "shuffled", "constant"] = "aligned"
    """What an edge's prediction is held against: its own bandwidth; the one that the authors' released code pairs it
    with (another edge's, the same one in every step); that of a random other edge; or the mean bandwidth."""
    negatives_per_edge: float = 1.0
    """Negative pairs per directed edge of a step."""
    readout: Literal["concat", "last"] = "concat"
    """What an embedding is: all layers side by side, or the last one."""

    def __post_init__(self) -> None:
        if self.decoder_width < 1:
            raise ValueError(f"decoder_width: must be at least 1, got {self.decoder_width}")
        if not 0 <= self.decoder_dropout < 1:
            raise ValueError(f"decoder_dropout: must lie in [0, 1), got {self.decoder_dropout}")
        if not 0 < self.negatives_per_edge < math.inf:
            raise ValueError(f"negatives_per_edge: must be positive, got {self.negatives_per_edge}")
        depth, temperature = self.encoder.num_layers, self.mask.temperature
        if not all(1 <= layer <= depth for layer in self.excluded_layers):
            raise ValueError(f"excluded_layers: the layers are 1 to {depth}, got {list(self.excluded_layers)}")
        if not self.predicting_layers:
            raise ValueError(f"excluded_layers: {list(self.excluded_layers)} leaves no layer that predicts")
        if isinstance(temperature, tuple) and len(temperature) != depth:
            raise ValueError(f"mask.temperature: give one number or {depth}, one per layer; got {list(temperature)}")

    @property
    def predicting_layers(self) -> list[int]:
        depth = self.encoder.num_layers
        candidates = range(depth) if self.predict == "all" else [depth - 1]
        return [layer for layer in candidates if layer + 1 not in self.excluded_layers]


@register("bandana")
class Bandana(Method):
    """Masked graph autoencoder with non-discrete bandwidths."""

    Config = BandanaConfig
    facts = MethodFacts(
        family="masked autoencoder",
        year=2024,
        paper="Zhao et al., Masked Graph Autoencoder with Non-discrete Bandwidths, WWW 2024",
        cost="O(layers · (edges · width · decoder width + nodes · width²))",
    )
    replayable = True
    shardable = True

    def __init__(self, config: BandanaConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        self.encoder = GCNEncoder(config.encoder, spec)
        self.decoder = HadamardMLP(config.encoder.width, config.decoder_width, config.decoder_dropout)
        self._bandwidths = [torch.tensor(float("nan"))]
        self._released_order: Tensor | None = None

    def prepare(self, graph: Graph) -> None:
        if self.config.target == "released":
            self._released_order = _released_order(graph)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Predict the bandwidths of the batch's links, layer by layer."""
        graph, links, config = batch.graph, batch.links, self.config
        generator = clock.generator(graph.device)
        masks = draw_masks(config.mask, graph, clock, config.encoder.num_layers)
        layers = self.encoder(graph.x, graph.structure, [mask.messages for mask in masks], generator)

        entries_per_link = 1 if graph.directed else 2
        num_negatives = max(1, round(config.negatives_per_edge * entries_per_link * links.numel()))
        negatives = draw_negatives(graph, num_negatives, generator)
        positives = torch.stack([graph.structure.row[links], graph.structure.col[links]])
        pairs = torch.cat([positives, negatives], dim=1)

        predicted = config.predicting_layers
        targets = torch.stack([self._targets(graph, masks[layer].bandwidths, generator) for layer in predicted])
        weight = _weigh(graph, links, targets, num_negatives)
        self._bandwidths = [mask.bandwidths for mask in masks]
        return self._mean_loss([layers[layer] for layer in predicted], pairs, weight, generator)

    def _mean_loss(self, layers: list[Tensor], pairs: Tensor, weight: Tensor, generator: torch.Generator) -> Tensor:
        """The mean of the layers' losses, over ``pairs [2, P]`` with weights ``[layers, P]``.

        The decoder is shared and a loss is a weighted sum. So on a GPU, while launches cost more than copies, the
        layers stand below each other and are decoded at once.
        """
        if pairs.device.type == "cpu" or layers[0].numel() > _STACKED_UP_TO:
            losses = [self.decoder.loss(z, pairs, own, generator) for z, own in zip(layers, weight, strict=True)]
            return torch.stack(losses).mean()
        count, num_nodes = len(layers), layers[0].shape[0]
        first_rows = torch.arange(count, device=pairs.device) * num_nodes
        shifted = (pairs.unsqueeze(1) + first_rows.unsqueeze(1)).flatten(1)
        return self.decoder.loss(torch.cat(layers), shifted, weight.flatten() / count, generator)

    def embed(self, graph: Graph) -> Tensor:
        layers = self._encode(graph)
        return torch.cat(layers, dim=1) if self.config.readout == "concat" else layers[-1]

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return self.decoder.logits(self._encode(graph)[-1], pairs)

    def diagnostics(self) -> dict[str, float]:
        return {"mask_ratio": 1 - fmean(float(bandwidths.mean()) for bandwidths in self._bandwidths)}

    def _encode(self, graph: Graph) -> list[Tensor]:
        plain = gcn_weights(graph.structure, graph.weight)
        layers: list[Tensor] = self.encoder(graph.x, graph.structure, [plain] * self.config.encoder.num_layers)
        return layers

    def _targets(self, graph: Graph, bandwidths: Tensor, generator: torch.Generator) -> Tensor:
        """``[edges]`` what each edge's prediction is held against."""
        match self.config.target:
            case "aligned":
                return bandwidths
            case "constant":
                return mean_bandwidth(graph.structure).to(bandwidths.dtype).expand_as(bandwidths)
            case "shuffled":
                return bandwidths[torch.randperm(graph.num_edges, generator=generator, device=graph.device)]
            case "released":
                if graph.origin is not None:
                    raise UserError("target: 'released' pairs the edges of a whole graph; use another with a store.")
                assert self._released_order is not None, "prepare() comes before the first loss()"
                return bandwidths[self._released_order]


def _weigh(graph: Graph, links: Tensor, targets: Tensor, num_negatives: int) -> Tensor:
    """``[layers, pairs]`` signed weights for `edge_loss`: positives by their target, negatives by minus one, averaged.

    The decoder is symmetric in its two nodes, so the two directions of an undirected link are one pair that carries
    both targets.
    """
    positive = targets.index_select(1, links)
    num_positives = links.numel()
    if not graph.directed:
        positive += targets.index_select(1, graph.structure.transposed_entry[links])
        num_positives *= 2
    negative = positive.new_full((targets.shape[0], num_negatives), -1.0 / num_negatives)
    return torch.cat([positive.div_(max(num_positives, 1)), negative], dim=1)


def _released_order(graph: Graph) -> Tensor:
    """``[edges]`` the edge whose bandwidth the released code takes for each edge.

    There the bandwidths come back sorted by node, while the edges they are compared with stay in the order of the link
    splitter: a random order of the undirected links, then the same links reversed. Only the pairing matters, so any
    fixed random order reproduces it.
    """
    shuffle = torch.Generator().manual_seed(2022)
    links = graph.links
    order = links[torch.randperm(links.numel(), generator=shuffle).to(links.device)]
    listed = order if graph.directed else torch.cat([order, graph.structure.transposed_entry[order]])
    partner = torch.empty_like(listed)
    partner[listed] = torch.arange(graph.num_edges, device=listed.device)
    return partner
