"""Timed pieces of the works on a store, which `bandana.scale.estimate` multiplies: a few steps, some rows, one block.

Where there is no store to time, a random one of the same kind stands in: as many edges and features per node, and as
large a share of the edges inside of a group, on fewer nodes.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from bandana.devices import torch_threads
from bandana.evaluation.heuristics import heuristic_floors
from bandana.experiment import Experiment, build
from bandana.graph import Graph
from bandana.method import Batch, Clock, Method
from bandana.own.calibration import SEED, resident_bytes
from bandana.scale.batches import ShardConfig, evaluation_parts, group_clock, plan_epoch, read_region
from bandana.scale.distributed import World
from bandana.scale.estimate import Costs, Memory, Model, Sizes, TrainingPiece, training_costs
from bandana.scale.joint import JointBatchNorm, JointLoss
from bandana.scale.store import Store, write_store
from bandana.scale.training import Job, SeenEnoughError, batch_of, rest_of_epoch, take_step, validation_score
from bandana.store_experiment import StoreExperiment, spec_of
from bandana.store_judge import Judge
from bandana.training.memory import tensor_bytes
from bandana.training.trainer import TrainingState, make_optimizers

T = TypeVar("T")
TIMED_STEPS, TIMED_SECONDS = 4, 15.0
"""No more steps are timed than these, nor for longer, once there is one beside the first."""
LOOKED_ENTRIES = 300_000
"""Of the region that is evaluated for the estimate."""
PROBE_EPOCHS = 5
STAND_IN_PARTS, STAND_IN_ENTRIES = 32, 100_000


def estimate_run(experiment: StoreExperiment, *, processes: int = 1, device: torch.device) -> Costs:
    """The costs of one seed of a run, from the counts of its store and a few timed steps.

    Args:
        experiment: What would be run.
        processes: How many would work together, each as fast as this one, on a network that never keeps them waiting.
        device: Where they would compute.

    Raises:
        UserError: The run would be refused as well.
    """
    store = Store.open(Path(experiment.dataset))
    with torch_threads(threads_of(processes)):
        piece, model = time_training(experiment, store, processes, device)
    return training_costs(Sizes.of(store), piece, model, experiment.training, experiment.shards, processes=processes)


def estimate_run_of_size(
    sizes: Sizes, experiment: StoreExperiment, *, processes: int = 1, device: torch.device
) -> Costs:
    """The same for a graph of which only the sizes are known; `experiment.dataset` is not read."""
    with TemporaryDirectory() as folder:
        store = stand_in(sizes, experiment.shards, Path(folder) / "store")
        named = replace(experiment, dataset=str(store.folder))
        with torch_threads(threads_of(processes)):
            piece, model = time_training(named, store, processes, device)
    share = (store.num_edges / store.num_parts) / (sizes.entries / sizes.parts)
    if not sizes.features:  # every node has weights of its own then
        model = model._replace(parameters=model.parameters * sizes.nodes // store.num_nodes)
    piece = piece._replace(share=share)
    return training_costs(sizes, piece, model, experiment.training, experiment.shards, processes=processes)


def stand_in(sizes: Sizes, shards: ShardConfig, folder: Path) -> Store:
    """A random store whose groups are like those of a larger graph, but smaller."""
    together = shards.parts_per_group
    parts = max(STAND_IN_PARTS, together * shards.groups_per_step)
    kept = sizes.inside + (1 - sizes.inside) * (together - 1) / max(sizes.parts - 1, 1)
    by_chance = (together - 1) / (parts - 1)
    inside = max((kept - by_chance) / (1 - by_chance), 0.0) if by_chance < 1 else 0.0
    nodes = max(round(STAND_IN_ENTRIES * sizes.nodes / sizes.entries) // parts, 8) * parts
    draw = np.random.default_rng(SEED)
    ends = draw.integers(nodes, size=(2, round(nodes * sizes.entries / sizes.nodes / 2)))
    near = draw.random(ends.shape[1]) < inside
    per_part = nodes // parts
    ends[1] = np.where(near, ends[0] // per_part * per_part + ends[1] % per_part, ends[1])
    x = torch.from_numpy(draw.standard_normal((nodes, sizes.features), dtype=np.float32)) if sizes.features else None
    graph = Graph.from_edges(torch.from_numpy(ends), num_nodes=nodes, x=x)
    return write_store(folder, graph, torch.arange(nodes) // per_part)


def time_training(
    experiment: StoreExperiment, store: Store, processes: int, device: torch.device
) -> tuple[TrainingPiece, Model]:
    """Train a few steps of a run, look at a region, and judge it.

    Raises:
        UserError: The settings do not fit the store or the number of processes.
    """
    shards = experiment.shards
    own = World(0, processes, device).divide(shards.groups_per_step)
    named = Experiment(
        method=experiment.method, dataset=experiment.dataset, task=experiment.task, model=experiment.model
    )
    method = build(named, spec_of(experiment, store), SEED).to(device)
    job = Job(method, store, experiment.training, shards, SEED, World(0, 1, device))
    step_s, base = _time_steps(job, own)
    norms = [module.num_features for module in method.modules() if isinstance(module, JointBatchNorm)]
    model = Model(sum(weights.numel() for weights in method.parameters()), norms)
    nearby, closer = (  # as for links: in a small region too few nodes may have labels, and then none is classified
        replace(experiment, task="link", shards=replace(shards, evaluation_edges=entries))
        for entries in (min(LOOKED_ENTRIES, store.num_edges), min(LOOKED_ENTRIES, store.num_edges) // 4)
    )
    parts, fewer = (evaluation_parts(store, near.shards, SEED) for near in (nearby, closer))
    read_s, region = _timed(lambda: read_region(store, parts, nearby.shards, SEED).to(device))
    look_s, _ = _timed(lambda: validation_score(job, region))
    judge_s, judge_bytes = _time_judge(nearby, store, method, device)
    _, less_bytes = _time_judge(closer, store, method, device)
    looked = _entries(store, parts)
    judging = Memory.between((_entries(store, fewer), less_bytes), (looked, judge_bytes))
    piece = TrainingPiece(
        1.0, step_s, _time_pass(job), _group_memory(job), looked, read_s, look_s, judge_s, judging, base
    )
    return piece, model


def _time_steps(job: Job, own: range) -> tuple[float, float]:
    """Seconds of the groups that a process has in a step, read while the one before is learned; and bytes before it."""
    loss_of, optimizers = JointLoss(job.method, job.world), make_optimizers(job.method, job.training, job.world.device)
    base = resident_bytes()
    job.method.train()
    steps = plan_epoch(job.store.num_parts, job.shards, job.seed, 1).shape[0]
    ends = [time.perf_counter()]
    while len(ends) <= TIMED_STEPS and not _long_enough(ends):
        for batches in rest_of_epoch(job, own, TrainingState(), min(steps, TIMED_STEPS)):
            take_step(loss_of, batches, Clock(job.seed, 1, len(ends), 1), own.start, optimizers, job)
            ends.append(time.perf_counter())
            if _long_enough(ends):
                break
    return (ends[-1] - ends[1]) / (len(ends) - 2), base


def _long_enough(ends: list[float]) -> bool:
    return len(ends) > 2 and ends[-1] - ends[0] > TIMED_SECONDS


def _time_pass(job: Job) -> float:
    """Seconds of reading one group and passing it on to the middle one of the norms."""
    parts, clock = plan_epoch(job.store.num_parts, job.shards, job.seed, 1)[0, 0], Clock(job.seed, 1, 0, 1)

    def settle() -> None:
        with torch.no_grad(), suppress(SeenEnoughError):
            job.method.loss(batch_of(job, parts), group_clock(clock, 0))

    norms = [module for module in job.method.modules() if isinstance(module, JointBatchNorm)]
    hooks = [norm.register_forward_pre_hook(_end_of_pass) for norm in norms[len(norms) // 2 :]]
    job.method.train()
    pass_s, _ = _timed(settle)
    for hook in hooks:
        hook.remove()
    return pass_s


def _group_memory(job: Job) -> Memory:
    """Of learning a group: by one group, and by one of its parts, or by two groups of one part each."""
    order = plan_epoch(job.store.num_parts, job.shards, job.seed, 1).flatten()
    count = job.shards.parts_per_group

    def learned(parts: Tensor) -> tuple[int, float]:
        def learn() -> tuple[Batch, Method]:
            batch, method = batch_of(job, parts), deepcopy(job.method)  # else the profiler wonders at what was there
            method.loss(batch, group_clock(Clock(job.seed, 1, 0, 1), 0)).backward()
            return batch, method

        tensors, entries = tensor_bytes(learn, job.world.device), _entries(job.store, parts)
        rows = int((job.store.part_starts[parts + 1] - job.store.part_starts[parts]).sum())
        # What is read from files is no tensor at first; and while a group is learned, the next one is read.
        return entries, tensors + 2 * (8 * entries + 4 * rows * job.store.num_features)

    job.method.train()
    large = learned(order[: max(count, 2)])
    memory = Memory.between(learned(order[:1]), large)
    return memory._replace(growing=memory.growing * count / max(count, 2))


def _end_of_pass(*unused: object) -> None:
    raise SeenEnoughError


def _time_judge(experiment: StoreExperiment, store: Store, method: Method, device: torch.device) -> tuple[float, float]:
    """Seconds of judging a method, its floors included, and bytes."""
    probe, floors = experiment.probe, 1 + (store.features is not None)
    read_s, judged = _timed(lambda: Judge.of(experiment, store, SEED, device))

    def score(epochs: int) -> None:
        replace(judged, probe=replace(probe, epochs=epochs)).score(method.embed)

    method.eval()
    with torch.no_grad():
        tensors = tensor_bytes(lambda: score(1), device)
        short_s, long_s = (_timed(partial(score, epochs))[0] for epochs in (1, 1 + PROBE_EPOCHS))
    per_epoch_s = max(long_s - short_s, 0.0) / PROBE_EPOCHS if judged.labels is not None else 0.0
    scored_s = short_s + (probe.epochs - 1) * per_epoch_s
    counted_s, _ = _timed(lambda: heuristic_floors(judged.region.graph, judged.region.test))
    return read_s + (1 + floors) * scored_s + counted_s, tensors


def _entries(store: Store, parts: Tensor) -> int:
    starts = store.part_starts.numpy()
    return int((store.rowptr[starts[parts.numpy() + 1]] - store.rowptr[starts[parts.numpy()]]).sum())


def threads_of(processes: int) -> int:
    """``torchrun`` gives each of several processes one thread, unless it is told otherwise."""
    return torch.get_num_threads() if processes == 1 else 1


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result
