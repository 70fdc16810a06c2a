"""S2GAE: learn by predicting hidden edges from all pairs of layers.

Idea. Most edges are hidden and a GCN encodes the rest. Whether two nodes are linked may show in a comparison of near
with far neighbourhoods, so the decoder reads the product of every layer's code of the one node with every layer's code
of the other and tells hidden edges from random pairs.

Equations and where they are:
    exactly ⌊ρ · entries⌋ entries, or ⌊ρ · links⌋ links, are hidden         parts.edge_masks.hide_…_by_count
    encoder, GCN → ReLU → dropout, the last layer without dropout          `S2GAE._encode`
    cross-correlation ‖_{a,b} h_u^a ⊙ h_v^b and the perceptron on it         parts.cross_decoder.CrossDecoder
    -mean log p over hidden edges - mean log(1 - p) over negatives         parts.edge_reconstruction.tell_apart

Paper: Tan et al., "S2GAE: Self-Supervised Graph Autoencoders are Generalizable Learners with Graph Masking", WSDM 2023.
Deviations: a step takes the hidden entries of a batch of links instead of a batch of hidden entries, so that their
number varies a little; recipes enlarge the batch by 1/ρ, which keeps the number of steps. The gradients of encoder and
decoder are clipped together and not each by itself. The loss is taken from logits, without the 1e-15 that keeps the
logarithm of a rounded probability finite. Scores of pairs are taken without dropout in the decoder.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bandana.engine.dropout import dropout
from bandana.engine.negatives import sample_negatives
from bandana.engine.propagate import EdgeWeights, gcn_weights, row_sums
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.cross_decoder import CrossDecoder
from bandana.parts.edge_masks import (
    EdgeMask,
    hide_entries_by_count,
    hide_links_by_count,
    visible_weights,
)
from bandana.parts.edge_reconstruction import both_directions, tell_apart
from bandana.parts.encoders import Stack
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class S2GAEConfig:
    """S2GAE with the choices in which the authors' scripts for nodes and for links differ."""

    num_layers: int = 2
    width: int = 128
    dropout: float = 0.5
    """Share of the codes between encoder layers, and of the decoder's hidden units, that is dropped in training."""
    decoder_layers: int = 2
    decoder_width: int = 128
    masking: Literal["directed", "undirected"] = "directed"
    """What is counted and hidden: entries, whose reverses stay visible, or links in both directions."""
    mask_rate: float = 0.8
    negatives: Literal["uniform", "not_visible"] = "uniform"
    """Pairs of any two nodes, or of two different nodes without a visible edge; both may hold hidden edges."""
    readout: Literal["concat", "last"] = "last"
    """What an embedding is: all layers side by side, or the last one."""
    readout_loops: bool = True
    """Whether nodes hear themselves when they are embedded and scored, as they always do in training."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "width", "decoder_layers", "decoder_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: must lie in [0, 1), got {self.dropout}")
        if not 0 < self.mask_rate <= 1:
            raise ValueError(f"mask_rate: must lie in (0, 1], got {self.mask_rate}")


@register("s2gae")
class S2GAE(Method):
    """Self-supervised graph autoencoder with a cross-layer decoder."""

    Config = S2GAEConfig
    facts = MethodFacts(
        family="masked autoencoder",
        year=2023,
        paper="Tan et al., S2GAE: Self-Supervised Graph Autoencoders are Generalizable Learners with Graph Masking, "
        "WSDM 2023",
        cost="O(layers · (edges · width + nodes · width²) + edges · layers² · width · decoder width)",
    )
    replayable = True

    def __init__(self, config: S2GAEConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        inputs = [spec.num_features, *[config.width] * (config.num_layers - 1)]
        # One stack per layer, because dropout comes behind a layer here and not in front of it.
        self.layers = nn.ModuleList(Stack([width, config.width], name="relu") for width in inputs)
        decoder = config.decoder_width, config.decoder_layers, config.dropout
        self.decoder = CrossDecoder(config.num_layers, config.width, *decoder, drop="outputs")
        self._hidden_share = torch.tensor(float("nan"))

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Cross entropy over the batch's hidden edges and as many negatives."""
        graph, links = batch
        generator = clock.generator(graph.device)
        mask = self._hide(graph, clock.epoch_generator(graph.device))
        codes = self._encode(graph, gcn_weights(graph.structure, visible_weights(graph, mask)), generator)
        entries = links if self.config.masking == "undirected" else both_directions(graph, links)
        negatives = self._draw_negatives(graph, mask, entries.numel(), generator)
        pairs, weight = tell_apart(graph, entries, mask.hidden, negatives, generator)
        self._hidden_share = 1 - mask.visible.mean()
        return self.decoder.loss(codes, pairs, weight, generator)

    def embed(self, graph: Graph) -> Tensor:
        codes = self._encode(graph, self._readout_weights(graph))
        return codes.flatten(1) if self.config.readout == "concat" else codes[:, -1]

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor:
        return self.decoder.logits(self._encode(graph, self._readout_weights(graph)), pairs)

    def diagnostics(self) -> dict[str, float]:
        return {"mask_ratio": float(self._hidden_share)}

    def _encode(self, graph: Graph, messages: EdgeWeights, generator: torch.Generator | None = None) -> Tensor:
        """``[nodes, layers, width]`` codes; the decoder sees them with the dropout of the next layer's input."""
        hidden, codes = graph.x, []
        for depth, layer in enumerate(self.layers, start=1):
            (hidden,) = layer(hidden, graph.structure, [messages])
            if depth < len(self.layers):
                hidden = dropout(hidden, self.config.dropout, generator)
            codes.append(hidden)
        return torch.stack(codes, dim=1)

    def _num_hidden(self, graph: Graph) -> int:
        """Entries that pass no messages."""
        if self.config.masking == "directed":
            return int(self.config.mask_rate * graph.num_edges)
        return int(self.config.mask_rate * graph.links.numel()) * (1 if graph.directed else 2)

    def _hide(self, graph: Graph, generator: torch.Generator) -> EdgeMask:
        hide = hide_entries_by_count if self.config.masking == "directed" else hide_links_by_count
        return hide(graph, self.config.mask_rate, generator)

    def _draw_negatives(self, graph: Graph, mask: EdgeMask, count: int, generator: torch.Generator) -> Tensor:
        if self.config.negatives == "uniform":
            return torch.randint(graph.num_nodes, (2, count), generator=generator, device=graph.device)
        hidden = self._num_hidden(graph)
        # Visible entries, in order: their number is known, so that nobody has to wait for a count.
        visible = mask.visible.argsort(descending=True, stable=True)[: graph.num_edges - hidden]
        # Keys name the receiver first, pairs the sender.
        return sample_negatives(graph.edge_keys[visible], graph.num_nodes, count, generator).flip(0)

    def _readout_weights(self, graph: Graph) -> EdgeWeights:
        return gcn_weights(graph.structure, graph.weight) if self.config.readout_loops else _without_loops(graph)


def _without_loops(graph: Graph) -> EdgeWeights:
    """``D^-1/2 A D^-1/2`` with ``D`` the row sums; a node that receives nothing neither hears nor is heard."""
    structure = graph.structure
    values = torch.ones(graph.num_edges, device=graph.device) if graph.weight is None else graph.weight
    degree = row_sums(structure, values)
    scale = degree.rsqrt().where(degree > 0, 0)
    return EdgeWeights(values * scale[structure.row] * scale[structure.col], torch.zeros_like(degree))
