"""What a graph is made of must fit together: the complaints of `bandana.graph.Graph`."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from bandana.errors import UserError


class Rows(Protocol):
    """Features in either form."""

    @property
    def shape(self) -> Sequence[int]: ...


def check_ends(edge_index: Tensor, num_nodes: int) -> None:
    """Complain of edges that are no pairs of nodes."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        raise UserError(f"Graph: edge_index must be integers of shape [2, edges], got {tuple(edge_index.shape)}.")
    if edge_index.shape[1] and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        low, high = int(edge_index.min()), int(edge_index.max())
        raise UserError(f"Graph: nodes are numbered 0 to {num_nodes - 1}, but edges name {low} to {high}.")


def check_rows(x: Rows | None, num_nodes: int) -> None:
    """Complain of features that are not one row for each node."""
    if x is not None and len(x.shape) != 2:
        raise UserError(f"Graph: x must have the shape [nodes, features], got {tuple(x.shape)}.")
    if x is not None and x.shape[0] != num_nodes:
        raise UserError(f"Graph: x has {x.shape[0]} rows for {num_nodes} nodes; give one row per node.")


def check_finite(values: Tensor) -> None:
    """Complain of features that no sum survives."""
    if not bool(values.isfinite().all()):
        raise UserError("Graph: x holds NaN or infinite values; fill or drop them first.")


def class_numbers(y: Tensor | None, num_nodes: int) -> Tensor | None:
    """The labels as torch's losses want them: 64-bit, whatever kind of whole number they came as."""
    if y is not None and (y.shape != (num_nodes,) or y.is_floating_point() or y.is_complex()):
        raise UserError(f"Graph: y must be one whole number per node, [{num_nodes}], got {y.dtype} {tuple(y.shape)}.")
    return None if y is None else y.long()


def kept_weights(weight: Tensor | None, num_edges: int) -> Tensor | None:
    """The weights in the float type of the models, in which all of them must still be positive and finite."""
    if weight is None:
        return None
    if weight.shape != (num_edges,):
        raise UserError(
            f"Graph: weight must hold one positive number per edge, [{num_edges}], got {tuple(weight.shape)}."
        )
    kept = weight.to(torch.get_default_dtype())
    if (wrong := ~((kept > 0) & kept.isfinite())).any():
        at = int(wrong.nonzero()[0])
        raise UserError(
            f"Graph: weight must hold one positive number per edge, finite and not zero as {kept.dtype}, but number "
            f"{at} is {weight[at].item():g}; correct it, or bring the weights to another scale."
        )
    return kept


def check_sums(weight: Tensor) -> None:
    """Complain of weights of one edge that are too large together."""
    if not bool(weight.isfinite().all()):
        raise UserError(
            f"Graph: the weights of an edge that is named repeatedly add up to more than {weight.dtype} can hold, "
            f"{torch.finfo(weight.dtype).max:g}; bring the weights to another scale."
        )
