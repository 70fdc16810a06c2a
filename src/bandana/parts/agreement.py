"""Agreement of two views of a graph: the same dimensions for both, and no two dimensions that say the same."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_SMALLEST_VARIANCE = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class AgreementConfig:
    """Another draw of masks, and how much the embeddings of both draws should agree. Not asked for by default."""

    weight: float | None = None
    """Of the disagreement in the loss; without it, nothing is drawn twice."""
    decorrelation: float | None = None
    """Weight of the correlations between dimensions within that disagreement. It is a sum over them, so this belongs to
    a width."""

    def __post_init__(self) -> None:
        for name in ("weight", "decorrelation"):
            if not 0 <= (getattr(self, name) or 0) < math.inf:
                raise ValueError(f"{name}: must be a number from 0 on, got {getattr(self, name)}")
            object.__setattr__(self, name, getattr(self, name) or None)


def standardise(h: Tensor) -> Tensor:
    """Columns of mean zero and variance one over the nodes; a constant column becomes zero."""
    variance, mean = torch.var_mean(h, dim=0)
    return (h - mean) * variance.clamp(min=_SMALLEST_VARIANCE).rsqrt()


def disagreement(h1: Tensor, h2: Tensor, decorrelation: float) -> Tensor:
    """How little two views ``[nodes, width]`` correlate, plus the correlations within each (Zhang et al. 2021).

    ``decorrelation · (‖I - C₁‖² + ‖I - C₂‖²) - tr C₁₂``, where the C are correlations between dimensions.
    """
    num_nodes, width = h1.shape
    z1, z2 = standardise(h1), standardise(h2)
    identity = torch.eye(width, dtype=h1.dtype, device=h1.device)
    correlations = [(z.t() @ z / num_nodes - identity).square().sum() for z in (z1, z2)]
    return decorrelation * torch.stack(correlations).sum() - (z1 * z2).sum() / num_nodes
