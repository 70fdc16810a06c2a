"""What a step sees of a store: groups of parts, with the edges between them, less the links that are held out.

Nothing here knows how many processes there are. A step works on a fixed number of groups, whoever works on them, and
everything random about a group follows from the seed, the step and the group's place in it.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from bandana.data.certificates import Pairs
from bandana.data.splits import Links, draw_non_links
from bandana.engine.streams import generator, hash_keys
from bandana.engine.structure import build_structure, entry_keys
from bandana.errors import UserError
from bandana.graph import Features, Graph, Origin, Outside, SparseFeatures
from bandana.method import Batch, Clock
from bandana.scale.store import Store

T = TypeVar("T")
TRAIN, VALID, TEST = 0, 1, 2
_PLAN, _ROLES, _LOOK, _NEGATIVES = -2, -3, -4, -5  # set these streams apart from those of steps
_LEVELS = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardConfig:
    """How a store is cut into batches."""

    parts_per_group: int = 4
    """Parts that are seen together, with the edges between them."""
    groups_per_step: int = 4
    """Groups whose losses make one step. They are shared out among the processes, whose number must divide this."""
    softmax: Literal["batch", "full"] = "batch"
    """What the bandwidths of a node sum to one over: its neighbours in the group, or all of them."""
    valid_links: float = 0.05
    """Share of the links that no batch holds, to choose the weights by."""
    test_links: float = 0.10
    """Share of the links that no batch holds, to be reported."""
    evaluation_edges: int = 20_000_000
    """Directed edges that are evaluated at once; of a larger store, as many random parts as fit stand for all."""
    checkpoint_steps: int = 50
    """Steps between two checkpoints."""
    patience_seconds: float = 60.0
    """Silence after which a process gives the others up."""

    def __post_init__(self) -> None:
        for name in ("parts_per_group", "groups_per_step", "evaluation_edges", "checkpoint_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if not (self.valid_links > 0 and self.test_links > 0 and self.valid_links + self.test_links < 1):
            raise ValueError(
                f"valid_links: must be positive and below 1 together with test_links, got {self.valid_links} "
                f"and {self.test_links}"
            )
        if not 0 < self.patience_seconds < math.inf:
            raise ValueError(f"patience_seconds: must be a positive number, got {self.patience_seconds}")


def plan_epoch(num_parts: int, config: ShardConfig, seed: int, epoch: int) -> Tensor:
    """``[steps, groups, parts]`` which parts every group of an epoch holds.

    All parts come once, in a new random order every epoch. What is missing to whole steps is filled up with the parts
    that came first, so that every step has as many groups as any other.

    Raises:
        UserError: The store has fewer parts than one step wants.
    """
    size, count = config.parts_per_group, config.groups_per_step
    if size * count > num_parts:
        raise UserError(
            f"shards.parts_per_group: {count} groups of {size} parts are {size * count}, but the store has "
            f"{num_parts} parts; lower it, as by --set shards.parts_per_group=1, or shards.groups_per_step, or "
            f"partition into more parts."
        )
    order = torch.randperm(num_parts, generator=generator(torch.device("cpu"), seed, epoch, _PLAN))
    num_steps = -(-num_parts // (size * count))
    return torch.cat([order, order])[: num_steps * size * count].view(num_steps, count, size)


def link_roles(row: Tensor, col: Tensor, num_nodes: int, directed: bool, config: ShardConfig, seed: int) -> Tensor:
    """``[edges]`` `TRAIN`, `VALID` or `TEST`, by a hash of the link: its two directions always agree.

    Args:
        row: ``[edges]`` receiving nodes, as the whole graph numbers them.
        col: ``[edges]`` sending nodes, likewise.
        num_nodes: Of the whole graph.
        directed: Whether an edge is a link of its own.
        config: The shares.
        seed: Of the run.
    """
    first, second = (row, col) if directed else (torch.minimum(row, col), torch.maximum(row, col))
    level = hash_keys(entry_keys(first, second, num_nodes), seed, _ROLES) & (_LEVELS - 1)
    valid, both = config.valid_links * _LEVELS, (config.valid_links + config.test_links) * _LEVELS
    return (level < both).long() * TEST - (level < valid).long() * (TEST - VALID)


class Excerpt(NamedTuple):
    """All edges that some parts receive: ``row`` numbered within the parts, ``col`` as well, or -1 from outside."""

    rows: Tensor
    row: Tensor
    col: Tensor
    sender: Tensor
    role: Tensor


def read_excerpt(store: Store, parts: Tensor, config: ShardConfig, seed: int) -> Excerpt:
    """Read the edges of some parts; their nodes are numbered in the order of the store."""
    ranges = _ranges(store, parts)
    rows = torch.cat([torch.arange(start, stop) for start, stop in ranges])
    read = [store.rows(start, stop) for start, stop in ranges]
    row = torch.repeat_interleave(torch.cat([rowptr.diff() for rowptr, _ in read]))
    sender = torch.cat([col for _, col in read])
    first_row = torch.full((store.num_parts,), -1)
    sizes = torch.tensor([stop - start for start, stop in ranges])
    first_row[parts.sort().values] = sizes.cumsum(0) - sizes
    part = torch.searchsorted(store.part_starts, sender, right=True) - 1
    inside = first_row[part] >= 0
    col = (sender - store.part_starts[part] + first_row[part]).where(inside, -1)
    return Excerpt(rows, row, col, sender, link_roles(rows[row], sender, store.num_nodes, store.directed, config, seed))


def training_graph(store: Store, excerpt: Excerpt, config: ShardConfig) -> Graph:
    """The graph of an excerpt, without held-out links; its noise is that of the whole graph's edges."""
    learned, inside = excerpt.role == TRAIN, excerpt.col >= 0
    cut = _outside(store, excerpt, learned & ~inside) if config.softmax == "full" else None
    return _graph(store, excerpt, learned & inside, Origin(excerpt.rows, store.num_nodes, cut))


