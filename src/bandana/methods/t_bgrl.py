"""T-BGRL: predict a slow copy of oneself, and stay away from what it sees in a graph that means nothing.

Idea. An encoder with a predictor guesses, from one view of the graph, what a second encoder that slowly follows it says
about another view. Agreement alone does not tell links from non-links, so a third, corrupted graph is shown to the
target too, and the prediction is pushed away from the outcome: a negative example at the price of one encoder pass.

Equations and where they are:
    views: each directed edge and each feature column dropped by itself   parts.views.two_views
    corruption of features and edges                                      parts.views.scramble_rows, …, `_corrupt`
    λ · repulsion - (1 - λ) · attraction, cosines averaged over nodes     `TBGRL.loss`
    target <- m · target + (1 - m) · encoder, m rising to 1 on a cosine   parts.moving_average.follow, `momentum_at`

Paper: Shiao et al., "Link Prediction with Non-Contrastive Learning", ICLR 2023.
Deviations: messages pass along both directions of a training link; the authors' transductive runs keep one only, by a
slip in the call of their splitter. Random edges may end in every node; in their code never in the last one. They stop
on the training loss, our recipes on validation links. No bias before batch norm, which would subtract it.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.encoders import Stack
from bandana.parts.heads import predictor
from bandana.parts.moving_average import follow
from bandana.parts.views import (
    View,
    ViewsConfig,
    drop_edges,
    encode,
    random_edges,
    random_features,
    scramble_rows,
    two_views,
    whole_view,
)
from bandana.registry import register

_NEWEST_BATCH_SHARE = 0.99
_CORRUPTED_EDGE_DROP = 0.95


def momentum_at(progress: float, start: float) -> float:
    """How much of itself the target keeps in a step, from `start` at progress 0 to all at progress 1."""
    return 1 - (1 - start) * (1 + math.cos(math.pi * min(progress, 1))) / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class TBGRLConfig:
    """T-BGRL with its corruption, and how its target follows."""

    width: int = 128
    """Of both layers and of the predictor."""
    views: ViewsConfig = field(default_factory=ViewsConfig)
    corrupt_features: Literal["keep", "scramble", "random"] = "scramble"
    """Features of the corrupted graph: its own; those of random other nodes; uniform numbers, as a dense matrix."""
    corrupt_edges: Literal["keep", "random", "drop"] = "keep"
    """Edges of the corrupted graph: its own; as many random ones; one in twenty of its own."""
    repulsion: float = 0.3
    """Weight of the distance from the corrupted graph; agreement has the rest."""
    momentum: float = 0.94
    """How much of itself the target keeps in the first step; at 1 it never moves."""
    momentum_epochs: int = 0
    """Epochs in which the momentum rises to 1; 0 for those of the run."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width: must be at least 1, got {self.width}")
        if self.momentum_epochs < 0:
            raise ValueError(f"momentum_epochs: must not be negative, got {self.momentum_epochs}")
        for name in ("repulsion", "momentum"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: must lie in [0, 1], got {getattr(self, name)}")


@register("t_bgrl")
class TBGRL(Method):
    """Bootstrapped embeddings with a corrupted third view."""

    Config = TBGRLConfig
    facts = MethodFacts(
        family="bootstrapping",
        year=2023,
        paper="Shiao et al., Link Prediction with Non-Contrastive Learning, ICLR 2023",
        cost="O(edges · width + nodes · width²), five encoder passes a step",
        tasks=("link",),
    )
    replayable = True

    def __init__(self, config: TBGRLConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        widths = [spec.num_features, config.width, config.width]
        # The target starts from weights of its own, not from a copy.
        self.encoder, self.target = (
            Stack(widths, name="prelu", batch_norm=True, momentum=_NEWEST_BATCH_SHARE) for _ in range(2)
        )
        self.target.requires_grad_(False)
        self.predictor = predictor(config.width, config.width)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {"main": [*self.encoder.parameters(), *self.predictor.parameters()]}

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Agree with the target across views, and disagree with what it makes of the corrupted graph."""
        generator = clock.generator(batch.graph.device)
        views = two_views(batch.graph, self.config.views, generator)
        first, second = (self.predictor(encode(self.encoder, view)) for view in views)
        with torch.no_grad():
            target_of_second, target_of_first = (encode(self.target, view) for view in views)
            wrong = encode(self.target, self._corrupt(batch.graph, generator))
        attraction = _agreement(first, target_of_first) + _agreement(second, target_of_second)
        repulsion = _agreement(first, wrong) + _agreement(second, wrong)
        return self.config.repulsion * repulsion - (1 - self.config.repulsion) * attraction

    def after_step(self, clock: Clock) -> None:
        progress = (clock.epoch - 1) / (self.config.momentum_epochs or clock.num_epochs)
        follow(self.target, self.encoder, momentum_at(progress, self.config.momentum))

    def embed(self, graph: Graph) -> Tensor:
        return encode(self.encoder, whole_view(graph))

    def _corrupt(self, graph: Graph, generator: torch.Generator) -> View:
        x, structure, edges = whole_view(graph)
        match self.config.corrupt_features:
            case "scramble":
                x = scramble_rows(x, generator)
            case "random":
                x = random_features(x, generator)
        match self.config.corrupt_edges:
            case "random":
                structure, edges = random_edges(graph, generator)
            case "drop":
                edges = drop_edges(graph, _CORRUPTED_EDGE_DROP, generator)
        return View(x, structure, edges)


def _agreement(guess: Tensor, target: Tensor) -> Tensor:
    return cosine_similarity(guess, target).mean()
