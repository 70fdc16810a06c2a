"""One process or many: the same masks, the same loss, the same gradients, the same statistics."""

from pathlib import Path

import numpy as np
import pytest
import torch
from processes import alone, clustered_store, finish, start
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bandana import model_folder
from bandana.engine.structure import build_structure
from bandana.errors import UserError
from bandana.graph import Graph, Origin, dense
from bandana.method import Batch, Clock, GraphSpec, Method
from bandana.methods import bandana as bandana_module
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.methods.gae import GAE, GAEConfig
from bandana.own.trained import TrainedModel
from bandana.parts.autoencoder import LayersConfig, ReconstructionConfig
from bandana.parts.encoders import EncoderConfig
from bandana.parts.masks import draw_masks
from bandana.parts.negatives import draw_negatives
from bandana.registry import all_methods
from bandana.scale.batches import ShardConfig, group_batch, group_clock, plan_epoch
from bandana.scale.distributed import World, joined
from bandana.scale.inference import Share
from bandana.scale.joint import JointBatchNorm, JointLoss, join_norms
from bandana.scale.store import Store
from bandana.use.infer import infer

SHARDS = ShardConfig(parts_per_group=2, groups_per_step=4)
CLOCK = Clock(seed=3, epoch=1, step=11)
SETTINGS = {
    "bandana": (Bandana, BandanaConfig(encoder=EncoderConfig(width=8, dropout=0.3), decoder_width=4)),
    "gae": (
        GAE,
        GAEConfig(
            encoder=LayersConfig(widths=(8, 4), dropout=0.2, batch_norm=True),
            reconstruction=ReconstructionConfig(decoder="mlp", decoder_width=4),
        ),
    ),
    "gae dense": (
        GAE,
        GAEConfig(encoder=LayersConfig(widths=(8, 4)), reconstruction=ReconstructionConfig(loss="dense")),
    ),
}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def build(name: str) -> Method:
    cls, config = SETTINGS[name]
    torch.manual_seed(1)
    return cls(config, GraphSpec(96, 6))  # type: ignore[operator,no-any-return]


def groups_of(store: Store) -> list[Batch]:
    return [group_batch(store, parts, SHARDS, CLOCK.seed) for parts in plan_epoch(8, SHARDS, CLOCK.seed, 1)[0]]


def one_step(world: World, folder: Path, out: Path) -> None:
    """Loss, gradients, running statistics and masks of one step of every method, in both precisions."""
    before = torch.get_default_dtype()
    found: dict[str, Tensor] = {}
    for dtype in TOLERANCE:
        torch.set_default_dtype(dtype)
        batches, own = groups_of(Store.open(folder)), world.divide(SHARDS.groups_per_step)
        for name in SETTINGS:
            method = build(name)
            shared = world.share(JointLoss(method, world))
            loss = shared(batches[own.start : own.stop], CLOCK, own.start)
            loss.backward()
            found[f"{dtype}/{name}/loss"] = (world.sum(loss.detach()) / world.size).view(1)
            found |= {f"{dtype}/{name}/grad/{k}": p.grad for k, p in method.named_parameters() if p.grad is not None}
            found |= {f"{dtype}/{name}/buffer/{k}": b.clone() for k, b in method.named_buffers()}
    for place in own:
        masks = draw_masks(SETTINGS["bandana"][1].mask, batches[place].graph, CLOCK, 2)  # type: ignore[attr-defined]
        found |= {f"mask/{place}/{layer}": mask.bandwidths for layer, mask in enumerate(masks)}
    torch.set_default_dtype(before)
    save_file(found, out / f"{world.size}-{world.rank}.safetensors")


def test_gradients_and_masks_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    clustered_store(tmp_path / "store")
    jobs = {size: start(one_step, size, tmp_path / "store", tmp_path) for size in (2, 4)}
    alone(one_step, tmp_path / "store", tmp_path)
    reference = load_file(tmp_path / "1-0.safetensors")
    assert sum("grad" in key for key in reference) > 30
    for size, processes in jobs.items():
        assert finish(processes) == [0] * size
        masks: set[str] = set()
        for rank in range(size):
            found = load_file(tmp_path / f"{size}-{rank}.safetensors")
            for key, value in found.items():
                if key.startswith("mask"):
                    assert torch.equal(value, reference[key])
                    masks.add(key)
                else:
                    tolerance = TOLERANCE[torch.float64 if "float64" in key else torch.float32]
                    torch.testing.assert_close(value, reference[key], rtol=tolerance, atol=tolerance)
        assert masks == {key for key in reference if key.startswith("mask")}


def infer_together(world: World, folder: Path, model: Path, out: Path) -> None:
    """Blocks small enough that every process has several."""
    share = Share(world.rank, world.size, world.wait)
    infer(model_folder.load(model), Store.open(folder), out, memory=1 << 14, share=share)


