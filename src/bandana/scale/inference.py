"""Embeddings of a graph larger than memory, exactly: layer by layer, over blocks of rows with all of their neighbours.

A graph convolution multiplies rows by a matrix, mixes them along edges, and finishes each row by itself. So a pass over
all blocks mixes what the pass before has multiplied, finishes it, and multiplies it for the next one, from one
memory-mapped file into another.

Bits. A mixed row is a sum over its own entries in their own order, whichever rows are beside it. The other two steps
depend on where rows are cut: a matrix product takes other instructions for less than a handful of rows, and torch's
activations treat the last few numbers of what a thread gets by scalar instead of vector functions. So blocks start at
multiples of `ALIGNED` rows, none is smaller, and rows are finished in one thread. Then the result is, bit for bit,
that of the whole graph in one thread and in memory, whatever the blocks and threads here (tests/scale/test_inference.py
holds it to that, with the BLAS that torch brings). Several threads in memory differ from one in the last bit of a few
numbers, at the seams of the threads.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bandana.devices import torch_threads
from bandana.engine.propagate import propagate
from bandana.engine.structure import Structure
from bandana.graph import Features, SparseFeatures
from bandana.parts.encoders import project
from bandana.scale.blocks import OUTPUT, BlockLog, open_array, plan_blocks, projected
from bandana.scale.store import Array, Store, release

GATHER_BYTES = 64 << 20
"""How much of a file is looked at before its pages are let go."""


class Convolution(NamedTuple):
    """One layer: ``finish(Â · h · weight)``.

    Attributes:
        weight: ``[width in, width out]``.
        finish: What happens to every row by itself behind the graph: bias, norm, activation.
    """

    weight: Tensor
    finish: Callable[[Tensor], Tensor]


class Encoder(NamedTuple):
    """Graph convolutions one after the other, with the symmetric GCN weights of the graph.

    Attributes:
        layers: In order.
        readout: Whether an embedding is all layers side by side, or the last one.
        prepare: What is done to rows of features first.
        node_vectors: ``[nodes, width]``, in the store's order, that the first layer reads in place of features.
        fingerprint: A digest of everything above; another one starts an interrupted work anew.
    """

    layers: Sequence[Convolution]
    readout: Literal["concat", "last"]
    prepare: Callable[[Features], Features]
    node_vectors: Tensor | None
    fingerprint: str

    @property
    def widths(self) -> list[int]:
        return [layer.weight.shape[1] for layer in self.layers]


class Share(NamedTuple):
    """Which blocks are whose: those whose number leaves `rank` when divided by `world`."""

    rank: int = 0
    world: int = 1
    barrier: Callable[[], None] = lambda: None
    """Waits until every rank has come as far."""


@torch.no_grad()
def embed_store(
    encoder: Encoder,
    store: Store,
    work: Path,
    *,
    memory: int = 1 << 30,
    share: Share = Share(),  # noqa: B008 (immutable)
    on_block: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Compute the embeddings of a store into an array on disk. Interrupted, the same call repeats no finished block.

    Args:
        encoder: In evaluation mode, on the CPU.
        store: The graph.
        work: Folder for the array and the files on the way to it, the same for all ranks.
        memory: Bytes that a block may take, beside one number per node.
        share: Which blocks this process computes.
        on_block: Told how many blocks are done and how many there are, for progress bars.

    Returns:
        ``work / "embeddings.npy"``, float32 ``[nodes, width]`` in the store's order.
    """
    widths, depth = encoder.widths, len(encoder.layers)
    kept = widths if encoder.readout == "concat" else [*[0] * (depth - 1), widths[-1]]
    plan = plan_blocks(store, max(widths), memory, encoder.fingerprint)
    if share.rank == 0:
        plan.prepare_folder(work, widths, sum(kept))
    share.barrier()
    log, scale, output = BlockLog(work, share.rank), degree_scale(store), open_array(work / OUTPUT)
    mine = range(share.rank, plan.num_blocks, share.world)
    done, total = 0, len(mine) * (depth + 1)
    for stage in range(depth + 1):
        before = open_array(work / projected(stage - 1)) if stage else None
        after = open_array(work / projected(stage)) if stage < depth else None
        width, columns = (kept[stage - 1] if stage else 0), sum(kept[: max(stage - 1, 0)])
        for block in mine:
            start, stop = plan.rows(block)
            if not log.is_done(stage, block):
                rows = (
                    encoder.prepare(_inputs(encoder, store, start, stop))
                    if before is None
                    else _convolve(encoder.layers[stage - 1], store, before, scale, start, stop)
                )
                if width:
                    output[start:stop, columns : columns + width] = rows
                if after is not None:
                    after[start:stop] = project(rows, encoder.layers[stage].weight, 0.0, None)
                log.finish(stage, block, output, after)
            done += 1
            on_block(done, total)
        share.barrier()
    return work / OUTPUT


