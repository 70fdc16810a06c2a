"""Smoothed features: the floor that knows the graph and learns nothing.

Idea. Features are averaged over neighbourhoods a few times, as a graph convolution does it, and nothing else happens.
What a method scores above this it learned; what raw features lack to this is what the graph gives for free.

Equations and where they are:
    Z = Âᵏ X, with the symmetric normalisation and self-loops of a GCN     parts.floor.smoothed

Paper: Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019.
Deviations: the authors fit a logistic regression to the smoothed features by themselves; here the common probe does it.
Embeddings are dense, so they take nodes x features numbers, twice for a moment.
"""

from dataclasses import dataclass

from torch import Tensor

from bandana.graph import Graph
from bandana.method import GraphSpec, MethodFacts
from bandana.parts.floor import USUAL_STEPS, Floor, smoothed
from bandana.registry import register


@dataclass(frozen=True, kw_only=True, slots=True)
class SmoothedFeaturesConfig:
    """How far the smoothing goes."""

    steps: int = USUAL_STEPS
    """Steps over the graph."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps: must be at least 1, got {self.steps}")


@register("smoothed_features")
class SmoothedFeatures(Floor):
    """The features after some steps of a GCN's propagation, without weights and without learning."""

    Config = SmoothedFeaturesConfig
    facts = MethodFacts(
        family="floor",
        year=2019,
        paper="Wu et al., Simplifying Graph Convolutional Networks, ICML 2019",
        cost="O(steps · edges · features) once",
    )

    def __init__(self, config: SmoothedFeaturesConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.config = config

    def embed(self, graph: Graph) -> Tensor:
        return smoothed(graph, self.config.steps)
