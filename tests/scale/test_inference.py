"""Inference block by block gives the bits of the whole graph in memory, however it is cut, shared or interrupted."""

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bandana import model_folder
from bandana.config import patch
from bandana.data.features import Preprocessing, Scaling
from bandana.devices import torch_threads
from bandana.errors import UserError
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.own.trained import TrainedModel, nodes_fingerprint
from bandana.registry import get_method
from bandana.reporting.embeddings import read_embeddings
from bandana.scale import inference
from bandana.scale.blocks import ALIGNED, plan_blocks
from bandana.scale.inference import Share, embed_store
from bandana.scale.store import Store, write_store
from bandana.use.infer import encoder_of, infer

NODES = 403
"""Six blocks of the smallest size, the last of them not of a round number of rows."""


def graph_of(sparse: bool = False, num_features: int = 20, num_nodes: int = NODES) -> Graph:
    random = torch.Generator().manual_seed(3)
    x = torch.randn(num_nodes, num_features, generator=random) if num_features else None
    if x is not None and sparse:
        x = x * (torch.rand(x.shape, generator=random) < 0.04)
    ends = torch.randint(num_nodes - 5, (2, 5 * num_nodes), generator=random)
    ends[0, :200] = 7  # a hub
    return Graph.from_edges(ends, num_nodes=num_nodes, x=x)


def model_of(store: Store, name: str = "bandana", features: Preprocessing = "raw", **changes: Any) -> TrainedModel:
    """An untrained model whose norms have seen something."""
    graph = store.graph()
    method_class = get_method(name)
    config = patch(method_class.Config(), changes)
    torch.manual_seed(0)
    method = method_class(config, GraphSpec.of(graph)).eval()
    for module in method.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            assert isinstance(module.running_mean, Tensor)
            assert isinstance(module.running_var, Tensor)
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return TrainedModel(
        name=name,
        config=config,
        spec=GraphSpec.of(graph),
        method=method,
        features=features,
        scaling=Scaling.of(graph.x) if features == "standardised" else None,
        nodes=None if graph.has_features else nodes_fingerprint(graph),
    )


def store_of(folder: Path, graph: Graph) -> Store:
    return write_store(folder, graph, torch.arange(graph.num_nodes) % 5)


def in_memory(model: TrainedModel, store: Store) -> Tensor:
    with torch_threads(1):
        return model.embed(store.graph())


def embedded(model: TrainedModel, store: Store, work: Path, memory: int = 1) -> Tensor:
    return torch.from_numpy(np.load(embed_store(encoder_of(model, store), store, work, memory=memory)))


@pytest.mark.parametrize("readout", ["concat", "last"])
@pytest.mark.parametrize(("width", "num_layers"), [(32, 2), (7, 3), (33, 1)])
def test_bits_are_those_of_memory(tmp_path: Path, readout: str, width: int, num_layers: int) -> None:
    store = store_of(tmp_path / "store", graph_of())
    model = model_of(store, readout=readout, encoder={"width": width, "num_layers": num_layers})
    expected = in_memory(model, store)
    for memory in (1, 150_000, 1 << 30):
        assert torch.equal(embedded(model, store, tmp_path / str(memory), memory), expected)


