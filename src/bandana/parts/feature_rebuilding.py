"""Graph layers that rebuild all features of the nodes from vectors, and how badly they do."""

import torch
from torch import Tensor

from bandana.engine.attribute_loss import AttributeLoss, RowBlocks, attribute_balance, attribute_loss
from bandana.engine.dropout import dropout
from bandana.engine.propagate import propagate
from bandana.graph import SparseFeatures
from bandana.parts.encoders import Stack
from bandana.parts.views import View


def rebuilding_loss(
    stack: Stack,
    out: Tensor,
    vectors: Tensor,
    view: View,
    kind: AttributeLoss,
    generator: torch.Generator,
    blocks: RowBlocks | None = None,
) -> Tensor:
    """The error of features that graph layers make of vectors, with ones and zeros counting the same.

    Args:
        stack: All layers but the last; if it has none, a ReLU ends the last.
        out: ``[width, features]`` weight of the last layer.
        vectors: ``[nodes, width]``.
        view: The features to rebuild, and the edges to do it with.
        kind: How they are compared, see `attribute_loss`.
        generator: Randomness for dropout.
        blocks: Of sparse features, if they are known; see `attribute_loss`.
    """
    structure, edges = view.structure, view.edges
    hidden = [vectors, *stack(vectors, structure, [edges] * len(stack.weights), generator)][-1]
    # The last layer averages over neighbours before it widens to all features, not after: the same and far less.
    hidden = propagate(structure, edges.values, dropout(hidden, stack.dropout, generator), edges.loop)
    pattern, targets = view.x if isinstance(view.x, SparseFeatures) else (None, view.x)
    ones, scale = attribute_balance(targets, view.x.shape[0] * view.x.shape[1])
    return scale * attribute_loss(
        hidden, out, targets, pattern, kind=kind, rectify=not stack.weights, positive_weight=ones, blocks=blocks
    )
