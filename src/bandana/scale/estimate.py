"""What a work on a store costs before it is begun: from the sizes of the graph and what a small piece of it took.

Nothing is measured here. `bandana.store_estimate` times the pieces; everything below is multiplication, so that a graph
that nobody has at hand can be reckoned with as well.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bandana.scale.batches import ShardConfig
from bandana.scale.blocks import ENTRY_BYTES as BLOCK_ENTRY_BYTES
from bandana.scale.partitioning import METIS_BYTES, PASSES, placed_together
from bandana.scale.store import Store
from bandana.training.trainer import TrainingConfig

EXPECTED_SHARE = 0.75
"""Of the epochs, where training may end early."""
NUMBER, INDEX, KEY = 4, 4, 8
"""Bytes of a float, of a node in a store of less than two thousand million, and of an edge while it is sorted."""
READ_BYTES = 180
"""Memory that an entry takes while it is made part of a graph: ends, key, role, place by sender, and their copies."""
NODE_BYTES = 72
"""Memory that a node takes while a store is built: its id, part, place, and counts, with their copies."""
ENTRY_BYTES = 64
"""Memory that an entry takes at most while a bucket of them is sorted and used."""
NODE_CELLS, GO_CELLS, PART_CELLS = 4, 6000, 1
"""Placing a node, beginning a go of them, and every part in it take about as long as counting so many neighbours."""
WEIGHT_COPIES = 6
"""Weights, their best state, the untrained ones that they are compared with, gradients, and two moments."""


class Sizes(NamedTuple):
    """What of a graph decides costs.

    Attributes:
        nodes: Rows.
        entries: Directed edges; an undirected link counts twice.
        features: Numbers per node; 0 if there are none.
        parts: Into how many it is cut.
        feature_bytes: Of one of the numbers.
        inside: Share of the entries with both ends in one part; only a stand-in is made with it.
    """

    nodes: int
    entries: int
    features: int
    parts: int
    feature_bytes: int = NUMBER
    inside: float = 0.5

    @classmethod
    def of(cls, store: Store) -> "Sizes":
        width = NUMBER if store.features is None else store.features.itemsize
        return cls(store.num_nodes, store.num_edges, store.num_features, store.num_parts, width)

    @property
    def store_bytes(self) -> int:
        """Of the files: entries, pointers and ids, features."""
        return self.entries * INDEX + self.nodes * (2 * KEY + self.features * self.feature_bytes)


class Costs(NamedTuple):
    """What a work takes, of each process if there are several.

    Attributes:
        seconds: By phase, in order; processes work at the same time.
        memory: Bytes of a process at its highest.
        disk: Bytes at their highest, results included, what is there already not.
        sent_per_step: Bytes that a process sends in a step.
        sent: Bytes that a process sends in all.
    """

    seconds: Mapping[str, float]
    memory: float
    disk: float
    sent_per_step: float = 0.0
    sent: float = 0.0


class Memory(NamedTuple):
    """Bytes: those of buffers that never grow, and those that grow with the edges, here of what was measured."""

    fixed: float
    growing: float

    @classmethod
    def between(cls, small: tuple[int, float], large: tuple[int, float]) -> "Memory":
        """From two measurements, each of some entries, what the larger one is made of."""
        per_entry = max((large[1] - small[1]) / max(large[0] - small[0], 1), 0.0)
        growing = min(per_entry * large[0], large[1])
        return cls(large[1] - growing, growing)

    def times(self, factor: float) -> float:
        return self.fixed + factor * self.growing


class TrainingPiece(NamedTuple):
    """What a process took for its share of a step, for a look at a region, and for judging one.

    Attributes:
        share: Its part of the whole: entries of the measured groups over those of the groups to come; mostly 1.
        step_s: Reading and learning the groups that a process has in a step.
        pass_s: Reading one group and passing it on to a norm, on average over the norms.
        group: Memory of learning one group.
        looked: Entries of the region.
        read_s: Reading it.
        look_s: Embedding it and scoring its validation links.
        judge_s: Everything that is done with it in the end.
        judging: Memory of that, beside the region.
        base: Memory of a process that has loaded everything but a graph.
    """

    share: float
    step_s: float
    pass_s: float
    group: Memory
    looked: int
    read_s: float
    look_s: float
    judge_s: float
    judging: Memory
    base: float


class Model(NamedTuple):
    """What of a model decides costs.

    Attributes:
        parameters: Numbers that are learned.
        norms: Widths of its batch norms.
    """

    parameters: int
    norms: Sequence[int]


def training_costs(
    sizes: Sizes,
    piece: TrainingPiece,
    model: Model,
    training: TrainingConfig,
    shards: ShardConfig,
    *,
    processes: int = 1,
) -> Costs:
    """Of one seed of a run on a store.

    Args:
        sizes: The graph.
        piece: As measured on it or on a stand-in.
        model: What is learned.
        training: The schedule.
        shards: The batches.
        processes: How many work together.
    """
    group_size, own = shards.parts_per_group, shards.groups_per_step // processes
    steps = -(-sizes.parts // (group_size * shards.groups_per_step))
    epochs = training.epochs * (EXPECTED_SHARE if training.patience_evaluations and training.epochs > 1 else 1)
    region = min(sizes.entries, shards.evaluation_edges) / piece.looked
    looks = max(epochs / training.evaluate_every, 1)
    fits = sizes.entries <= shards.evaluation_edges
    groups = -(-sizes.parts // group_size)
    settling = groups * (1.0 if fits else 1 / processes) * piece.pass_s / piece.share
    sent_per_step = _sent(model, processes)
    weights = NUMBER * model.parameters
    graphs = region * piece.looked * READ_BYTES + 2 * _feature_bytes(sizes, region * piece.looked)
    learning, judging = own * piece.group.times(1 / piece.share), piece.judging.times(region)
    return Costs(
        seconds={
            "training": epochs * steps * piece.step_s / piece.share,
            "validation": region * (piece.read_s + looks * piece.look_s),
            "batch-norm statistics": len(model.norms) * settling,
            "evaluation": region * piece.judge_s,
        },
        # What one phase has freed is seldom of use to the next, so that they add up.
        memory=piece.base + weights * (WEIGHT_COPIES + (processes > 1)) + graphs + learning + judging,
        disk=weights * WEIGHT_COPIES,
        sent_per_step=sent_per_step,
        sent=epochs * steps * sent_per_step,
    )


class PartitionPiece(NamedTuple):
    """What a few rows took on their way into a store.

    Attributes:
        rows: Rows of edges.
        read_s: All that is done to them but assigning parts.
        cells: Work of all passes in the unit of `pass_cells`; for METIS, entries.
        parts_s: Assigning parts.
        feature_rows: Rows of features.
        features_s: Reading and writing these.
    """

    rows: int
    read_s: float
    cells: float
    parts_s: float
    feature_rows: int
    features_s: float


def partition_costs(
    sizes: Sizes, rows: int, piece: PartitionPiece, *, memory: int, metis: bool, base: float = 0.0
) -> Costs:
    """Of building a store.

    Args:
        sizes: The graph to come.
        rows: Of the table of edges.
        piece: As measured on a few of them.
        memory: Bytes that may be used beside what nodes need.
        metis: Whether METIS assigns the parts.
        base: Bytes of a process that does nothing yet.
    """
    cells = sizes.entries if metis else PASSES * pass_cells(sizes.nodes, sizes.entries, sizes.parts)
    used = sizes.entries * (METIS_BYTES if metis else ENTRY_BYTES) + rows * KEY
    return Costs(
        seconds={
            "reading and sorting edges": rows / piece.rows * piece.read_s,
            "assigning parts": cells / piece.cells * piece.parts_s,
            "features": sizes.nodes / piece.feature_rows * piece.features_s if sizes.features else 0.0,
        },
        memory=base + sizes.nodes * NODE_BYTES + min(used, memory),
        # Entries are there three times while they are sorted again: as read, spread over buckets, and in the store.
        disk=sizes.entries * (INDEX + KEY) + sizes.nodes * 3 * KEY + sizes.store_bytes,
    )


def pass_cells(nodes: int, entries: int, parts: int) -> float:
    """Work of one pass of the streaming partitioner, in neighbours that are counted."""
    goes = -(-nodes // placed_together(nodes))
    return entries + nodes * NODE_CELLS + goes * (GO_CELLS + parts * PART_CELLS)


class InferencePiece(NamedTuple):
    """What a few rows took on their way through a model.

    Attributes:
        nodes: Rows.
        entries: Their edges.
        project_s: Reading and multiplying features.
        convolve_s: All layers.
        write_s: Writing vectors as a table.
    """

    nodes: int
    entries: int
    project_s: float
    convolve_s: float
    write_s: float


def inference_costs(
    sizes: Sizes,
    piece: InferencePiece,
    widths: Sequence[int],
    output: int,
    *,
    memory: int,
    processes: int = 1,
    base: float = 0.0,
) -> Costs:
    """Of embedding a store.

    Args:
        sizes: The graph.
        piece: As measured on a few rows.
        widths: Of the layers.
        output: Of a vector.
        memory: Bytes that a block may take.
        processes: How many work together.
        base: Bytes of a process that does nothing yet.
    """
    rows, edges = sizes.nodes / piece.nodes, sizes.entries / piece.entries
    senders = NUMBER * max(widths) * min(sizes.nodes, sizes.entries)
    needed = senders + sizes.nodes * NUMBER * (4 * max(widths) + 2 * sizes.features) + sizes.entries * BLOCK_ENTRY_BYTES
    return Costs(
        seconds={
            "multiplying features": rows * piece.project_s / processes,
            "layers": edges * piece.convolve_s / processes,
            "writing vectors": rows * piece.write_s,
        },
        memory=base + NUMBER * sizes.nodes + min(needed, memory),
        disk=sizes.nodes * (NUMBER * (sum(widths) + 2 * output) + 2 * KEY),
    )


def _sent(model: Model, processes: int) -> float:
    """Bytes that a process sends in a step: a ring passes each number on twice, less the share that stays at home."""
    if processes == 1:
        return 0.0
    sums = sum(2 * width + 1 for width in model.norms)
    return 2 * (processes - 1) / processes * NUMBER * (model.parameters + 2 * sums)


def _feature_bytes(sizes: Sizes, entries: float) -> float:
    """In memory, of the nodes of a piece; without features, of the column that each node has for itself."""
    return entries * sizes.nodes / sizes.entries * (NUMBER * sizes.features or 3 * KEY)
