"""A perceptron that reads every product of one node's codes with the other node's codes.

An encoder of ``codes`` layers gives each node that many vectors, and a pair of nodes ``codes²`` Hadamard products. Side
by side they are wider than anything else in the model, so the loss is taken chunk by chunk, each with its gradients,
and no chunk outlives its turn: memory is O(nodes·codes·width + chunk·codes²·width), however many pairs there are.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from bandana.engine.dropout import dropout
from bandana.parts.chunked_loss import chunked_loss

_CPU_CHUNK = 1 << 20  # elements of a chunk's products: what a core's cache nearly holds
_CUDA_CHUNK = 1 << 25  # enough to fill the card


def cross_products(left: Tensor, right: Tensor) -> Tensor:
    """``[pairs, codes²·width]`` Hadamard products of ``[pairs, codes, width]`` codes, the left code varying slowest."""
    return (left.unsqueeze(2) * right.unsqueeze(1)).flatten(1)


class CrossDecoder(nn.Module):
    """Perceptron with one logit on the cross products of two nodes' codes; with one code, on their Hadamard product."""

    def __init__(
        self,
        num_codes: int,
        code_width: int,
        width: int,
        num_layers: int,
        dropout: float,
        drop: Literal["inputs", "outputs"],
    ) -> None:
        """Build the layers, with torch's own initial weights.

        Args:
            num_codes: Vectors per node.
            code_width: Of each of them.
            width: Of the hidden layers.
            num_layers: Linear layers, the last of which gives the logit.
            dropout: Share that is dropped in training.
            drop: Whether what goes into the hidden layers is dropped, or what comes out of them.
        """
        super().__init__()
        self.dropout, self.drop = dropout, drop
        widths = [num_codes**2 * code_width, *[width] * (num_layers - 1)]
        hidden = [nn.Linear(before, width) for before in widths[:-1]]
        self.layers = nn.ModuleList([*hidden, nn.Linear(widths[-1], 1)])

    def loss(
        self, codes: Tensor, pairs: Tensor, weight: Tensor, generator: torch.Generator | None, chunk: int | None = None
    ) -> Tensor:
        """The loss of `bandana.parts.chunked_loss` over nodes' codes, ``[nodes, codes, width]``.

        On a CPU pairs without weight are left out; on a GPU counting them would make the host wait. Without a generator
        nothing is dropped.
        """
        if weight.device.type == "cpu":
            weighted = weight.nonzero().squeeze(1)
            pairs, weight = pairs[:, weighted], weight[weighted]

        def logits(left: Tensor, right: Tensor) -> Tensor:
            return self._row_logits(left, right, generator)

        return chunked_loss(codes, pairs, weight, chunk or _pairs_at_once(codes), logits, self.parameters())

    def logits(self, codes: Tensor, pairs: Tensor) -> Tensor:
        """``[pairs]`` log-odds of an edge from the first node to the second, in evaluation mode."""
        size = _pairs_at_once(codes)
        chunks = zip(pairs[0].split(size), pairs[1].split(size), strict=True)
        return torch.cat([self._row_logits(codes[u], codes[v], None) for u, v in chunks])

    def _row_logits(self, left: Tensor, right: Tensor, generator: torch.Generator | None) -> Tensor:
        hidden = cross_products(left, right)
        for layer in self.layers[:-1]:
            if self.drop == "inputs":
                hidden = dropout(hidden, self.dropout, generator)
            hidden = layer(hidden).relu_()
            if self.drop == "outputs":
                hidden = dropout(hidden, self.dropout, generator)
        logits: Tensor = self.layers[-1](hidden)
        return logits.squeeze(1)


def _pairs_at_once(codes: Tensor) -> int:
    elements = _CPU_CHUNK if codes.device.type == "cpu" else _CUDA_CHUNK
    return max(elements // max(codes.shape[1] ** 2 * codes.shape[2], 1), 1)
