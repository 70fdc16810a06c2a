"""COSTA: contrast random mixtures of nodes instead of nodes.

Idea. Damaging a graph shifts the embeddings it yields. COSTA augments in the space of embeddings: both views' embedding
matrices are multiplied by the same random matrix along the nodes, which leaves their covariance unchanged on average,
and each of the fewer mixed rows must find its partner in the other view.

Equations and where they are:
    views: each directed edge and each feature column dropped by itself   parts.views.two_views
    sketch P·Z with normal entries of variance 1/k, one P for both        engine.sketch
    projection head, after the sketch                                     parts.heads.projection_head
    pairwise objective over the sketched rows, in both directions         engine.info_nce (intra=False)

Paper: Zhang et al., "COSTA: Covariance-Preserving Feature Augmentation for Graph Contrastive Learning", KDD 2022.
Deviations: negatives come from the other view only, as in the authors' code; the paper's formula has those of the own
view too. P is drawn in blocks and drawn again for the gradient, so it is never held as a whole. Edge weights, which the
paper does not know, multiply the messages of the edges that are kept.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bandana.engine.info_nce import check_temperature, info_nce
from bandana.engine.sketch import sketch
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.encoders import Stack
from bandana.parts.heads import projection_head
from bandana.parts.views import ViewsConfig, encode, two_views, whole_view
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class COSTAConfig:
    """COSTA with the width of its encoder and head, and the size of its sketch."""

    width: int = 128
    """Of both layers and of the head."""
    views: ViewsConfig = field(default_factory=ViewsConfig)
    sketch_ratio: float = 0.5
    """Rows of the sketch per node."""
    temperature: float = 0.4

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width: must be at least 1, got {self.width}")
        if not 0 < self.sketch_ratio <= 1:
            raise ValueError(f"sketch_ratio: must lie in (0, 1], got {self.sketch_ratio}")
        check_temperature(self.temperature)


@register("costa")
class COSTA(Method):
    """Contrast of covariance-preserving sketches of two views."""

    Config = COSTAConfig
    facts = MethodFacts(
        family="contrastive",
        year=2022,
        paper="Zhang et al., COSTA: Covariance-Preserving Feature Augmentation for Graph Contrastive Learning, "
        "KDD 2022",
        cost="O(sketch rows · nodes · width + edges · width)",
        tasks=("node",),
    )
    replayable = True

    def __init__(self, config: COSTAConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        self.encoder = Stack([spec.num_features, config.width, config.width])
        self.head = projection_head(config.width, config.width)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Tell each mixture of nodes from all others by the same mixture in the other view."""
        graph = batch.graph
        views = two_views(graph, self.config.views, clock.generator(graph.device))
        both = torch.cat([encode(self.encoder, view) for view in views], dim=1)
        num_rows = max(int(self.config.sketch_ratio * graph.num_nodes), 1)
        mixed = sketch(both, num_rows, seed=clock.seed, step=clock.counter)
        u, v = (self.head(view) for view in mixed.chunk(2, dim=1))
        return info_nce(u, v, self.config.temperature, intra=False)

    def embed(self, graph: Graph) -> Tensor:
        return encode(self.encoder, whole_view(graph))
