"""Follow a changed graph exactly: recompute the rows that a change can reach, keep all others as they are.

A layer's row changes where its own messages or their weights do, or where it hears from a row that changed in the layer
before. That set is found first; then each layer is computed over its part of it (`bandana.use.receptive` says how equal
the outcome is to a full pass). Methods that do not embed by graph convolutions alone get a full pass.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from bandana.engine.propagate import EdgeWeights, gcn_weights
from bandana.engine.structure import Structure
from bandana.errors import UserError
from bandana.graph import Features, Graph, SparseFeatures, dense
from bandana.method import Method
from bandana.use.ids import ids_of
from bandana.use.receptive import LocalEncoder, embed_rows, encode_rows, local_encoder, neighbourhood, node_vectors

ROUNDING = 1e-5
"""A row that moved by less than this share of its length has not changed: float32 sums in another order do as much."""


class Update(NamedTuple):
    """The embedding of a changed graph.

    Attributes:
        z: ``[nodes, width]`` for the nodes of the new graph.
        changed: ``[n]`` rows of `z` that are new or differ from before, ascending.
        recomputed: ``[m]`` rows that were computed at all; the others are the former ones, bit for bit.
    """

    z: Tensor
    changed: Tensor
    recomputed: Tensor


class Changes(NamedTuple):
    """What became of the rows.

    Attributes:
        new: ``[n]`` rows of nodes that were not there before.
        moved: ``[m]`` rows of nodes whose vectors changed, the farthest first.
        distance: ``[m]`` how far, as the length of the difference.
        unchanged: How many kept their vectors bit for bit, or up to rounding.
        recomputed: How many rows were computed at all.
    """

    new: Tensor
    moved: Tensor
    distance: Tensor
    unchanged: int
    recomputed: int


@torch.no_grad()
def update(method: Method, before: Graph, z: Tensor, after: Graph) -> Update:
    """The embedding of `after`, given that of `before`.

    Args:
        method: Trained; is put into evaluation mode.
        before: The graph that `z` belongs to.
        z: ``[nodes, width]``, what the method embeds `before` to.
        after: The graph as it is now, its features prepared like those of `before`. Nodes are matched by id, or by
            number where there are no ids.

    Raises:
        UserError: The method has nothing to read for the new nodes: it learned a vector per node, or the features have
            other columns.
    """
    previous = previous_rows(before, after)
    check_inductive(method, before, after)
    method.eval()
    encoder = local_encoder(method)
    if encoder is None:
        new, recomputed = method.embed(after), torch.arange(after.num_nodes, device=after.device)
    else:
        messages = gcn_weights(after.structure, after.weight)
        reach = _reach(before, after, messages, previous, len(encoder.layers))
        new, recomputed = z[previous.clamp(min=0)], reach[-1]
        if encoder.readout == "last":
            new[recomputed] = embed_rows(method, after, recomputed)
        else:
            _fill_layers(new, encoder, after, messages, reach)
    changed = recomputed[_moved(z, new, previous, recomputed)]
    return Update(new, changed, recomputed)


@torch.no_grad()
def distance_from_full_pass(method: Method, graph: Graph, z: Tensor) -> float:
    """The largest difference of any number in `z` from what a full pass over the graph gives: an update's proof."""
    method.eval()
    return float((method.embed(graph) - z).abs().max()) if z.numel() else 0.0


def changes_of(z: Tensor, outcome: Update, before: Graph, after: Graph) -> Changes:
    """What an update of `z` did, on the CPU."""
    previous = previous_rows(before, after).to(z.device)
    rows = outcome.changed
    new, moved = rows[previous[rows] < 0], rows[previous[rows] >= 0]
    distance = (outcome.z[moved] - z[previous[moved]]).norm(dim=1)
    order = distance.argsort(descending=True, stable=True)
    unchanged = after.num_nodes - rows.numel()
    return Changes(new.cpu(), moved[order].cpu(), distance[order].cpu(), unchanged, outcome.recomputed.numel())


def previous_rows(before: Graph, after: Graph) -> Tensor:
    """``[nodes of after]`` the row that each node had before, or -1."""
    row_by_id = {name: row for row, name in enumerate(ids_of(before.node_ids, before.num_nodes))}
    rows = [row_by_id.get(name, -1) for name in ids_of(after.node_ids, after.num_nodes)]
    return torch.tensor(rows, dtype=torch.long, device=after.device)


