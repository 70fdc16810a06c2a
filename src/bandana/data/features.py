"""What is done to the features before a method sees them."""

from dataclasses import replace
from typing import Literal, NamedTuple

from torch import Tensor

from bandana.engine.propagate import row_sums
from bandana.graph import Features, Graph, SparseFeatures, dense

Preprocessing = Literal["raw", "row_normalised", "standardised"]


class Scaling(NamedTuple):
    """``mean`` and ``deviation``, each ``[features]``, of the graph that was learned from.

    They stay as they are when another graph is embedded: a new node must not move the old ones.
    """

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, x: Features) -> "Scaling":
        matrix = dense(x)
        varies = matrix.amax(0) > matrix.amin(0)  # of equal numbers, rounding can leave a deviation
        return cls(matrix.mean(0), matrix.std(0, correction=0).where(varies, 0))

    def apply(self, x: Features) -> Tensor:
        """Columns of mean 0 and variance 1, by these numbers; a column that was constant becomes zero."""
        matrix = dense(x)
        mean, deviation = self.mean.to(matrix.device), self.deviation.to(matrix.device)
        varies = deviation > 0
        return ((matrix - mean) / deviation.where(varies, 1)).where(varies, 0)


def preprocess(graph: Graph, how: Preprocessing) -> Graph:
    """The graph with its features as they are, with rows whose sizes sum to one, or with columns of mean 0, variance 1.

    A row of zeros stays zero, and a constant column becomes zero. Standardised features are dense.
    """
    return graph if how == "raw" else replace(graph, x=_TRANSFORMS[how](graph.x))


def _row_normalised(x: Features) -> Features:
    if isinstance(x, SparseFeatures):
        total = row_sums(x.structure, x.values.abs())
        return SparseFeatures(x.structure, x.values / total.where(total > 0, 1)[x.structure.row])
    sizes = x.abs().sum(1, keepdim=True)
    return x / sizes.where(sizes > 0, 1)


def _standardised(x: Features) -> Features:
    return Scaling.of(x).apply(x)


_TRANSFORMS = {"row_normalised": _row_normalised, "standardised": _standardised}
