"""Pair decoders: from two node embeddings to the log-odds of a link."""

import torch
from torch import Tensor, nn

from bandana.engine.edge_loss import DecoderWeights, edge_logits, edge_loss


class HadamardMLP(nn.Module):
    """Two-layer perceptron on ``z_u ⊙ z_v`` with the two logits (edge, no edge) of the paper's bandwidth decoder."""

    def __init__(self, in_width: int, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.hidden = nn.Linear(in_width, width)
        self.out = nn.Linear(width, 2)
        for layer in (self.hidden, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    @property
    def _weights(self) -> DecoderWeights:
        return DecoderWeights(self.hidden.weight, self.hidden.bias, self.out.weight, self.out.bias)

    def loss(self, z: Tensor, pairs: Tensor, weight: Tensor, generator: torch.Generator | None) -> Tensor:
        """Weighted cross entropy over pairs; see `edge_loss` for the signed weights."""
        return edge_loss(z, self._weights, pairs, weight, self.dropout, generator)

    def logits(self, z: Tensor, pairs: Tensor) -> Tensor:
        """``[pairs]`` log-odds of a link."""
        return edge_logits(z, self._weights, pairs)
