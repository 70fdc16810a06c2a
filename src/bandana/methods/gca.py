"""GCA: contrast two views that keep what is important more often.

Idea. As GRACE, a node must find its image in a second damaged view among all other nodes. But the damage is adaptive:
edges into peripheral nodes and features of peripheral nodes are dropped more often than those of central ones, so
that the views differ in what matters little.

Equations and where they are:
    centrality of nodes: degree, PageRank, eigenvector              parts.views.node_centrality
    drop chances from log centrality, (max - s) / (max - mean)      parts.views.drop_odds
    importance of feature columns                                   parts.views.column_importance
    chances times the mean rate, cut off at 0.7                     parts.views.drop_chances
    encoder, projection head, and pairwise objective of GRACE       parts.heads.Contrast, engine.info_nce

Paper: Zhu et al., "Graph Contrastive Learning with Adaptive Augmentation", WWW 2021.
Deviations: PageRank keeps a node's own rank in place of restarting, and runs 200 rounds for edges but 10 for features,
as in the authors' code. Columns that no central node has, and graphs where all nodes are equally central, would divide
by zero there; here they count as the least important column, and as a uniform drop. The eigenvector is found by 200
power iterations instead of a solver. Edge weights multiply messages but do not make a node central.
"""

from dataclasses import dataclass, field

from torch import Tensor

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.heads import Contrast, ContrastConfig
from bandana.parts.views import (
    Centrality,
    DropOdds,
    Importance,
    ViewsConfig,
    adaptive_odds,
    encode,
    two_views,
    whole_view,
)
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class GCAConfig:
    """What is contrasted, between which views, and what these spare."""

    contrast: ContrastConfig = field(default_factory=ContrastConfig)
    views: ViewsConfig = field(default_factory=ViewsConfig)
    """Mean shares; those of single edges and columns follow their importance."""
    centrality: Centrality = "degree"
    """What makes a node central, and with it the edges into it and its features."""
    column_importance: Importance = "occurrence"
    """How a column counts for a node: whether it has it, for words; or by the size of its entry, for dense features."""


@register("gca")
class GCA(Method):
    """Contrast of two adaptively damaged views, node by node."""

    Config = GCAConfig
    facts = MethodFacts(
        family="contrastive",
        year=2021,
        paper="Zhu et al., Graph Contrastive Learning with Adaptive Augmentation, WWW 2021",
        cost="O(nodes² · width + edges · width)",
    )
    replayable = True

    def __init__(self, config: GCAConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        self.contrast = Contrast(config.contrast, spec)
        self._odds: DropOdds | None = None

    def prepare(self, graph: Graph) -> None:
        self._odds = adaptive_odds(graph, self.config.centrality, self.config.column_importance)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Tell each node of one view from all others by its image in the other view."""
        assert self._odds is not None, "prepare() comes before the first loss()"
        generator = clock.generator(batch.graph.device)
        loss: Tensor = self.contrast(*two_views(batch.graph, self.config.views, generator, self._odds))
        return loss

    def embed(self, graph: Graph) -> Tensor:
        return encode(self.contrast.encoder, whole_view(graph))
