"""Training from a store, by one process or many: the loop of `bandana.training.trainer` over groups of parts."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bandana.errors import UserError
from bandana.evaluation.dot_product_probe import dot_product_auc
from bandana.evaluation.metrics import checked_score, exact_auc
from bandana.method import Batch, Clock, Method
from bandana.scale.batches import (
    Region,
    ShardConfig,
    ahead,
    evaluation_parts,
    group_batch,
    group_clock,
    plan_epoch,
    read_region,
)
from bandana.scale.distributed import World
from bandana.scale.joint import JointBatchNorm, JointLoss
from bandana.scale.resident import Resident
from bandana.scale.store import Store
from bandana.training.early_stopping import Monitor
from bandana.training.steps import matmul_precision
from bandana.training.trainer import (
    MATMUL_PRECISION,
    Optimizers,
    TrainingConfig,
    TrainingState,
    evaluate,
    learning_rate,
    make_optimizers,
    over,
    resume,
    save_state,
    set_rate,
    weights_of,
)


class Job(NamedTuple):
    """One training from a store: what is trained, on what, how, by whom, and what chooses the weights."""

    method: Method
    store: Store
    training: TrainingConfig
    shards: ShardConfig
    seed: int
    world: World
    monitor: Monitor = "dot_product"


def train_on_store(
    job: Job,
    *,
    checkpoint: Path | None = None,
    on_epoch: Callable[[TrainingState], None] = lambda state: None,
) -> TrainingState:
    """Train on groups of parts and leave the method with the weights that validation liked best.

    Batch-norm statistics of these weights are then taken anew, over all of the store. Every process ends with the same
    weights; only the leading one writes checkpoints and calls `on_epoch`.

    Args:
        job: Its method was built for the store and stands on the world's device, with the same weights everywhere.
        checkpoint: File to continue from if it exists, whatever number of processes wrote it, in a folder that all
            machines share.
        on_epoch: Called after every epoch.

    Returns:
        The final state.

    Raises:
        UserError: The settings do not fit the store or the number of processes.
    """
    method, store, training, shards, seed, world, monitor = job
    _check_decoder(job)
    own = world.divide(shards.groups_per_step)
    steps_per_epoch = plan_epoch(store.num_parts, shards, seed, 1).shape[0]
    optimizers = make_optimizers(method, training, world.device)
    state, best = TrainingState(), weights_of(method)
    if checkpoint is not None and checkpoint.exists():
        state, best = resume(checkpoint, method, optimizers)
    _check_agreement(world, state, checkpoint)
    loss_of = world.share(JointLoss(method, world))
    region = read_region(store, evaluation_parts(store, shards, seed), shards, seed).to(world.device)
    memory = resident(job, region)
    watch = None if monitor == "none" else lambda: validation_score(job, region)

    started = time.perf_counter() - state.seconds
    while not over(state, training):
        method.train()
        for name, optimizer in optimizers.items():
            set_rate(optimizer, learning_rate(training, state.epoch + 1) * method.rate_of(name))
        for batches in rest_of_epoch(job, own, state, steps_per_epoch, memory):
            clock = Clock(seed, state.epoch + 1, state.step, training.epochs)
            state.loss += take_step(loss_of, batches, clock, own.start, optimizers, job)
            state.step += 1
            state.seconds = time.perf_counter() - started
            if state.step % shards.checkpoint_steps == 0 and state.step < (state.epoch + 1) * steps_per_epoch:
                _save(job, checkpoint, optimizers, state, best)
        loss, state.loss = state.loss, 0.0
        state.epoch += 1
        if state.epoch % training.evaluate_every == 0 or state.epoch == training.epochs:
            best = evaluate(method, state, best, loss, watch)
            _save(job, checkpoint, optimizers, state, best)
        if world.leads:
            on_epoch(state)
    method.load_state_dict(best)
    settle_norms(job, Clock(seed, state.epoch, state.step, training.epochs), memory)
    method.eval()
    if watch is not None and watch() < state.progress.best_value:
        method.load_state_dict(best)
    return state


def settle_norms(job: Job, clock: Clock, memory: Resident | None = None) -> None:
    """Take the statistics of every batch norm over the whole store, one layer after the other.

    Those of training are averages of the last steps, so of few of the store's groups, and lack what groups differ by.
    Where few steps see everything, they can be the better ones all the same: the validation links decide.

    A layer's input depends on the statistics of the layers in front of it, so each layer has a pass of its own. Masks
    and dropout stay as they are in training, where the weights have learned to live with them. A store that fits into
    memory is one group, and nothing of its neighbourhoods is cut off.
    """
    norms = [module for module in job.method.modules() if isinstance(module, JointBatchNorm)]
    job.method.train()
    for norm in norms:
        count, mean, variance = _statistics(job, norm, clock, memory)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance * count / max(count - 1, 1))
        norm.eval()


class SeenEnoughError(Exception):
    """Ends a forward pass at the layer whose input was wanted."""


@torch.no_grad()
def _statistics(job: Job, norm: nn.Module, clock: Clock, memory: Resident | None) -> tuple[float, Tensor, Tensor]:
    """Number, mean and variance of what reaches `norm`, over all nodes of the store, in float64."""
    sums = torch.zeros(3, _width(norm), dtype=torch.float64, device=job.world.device)

    def look(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].double()
        sums.add_(torch.stack([torch.full_like(sums[0], x.shape[0]), x.sum(0), x.square().sum(0)]))
        raise SeenEnoughError

    hook = norm.register_forward_pre_hook(look)
    groups, divided = _settling_groups(job)
    places = [place for place in range(len(groups)) if not divided or place % job.world.size == job.world.rank]
    for place in places:
        batch = batch_of(job, groups[place], memory)
        try:
            job.method.loss(batch, group_clock(clock, place))
        except SeenEnoughError:
            continue
    hook.remove()
    count, total, squares = job.world.sum(sums) if divided else sums
    mean = total / count
    return float(count[0]), mean, (squares / count - mean.square()).clamp(min=0)


def _settling_groups(job: Job) -> tuple[list[Tensor], bool]:
    """Groups that hold every part once, and whether the processes share them out or each looks at them all."""
    parts = torch.arange(job.store.num_parts)
    if job.store.num_edges <= job.shards.evaluation_edges:
        return [parts], False
    plan = plan_epoch(job.store.num_parts, job.shards, job.seed, 0).flatten()[: parts.numel()]
    return list(plan.split(job.shards.parts_per_group)), True


def _width(norm: nn.Module) -> int:
    assert isinstance(norm, JointBatchNorm)
    return norm.num_features


def take_step(
    loss_of: nn.Module, batches: list[Batch], clock: Clock, first: int, optimizers: Optimizers, job: Job
) -> float:
    """Move the weights; return the loss of the whole step."""
    for optimizer in optimizers.values():
        optimizer.zero_grad(set_to_none=True)
    with matmul_precision(MATMUL_PRECISION[job.training.precision]):
        loss = loss_of(batches, clock, first)
        loss.backward()
    if job.training.clip_norm:
        nn.utils.clip_grad_norm_(job.method.parameters(), job.training.clip_norm)
    for optimizer in optimizers.values():
        optimizer.step()
    job.method.after_step(clock)
    return float(job.world.sum(loss.detach())) / job.world.size


def rest_of_epoch(
    job: Job, own: range, state: TrainingState, steps_per_epoch: int, memory: Resident | None = None
) -> Iterator[list[Batch]]:
    """This process's batches of every step that the epoch still has, each read while the one before is learned."""
    plan = plan_epoch(job.store.num_parts, job.shards, job.seed, state.epoch + 1)
    done = state.step - state.epoch * steps_per_epoch
    steps = range(done, steps_per_epoch)
    return ahead(lambda step: [batch_of(job, plan[step, group], memory) for group in own], steps)


