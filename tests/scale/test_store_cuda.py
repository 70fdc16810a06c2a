"""Training from a store on a GPU: the masks, groups and gradients of a CPU, through threads, NCCL and checkpoints."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from processes import clustered_store
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bandana import model_folder
from bandana.experiment import embed
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods import bandana as bandana_module
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.parts import negatives
from bandana.parts.encoders import EncoderConfig
from bandana.parts.masks import draw_masks
from bandana.scale import training
from bandana.scale.batches import ShardConfig, group_batch, plan_epoch, read_region
from bandana.scale.distributed import World
from bandana.scale.joint import JointLoss
from bandana.scale.resident import Resident
from bandana.scale.store import Store
from bandana.scale.training import Job, Monitor, train_on_store
from bandana.store_experiment import StoreExperiment, run_store
from bandana.training.trainer import TrainingConfig, TrainingState
from bandana.use.infer import infer

pytestmark = pytest.mark.cuda

CPU, GPU = torch.device("cpu"), torch.device("cuda")
CLOCK = Clock(seed=3, epoch=1, step=11)
SHARDS = ShardConfig(parts_per_group=2, groups_per_step=4)
QUIET = BandanaConfig(encoder=EncoderConfig(width=8, dropout=0.0), decoder_width=4, decoder_dropout=0.0)
SHORT = TrainingConfig(epochs=30, lr=0.01, evaluate_every=5, edge_batch_size=0)
SINGLE = 1e-5
"""Relative error of single precision, over a few layers."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return clustered_store(tmp_path / "store")


def build(store: Store, device: torch.device, config: BandanaConfig = QUIET) -> Bandana:
    torch.manual_seed(1)
    return Bandana(config, GraphSpec(store.num_nodes, store.num_features)).to(device)


def groups_on(store: Store, device: torch.device) -> list[Batch]:
    groups = [group_batch(store, parts, SHARDS, CLOCK.seed) for parts in plan_epoch(8, SHARDS, CLOCK.seed, 1)[0]]
    return [Batch(graph.to(device), links.to(device)) for graph, links in groups]


def test_masks_are_those_of_a_cpu(store: Store) -> None:
    for here, there in zip(groups_on(store, GPU), groups_on(store, CPU), strict=True):
        masks = zip(*(draw_masks(QUIET.mask, batch.graph, CLOCK, 2) for batch in (here, there)), strict=True)
        for mine, theirs in masks:
            assert mine.bandwidths.is_cuda
            torch.testing.assert_close(mine.bandwidths.cpu(), theirs.bandwidths, rtol=SINGLE, atol=1e-6)


@pytest.mark.parametrize("softmax", ["batch", "full"])
def test_groups_cut_on_a_gpu_are_those_of_a_cpu(store: Store, softmax: str) -> None:
    shards = replace(SHARDS, softmax=softmax)  # type: ignore[arg-type]
    region = read_region(store, torch.arange(8), shards, 0)
    cuts = [
        Resident.of(region.graph.to(device), store.part_starts, keeps_cut_edges=softmax == "full")
        for device in (GPU, CPU)
    ]
    for parts in plan_epoch(8, shards, 0, 1).flatten(0, 1):
        here, there = (cut.batch(parts) for cut in cuts)
        for field in fields(there.graph.structure):
            mine, theirs = (getattr(batch.graph.structure, field.name) for batch in (here, there))
            assert mine.is_cuda
            assert torch.equal(mine.cpu(), theirs)
        assert torch.equal(here.links.cpu(), there.links)
        assert torch.equal(here.graph.noise_keys.cpu(), there.graph.noise_keys)
        assert isinstance(here.graph.x, Tensor)
        assert isinstance(there.graph.x, Tensor)
        assert torch.equal(here.graph.x.cpu(), there.graph.x)


def gradients(loss_of: nn.Module, batches: list[Batch]) -> dict[str, Tensor]:
    loss = loss_of(batches, CLOCK, 0)
    loss.backward()
    named = {name.removeprefix("module."): value for name, value in loss_of.named_parameters()}
    return {"loss": loss.detach().cpu()} | {k: p.grad.cpu() for k, p in named.items() if p.grad is not None}