def _convolve(layer: Convolution, store: Store, projected: Array, scale: Tensor, start: int, stop: int) -> Tensor:
    """Some rows of a layer's output, from the multiplied rows of all nodes."""
    rowptr, col = store.rows(start, stop)
    senders, place = torch.unique(col, return_inverse=True)
    row = torch.repeat_interleave(rowptr.diff())
    own = scale[start:stop]
    values = own.index_select(0, row).mul_(scale.index_select(0, col))
    around = _one_way(rowptr, row, place, senders.numel())
    mixed = propagate(around, values, _gather(projected, senders))
    mixed.addcmul_(own.square().unsqueeze(1), _gather(projected, torch.arange(start, stop)))
    with torch_threads(1):
        return layer.finish(mixed)


def _gather(array: Array, rows: Tensor) -> Tensor:
    """``[n, width]`` some rows of a mapped array, by ascending numbers, with few of its pages in memory at a time."""
    index = rows.numpy()
    out = np.empty((len(index), array.shape[1]), dtype=array.dtype)
    span = max(GATHER_BYTES // (array.shape[1] * array.itemsize), 1)
    cuts = np.searchsorted(index, np.arange(0, len(array) + span, span))
    for first, last in pairwise(cuts):
        if last > first:
            np.take(array, index[first:last], axis=0, out=out[first:last], mode="clip")
            release(array)
    return torch.from_numpy(out)


def _inputs(encoder: Encoder, store: Store, start: int, stop: int) -> Features:
    """What the first layer reads: learned vectors, or features in the form that a graph in memory would have."""
    if encoder.node_vectors is not None:
        return encoder.node_vectors[start:stop]
    if store.features is None:
        return _indicators(start, stop, store.num_nodes)
    rows = store.feature_rows(start, stop)
    if not store.is_sparse:
        return rows
    row, col = rows.nonzero().unbind(1)
    rowptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(row, minlength=stop - start).cumsum(0)])
    return SparseFeatures(_one_way(rowptr, row, col, store.num_features), rows[row, col])


def _indicators(start: int, stop: int, num_nodes: int) -> SparseFeatures:
    """Rows of the features of a graph that has none: each node has its own column."""
    own = torch.arange(stop - start + 1)
    return SparseFeatures(_one_way(own, own[:-1], own[:-1] + start, num_nodes), torch.ones(stop - start))


def _one_way(rowptr: Tensor, row: Tensor, col: Tensor, num_cols: int) -> Structure:
    """A pattern that is only ever multiplied forwards, so that nothing has to be sorted for its transpose."""
    nothing = torch.empty(0, dtype=torch.int64)
    return Structure(rowptr, row, col, torch.empty(num_cols + 1, dtype=torch.int64), nothing, nothing)


def degree_scale(store: Store) -> Tensor:
    """``[nodes]`` one over the root of the degree, self-loop included; as `engine.propagate.gcn_weights` takes it."""
    degree = torch.from_numpy(np.diff(store.rowptr).astype(np.float32))
    release(store.rowptr)
    return degree.add_(1).rsqrt_()
