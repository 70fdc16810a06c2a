"""Raw features: the floor that ignores the graph.

Idea. A node's embedding is its feature vector. What a method scores above this it took from the graph; what it scores
below, it lost on the way.

Equations and where they are:
    Z = X                                                                `RawFeatures.embed`

Paper: none of its own; Veličković et al., "Deep Graph Infomax", ICLR 2019, is where the row became customary.
Deviations: none. Embeddings are dense, so they take nodes x features numbers. A graph without features gives one
indicator per node: every dot product of two nodes is then zero, which is what such features know about links.
"""

from dataclasses import dataclass

from torch import Tensor

from bandana.graph import Graph, dense
from bandana.method import GraphSpec, MethodFacts
from bandana.parts.floor import Floor
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class RawFeaturesConfig:
    """Nothing to choose: what is done to features before any method sees them is the experiment's `features`."""


@register("raw_features")
class RawFeatures(Floor):
    """The features themselves, without the graph and without learning."""

    Config = RawFeaturesConfig
    facts = MethodFacts(
        family="floor",
        year=2019,
        paper="Veličković et al., Deep Graph Infomax, ICLR 2019 (as a row of its tables)",
        cost="O(nodes · features) once",
    )

    def __init__(self, config: RawFeaturesConfig, spec: GraphSpec) -> None:
        super().__init__()

    def embed(self, graph: Graph) -> Tensor:
        return dense(graph.x)
