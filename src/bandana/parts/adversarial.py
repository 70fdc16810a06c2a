"""A discriminator that tells embeddings from draws of a prior."""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from bandana.parts.autoencoder import check_widths

INITIAL_STD = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class AdversaryConfig:
    """The discriminator, and how often and how fast each side of the game moves."""

    widths: tuple[int, ...] = (64, 32)
    """Of the discriminator's hidden layers."""
    reconstruction_steps: int = 5
    """Steps on the reconstruction before one of the discriminator and one of the encoder against it."""
    discriminator_rate: float = 2.0
    """The discriminator's learning rate, as a multiple of that of the reconstruction."""
    generator_rate: float = 2.0
    """The learning rate of the encoder's step against the discriminator, likewise."""

    def __post_init__(self) -> None:
        check_widths("widths", self.widths)
        if self.reconstruction_steps < 1:
            raise ValueError(f"reconstruction_steps: must be at least 1, got {self.reconstruction_steps}")
        for name in ("discriminator_rate", "generator_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: must be positive, got {getattr(self, name)}")

    def rate_of(self, group: str) -> float:
        """The multiple of the recipe's learning rate with which a parameter group learns."""
        return {"discriminator": self.discriminator_rate, "generator": self.generator_rate}.get(group, 1.0)


class Discriminator(nn.Module):
    """A perceptron whose one output is the log-odds that a vector was drawn from the prior N(0, I)."""

    def __init__(self, in_width: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        sizes = [in_width, *widths, 1]
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(sizes))
        for parameter in self.layers.parameters():
            nn.init.normal_(parameter, std=INITIAL_STD) if parameter.dim() > 1 else nn.init.zeros_(parameter)

    def forward(self, z: Tensor) -> Tensor:
        """``[nodes]`` log-odds for ``z [nodes, in_width]``."""
        *hidden, last = self.layers
        for layer in hidden:
            z = layer(z).relu()
        logits: Tensor = last(z)
        return logits.squeeze(1)

    def loss(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """What the discriminator descends: prior draws are to be accepted, embeddings refused.

        The embeddings get no gradient; as many prior vectors are drawn as there are embeddings.
        """
        prior = torch.empty_like(z).normal_(generator=generator)
        return softplus(-self(prior)).mean() + softplus(self(z.detach())).mean()

    def suspicion(self, z: Tensor) -> Tensor:
        """What the encoder descends to pass its embeddings off as draws of the prior."""
        return softplus(-self(z)).mean()


def game_groups(
    encoder: nn.Module, reconstruction: nn.Module, discriminator: Discriminator
) -> dict[str, list[nn.Parameter]]:
    """What each turn of the game moves; the encoder in two of them, each with an optimiser of its own."""
    return {
        "reconstruction": [*encoder.parameters(), *reconstruction.parameters()],
        "discriminator": list(discriminator.parameters()),
        "generator": list(encoder.parameters()),
    }
