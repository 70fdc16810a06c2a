"""From codes back to features: a graph attention layer, held against the features by the scaled cosine error."""

import torch
from torch import Tensor, nn

from bandana.engine.alignment import aligned_rows
from bandana.engine.attention import attend, attention_shares
from bandana.engine.dropout import dropout
from bandana.engine.propagate import row_sums
from bandana.graph import Features, Graph, SparseFeatures
from bandana.parts.attention import GAIN, GATConfig
from bandana.parts.encoders import project

_SHORTEST = 1e-12  # a vector below this length counts as so long, as in torch's `normalize`


def scaled_cosine_error(cosine: Tensor, exponent: float) -> Tensor:
    """The mean of ``(1 - cos)^exponent``: an exponent above one takes weight from what is already well predicted."""
    return (1 - cosine).clamp(min=0).pow(exponent).mean()


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """``[n]`` cosine between the rows of two ``[n, width]`` matrices."""
    return _cosine((first * second).sum(1), first.square().sum(1), second.square().sum(1))


def cosines_with_features(mixed: Tensor, weight: Tensor, bias: Tensor, x: Features, nodes: Tensor) -> Tensor:
    """``[m]`` cosine between ``mixed @ weight + bias`` and the features of some nodes.

    Against sparse features the product is never written out: with ``W`` the weight, ``b`` the bias and ``m`` a row of
    `mixed`, the prediction ``m W + b`` has the dot product ``m · (x Wᵀ) + x · b`` with ``x``, and its squared length is
    ``m (W Wᵀ) mᵀ + 2 m · (W b) + b · b``.

    Args:
        mixed: ``[m, width]``.
        weight: ``[width, features]``.
        bias: ``[features]``.
        x: ``[nodes, features]``, of all nodes.
        nodes: ``[m]`` the nodes that the rows of `mixed` stand for.
    """
    if not isinstance(x, SparseFeatures):
        return cosines(torch.addmm(bias, mixed, weight), x.index_select(0, nodes))
    seen = project(x, weight.t(), 0.0, None).index_select(0, nodes)
    dots = (mixed * seen).sum(1) + project(x, bias.unsqueeze(1), 0.0, None).squeeze(1).index_select(0, nodes)
    wide = aligned_rows(weight)
    squares = (mixed @ (wide @ wide.t()) * mixed).sum(1) + 2 * (mixed @ (weight @ bias)) + bias.dot(bias)
    lengths = row_sums(x.structure, x.values.square())
    return _cosine(dots, squares, lengths.index_select(0, nodes))


def _cosine(dots: Tensor, first_squares: Tensor, second_squares: Tensor) -> Tensor:
    """Zero where a vector has no length, with a gradient of order 1e12 if the other one has.

    This gradient is part of the methods: in the first step a hidden node that sees only hidden nodes decodes to the
    bias, which is zero. For as long as Adam remembers such a gradient, the bias hardly moves.
    """
    first, second = (squares.clamp(min=_SHORTEST**2).sqrt() for squares in (first_squares, second_squares))
    return dots / (first * second)


class FeatureDecoder(nn.Module):
    """One attention layer with a single head and no activation, from codes to features.

    A single head may mix before it projects. So it mixes codes, which are seldom wider than features, and projects
    those of the nodes that are asked for.
    """

    def __init__(self, config: GATConfig, num_features: int, *, blind: bool) -> None:
        """Build the layer.

        Args:
            config: Width of the codes, and the dropout.
            num_features: Width of the features.
            blind: Whether only nodes without a code are asked for. Their own score would be zero whatever vector it is
                taken with, so then there is none.
        """
        super().__init__()
        self.feature_dropout, self.attention_dropout = config.feature_dropout, config.attention_dropout
        self.weight = nn.Parameter(torch.empty(config.width, num_features))
        self.sender = nn.Parameter(torch.empty(1, 1, num_features))
        self.receiver = None if blind else nn.Parameter(torch.empty(1, 1, num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        for weight in (self.weight, self.sender, self.receiver):
            if weight is not None:
                nn.init.xavier_normal_(weight, GAIN)

    def loss(
        self, codes: Tensor, graph: Graph, nodes: Tensor, exponent: float, generator: torch.Generator | None
    ) -> Tensor:
        """The scaled cosine error of the features decoded for some nodes.

        Args:
            codes: ``[nodes, width]`` of all nodes; zero for those in `nodes`, where the decoder is blind.
            graph: Whose features are the target, over all its edges.
            nodes: ``[m]`` the nodes that are asked for.
            exponent: Of the error.
            generator: Randomness for dropout; None for evaluation.
        """
        mixed = self._mix(codes, graph, generator).index_select(0, nodes)
        return scaled_cosine_error(cosines_with_features(mixed, self.weight, self.bias, graph.x, nodes), exponent)

    def _mix(self, codes: Tensor, graph: Graph, generator: torch.Generator | None) -> Tensor:
        """``[nodes, width]`` what times the weight, plus the bias, is the layer's output."""
        dropped = dropout(codes, self.feature_dropout, generator)
        sender = self._scores(dropped, self.sender)
        receiver = torch.zeros_like(sender) if self.receiver is None else self._scores(dropped, self.receiver)
        shares = attention_shares(graph.structure, sender, receiver, graph.weight)
        return attend(graph.structure, dropped, shares, self.attention_dropout, generator)

    def _scores(self, codes: Tensor, scorer: Tensor) -> Tensor:
        """``[1, nodes]`` dot products of the projected codes with a vector, without the projection."""
        return (codes @ (self.weight @ scorer.flatten())).unsqueeze(0)
