"""CCA-SSG: two views agree in every dimension, and no two dimensions say the same.

Idea. Without negative pairs, heads or a second network, one thing must keep all embeddings from collapsing to a point:
the dimensions of each view are standardised and pushed to be uncorrelated, while the two views of a node are pulled
together. This is canonical correlation analysis with soft constraints and one shared encoder.

Equations and where they are:
    views: each directed edge and each feature column dropped by itself   parts.views.two_views
    standardised embeddings                                               parts.agreement.standardise
    invariance -tr C and decorrelation ‖I - C₁‖² + ‖I - C₂‖²              parts.agreement.disagreement

Paper: Zhang et al., "From Canonical Correlation Analysis to Self-supervised Graph Neural Networks", NeurIPS 2021.
Deviations: the last layer has no bias, since standardisation subtracts it and leaves its gradient to rounding errors.
A dimension without spread becomes zero where the authors' code divides by zero. Messages in a view are scaled by the
in-degrees of both ends; the authors' library takes the out-degree of the sender, and the two differ once an edge is
dropped in one direction only. The perceptron's weights start as Xavier-uniform.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from bandana.graph import Features, Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.parts.agreement import disagreement
from bandana.parts.encoders import Stack
from bandana.parts.views import View, ViewsConfig, two_views, whole_view
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class CCASSGConfig:
    """CCA-SSG with its two kinds of encoder."""

    encoder: Literal["gcn", "mlp"] = "gcn"
    """A GCN; or a perceptron with batch norm, which reads no edges at all."""
    num_layers: int = 2
    width: int = 256
    views: ViewsConfig = field(default_factory=lambda: ViewsConfig(edge_drop=(0.5, 0.5), feature_drop=(0.3, 0.3)))
    decorrelation: float = 1e-3
    """Weight of the decorrelation. The loss is a sum over dimensions, so this belongs to a width."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.decorrelation < math.inf:
            raise ValueError(f"decorrelation: must not be negative nor infinite, got {self.decorrelation}")


@register("cca_ssg")
class CCASSG(Method):
    """Agreement of two views with decorrelated dimensions."""

    Config = CCASSGConfig
    facts = MethodFacts(
        family="decorrelation",
        year=2021,
        paper="Zhang et al., From Canonical Correlation Analysis to Self-supervised Graph Neural Networks, "
        "NeurIPS 2021",
        cost="O(layers · (edges · width + nodes · width²))",
    )
    replayable = True

    def __init__(self, config: CCASSGConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config
        widths = [spec.num_features, *[config.width] * config.num_layers]
        self.inner = Stack(widths[:-1], batch_norm=config.encoder == "mlp") if config.num_layers > 1 else None
        self.last = Stack(widths[-2:], activate_last=False, bias=False)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        """Pull the views of each node together and the dimensions of each view apart."""
        first, second = two_views(batch.graph, self.config.views, clock.generator(batch.graph.device))
        return disagreement(self._encode(first), self._encode(second), self.config.decorrelation)

    def embed(self, graph: Graph) -> Tensor:
        return self._encode(whole_view(graph))

    def _encode(self, view: View) -> Tensor:
        layers = [view.edges] * self.config.num_layers if self.config.encoder == "gcn" else None
        hidden: Features = view.x if self.inner is None else self.inner(view.x, view.structure, layers)[-1]
        out: Tensor = self.last(hidden, view.structure, layers)[-1]
        return out
