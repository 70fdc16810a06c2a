"""What is done to the features before a method sees them."""

from dataclasses import replace
from typing import Literal

from bandana.engine.propagate import row_sums
from bandana.graph import Features, Graph, SparseFeatures

Preprocessing = Literal["raw", "row_normalised", "standardised"]


def preprocess(graph: Graph, how: Preprocessing) -> Graph:
    """The graph with its features as they are, with rows that sum to one, or with columns of mean 0 and variance 1.

    A row of zeros stays zero, and a constant column becomes zero. Standardised features are dense.
    """
    return graph if how == "raw" else replace(graph, x=_TRANSFORMS[how](graph.x))


def _row_normalised(x: Features) -> Features:
    if isinstance(x, SparseFeatures):
        total = row_sums(x.structure, x.values.abs())
        return SparseFeatures(x.structure, x.values / total[x.structure.row])
    return x / x.abs().sum(1, keepdim=True).clamp(min=x.new_tensor(0).nextafter(x.new_tensor(1)))


def _standardised(x: Features) -> Features:
    dense = x.dense() if isinstance(x, SparseFeatures) else x
    spread = dense.std(0, correction=0)
    return (dense - dense.mean(0)) / spread.where(spread > 0, 1)


_TRANSFORMS = {"row_normalised": _row_normalised, "standardised": _standardised}