def batch_of(job: Job, parts: Tensor, memory: Resident | None = None) -> Batch:
    """The batch of one group of parts, where the training runs: from memory, or else from the store."""
    if memory is not None:
        return memory.batch(parts)
    batch = group_batch(job.store, parts, job.shards, job.seed)
    return Batch(batch.graph.to(job.world.device), batch.links.to(job.world.device))


def resident(job: Job, region: Region) -> Resident | None:
    """The training graph, where all of it is in memory anyway to be evaluated."""
    graph, store = region.graph, job.store
    if graph.num_nodes < store.num_nodes:
        return None
    return Resident.of(graph, store.part_starts, keeps_cut_edges=job.shards.softmax == "full")


def validation_score(job: Job, region: Region) -> float:
    """All processes score the same pairs, which keeps them together; the leading one's word counts."""
    return job.world.agree(checked_score(_area(job.method, region, job.monitor)))


def _area(method: Method, region: Region, monitor: Monitor) -> Tensor:
    """Of the curve of the validation pairs, ranked by the method's own decoder or by dot products."""
    graph, pairs = region.graph, region.valid
    if monitor != "decoder":
        return dot_product_auc(method.embed(graph), pairs)
    positive, negative = (method.score_edges(graph, ends) for ends in (pairs.positive, pairs.negative))
    assert positive is not None
    assert negative is not None
    return exact_auc(positive, negative)


def _save(
    job: Job, checkpoint: Path | None, optimizers: Optimizers, state: TrainingState, best: dict[str, Tensor]
) -> None:
    if checkpoint is not None and job.world.leads:
        save_state(checkpoint, job.method, optimizers, state, best)


def _check_decoder(job: Job) -> None:
    if job.monitor == "decoder" and not job.method.has_decoder():
        raise UserError("monitor: this method has no link decoder. Use --set monitor=dot_product.")


def _check_agreement(world: World, state: TrainingState, checkpoint: Path | None) -> None:
    if world.agree(state.step) != state.step:
        raise UserError(
            f"{checkpoint}: process {world.rank} finds step {state.step} here, the leading process another one; "
            f"put the run folder where all machines see the same files."
        )
