"""A network that follows another one slowly."""

import torch
from torch import Tensor, nn


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, momentum: float | Tensor) -> None:
    """``target <- momentum · target + (1 - momentum) · source``, parameter by parameter.

    Buffers are left alone: a target keeps the batch statistics that it saw itself.
    """
    for mine, theirs in zip(target.parameters(), source.parameters(), strict=True):
        mine.lerp_(theirs, 1 - momentum)
