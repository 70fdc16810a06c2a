"""GRACE: a node must find itself in another view of the graph, among all other nodes.

Idea. Two views of the graph lose different random edges and feature columns. One encoder reads both, a small head maps
them to where they are compared, and each node is pulled to its own image in the other view and pushed away from
every other node in both. Labels are replaced by identity: whatever survives the loss of edges and features is kept.

Equations and where they are:
    views: each directed edge and each feature column dropped by itself   parts.views.two_views
    encoder: two GCN layers, the first twice as wide, both activated      parts.heads.Contrast
    projection head: linear, ELU, linear                                  parts.heads.projection_head
    pairwise objective, negatives from both views, both directions        engine.info_nce (intra=True)

Paper: Zhu et al., "Deep Graph Contrastive Representation Learning", ICML Workshop on Graph Representation Learning and
Beyond 2020.
Deviations: none in the method; the loss is exact, and only its memory differs, as it is taken in blocks of rows.
Edge weights, which the paper does not know, multiply the messages of the edges that are kept.
"""

from dataclasses import dataclass, field

from torch import Tensor

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.heads import Contrast, ContrastConfig
from bandana.parts.views import ViewsConfig, encode, two_views, whole_view
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class GRACEConfig:
    """What is contrasted, and between which views."""

    contrast: ContrastConfig = field(default_factory=ContrastConfig)
    views: ViewsConfig = field(default_factory=ViewsConfig)


@register("grace")
class GRACE(Method):
    """Contrast of two randomly damaged views, node by node."""

    Config = GRACEConfig
    facts = MethodFacts(
        family="contrastive",
        year=2020,
        paper="Zhu et al., Deep Graph Contrastive Representation Learning, ICML Workshop GRL+ 2020",
        cost="O(nodes² · width + edges · width)",
    )
    replayable = True

    def __init__(self, config: GRACEConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        self.contrast = Contrast(config.contrast, spec)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Tell each node of one view from all others by its image in the other view."""
        generator = clock.generator(batch.graph.device)
        loss: Tensor = self.contrast(*two_views(batch.graph, self.config.views, generator))
        return loss

    def embed(self, graph: Graph) -> Tensor:
        return encode(self.contrast.encoder, whole_view(graph))