def test_processes_that_infer_together_write_what_one_writes(tmp_path: Path) -> None:
    clustered_store(tmp_path / "store", nodes_per_part=40)
    torch.manual_seed(0)
    spec = GraphSpec(320, 6)
    config = SETTINGS["bandana"][1]
    method = Bandana(config, spec).eval()  # type: ignore[arg-type]
    model_folder.save(tmp_path / "model", TrainedModel(name="bandana", config=config, spec=spec, method=method))
    job = start(infer_together, 2, tmp_path / "store", tmp_path / "model", tmp_path / "two")
    alone(infer_together, tmp_path / "store", tmp_path / "model", tmp_path / "one")
    assert finish(job) == [0, 0]
    one, two = (np.load(tmp_path / name / "embeddings.npy") for name in ("one", "two"))
    assert np.array_equal(one, two)
    assert np.isfinite(one).all()


def union_of(batches: list[Batch]) -> tuple[Graph, list[int]]:
    """The groups as one graph, laid side by side without an edge between them."""
    sizes = [batch.graph.num_nodes for batch in batches]
    first = [sum(sizes[:place]) for place in range(len(sizes))]
    row = torch.cat([batch.graph.structure.row + start for batch, start in zip(batches, first, strict=True)])
    col = torch.cat([batch.graph.structure.col + start for batch, start in zip(batches, first, strict=True)])
    rows = torch.cat([batch.graph.origin.rows for batch in batches if batch.graph.origin])
    structure, _ = build_structure(row, col, sum(sizes), sum(sizes))
    x = torch.cat([dense(batch.graph.x) for batch in batches])
    return Graph(structure=structure, x=x, origin=Origin(rows, 96)), first


@pytest.mark.usefixtures("float64")
def test_the_joint_loss_is_that_of_the_groups_as_one_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary step with ordinary batch norm over the union; only the draw of negatives is handed over."""
    config = BandanaConfig(encoder=EncoderConfig(width=8, dropout=0.0), decoder_width=4, decoder_dropout=0.0)
    batches = groups_of(clustered_store(tmp_path / "store"))
    methods = []
    for _ in range(2):
        torch.manual_seed(1)
        methods.append(Bandana(config, GraphSpec(96, 6)))
    plain, joint = methods
    loss = JointLoss(joint, World(0, 1, torch.device("cpu")))(batches, CLOCK, 0)
    loss.backward()

    union, first = union_of(batches)
    negatives = []
    for place, (batch, offset) in enumerate(zip(batches, first, strict=True)):
        draw = group_clock(CLOCK, place).generator(torch.device("cpu"))
        count = 2 * batch.links.numel()
        negatives.append(offset + draw_negatives(batch.graph, count, draw))
    monkeypatch.setattr(bandana_module, "draw_negatives", lambda *_: torch.cat(negatives, 1))
    expected = plain.loss(Batch(union, union.links), CLOCK)
    expected.backward()

    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    for (name, here), there in zip(joint.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(here.grad, there.grad, rtol=1e-10, atol=1e-12, msg=name)
    for here, there in zip(joint.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)


def test_joining_norms_keeps_weights_names_and_what_evaluation_does() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.BatchNorm1d(4)))
    module(torch.randn(9, 3))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x = torch.randn(5, 3)
    expected = module.eval()(x)
    assert [type(norm) for norm in join_norms(module)] == [JointBatchNorm] * 2
    assert list(module.state_dict()) == list(before)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.equal(module(x), expected)
    assert join_norms(nn.Linear(2, 2)) == []


def test_a_group_that_fails_ends_the_step_with_its_own_problem(tmp_path: Path) -> None:
    class Broken(Bandana):
        def loss(self, batch: Batch, clock: Clock) -> Tensor:
            if batch is batches[2]:
                raise UserError("group 2 is broken")
            return super().loss(batch, clock)

    batches = groups_of(clustered_store(tmp_path / "store"))
    method = Broken(SETTINGS["bandana"][1], GraphSpec(96, 6))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="group 2 is broken"):
        JointLoss(method, World(0, 1, torch.device("cpu")))(batches, CLOCK, 0)


def test_groups_are_shared_out_in_order_or_not_at_all() -> None:
    device = torch.device("cpu")
    assert [list(World(rank, 2, device).divide(4)) for rank in (0, 1)] == [[0, 1], [2, 3]]
    with pytest.raises(UserError, match=r"shards\.groups_per_step: 4 groups .* 3 processes"):
        World(0, 3, device).divide(4)


def test_a_process_without_a_gpu_of_its_own_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with (
        pytest.raises(UserError, match=r"process 2 of this machine .*--nproc-per-node 1"),
        joined(torch.device("cuda"), 5.0),
    ):
        pass


def test_only_methods_that_were_proven_here_call_themselves_shardable() -> None:
    assert {name for name, method in all_methods().items() if method.shardable} == {"bandana", "gae"}
