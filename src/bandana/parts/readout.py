"""What is made of a trained embedding before it is judged: smoothed over the graph, and with the features beside it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bandana.engine.propagate import gcn_weights, propagate
from bandana.errors import UserError
from bandana.graph import Graph, dense


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadoutConfig:
    """Nothing is done by default. Zero counts as not set, and what is not set is not written into a run's settings."""

    smoothing: int | None = None
    """Times that the embedding is averaged over neighbours, as a GCN does it."""
    skip: float | None = None
    """Length of the features that stand beside the embedding, in lengths of the embedding: both are first scaled to
    length one on average."""
    skip_smoothing: int | None = None
    """Times that these features are averaged over neighbours; without `skip` there are none."""

    def __post_init__(self) -> None:
        for name in ("smoothing", "skip", "skip_smoothing"):
            if not 0 <= (getattr(self, name) or 0) < math.inf:
                raise ValueError(f"{name}: must be a number from 0 on, got {getattr(self, name)}")
            object.__setattr__(self, name, getattr(self, name) or None)


AS_IT_IS = ReadoutConfig()


def read_out(z: Tensor, graph: Graph, config: ReadoutConfig) -> Tensor:
    """``[nodes, width]`` embeddings, smoothed, or with the features ``[nodes, width + features]``, as configured.

    Raises:
        UserError: The graph has no features to stand beside.
    """
    z = smooth(z, graph, config.smoothing or 0)
    if not config.skip:
        return z
    if not graph.has_features:
        raise UserError("readout.skip: this graph has no features to stand beside an embedding. Leave the option out.")
    features = smooth(dense(graph.x), graph, config.skip_smoothing or 0)
    return torch.cat([_of_length_one(z), config.skip * _of_length_one(features)], dim=1)


def smooth(rows: Tensor, graph: Graph, steps: int) -> Tensor:
    """``Âᵏ rows``: what some steps of a GCN's propagation make of ``[nodes, width]`` rows."""
    if not steps:
        return rows
    plain = gcn_weights(graph.structure, graph.weight)
    for _ in range(steps):
        rows = propagate(graph.structure, plain.values, rows, plain.loop)
    return rows


def _of_length_one(rows: Tensor) -> Tensor:
    """The rows over the root of their mean square length."""
    return rows / rows.square().sum(1).mean().sqrt().clamp(min=torch.finfo(rows.dtype).tiny)
