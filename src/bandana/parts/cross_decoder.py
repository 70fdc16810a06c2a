"""A perceptron that reads every product of one node's codes with the other node's codes.

An encoder of ``codes`` layers gives each node that many vectors, and a pair of nodes ``codes²`` Hadamard products. Side
by side they are wider than anything else in the model, so the loss is taken chunk by chunk, each with its gradients,
and no chunk outlives its turn: memory is O(nodes·codes·width + chunk·codes²·width), however many pairs there are.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from bandana.engine.dropout import dropout
from bandana.engine.pair_loss import EXACT_BELOW

_CPU_CHUNK = 1 << 20  # elements of a chunk's products: what a core's cache nearly holds
_CUDA_CHUNK = 1 << 25  # enough to fill the card

RowLogits = Callable[[Tensor, Tensor], Tensor]


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
        """Weighted cross entropy over pairs: ``Σ |w| · -log p(edge if w > 0, no edge if w < 0)``.

        On a CPU pairs without weight are left out; on a GPU counting them would make the host wait.

        Args:
            codes: ``[nodes, codes, width]``.
            pairs: ``[2, pairs]`` nodes.
            weight: ``[pairs]`` signed: positive for edges, negative for pairs that are none. It gets no gradient.
            generator: Randomness for the dropout; None for evaluation.
            chunk: Pairs handled at once.

        Returns:
            The scalar loss, with gradients for `codes` and the parameters.
        """
        if weight.device.type == "cpu":
            weighted = weight.nonzero().squeeze(1)
            pairs, weight = pairs[:, weighted], weight[weighted]

        def logits(left: Tensor, right: Tensor) -> Tensor:
            return self._row_logits(left, right, generator)

        size = chunk or _pairs_at_once(codes)
        out: Tensor = _PairLoss.apply(codes, pairs, weight, size, logits, *self.parameters())  # type: ignore[no-untyped-call]
        return out

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


class _PairLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, codes: Tensor, *rest: Any) -> Tensor:
        pairs, weight, size, logits, *parameters = rest
        total, grad_codes = codes.new_zeros(()), torch.zeros_like(codes)
        grads = [torch.zeros_like(parameter) for parameter in parameters]
        for u, v, w in zip(pairs[0].split(size), pairs[1].split(size), weight.split(size), strict=True):
            left, right = codes[u].requires_grad_(), codes[v].requires_grad_()
            loss, (grad_left, grad_right, *chunk_grads) = _loss_and_gradients(logits, left, right, w, parameters)
            total += loss
            grad_codes.index_add_(0, u, grad_left).index_add_(0, v, grad_right)
            for grad, chunk_grad in zip(grads, chunk_grads, strict=True):
                grad += chunk_grad
        ctx.save_for_backward(grad_codes, *grads)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        codes, *parameters = (saved * grads[0] for saved in ctx.saved_tensors)
        return (codes, None, None, None, None, *parameters)


def _loss_and_gradients(
    logits: RowLogits, left: Tensor, right: Tensor, weight: Tensor, parameters: list[Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    with torch.enable_grad():
        misfit = -weight.sign() * logits(left, right)
        loss = torch.dot(weight.abs(), softplus(misfit, threshold=EXACT_BELOW))
    return loss.detach(), torch.autograd.grad(loss, [left, right, *parameters])
