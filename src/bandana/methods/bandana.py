"""Bandana: learn by predicting how much of each message was let through.

Idea. Instead of deleting edges at random, every edge gets a random *bandwidth*, a share of what its receiving node may
hear. Each layer of a GCN encoder passes messages through its own bandwidths, and one decoder, shared by the layers,
predicts them from the layer's output. No edge is ever removed, so messages still reach everywhere.

Equations (numbers of the paper) and where they are:
    bandwidths, softmax of Gaussian noise over a node's neighbours (5)   parts.masks.draw_masks
    encoding with bandwidths in place of the adjacency (6), GCN form     parts.encoders.GCNEncoder, parts.masks.Mask
    cross entropy against bandwidths, and zero for negative pairs (8)    engine.edge_loss, parts.bandwidth_targets
    mean of the layers' losses (9)                                       `Bandana._bandwidth_loss`

Paper: Zhao et al., "Masked Graph Autoencoder with Non-discrete Bandwidths", WWW 2024.
Deviations: docs/deviations.md. Two terms that the paper does not have can be added to the loss: what two draws of
bandwidths make of a node should agree, and features of hidden nodes should be recovered.
"""

import math
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

import torch
from torch import Tensor

from bandana.engine.propagate import gcn_weights
from bandana.engine.streams import generator_seed
from bandana.errors import UserError
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.agreement import AgreementConfig, disagreement
from bandana.parts.bandwidth_targets import TargetName, held_against, released_order, signed_weights
from bandana.parts.decoders import HadamardMLP
from bandana.parts.encoders import EncoderConfig, GCNEncoder
from bandana.parts.feature_masks import draw_nodes
from bandana.parts.feature_recovery import FeatureRecovery, RecoveryConfig
from bandana.parts.masks import Mask, MaskConfig, draw_masks
from bandana.parts.negatives import draw_negatives
from bandana.registry import register

_BESIDE = -2  # sets these streams apart from those of copies
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
    target: TargetName = "aligned"
    """What an edge's prediction is held against: its own bandwidth; the one that the authors' released code pairs it
    with (another edge's, the same one in every step); that of a random other edge; or the mean bandwidth."""
    negatives_per_edge: float = 1.0
    """Negative pairs per directed edge of a step."""
    readout: Literal["concat", "last"] = "concat"
    """What an embedding is: all layers side by side, or the last one."""
    agreement: AgreementConfig = field(default_factory=AgreementConfig)
    recovery: RecoveryConfig = field(default_factory=RecoveryConfig)

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
        if self.recovery.weight and self.encoder.node_embedding:
            raise ValueError("recovery.weight: learned vectors replace the features, so there is nothing to recover")
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
        self.recovery = FeatureRecovery(config.encoder.width, spec.num_features) if config.recovery.weight else None
        self._bandwidths = [torch.tensor(float("nan"))]
        self._pairing: Tensor | None = None

    def prepare(self, graph: Graph) -> None:
        if self.config.target == "released":
            self._pairing = released_order(graph)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Predict the bandwidths of the batch's links, layer by layer, and what else is asked for."""
        graph, agreement, recovery = batch.graph, self.config.agreement, self.config.recovery
        generator = clock.generator(graph.device)
        masks = self._draw(graph, clock)
        layers = self._encode_masked(graph, masks, generator)
        loss = self._bandwidth_loss(batch, masks, layers, generator)
        if (agreement.weight or recovery.weight) and graph.origin is not None:
            raise UserError("model.agreement, model.recovery: are means over all nodes. Leave them out with a store.")
        if agreement.weight:
            others = self._encode_masked(graph, self._draw(graph, _beside(clock, 1)), generator)
            views = torch.cat(layers, dim=1), torch.cat(others, dim=1)
            loss = loss + agreement.weight * disagreement(*views, agreement.decorrelation or 0.0)
        if recovery.weight:
            loss = loss + recovery.weight * self._recovery_loss(graph, clock, generator)
        return loss

    def _bandwidth_loss(
        self, batch: Batch, masks: list[Mask], layers: list[Tensor], generator: torch.Generator
    ) -> Tensor:
        graph, links, config = batch.graph, batch.links, self.config
        entries_per_link = 1 if graph.directed else 2
        num_negatives = max(1, round(config.negatives_per_edge * entries_per_link * links.numel()))
        negatives = draw_negatives(graph, num_negatives, generator)
        positives = torch.stack([graph.structure.row[links], graph.structure.col[links]])
        pairs = torch.cat([positives, negatives], dim=1)

        predicted = config.predicting_layers
        asked = [masks[layer].bandwidths for layer in predicted]
        targets = torch.stack([held_against(config.target, graph, own, generator, self._pairing) for own in asked])
        self._bandwidths = [mask.bandwidths for mask in masks]
        weight = signed_weights(graph, links, targets, num_negatives)
        return self._mean_loss([layers[layer] for layer in predicted], pairs, weight, generator)

    def _recovery_loss(self, graph: Graph, clock: Clock, generator: torch.Generator) -> Tensor:
        """How far the features of some nodes are from what their neighbours tell of them, under other bandwidths."""
        if self.recovery is None or not graph.has_features:
            raise UserError("model.recovery.weight: this graph has no features to recover. Leave the option out.")
        nodes = draw_nodes(graph.num_nodes, max(int(self.config.recovery.share * graph.num_nodes), 1), generator)
        codes = self._encode_masked(graph, self._draw(graph, _beside(clock, 2)), generator, nodes)[-1]
        loss: Tensor = self.recovery.loss(codes, graph, nodes)
        return loss

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

    def _draw(self, graph: Graph, clock: Clock) -> list[Mask]:
        return draw_masks(self.config.mask, graph, clock, self.config.encoder.num_layers)

    def _encode_masked(
        self, graph: Graph, masks: list[Mask], generator: torch.Generator, hidden_nodes: Tensor | None = None
    ) -> list[Tensor]:
        messages = [mask.messages for mask in masks]
        layers: list[Tensor] = self.encoder(graph.x, graph.structure, messages, generator, hidden_nodes)
        return layers

    def _encode(self, graph: Graph) -> list[Tensor]:
        plain = gcn_weights(graph.structure, graph.weight)
        layers: list[Tensor] = self.encoder(graph.x, graph.structure, [plain] * self.config.encoder.num_layers)
        return layers


def _beside(clock: Clock, place: int) -> Clock:
    """The same step with other bandwidths, for a pass of the encoder beside the one that predicts them."""
    return replace(clock, seed=generator_seed(clock.seed, place, _BESIDE))
