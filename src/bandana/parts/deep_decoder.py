"""A deep pair decoder, which carries a row for every pair through several wide layers.

Its loss is taken in chunks (`bandana.parts.chunked_loss`): memory is O(nodes · width + chunk · width · layers).
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, relu, silu

from bandana.engine.dropout import dropout
from bandana.parts.chunked_loss import chunked_loss

PAIRS_AT_ONCE = 1 << 16

DecoderActivation = Literal["relu", "gelu", "silu"]
_ACTIVATIONS: dict[DecoderActivation, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu, "silu": silu}


class DeepHadamardMLP(nn.Module):
    """Layers ``dropout(act(norm(W h + b + z_u ⊙ z_v)))`` on ``h_0 = z_u ⊙ z_v``, all of one width, then one logit.

    The product that every layer is given once more (`residual`) keeps a deep decoder close to a dot product.
    """

    def __init__(
        self,
        width: int,
        num_layers: int,
        *,
        activation: DecoderActivation = "relu",
        residual: bool = True,
        layer_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.activation, self.residual, self.dropout = _ACTIVATIONS[activation], residual, dropout
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(num_layers - 1))
        self.norms = nn.ModuleList(nn.LayerNorm(width) if layer_norm else nn.Identity() for _ in self.hidden)
        self.out = nn.Linear(width, 1)

    def forward(self, product: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """``[pairs]`` log-odds of a link from ``[pairs, width]`` products; without a generator nothing is dropped."""
        hidden = product
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            mixed = layer(hidden) + product if self.residual else layer(hidden)
            hidden = dropout(self.activation(norm(mixed)), self.dropout, generator)
        logits: Tensor = self.out(hidden).squeeze(1)
        return logits

    def loss(
        self, z: Tensor, pairs: Tensor, weight: Tensor, generator: torch.Generator, chunk: int = PAIRS_AT_ONCE
    ) -> Tensor:
        """The loss of `bandana.parts.chunked_loss` over embeddings, ``[nodes, width]``."""

        def logits(left: Tensor, right: Tensor) -> Tensor:
            product: Tensor = self(left * right, generator)
            return product

        return chunked_loss(z, pairs, weight, chunk, logits, self.parameters())

    def logits(self, z: Tensor, pairs: Tensor, chunk: int = PAIRS_AT_ONCE) -> Tensor:
        """``[pairs]`` log-odds of a link for ``[2, pairs]`` nodes, in evaluation."""
        return torch.cat([self(z[u] * z[v]) for u, v in pairs.split(chunk, dim=1)])