def check_inductive(method: Method, before: Graph, after: Graph) -> None:
    """Make sure that the method has something to read for every node of `after`.

    Raises:
        UserError: It has not; see `update`.
    """
    previous = previous_rows(before, after)
    has_vectors = node_vectors(method) is not None
    by_number = isinstance(before.x, SparseFeatures) and before.x.is_identity
    same_nodes = torch.equal(previous, torch.arange(before.num_nodes, device=previous.device))
    if (has_vectors or by_number) and not same_nodes:
        reason = "the model learned a vector per node" if has_vectors else "the graph has no features"
        raise UserError(
            f"Update: {reason}, so it can follow new links but not other nodes{_examples(after, previous)}; embed "
            "the whole graph again, or give all nodes features."
        )
    if before.num_features != after.num_features:
        raise UserError(
            f"Update: the model reads {before.num_features} feature columns and the new graph has "
            f"{after.num_features}; give the same columns, or embed the whole graph again."
        )


def _examples(after: Graph, previous: Tensor) -> str:
    new = (previous < 0).nonzero().squeeze(1).tolist()
    if not new:
        return " or another order of them"
    first = ids_of(after.node_ids, after.num_nodes)[new[0]]
    return f" such as {str(first)!r}" + (f" and {len(new) - 1} more" if len(new) > 1 else "")


def _reach(before: Graph, after: Graph, messages: EdgeWeights, previous: Tensor, depth: int) -> list[Tensor]:
    """Of each layer the rows of `after` that its output may differ in, ascending."""
    rewired = _rows_with_other_messages(before, after, messages, previous)
    heard = _rows_with_other_features(before.x, after.x, previous)
    reach = []
    for _ in range(depth):
        heard = torch.cat([rewired, neighbourhood(after, heard, "receivers")]).unique()
        reach.append(heard)
    return reach


def _fill_layers(new: Tensor, encoder: LocalEncoder, after: Graph, messages: EdgeWeights, reach: list[Tensor]) -> None:
    """Overwrite what changed of layers that stand side by side; what did not change is read from there."""
    parts = new.split(encoder.widths, dim=1)
    outputs = encode_rows(encoder, after, messages, reach, lambda layer, nodes: parts[layer][nodes])
    for part, output in zip(parts, outputs, strict=True):
        part[output.nodes] = output.values


def _moved(z: Tensor, new: Tensor, previous: Tensor, rows: Tensor) -> Tensor:
    old_rows = previous[rows]
    old, now = z[old_rows.clamp(min=0)], new[rows]
    longest = torch.maximum(old.norm(dim=1), now.norm(dim=1))
    moved: Tensor = (old_rows < 0) | ((now - old).norm(dim=1) > ROUNDING * longest)
    return moved


def _rows_with_other_messages(before: Graph, after: Graph, messages: EdgeWeights, previous: Tensor) -> Tensor:
    current = torch.full((before.num_nodes,), -1, device=previous.device)
    kept = (previous >= 0).nonzero().squeeze(1)
    current[previous[kept]] = kept
    former = gcn_weights(before.structure, before.weight)
    row, col = current[before.structure.row], current[before.structure.col]
    here = ((row >= 0) & (col >= 0)).nonzero().squeeze(1)
    moved = coo_array(
        (former.values[here].cpu().numpy(), (row[here].cpu().numpy(), col[here].cpu().numpy())),
        shape=(after.num_nodes, after.num_nodes),
    ).tocsr()
    other = np.diff((_csr(after.structure, messages.values) - moved).indptr) > 0
    loop = torch.where(previous >= 0, former.loop[previous.clamp(min=0)], torch.nan)
    return (torch.from_numpy(other).to(after.device) | (loop != messages.loop)).nonzero().squeeze(1)


def _rows_with_other_features(before: Features, after: Features, previous: Tensor) -> Tensor:
    rows = previous.clamp(min=0)
    if isinstance(before, SparseFeatures) and isinstance(after, SparseFeatures):
        if before.is_identity and after.is_identity:
            return (previous < 0).nonzero().squeeze(1)
        old = _csr(before.structure, before.values)[rows.cpu().numpy()]
        difference = (_csr(after.structure, after.values) - old).indptr
        other = torch.from_numpy(np.diff(difference) > 0).to(previous.device)
    else:
        other = (dense(after) != dense(before)[rows]).any(1)
    return (other | (previous < 0)).nonzero().squeeze(1)


def _csr(structure: Structure, values: Tensor) -> Any:
    arrays = (values.cpu().numpy(), structure.col.cpu().numpy(), structure.rowptr.cpu().numpy())
    return csr_array(arrays, shape=(structure.num_rows, structure.num_cols))
