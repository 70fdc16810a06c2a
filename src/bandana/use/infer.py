"""Embeddings of a store by a trained model: the same rows as in memory, under the user's own ids."""

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from bandana.config import to_table
from bandana.data.features import preprocess
from bandana.engine.structure import build_structure
from bandana.errors import UserError
from bandana.files import alone, real_place, refuse_fixed, unwritable
from bandana.graph import Features, Graph
from bandana.own.trained import TrainedModel, nodes_fingerprint
from bandana.scale.blocks import OUTPUT
from bandana.scale.inference import Convolution, Encoder, Share, embed_store
from bandana.scale.journal import clean_up, move_into_place, put_back, refuse_taken
from bandana.scale.seal import NODES
from bandana.scale.store import Store, release
from bandana.use.receptive import local_encoder

PARQUET = "embeddings.parquet"
WRITTEN = {PARQUET, NODES, OUTPUT}


def infer(
    model: TrainedModel,
    store: Store,
    out: Path,
    *,
    memory: int = 1 << 30,
    force: bool = False,
    share: Share = Share(),  # noqa: B008 (immutable)
    on_block: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write the embeddings of a store: ``embeddings.npy`` and ``nodes.parquet``, and both as ``embeddings.parquet``.

    Args:
        model: As a training left it.
        store: A graph with the features that the model reads.
        out: Folder to write; it is not there until all of it is. Interrupted, the same call goes on.
        memory: Bytes that may be used beside one number per node.
        force: Whether an earlier folder may be replaced.
        share: The blocks of this process, where several work on the same folder.
        on_block: Told how many blocks are done and how many there are, for progress bars.

    Raises:
        UserError: The model does not fit the store, or embeds in another way; or the place is taken.
    """
    out = real_place(out)
    refuse_fixed(out)
    refuse_taken(out, force, WRITTEN)
    encoder, leads = encoder_of(model, store), share.rank == 0
    work = out.absolute().parent / f".{out.name}.inferring"
    try:
        with alone(out) if leads else nullcontext():
            if leads:
                put_back(work, out)
                refuse_taken(out, force, WRITTEN)  # it may be there only now
            vectors = embed_store(encoder, store, work, memory=memory, share=share, on_block=on_block)
            if leads:
                finished = work / "finished"
                finished.mkdir(exist_ok=True)
                write_parquet(finished / PARQUET, vectors, store)
                shutil.copyfile(store.folder / NODES, finished / NODES)
                store.refuse_replaced()
                vectors.replace(finished / OUTPUT)
                move_into_place(finished, out, force, WRITTEN)
                clean_up(work, out)
    except OSError as problem:
        raise unwritable(out, problem, resumable=True) from None
    share.barrier()


def encoder_of(model: TrainedModel, store: Store) -> Encoder:
    """What a model does to the rows of a store.

    Raises:
        UserError: It does not fit the store, or is not made of graph convolutions.
    """
    _check(model, store)
    model.method.cpu().eval()
    local = local_encoder(model.method)
    if local is None:
        raise UserError(
            f"{model.name}: does not embed by graph convolutions with fixed weights, which is what inference on a "
            f"store does block by block; embed the graph in memory, or train another method, such as bandana."
        )
    layers = [Convolution(layer.stack.weights[layer.depth].detach(), layer.__call__) for layer in local.layers]

    def prepare(x: Features) -> Features:
        if model.scaling is not None:
            return model.scaling.apply(x)
        return preprocess(_graph_of(x), model.features).x

    return Encoder(layers, local.readout, prepare, local.node_vectors, _fingerprint(model))


def write_parquet(path: Path, vectors: Path, store: Store) -> None:
    """Write ids and vectors side by side, in the form of `bandana.reporting.embeddings`, a few rows at a time."""
    array = np.load(vectors, mmap_mode="r", allow_pickle=False)
    start, writer = 0, None
    for ids in store.id_batches():
        block = np.array(array[start : start + len(ids)])
        release(array)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), array.shape[1])
        table = pa.table({"node_id": ids, "embedding": lists})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        start += len(ids)
    assert writer is not None, "a store has nodes"
    writer.close()


def _check(model: TrainedModel, store: Store) -> None:
    if model.nodes is not None:
        if store.num_nodes != model.spec.num_nodes or model.nodes != nodes_fingerprint(_nodes_of(store)):
            raise UserError(
                f"{store.folder}: this model learned one vector per node, so it embeds only the same nodes in the same "
                f"order; train on this store, or take a model that reads features."
            )
    elif store.num_features != model.spec.num_features:
        raise UserError(
            f"{store.folder}: has {store.num_features} features per node, and the model reads "
            f"{model.spec.num_features}; build the store with the same columns in the same order."
        )
    elif model.feature_names and store.feature_names and model.feature_names != store.feature_names:
        pairs = zip(model.feature_names, store.feature_names, strict=True)
        wanted, found = next((wanted, found) for wanted, found in pairs if wanted != found)
        raise UserError(
            f"{store.folder}: has the feature {found!r} where the model reads {wanted!r}; build the store with the "
            f"same columns in the same order."
        )


def _graph_of(x: Features) -> Graph:
    """Rows of features as a graph without edges, which is what preprocessing works on."""
    nothing = torch.empty(0, dtype=torch.int64)
    return Graph(structure=build_structure(nothing, nothing, x.shape[0], x.shape[0])[0], x=x)


def _nodes_of(store: Store) -> Graph:
    nothing = torch.empty(0, dtype=torch.int64)
    structure, _ = build_structure(nothing, nothing, store.num_nodes, store.num_nodes)
    return Graph(structure=structure, x=torch.empty(store.num_nodes, 0), node_ids=store.node_ids.to_pylist())


def _fingerprint(model: TrainedModel) -> str:
    """A digest of all that decides a model's embeddings."""
    digest = hashlib.sha256(json.dumps([model.name, to_table(model.config), model.features]).encode())
    tensors = [*model.method.state_dict().values(), *(model.scaling or ())]
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
