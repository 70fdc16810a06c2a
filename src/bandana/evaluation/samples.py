"""Random samples for what would take too long in full."""

import torch
from torch import Tensor


def sample(total: int, bound: int, seed: int) -> Tensor:
    """All numbers below `total`, or `bound` of them drawn at random; ascending, on the CPU."""
    if total <= bound:
        return torch.arange(total)
    return torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:bound].sort().values
