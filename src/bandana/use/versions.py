"""Two embeddings of two versions of a graph: which nodes moved, and by more than another seed would move them.

Embeddings have no orientation of their own: two trainings of the same graph differ by a rotation at least. So one is
turned onto the other first, by the orthogonal Procrustes solution on nodes that both have.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import torch
from scipy.linalg import orthogonal_procrustes
from torch import Tensor
from torch.nn.functional import pad

from bandana.engine.streams import generator
from bandana.engine.structure import entry_keys
from bandana.errors import UserError
from bandana.graph import Graph
from bandana.use.ids import ids_of
from bandana.use.similar import nearest

QUANTILE = 0.99
"""Of the shifts that seeds alone cause; a node beyond it has moved. One in a hundred is beyond it by chance."""

REFITS = 3
"""Fits to the half that stayed closest; it hardly changes after the first."""


ROWS_PER_DIRECTION = 2
"""Rows that a fit needs for each direction: with fewer, the turn is left open for all rows that it does not read."""


class Embedding(NamedTuple):
    """Vectors ``[nodes, width]`` under their ids."""

    ids: Sequence[Any]
    z: Tensor


class SeedNoise(NamedTuple):
    """What other seeds on the same graph do.

    Attributes:
        shift: ``[shared]`` mean shift of each node between two seeds.
        threshold: The shift that `QUANTILE` of them stay below.
        turnover: Mean turnover of neighbours between two seeds.
    """

    shift: Tensor
    threshold: float
    turnover: float


class Comparison(NamedTuple):
    """What became of the nodes that two versions share.

    Attributes:
        ids: Of the shared nodes, in the order of the first version.
        only_before: Ids that the second version lacks.
        only_after: Ids that the first version lacks.
        shift: ``[shared]`` distance between the aligned vectors; 1 is the typical length of the first, centred.
        turnover: ``[asked]`` share of each node's nearest neighbours that are no longer among them.
        asked: ``[asked]`` the positions in `ids` that turnover was taken at: all, or a sample.
        noise: What seeds alone do, if other seeds of the first version were given.
    """

    ids: tuple[Any, ...]
    only_before: tuple[Any, ...]
    only_after: tuple[Any, ...]
    shift: Tensor
    turnover: Tensor
    asked: Tensor
    noise: SeedNoise | None

    @property
    def moved(self) -> Tensor | None:
        """``[n]`` positions of the nodes that moved by more than seeds explain, farthest first; None without seeds."""
        if self.noise is None:
            return None
        farthest_first = self.shift.argsort(descending=True, stable=True)
        return farthest_first[self.shift[farthest_first] > self.noise.threshold]


def compare(
    before: Embedding,
    after: Embedding,
    *,
    reseeded: Sequence[Embedding] = (),
    same_directions: bool = False,
    k: int = 10,
    most_queries: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Hold two embeddings against each other on the nodes that both have.

    Args:
        before: The first version.
        after: The second version; its width may differ.
        reseeded: The first version's graph, trained from other seeds. They measure what change means nothing.
        same_directions: Whether both come from one model, so that neither has to be turned onto the other.
        k: Neighbours of each node whose turnover is taken, by cosine among the shared nodes.
        most_queries: With more shared nodes, turnover is taken at a random sample of so many.
        seed: Of that sample.

    Raises:
        UserError: The versions share fewer than two nodes, or a reseeded embedding has other nodes.
    """
    known = {name: row for row, name in enumerate(after.ids)}
    rows = [row for row, name in enumerate(before.ids) if name in known]
    ids = tuple(before.ids[row] for row in rows)
    if len(ids) < 2:
        raise UserError(f"Compare: the two versions share {len(ids)} node ids and need two; check that ids match.")
    first, second = _at(before, ids), _at(after, ids)
    order = torch.randperm(len(ids), generator=generator(torch.device("cpu"), seed, 0))
    asked = order[:most_queries].sort().values
    seen = set(ids)
    return Comparison(
        ids=ids,
        only_before=tuple(name for name in before.ids if name not in seen),
        only_after=tuple(name for name in after.ids if name not in seen),
        shift=plain_shift(first, second) if same_directions else aligned_shift(first, second),
        turnover=neighbour_turnover(first, second, asked, k),
        asked=asked,
        noise=_seed_noise(first, [_at(other, ids) for other in reseeded], asked, k),
    )


