"""A deep pair decoder, and its loss in chunks.

Every pair carries a row through several wide layers, and autograd would keep all of them. A chunk's loss and gradients
are computed together instead, and the chunk is forgotten: memory is O(nodes · width + chunk · width · layers).
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu, relu, silu, softplus

from bandana.engine.dropout import dropout

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
        """Weighted cross entropy ``Σ |w| · -log p(link if w > 0, no link if w < 0)``.

        Args:
            z: ``[nodes, width]`` embeddings.
            pairs: ``[2, pairs]`` nodes.
            weight: ``[pairs]`` signed: positive for links, negative for pairs that are none. It gets no gradient.
            generator: Randomness for the dropout.
            chunk: Pairs handled at once.

        Returns:
            The scalar loss, with gradients for `z` and the decoder.
        """
        parts = zip(pairs.split(chunk, dim=1), weight.split(chunk), strict=True)
        out: Tensor = _LossInChunks.apply(z, self, list(parts), generator, *self.parameters())  # type: ignore[no-untyped-call]
        return out

    def logits(self, z: Tensor, pairs: Tensor, chunk: int = PAIRS_AT_ONCE) -> Tensor:
        """``[pairs]`` log-odds of a link for ``[2, pairs]`` nodes, in evaluation."""
        return torch.cat([self(z[u] * z[v]) for u, v in pairs.split(chunk, dim=1)])


class _LossInChunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        decoder: DeepHadamardMLP,
        parts: list[tuple[Tensor, Tensor]],
        generator: torch.Generator,
        *parameters: Tensor,
    ) -> Tensor:
        total, grad_z, *grads = (torch.zeros_like(value) for value in (z.new_empty(()), z, *parameters))
        for (u, v), weight in parts:
            left, right = z[u].requires_grad_(), z[v].requires_grad_()
            with torch.enable_grad():
                misfit = -weight.sign() * decoder(left * right, generator)
                loss = torch.dot(weight.abs(), softplus(misfit))
                ours, theirs, *rest = torch.autograd.grad(loss, [left, right, *decoder.parameters()])
            total += loss.detach()
            grad_z.index_add_(0, u, ours).index_add_(0, v, theirs)
            torch._foreach_add_(grads, rest)
        ctx.save_for_backward(grad_z, *grads)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_z, *rest = (saved * grads[0] for saved in ctx.saved_tensors)
        return (grad_z, None, None, None, *rest)