def test_threads_make_no_difference(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", graph_of(num_nodes=1203))
    model = model_of(store, encoder={"width": 33})
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        vectors = embedded(model, store, tmp_path / "work", memory=1_000_000)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(vectors, in_memory(model, store))


@pytest.mark.parametrize("features", ["raw", "row_normalised", "standardised"])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_are_prepared_as_in_memory(tmp_path: Path, features: Preprocessing, sparse: bool) -> None:
    store = store_of(tmp_path / "store", graph_of(sparse))
    assert store.is_sparse == sparse
    model = model_of(store, features=features, encoder={"width": 16})
    assert torch.equal(embedded(model, store, tmp_path / "work"), in_memory(model, store))


@pytest.mark.parametrize("changes", [{}, {"encoder": {"node_embedding": 12}}], ids=["indicators", "learned vectors"])
def test_a_graph_without_features(tmp_path: Path, changes: dict[str, Any]) -> None:
    store = store_of(tmp_path / "store", graph_of(num_features=0))
    model = model_of(store, **changes)
    assert torch.equal(embedded(model, store, tmp_path / "work"), in_memory(model, store))
    other = store_of(tmp_path / "other", graph_of(num_features=0, num_nodes=NODES - 1))
    with pytest.raises(UserError, match="one vector per node"):
        encoder_of(model, other)


@pytest.mark.parametrize("name", ["gae", "vgae", "grace", "cca_ssg", "maskgae_edge", "untrained_encoder"])
def test_other_methods_made_of_convolutions(tmp_path: Path, name: str) -> None:
    store = store_of(tmp_path / "store", graph_of())
    model = model_of(store, name)
    assert torch.equal(embedded(model, store, tmp_path / "work"), in_memory(model, store))


def test_methods_of_another_kind_say_so(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", graph_of())
    with pytest.raises(UserError, match="graphmae: does not embed by graph convolutions"):
        encoder_of(model_of(store, "graphmae"), store)


def test_blocks_cover_the_rows_and_are_aligned(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", graph_of())
    counts = set()
    for memory in (1, 50_000, 100_000, 200_000, 400_000, 1 << 30):
        starts = plan_blocks(store, 16, memory, "").starts
        assert starts[0] == 0
        assert starts[-1] == NODES
        assert all(start % ALIGNED == 0 for start in starts[:-1])
        assert all(after - before >= ALIGNED for before, after in pairwise(starts))
        counts.add(len(starts) - 1)
    assert {1, NODES // ALIGNED} <= counts
    assert len(counts) > 2


@pytest.mark.parametrize("stop_after", [1, 5, 6, 11, 17])
def test_an_interrupted_pass_repeats_no_finished_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    store = store_of(tmp_path / "store", graph_of())
    model = model_of(store, encoder={"width": 8})
    projections: list[int] = []
    real = inference.project

    def counted(rows: Any, *rest: Any) -> Tensor:
        projections.append(rows.shape[0])
        return real(rows, *rest)

    monkeypatch.setattr(inference, "project", counted)

    def interrupt(done: int, total: int) -> None:
        assert total == 18
        if done == stop_after:
            raise KeyboardInterrupt

    encoder = encoder_of(model, store)
    with pytest.raises(KeyboardInterrupt):
        embed_store(encoder, store, tmp_path / "work", memory=1, on_block=interrupt)
    # A line that the interruption cut off must not count.
    with (tmp_path / "work" / "done-0.txt").open("a") as file:
        file.write("\n2 ")
    vectors = embed_store(encoder, store, tmp_path / "work", memory=1)
    assert len(projections) == 12
    assert torch.equal(torch.from_numpy(np.load(vectors)), in_memory(model, store))


def test_another_model_does_not_continue_the_work_of_one(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", graph_of())
    first, second = model_of(store), model_of(store)
    embedded(first, store, tmp_path / "work")
    with torch.no_grad():
        next(second.method.parameters()).add_(1)
    assert torch.equal(embedded(second, store, tmp_path / "work"), in_memory(second, store))


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_the_blocks(tmp_path: Path, world: int) -> None:
    """The ranks take turns at every barrier, as threads that wait for each other."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    store = store_of(tmp_path / "store", graph_of())
    model = model_of(store)
    meeting, blocks = Barrier(world, timeout=30), [0] * world

    def rank(number: int) -> Path:
        def count(done: int, total: int) -> None:
            blocks[number] = total

        share = Share(number, world, lambda: meeting.wait() and None)
        opened = Store.open(store.folder)
        return embed_store(encoder_of(model, opened), opened, tmp_path / "work", memory=1, share=share, on_block=count)

    with ThreadPoolExecutor(world) as pool:
        paths = set(pool.map(rank, range(world)))
    assert sum(blocks) == 18
    assert torch.equal(torch.from_numpy(np.load(paths.pop())), in_memory(model, store))


def test_the_command_writes_vectors_under_the_own_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from bandana.terminal.scale import bytes_of, infer_and_show

    store = store_of(tmp_path / "store", graph_of())
    model = model_of(store)
    model_folder.save(tmp_path / "model", model)
    infer_and_show(store.folder, tmp_path / "model", tmp_path / "out", "64MB", force=False)
    assert "Vectors of 403 nodes" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "embeddings.npy",
        "embeddings.parquet",
        "nodes.parquet",
    ]
    read = read_embeddings(tmp_path / "out" / "embeddings.parquet")
    assert read.node_ids == store.node_ids.to_pylist()
    assert torch.equal(read.vectors, in_memory(model, store))
    assert torch.equal(torch.from_numpy(np.load(tmp_path / "out" / "embeddings.npy")), read.vectors)
    with pytest.raises(UserError, match="--force"):
        infer(model, store, tmp_path / "out")
    infer(model, store, tmp_path / "out", force=True)
    for own in (store.folder, tmp_path / "model"):
        with pytest.raises(UserError, match="was not written by this command, and --force would delete it"):
            infer(model, store, own, force=True)
    assert Store.open(store.folder).digest == store.digest
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert bytes_of("1.5GiB") == 3 << 29
    for wrong in ("1", "much", "-2GB"):
        with pytest.raises(UserError, match="--memory"):
            bytes_of(wrong)


def test_a_store_that_is_replaced_meanwhile_never_lends_its_ids(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", graph_of())
    opened = Store.open(store.folder)
    shuffled = replace(graph_of(), node_ids=[f"other {row}" for row in range(NODES)])

    def exchange(done: int, total: int) -> None:
        if done == total:
            shutil.rmtree(store.folder)
            write_store(store.folder, shuffled, torch.arange(NODES) % 5)

    with pytest.raises(UserError, match="another store has taken its place meanwhile; start the command again"):
        infer(model_of(store), store, tmp_path / "out", on_block=exchange)
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="another store has taken its place"):
        _ = opened.node_ids


def test_vectors_that_were_put_back_are_not_computed_for_in_vain(tmp_path: Path) -> None:
    """As `kill -9` leaves them between the two moves of an exchange."""
    store = store_of(tmp_path / "store", graph_of())
    infer(model_of(store), store, tmp_path / "out")
    (tmp_path / ".out.inferring").mkdir()
    (tmp_path / "out").rename(tmp_path / ".out.inferring" / "replaced")
    with pytest.raises(UserError, match="exists; choose another name, or overwrite it with --force"):
        infer(model_of(store), store, tmp_path / "out", on_block=lambda done, total: pytest.fail("work was begun"))
    assert (tmp_path / "out" / "embeddings.npy").exists()


def test_two_inferences_into_one_folder_are_kept_apart(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", graph_of())
    model, other = model_of(store), model_of(store, encoder={"width": 8})

    def meanwhile(done: int, total: int) -> None:
        with pytest.raises(UserError, match="another command is writing there"):
            infer(other, store, tmp_path / "out")

    infer(model, store, tmp_path / "out", on_block=meanwhile)
    assert torch.equal(torch.from_numpy(np.load(tmp_path / "out" / "embeddings.npy")), in_memory(model, store))


def test_a_store_with_other_features_is_refused(tmp_path: Path) -> None:
    store, other = store_of(tmp_path / "a", graph_of()), store_of(tmp_path / "b", graph_of(num_features=19))
    with pytest.raises(UserError, match="has 19 features per node, and the model reads 20"):
        infer(model_of(store), other, tmp_path / "out")