def same_graph(a: Graph, b: Graph) -> bool:
    """Whether two graphs have the same links between the same ids, in whatever order their nodes stand."""
    row_by_id = {name: row for row, name in enumerate(ids_of(b.node_ids, b.num_nodes))}
    rows = [row_by_id.get(name, -1) for name in ids_of(a.node_ids, a.num_nodes)]
    if len(rows) != b.num_nodes or -1 in rows or a.directed != b.directed:
        return False
    place = torch.tensor(rows)
    keys = entry_keys(place[a.structure.row.cpu()], place[a.structure.col.cpu()], b.num_nodes)
    return keys.sort().values.equal(b.edge_keys.cpu())


def aligned_shift(a: Tensor, b: Tensor) -> Tensor:
    """``[nodes]`` distances between two embeddings, after `b` is moved, scaled and turned onto `a`.

    Few nodes that went far would drag all others along. So a first fit, to all nodes but with none farther out than
    most, only tells which half of them stayed closest; the fit to that half counts.

    Args:
        a: ``[nodes, width]``; the root mean square length of its centred rows is the unit.
        b: ``[nodes, other width]``; the narrower one is filled up with zeros.
    """
    width = max(a.shape[1], b.shape[1])
    left, right = (pad(z.double(), (0, width - z.shape[1])) for z in (a, b))
    everyone, near = torch.arange(left.shape[0]), _drawn_in(left)
    shift: Tensor = (fitted(_drawn_in(right), near, everyone) - near).norm(dim=1)
    for _ in range(REFITS):
        closest = shift.argsort(stable=True)[: max((left.shape[0] + 1) // 2, ROWS_PER_DIRECTION * width)]
        shift = (fitted(right, left, closest) - left).norm(dim=1)
    return shift / _unit(left)


def plain_shift(a: Tensor, b: Tensor) -> Tensor:
    """``[nodes]`` distances between two embeddings ``[nodes, width]`` as they are, in the unit of `aligned_shift`."""
    left, right = a.double(), b.double()
    shift: Tensor = (right - left).norm(dim=1) / _unit(left)
    return shift


def _unit(z: Tensor) -> float:
    """The root mean square length of centred rows, or 1 if there is none."""
    return float((z - z.mean(0)).square().sum(1).mean().sqrt()) or 1.0


def fitted(b: Tensor, a: Tensor, rows: Tensor) -> Tensor:
    """`b`, moved, scaled and turned such that its `rows` lie as close to those of `a` as they can, by least squares."""
    here, there = b[rows].mean(0), a[rows].mean(0)
    source, target = b - here, (a - there)[rows]
    turn, overlap = orthogonal_procrustes(source[rows].numpy(), target.numpy())
    size = float(source[rows].square().sum())
    scale = overlap / size if size > 0 else 0.0
    aligned: Tensor = scale * source @ torch.from_numpy(turn) + there
    return aligned


def neighbour_turnover(a: Tensor, b: Tensor, queries: Tensor, k: int) -> Tensor:
    """``[queries]`` share of the `k` nearest nodes in `a` that are not among the `k` nearest in `b`."""
    old, new = (nearest(z, queries, k).rows for z in (a, b))
    stayed = (old.unsqueeze(2) == new.unsqueeze(1)).any(2)
    return 1 - stayed.double().mean(1)


def _drawn_in(z: Tensor) -> Tensor:
    """Centred at the median, with no row longer than the median row."""
    centred = z - z.median(0).values
    length = centred.norm(dim=1, keepdim=True)
    drawn_in: Tensor = centred * (length.median() / length.clamp(min=torch.finfo(z.dtype).tiny)).clamp(max=1)
    return drawn_in


def _seed_noise(first: Tensor, others: list[Tensor], asked: Tensor, k: int) -> SeedNoise | None:
    if not others:
        return None
    shifts = torch.stack([aligned_shift(first, other) for other in others])
    # kthvalue, because torch.quantile refuses more than 16 million numbers.
    rank = max(1, round(QUANTILE * shifts.numel()))
    turnover = fmean(float(neighbour_turnover(first, other, asked, k).mean()) for other in others)
    return SeedNoise(shifts.mean(0), float(shifts.flatten().kthvalue(rank).values), turnover)


def _at(embedding: Embedding, ids: Sequence[Any]) -> Tensor:
    row_by_id = {name: row for row, name in enumerate(embedding.ids)}
    missing = [name for name in ids if name not in row_by_id]
    if missing:
        raise UserError(f"Compare: node {str(missing[0])!r} is missing from another seed's embedding; use one graph.")
    return embedding.z[torch.tensor([row_by_id[name] for name in ids])].cpu()
