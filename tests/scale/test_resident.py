"""A group cut from memory is the group that would be read: the same edges, features, noise and links."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from processes import clustered_store
from torch import Tensor

from bandana.graph import Features, Graph, SparseFeatures
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.parts.encoders import EncoderConfig
from bandana.scale import training
from bandana.scale.batches import ShardConfig, group_batch, read_region
from bandana.scale.distributed import World
from bandana.scale.resident import Resident
from bandana.scale.store import Store, write_store
from bandana.scale.training import Job, train_on_store
from bandana.training.trainer import TrainingConfig

GraphFactory = Callable[..., Graph]
PARTS, NODES = 7, 60


def tensors_of(x: Features) -> list[Tensor]:
    if not isinstance(x, SparseFeatures):
        return [x]
    return [x.values, *(getattr(x.structure, field.name) for field in fields(x.structure))]


def contents_of(graph: Graph) -> list[Tensor]:
    """Every tensor that a method may read."""
    assert graph.origin is not None
    structure = [getattr(graph.structure, field.name) for field in fields(graph.structure)]
    outside = graph.origin.outside or ()
    place = [graph.origin.rows, *outside, graph.origin.part_starts, torch.tensor(graph.origin.meeting)]
    return [*structure, *tensors_of(graph.x), *place, graph.noise_keys, graph.links]


@pytest.fixture(params=["dense", "sparse", "none", "directed"])
def store(request: pytest.FixtureRequest, tmp_path: Path, random_graph: GraphFactory) -> Store:
    width = {"sparse": 200, "none": 0}.get(request.param, 6)
    graph = random_graph(NODES, 300, num_features=width, directed=request.param == "directed", isolated=4)
    if request.param == "sparse":
        thinned = graph.x * (torch.rand(graph.x.shape, generator=torch.Generator().manual_seed(1)) < 0.04)
        graph = Graph.from_edges(graph.edge_index, num_nodes=NODES, x=thinned)
    # The last parts are crowded, and one between them is empty.
    return write_store(tmp_path / "store", graph, torch.tensor([0, 1, 2, 4, 5, 6])[torch.arange(NODES) ** 2 // 600])


def test_what_is_cut_is_what_would_be_read(store: Store) -> None:
    @given(parts=st.lists(st.integers(0, PARTS - 1), min_size=1, unique=True), full=st.booleans())
    def check(parts: list[int], full: bool) -> None:
        shards = ShardConfig(softmax="full" if full else "batch", valid_links=0.2, test_links=0.3)
        region = read_region(store, torch.arange(PARTS), shards, seed=9)
        cut = Resident.of(region.graph, store.part_starts, keeps_cut_edges=full).batch(torch.tensor(parts))
        read = group_batch(store, torch.tensor(parts), shards, seed=9)
        assert cut.graph.directed == read.graph.directed
        assert torch.equal(cut.links, read.links)
        for mine, theirs in zip(contents_of(cut.graph), contents_of(read.graph), strict=True):
            assert torch.equal(mine, theirs)

    check()


def test_training_from_memory_is_training_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = clustered_store(tmp_path / "store")
    config = BandanaConfig(encoder=EncoderConfig(width=8), decoder_width=4)
    schedule = TrainingConfig(epochs=3, evaluate_every=1, edge_batch_size=0)

    def weights() -> dict[str, Tensor]:
        torch.manual_seed(0)
        method = Bandana(config, GraphSpec(store.num_nodes, store.num_features))
        shards = ShardConfig(parts_per_group=2, groups_per_step=2)
        train_on_store(Job(method, store, schedule, shards, 0, World(0, 1, torch.device("cpu"))))
        return method.state_dict()

    from_memory = weights()
    monkeypatch.setattr(training, "resident", lambda job, region: None)
    assert all(torch.equal(value, from_memory[name]) for name, value in weights().items())


def test_a_store_that_is_evaluated_in_part_is_not_taken_for_whole(tmp_path: Path) -> None:
    store = clustered_store(tmp_path / "store")
    method = Bandana(BandanaConfig(), GraphSpec(store.num_nodes, store.num_features))
    job = Job(method, store, TrainingConfig(edge_batch_size=0), ShardConfig(), 0, World(0, 1, torch.device("cpu")))
    some, whole = (read_region(store, torch.arange(count), job.shards, 0) for count in (7, 8))
    assert training.resident(job, some) is None
    assert training.resident(job, whole) is not None
