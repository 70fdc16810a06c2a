"""Groups of a store that is in memory as a whole: cut from there, on the device, and not read again.

What is cut out is what `bandana.scale.batches.group_batch` would read, entry by entry.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bandana.engine.structure import build_structure
from bandana.graph import Features, Graph, Origin, Outside, SparseFeatures
from bandana.method import Batch
from bandana.scale.batches import of_parts


@dataclass(frozen=True, eq=False)
class Resident:
    """A training graph of all parts, whose rows are in the order of the store.

    Attributes:
        graph: Without held-out links, on the device of the training.
        part_starts: ``[parts + 1]`` first row of every part.
        edge_starts: ``[parts + 1]`` first edge of every part.
        value_starts: ``[parts + 1]`` first stored value of every part's features; of dense ones, the first row.
        keeps_cut_edges: Whether edges that leave a group take part in the softmax of its bandwidths.
    """

    graph: Graph
    part_starts: Tensor
    edge_starts: Tensor
    value_starts: Tensor
    keeps_cut_edges: bool

    @classmethod
    def of(cls, graph: Graph, part_starts: Tensor, *, keeps_cut_edges: bool) -> "Resident":
        here = part_starts.to(graph.device)
        is_sparse = isinstance(graph.x, SparseFeatures)
        value_starts = graph.x.structure.rowptr[here].cpu() if is_sparse else part_starts  # type: ignore[union-attr]
        return cls(graph, part_starts, graph.structure.rowptr[here].cpu(), value_starts, keeps_cut_edges)

    def batch(self, parts: Tensor) -> Batch:
        """The batch of a group of parts: all its links are asked about."""
        graph, structure, ordered = self.graph, self.graph.structure, parts.sort().values
        rows = torch.cat([torch.arange(*stretch) for stretch in _stretches(self.part_starts, ordered)]).to(graph.device)
        place = rows.new_full((graph.num_nodes,), -1)
        place[rows] = torch.arange(rows.numel(), device=graph.device)
        edges = _stretches(self.edge_starts, ordered)
        row, col = place[_join(structure.row, edges)], place[_join(structure.col, edges)]
        inside, cut = col >= 0, None
        if self.keeps_cut_edges:
            counts = torch.bincount(row[~inside], minlength=rows.numel())
            keys = _join(graph.noise_keys, edges)[~inside]
            cut = Outside(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), keys)
        kept, _ = build_structure(row[inside], col[inside], rows.numel(), rows.numel())
        group = Graph(
            structure=kept,
            x=self._features(place, rows.numel(), _stretches(self.value_starts, ordered)),
            directed=graph.directed,
            origin=of_parts(Origin(rows, graph.num_nodes, cut), self.part_starts, ordered),
        )
        return Batch(group, group.links)

    def _features(self, place: Tensor, num_rows: int, values: list[tuple[int, int]]) -> Features:
        x = self.graph.x
        if not isinstance(x, SparseFeatures):
            return _join(x, values)
        row, col = place[_join(x.structure.row, values)], _join(x.structure.col, values)
        structure, order = build_structure(row, col, num_rows, x.structure.num_cols)
        return SparseFeatures(structure, _join(x.values, values)[order])


def _stretches(starts: Tensor, parts: Tensor) -> list[tuple[int, int]]:
    return list(zip(starts[parts].tolist(), starts[parts + 1].tolist(), strict=True))


def _join(tensor: Tensor, stretches: list[tuple[int, int]]) -> Tensor:
    return torch.cat([tensor[start:stop] for start, stop in stretches])
