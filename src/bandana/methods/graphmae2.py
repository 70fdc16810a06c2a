"""GraphMAE2: recover hidden features through several blankings, and predict what an older encoder sees unmasked.

Idea. As in GraphMAE, nodes show a token in place of their features and a decoder recovers them. Two things keep the
codes from depending on noisy features: the decoder gets the codes several times, each time with other nodes blanked by
a second token, and the encoder's view of the masked graph must predict, node by node, how a slowly following copy of
it (the target) sees the whole graph.

Equations and where they are:
    token in place of the features of hidden nodes                     parts.feature_masks.cover
    encoder and decoder, graph attention                               parts.attention, parts.feature_decoder
    random blanking, and the sum of the errors over all blankings      `GraphMAE2._blankings`, `GraphMAE2.loss`
    prediction of the target's codes, over all nodes                   `GraphMAE2._latent_loss`
    the target, a moving average of encoder and projector              `GraphMAE2.turns`, parts.moving_average

Paper: Hou et al., "GraphMAE2: A Decoding-Enhanced Masked Self-Supervised Graph Learner", WWW 2023.
Deviations: As for GraphMAE: a decoder after fixed blanking has no vector for receivers; an edge of weight w takes part
in the attention as w edges; steps are full-batch, also on large graphs, where the authors train on small subgraphs.

The order of a step is the authors': the target moves after the loss was taken and before the optimiser moves the
encoder. So it follows one step behind: at momentum 0 it is the encoder of one step earlier, at 1 the one it began as.
"""

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.attention import GATConfig, GATEncoder, thinned
from bandana.parts.feature_decoder import FeatureDecoder, cosines
from bandana.parts.feature_masks import draw_feature_mask, draw_nodes, hide
from bandana.parts.moving_average import follow
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphMAE2Config:
    """GraphMAE2 as its authors run it."""

    encoder: GATConfig = field(default_factory=GATConfig)
    mask_rate: float = 0.5
    """Share of the nodes that is hidden."""
    exponent: float = 3.0
    """Of the scaled cosine error."""
    edge_drop: float = 0.0
    """Share of the directed edges that encoder and target each do without in a step; the decoder has them all."""
    blanking: Literal["random", "fixed"] = "random"
    """Which codes the decoder does without: those of random nodes, for which a second token stands, several times over;
    or those of the hidden nodes, set to zero, once."""
    blankings: int = 3
    """How many times random nodes are blanked."""
    blank_rate: float = 0.5
    """Share of the nodes that is blanked each time."""
    latent_weight: float = 1.0
    """Of predicting the target's codes, against recovering features."""
    projector_width: int = 256
    momentum: float = 0.9
    """How much of itself the target keeps at each step; 0 makes it the encoder of one step earlier, 1 freezes it."""
    still_epochs: int = 1
    """Epochs before the target begins to follow; in the first one it is equal to the encoder anyway."""
    initial: Literal["zero", "xavier"] = "zero"
    """Tokens start at zero, or, like the map in front of the decoder, from a normal distribution."""

    def __post_init__(self) -> None:
        if not 0 < self.mask_rate < 1:
            raise ValueError(f"mask_rate: must lie in (0, 1), got {self.mask_rate}")
        for name in ("edge_drop", "blank_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: must lie in [0, 1), got {getattr(self, name)}")
        for name in ("exponent", "blankings", "projector_width", "still_epochs"):
            if not 1 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}: must be at least 1 and finite, got {getattr(self, name)}")
        if not 0 < self.latent_weight < math.inf:
            raise ValueError(f"latent_weight: must be positive and finite, got {self.latent_weight}")
        if not 0 <= self.momentum <= 1:
            raise ValueError(f"momentum: must lie in [0, 1], got {self.momentum}")


@register("graphmae2")
class GraphMAE2(Method):
    """Masked autoencoder of node features and of a target network's codes."""

    Config = GraphMAE2Config
    facts = MethodFacts(
        family="masked autoencoder",
        year=2023,
        paper="Hou et al., GraphMAE2: A Decoding-Enhanced Masked Self-Supervised Graph Learner, WWW 2023",
        cost="O((layers + blankings) · (edges · width + nodes · width²) + features · width²)",
    )
    replayable = True

    def __init__(self, config: GraphMAE2Config, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        width = config.encoder.width
        self.encoder = GATEncoder(config.encoder, spec.num_features)
        self.token = nn.Parameter(torch.zeros(1, spec.num_features))
        self.bridge = nn.Linear(width, width, bias=False)
        self.decoder = FeatureDecoder(config.encoder, spec.num_features, blind=config.blanking == "fixed")
        self.blank = nn.Parameter(torch.zeros(1, width)) if config.blanking == "random" else None
        self.projector = nn.Sequential(
            nn.Linear(width, config.projector_width), nn.PReLU(), nn.Linear(config.projector_width, width)
        )
        self.predictor = nn.Sequential(nn.PReLU(), nn.Linear(width, width))
        if config.initial == "xavier":
            nn.init.xavier_normal_(self.bridge.weight, nn.init.calculate_gain("relu"))
            nn.init.xavier_normal_(self.token)
            if self.blank is not None:
                nn.init.xavier_normal_(self.blank)
        self.target_encoder = deepcopy(self.encoder).requires_grad_(False)
        self.target_projector = deepcopy(self.projector).requires_grad_(False)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {"main": [parameter for parameter in self.parameters() if parameter.requires_grad]}

    def turns(self, batch: Batch, clock: Clock) -> Iterator[tuple[str, Tensor]]:
        """The loss, and the target on its way to the weights that the loss was taken with."""
        loss = self.loss(batch, clock)
        momentum = self._momentum(clock.epoch_counter)
        follow(self.target_encoder, self.encoder, momentum)
        follow(self.target_projector, self.projector, momentum)
        yield "main", loss

    def _momentum(self, epoch: int | Tensor) -> float | Tensor:
        """How much the target keeps of itself: everything in the first epochs."""
        still, momentum = epoch <= self.config.still_epochs, self.config.momentum
        return torch.where(still, 1.0, momentum) if isinstance(still, Tensor) else 1.0 if still else momentum

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Hide nodes and encode; then predict the target's codes, and the features from every blanking."""
        graph, config = batch.graph, self.config
        generator = clock.generator(graph.device)
        mask = draw_feature_mask(graph.num_nodes, config.mask_rate, 0.0, generator)
        visible = thinned(graph, config.edge_drop, generator)
        z = self.encoder(graph.x, graph.structure, visible, generator, mask, self.token)
        latent = self._latent_loss(z, graph, generator)
        errors = [
            self.decoder.loss(codes, graph, mask.nodes, config.exponent, generator)
            for codes in self._blankings(self.bridge(z), mask.nodes, generator)
        ]
        return torch.stack(errors).sum() + config.latent_weight * latent

    def embed(self, graph: Graph) -> Tensor:
        z: Tensor = self.encoder(graph.x, graph.structure, graph.weight)
        return z

    def _latent_loss(self, z: Tensor, graph: Graph, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            visible = thinned(graph, self.config.edge_drop, generator)
            target = self.target_projector(self.target_encoder(graph.x, graph.structure, visible, generator))
        return (1 - cosines(self.predictor(self.projector(z)), target)).mean()

    def _blankings(self, codes: Tensor, hidden: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
        """The codes as the decoder gets them, ``[nodes, width]`` each."""
        if self.blank is None:
            yield hide(codes, hidden)
            return
        num_nodes = codes.shape[0]
        for _ in range(self.config.blankings):
            yield hide(codes, draw_nodes(num_nodes, int(self.config.blank_rate * num_nodes), generator), self.blank)
