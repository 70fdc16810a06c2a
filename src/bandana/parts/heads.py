"""What stands between an encoder and a loss on embeddings, and is thrown away after training."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from bandana.engine.info_nce import check_temperature, info_nce
from bandana.method import GraphSpec
from bandana.parts.encoders import ActivationName, Stack, activation
from bandana.parts.views import View, encode


def projection_head(width: int, hidden: int) -> nn.Sequential:
    """Where contrastive methods compare: linear to `hidden`, ELU, linear back to `width`."""
    return _two_layers(width, hidden, "elu")


def predictor(width: int, hidden: int) -> nn.Sequential:
    """What a bootstrapping method guesses its target with: linear to `hidden`, PReLU, linear back to `width`."""
    return _two_layers(width, hidden, "prelu")


def _two_layers(width: int, hidden: int, name: ActivationName) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), activation(name), nn.Linear(hidden, width))


@dataclass(frozen=True, kw_only=True, slots=True)
class ContrastConfig:
    """The sizes of what is compared, and how strictly it is."""

    width: int = 128
    """Of an embedding; the first layer is twice as wide."""
    projection_width: int = 128
    """Of the head's hidden layer."""
    activation: Literal["relu", "prelu", "leaky"] = "relu"
    """After both layers; `prelu` learns one slope for both."""
    temperature: float = 0.4

    def __post_init__(self) -> None:
        for name in ("width", "projection_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        check_temperature(self.temperature)


class Contrast(nn.Module):
    """A two-layer GCN under a projection head, where the two views of each node must find each other."""

    def __init__(self, config: ContrastConfig, spec: GraphSpec) -> None:
        super().__init__()
        self.temperature = config.temperature
        widths = [spec.num_features, 2 * config.width, config.width]
        self.encoder = Stack(widths, name=config.activation, shared_activation=True)
        self.head = projection_head(config.width, config.projection_width)

    def forward(self, first: View, second: View) -> Tensor:
        """InfoNCE between two views, with the other nodes of both views as negatives."""
        u, v = (self.head(encode(self.encoder, view)) for view in (first, second))
        return info_nce(u, v, self.temperature, intra=True)