def group_batch(store: Store, parts: Tensor, config: ShardConfig, seed: int) -> Batch:
    """The batch that a group of parts makes: all its links are asked about."""
    graph = training_graph(store, read_excerpt(store, parts, config, seed), config)
    assert graph.origin is not None
    graph = replace(graph, origin=of_parts(graph.origin, store.part_starts, parts.sort().values))
    return Batch(graph, graph.links)


def of_parts(origin: Origin, part_starts: Tensor, ordered: Tensor) -> Origin:
    """An origin that knows the parts it is made of: ``ordered``, out of those that begin at ``part_starts``."""
    sizes = (part_starts[ordered + 1] - part_starts[ordered]).to(origin.rows.device)
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    others, all_others = ordered.numel() - 1, part_starts.numel() - 2
    return origin._replace(part_starts=starts, meeting=others / all_others if all_others else 1.0)


def group_clock(clock: Clock, group: int) -> Clock:
    """The clock of one group of a step: noise of edges as ever, all other randomness of the group's own."""
    return replace(clock, place=(group,))


class Region(NamedTuple):
    """A piece of the store that fits into memory, to evaluate on.

    Attributes:
        graph: Without held-out links.
        valid: Held-out links and as many other pairs, to choose weights by.
        test: The same, to be reported; no pair is in both.
    """

    graph: Graph
    valid: Pairs
    test: Pairs

    def to(self, device: torch.device | str) -> "Region":
        return Region(self.graph.to(device), self.valid.to(device), self.test.to(device))


def evaluation_parts(store: Store, config: ShardConfig, seed: int) -> Tensor:
    """``[parts]`` ascending: all, or as many random ones as `ShardConfig.evaluation_edges` allows, at least one."""
    order = torch.randperm(store.num_parts, generator=generator(torch.device("cpu"), seed, _LOOK))
    bounds = torch.from_numpy(store.rowptr[store.part_starts.numpy()])
    edges = bounds.diff()[order].cumsum(0)
    fitting = max(int((edges <= config.evaluation_edges).sum()), 1)
    return order[:fitting].sort().values