@pytest.fixture
def same_negatives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generators of two devices draw different numbers; here the CPU draws for both."""

    def draw(graph: Graph, count: int, generator: torch.Generator) -> Tensor:
        own = torch.Generator().manual_seed(graph.num_nodes + count)
        return negatives.draw_negatives(graph.to("cpu"), count, own).to(graph.device)

    monkeypatch.setattr(bandana_module, "draw_negatives", draw)


@pytest.mark.usefixtures("float64", "same_negatives")
def test_gradients_of_four_groups_in_threads_are_those_of_a_cpu(store: Store) -> None:
    here, there = (
        gradients(JointLoss(build(store, device), World(0, 1, device)), groups_on(store, device))
        for device in (GPU, CPU)
    )
    assert len(here) > 5
    for name, value in there.items():
        torch.testing.assert_close(here[name], value, rtol=1e-9, atol=1e-11, msg=name)


@pytest.fixture
def nccl(tmp_path: Path) -> Iterator[dist.ProcessGroup]:
    """A job of one process, and its group for sums."""
    dist.init_process_group("nccl", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    group = dist.new_group()
    assert group is not None
    yield group
    dist.destroy_process_group()


@pytest.mark.usefixtures("float64", "same_negatives")
def test_nccl_exchanges_gradients_and_sums(store: Store, nccl: dist.ProcessGroup) -> None:
    from bandana.scale.distributed import _Sum

    world = World(0, 1, GPU, nccl)
    alone = gradients(JointLoss(build(store, GPU), world), groups_on(store, GPU))
    shared = DistributedDataParallel(JointLoss(build(store, GPU), world), broadcast_buffers=False)
    for name, value in gradients(shared, groups_on(store, GPU)).items():
        torch.testing.assert_close(value, alone[name], rtol=1e-9, atol=1e-11, msg=name)
    x = torch.randn(5, device=GPU, requires_grad=True)
    total = _Sum.apply(x, nccl)  # type: ignore[no-untyped-call]
    total.square().sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(total, x)
    torch.testing.assert_close(x.grad, 2 * x)
    said = torch.tensor(0.25, dtype=torch.float64, device=GPU)
    dist.broadcast(said, src=0, group=nccl)
    dist.barrier(group=nccl)
    assert float(said) == 0.25


@pytest.mark.parametrize("from_memory", [True, False])
@pytest.mark.parametrize("monitor", ["dot_product", "decoder"])
def test_training_learns(store: Store, from_memory: bool, monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    if not from_memory:
        monkeypatch.setattr(training, "resident", lambda job, region: None)
    config = replace(QUIET, encoder=EncoderConfig(width=16, dropout=0.2))
    method = build(store, GPU, config)
    state = train_on_store(Job(method, store, SHORT, SHARDS, 0, World(0, 1, GPU), monitor))
    losses = [row["loss"] for row in state.history]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    assert all(0 <= row["monitor"] <= 1 for row in state.history)
    assert all(tensor.is_cuda and bool(tensor.isfinite().all()) for tensor in method.state_dict().values())


def test_a_run_goes_on_after_an_interruption_and_its_model_embeds_anywhere(store: Store, tmp_path: Path) -> None:
    changes = {"model.encoder.width": 8, "training.epochs": 6, "training.evaluate_every": 2, "probe.repeats": 2}
    experiment = StoreExperiment.of("bandana", store.folder, "node", {**changes, "shards.parts_per_group": 1})

    def stop(state: TrainingState) -> None:
        if state.epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_store(experiment, device="cuda", folder=tmp_path / "run", on_seed=lambda seed: stop)
    seen: list[int] = []
    record = run_store(
        experiment, device="cuda", folder=tmp_path / "run", on_seed=lambda seed: lambda state: seen.append(state.epoch)
    )
    assert seen == [5, 6]
    assert record is not None
    assert record.device == "cuda"
    assert {"auc", "micro_f1"} <= set(record.seeds[0].metrics)

    model = model_folder.load(tmp_path / "run" / "seed-0" / "model")
    infer(model, store, tmp_path / "vectors", memory=1 << 14)
    on_gpu = embed(model.method.to(GPU), store.graph().to(GPU)).cpu()
    vectors = torch.from_numpy(np.load(tmp_path / "vectors" / "embeddings.npy"))
    torch.testing.assert_close(on_gpu, vectors, rtol=SINGLE, atol=1e-5)
