"""Graph attention layers (GAT) as the masked feature autoencoders use them."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bandana.engine.alignment import aligned_columns
from bandana.engine.attention import attend, attention_shares
from bandana.engine.dropout import dropped_product, keep_mask
from bandana.engine.structure import Structure
from bandana.graph import Features, Graph
from bandana.parts.encoders import project
from bandana.parts.feature_masks import FeatureMask, cover

GAIN = nn.init.calculate_gain("relu")
"""Of the Xavier-normal weights that the authors of GraphMAE start attention layers from."""


def thinned(graph: Graph, drop: float, generator: torch.Generator) -> Tensor | None:
    """``[edges]`` weights for attention over the graph that is left when each directed edge is dropped by itself.

    None where that is the whole graph with weights of one.
    """
    if drop == 0:
        return graph.weight
    keep = keep_mask((graph.num_edges,), drop, generator).to(torch.get_default_dtype())
    return keep if graph.weight is None else keep * graph.weight


class GATLayer(nn.Module):
    """``Σ_j α_ij · dropout(x_j) W + b`` in each head, with the heads side by side."""

    def __init__(
        self,
        in_width: int,
        heads: int,
        head_width: int,
        *,
        feature_dropout: float,
        attention_dropout: float,
        skip: bool = False,
    ) -> None:
        """Build the layer.

        Args:
            in_width: Of the input.
            heads: Number of attention heads.
            head_width: Output width of a head.
            feature_dropout: Share of the input that is dropped in training.
            attention_dropout: Share of the attention that is dropped in training.
            skip: Add a linear map of the (dropped) input.
        """
        super().__init__()
        self.feature_dropout, self.attention_dropout = feature_dropout, attention_dropout
        self.weight = nn.Parameter(torch.empty(in_width, heads * head_width))
        self.skip = nn.Parameter(torch.empty(in_width, heads * head_width)) if skip else None
        self.sender = nn.Parameter(torch.empty(1, heads, head_width))
        self.receiver = nn.Parameter(torch.empty(1, heads, head_width))
        self.bias = nn.Parameter(torch.zeros(heads * head_width))
        for weight in (self.weight, self.skip, self.sender, self.receiver):
            if weight is not None:
                nn.init.xavier_normal_(weight, GAIN)

    def project(self, x: Features, generator: torch.Generator | None) -> Tensor:
        """``[nodes, width]`` the input times the weight, with the skip's part beside it where there is one."""
        return project(x, self._map(), self.feature_dropout, generator)

    def project_copies(self, row: Tensor, copies: int, generator: torch.Generator | None) -> Tensor:
        """``[copies, width]`` what `project` makes of copies of one ``[1, in width]`` row, each with its own dropout.

        The row goes into the map, and ones are dropped, which have no gradient: two products instead of three.
        """
        if generator is None or self.feature_dropout == 0:
            return (row @ self._map()).expand(copies, -1)
        weight = aligned_columns(row.t() * self._map())
        ones = row.new_ones(1, weight.shape[0]).expand(copies, -1)
        return dropped_product(ones, weight, self.feature_dropout, generator)

    def _map(self) -> Tensor:
        return self.weight if self.skip is None else torch.cat([self.weight, self.skip], dim=1)

    def mix(
        self, projected: Tensor, structure: Structure, weight: Tensor | None, generator: torch.Generator | None
    ) -> Tensor:
        """``[nodes, heads · head width]`` attention over what `project` gave.

        Args:
            projected: From `project`, for every node.
            structure: Edges by receiving node.
            weight: ``[edges]`` see `attention_shares`.
            generator: Randomness for dropout; None for evaluation.
        """
        h, *skipped = projected.split(self.weight.shape[1], dim=1)
        heads = h.unflatten(1, self.sender.shape[1:])
        sender, receiver = ((heads * scorer).sum(2).t() for scorer in (self.sender, self.receiver))
        shares = attention_shares(structure, sender, receiver, weight)
        out = attend(structure, h, shares, self.attention_dropout, generator) + self.bias
        return out + skipped[0] if skipped else out


@dataclass(frozen=True, kw_only=True, slots=True)
class GATConfig:
    """A stack of graph attention layers: dropout, attention, layer norm, PReLU. The heads are side by side in each."""

    num_layers: int = 2
    heads: int = 4
    head_width: int = 32
    feature_dropout: float = 0.2
    """Of every layer's input, the decoder's included."""
    attention_dropout: float = 0.1
    """Of the shares by which a node mixes its neighbours, in the decoder too."""
    layer_norm: bool = False
    linear_skip: bool = False
    """Add a linear map of its input to the first layer's output, where the two differ in width."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "heads", "head_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        for name in ("feature_dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: must lie in [0, 1), got {getattr(self, name)}")

    @property
    def width(self) -> int:
        """Of every layer's output."""
        return self.heads * self.head_width


class GATEncoder(nn.Module):
    """The stack that `GATConfig` describes; each layer, the last one too, has a PReLU of its own."""

    def __init__(self, config: GATConfig, num_features: int) -> None:
        super().__init__()
        widths = [num_features, *[config.width] * (config.num_layers - 1)]
        self.layers = nn.ModuleList(
            GATLayer(
                width,
                config.heads,
                config.head_width,
                feature_dropout=config.feature_dropout,
                attention_dropout=config.attention_dropout,
                skip=config.linear_skip and width != config.width,
            )
            for width in widths
        )
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in widths if config.layer_norm)
        self.activations = nn.ModuleList(nn.PReLU() for _ in widths)

    def forward(
        self,
        x: Features,
        structure: Structure,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        mask: FeatureMask | None = None,
        token: Tensor | None = None,
    ) -> Tensor:
        """Encode all nodes.

        Args:
            x: ``[nodes, features]``.
            structure: Edges by receiving node.
            weight: ``[edges]`` edge weights, zero for an edge that is left out; None means ones.
            generator: Randomness for dropout; None for evaluation.
            mask: Nodes whose features are hidden.
            token: ``[1, features]`` what they show instead, each with a dropout of its own.

        Returns:
            ``[nodes, width]`` output of the last layer.
        """
        hidden = x
        for depth, layer in enumerate(self.layers):
            assert isinstance(layer, GATLayer)
            projected = layer.project(hidden, generator)
            if depth == 0 and mask is not None and token is not None:
                shown = layer.project_copies(token, mask.covered.numel(), generator)
                projected = cover(projected, shown, mask)
            mixed = layer.mix(projected, structure, weight, generator)
            if self.norms:
                mixed = self.norms[depth](mixed)
            hidden = self.activations[depth](mixed)
        assert isinstance(hidden, Tensor)
        return hidden