def read_region(store: Store, parts: Tensor, config: ShardConfig, seed: int) -> Region:
    """Read some parts for evaluation.

    Raises:
        UserError: They hold no validation or no test link.
    """
    excerpt = read_excerpt(store, parts, config, seed)
    inside = excerpt.col >= 0
    num_nodes = excerpt.rows.numel()
    once = inside & ((excerpt.row < excerpt.col) | store.directed)
    held_out = {}
    for role, name in ((VALID, "valid_links"), (TEST, "test_links")):
        of_role = once & (excerpt.role == role)
        held_out[role] = torch.stack([excerpt.col[of_role], excerpt.row[of_role]])
        if not of_role.any():
            raise UserError(
                f"shards.{name}: {getattr(config, name)} of the links leaves none to evaluate in {parts.numel()} of "
                f"{store.num_parts} parts; raise it or shards.evaluation_edges."
            )
    counts = [positive.shape[1] for positive in held_out.values()]
    links, draw = Links(excerpt.row[once], excerpt.col[once]), generator(torch.device("cpu"), seed, VALID, _NEGATIVES)
    negatives = draw_non_links(links, num_nodes, store.directed, sum(counts), draw).split(counts, dim=1)
    valid, test = map(Pairs, held_out.values(), negatives)
    return Region(training_graph(store, excerpt, config), valid, test)


def region_with_all_links(store: Store, parts: Tensor, config: ShardConfig, seed: int) -> Graph:
    """Some parts with held-out links too: what is embedded when nodes are classified."""
    excerpt = read_excerpt(store, parts, config, seed)
    return _graph(store, excerpt, excerpt.col >= 0, Origin(excerpt.rows, store.num_nodes))


def ahead(load: Callable[[int], T], places: Iterable[int]) -> Iterator[T]:
    """What `load` gives for each place, loaded while the one before is in use."""
    with ThreadPoolExecutor(1) as reader:
        coming = None
        for place in places:
            now, coming = coming, reader.submit(load, place)
            if now is not None:
                yield now.result()
        if coming is not None:
            yield coming.result()


def _ranges(store: Store, parts: Tensor) -> list[tuple[int, int]]:
    ordered = parts.sort().values
    return list(zip(store.part_starts[ordered].tolist(), store.part_starts[ordered + 1].tolist(), strict=True))


def _graph(store: Store, excerpt: Excerpt, kept: Tensor, origin: Origin | None) -> Graph:
    num_nodes = excerpt.rows.numel()
    structure, _ = build_structure(excerpt.row[kept], excerpt.col[kept], num_nodes, num_nodes)
    return Graph(structure=structure, x=_features(store, excerpt.rows), directed=store.directed, origin=origin)


def _features(store: Store, rows: Tensor) -> Features:
    """Of some rows, in the form that the whole graph would have; without any, which node of the whole it is."""
    if store.features is None:
        structure, _ = build_structure(torch.arange(rows.numel()), rows, rows.numel(), store.num_nodes)
        return SparseFeatures(structure, torch.ones(rows.numel()))
    breaks = (rows.diff() != 1).nonzero().squeeze(1) + 1
    blocks = [store.feature_rows(int(run[0]), int(run[-1]) + 1) for run in rows.tensor_split(breaks) if run.numel()]
    x = (torch.cat(blocks) if blocks else torch.empty(0, store.num_features)).to(torch.get_default_dtype())
    return SparseFeatures.of(x) if store.is_sparse else x


def _outside(store: Store, excerpt: Excerpt, kept: Tensor) -> Outside:
    counts = torch.bincount(excerpt.row[kept], minlength=excerpt.rows.numel())
    keys = entry_keys(excerpt.rows[excerpt.row[kept]], excerpt.sender[kept], store.num_nodes)
    return Outside(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), keys)
