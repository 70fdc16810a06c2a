"""The training loop, in the open: batches, turns, steps, evaluations, checkpoints.

It knows no method, no data set and no metric. What to watch comes in as a function that returns one number.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from bandana.engine.streams import generator
from bandana.errors import UserError
from bandana.graph import Graph
from bandana.method import Batch, Clock, Method
from bandana.training import checkpoint as checkpoints
from bandana.training.early_stopping import Progress
from bandana.training.steps import Steps, own_stream

Precision = Literal["float32", "tf32", "bf16"]
MATMUL_PRECISION: dict[Precision, str] = {"float32": "highest", "tf32": "high", "bf16": "medium"}
Optimizers: TypeAlias = dict[str, torch.optim.Adam]
TIME_PER_SAVING = 20.0
"""Seconds without a checkpoint for each second that the last one took to write: a GPU passes the ten epochs between two
evaluations of a small graph in less time than that takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingConfig:
    """How long and how fast to learn."""

    epochs: int = 1000
    lr: float = 1e-3
    weight_decay: float = 0.0
    optimizer: Literal["adam", "adamw"] = "adam"
    schedule: Literal["constant", "cosine"] = "constant"
    """How the learning rate goes on after the warm-up: level, or along half a cosine down to zero."""
    warmup_epochs: int = 0
    """Epochs over which the learning rate climbs from zero in equal steps."""
    precision: Precision = "float32"
    """Of products of matrices. The other two are faster on a GPU, bf16 also on some CPUs; see docs/speed.md."""
    clip_norm: float = 1.0
    """Largest norm of the gradient; 0 leaves it alone."""
    edge_batch_size: int = 65_536
    """Directed edges per step, each step a whole encoder pass; 0 takes all edges in one step per epoch."""
    evaluate_every: int = 10
    """Epochs between two looks at the validation set."""
    patience_evaluations: int = 30
    """Evaluations without a new best before training ends; 0 always trains to the end."""

    def __post_init__(self) -> None:
        for name in ("epochs", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        for name in ("weight_decay", "warmup_epochs", "clip_norm", "edge_batch_size", "patience_evaluations"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}: must be a number from 0 on, got {getattr(self, name)}")
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr: must be a positive number, got {self.lr}")


@dataclass(slots=True)
class TrainingState:
    """All that changes while training, besides weights and optimisers. Plain values, saved in every checkpoint."""

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    progress: Progress = field(default_factory=Progress)
    history: list[dict[str, float]] = field(default_factory=list)
    loss: float = 0.0
    """Sum over the steps of an epoch that a checkpoint may cut in two; see `bandana.scale.training`."""

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "TrainingState":
        return cls(**{**table, "progress": Progress(**table["progress"])})


OnEpoch: TypeAlias = Callable[[TrainingState], None]
"""Called after every epoch, for progress bars."""


def pretrain(
    method: Method,
    graph: Graph,
    config: TrainingConfig,
    *,
    seed: int,
    monitor: Callable[[], float] | None = None,
    checkpoint: Path | None = None,
    on_epoch: OnEpoch = lambda state: None,
) -> TrainingState:
    """Train `method` on `graph` and leave it with the weights that the monitor liked best.

    Args:
        method: Built for this graph, on the graph's device.
        graph: Training edges only.
        config: Schedule.
        seed: All randomness follows from it and the step number.
        monitor: Validation score of the current weights, higher is better; None keeps the last weights.
        checkpoint: File to continue from if it exists, and to save to at evaluations, as often as it costs little.
        on_epoch: Called after every epoch, for progress bars.

    Returns:
        The final state, with one row of history per evaluation.
    """
    optimizers = make_optimizers(method, config, graph.device)
    method.prepare(graph)
    if not optimizers:
        method.eval()
        return TrainingState()
    state, best = TrainingState(), weights_of(method)
    if checkpoint is not None and checkpoint.exists():
        state, best = resume(checkpoint, method, optimizers)

    steps = Steps(method, optimizers, config.clip_norm, MATMUL_PRECISION[config.precision], graph.device)
    started, save_from = time.perf_counter() - state.seconds, 0.0
    with own_stream(graph.device):
        while not over(state, config):
            method.train()
            state.epoch += 1
            for name, optimizer in optimizers.items():
                set_rate(optimizer, learning_rate(config, state.epoch) * method.rate_of(name))
            loss = torch.zeros((), device=graph.device)
            for batch in edge_batches(graph, config.edge_batch_size, seed, state.epoch):
                clock = Clock(seed, state.epoch, state.step, config.epochs)
                loss += steps.take(batch, clock)
                method.after_step(clock)
                state.step += 1
            if state.epoch % config.evaluate_every == 0 or state.epoch == config.epochs:
                total = float(loss)  # a GPU is waited for
                state.seconds = time.perf_counter() - started
                best = evaluate(method, state, best, total, monitor)
                now = time.perf_counter()
                if checkpoint is not None and (now >= save_from or over(state, config)):
                    save_state(checkpoint, method, optimizers, state, best)
                    save_from = now + TIME_PER_SAVING * (time.perf_counter() - now)
            on_epoch(state)
    method.load_state_dict(best)
    method.eval()
    return state


def learning_rate(config: TrainingConfig, epoch: int) -> float:
    """The learning rate of an epoch, the first of which is 1."""
    done, warmup = epoch - 1, config.warmup_epochs
    if done < warmup:
        return config.lr * done / warmup
    if config.schedule == "constant":
        return config.lr
    return config.lr * (1 + math.cos(math.pi * (done - warmup) / (config.epochs - warmup))) / 2


def edge_batches(graph: Graph, size: int, seed: int, epoch: int) -> Iterator[Batch]:
    """Cut the graph's links into batches of `size` directed edges, in a new random order every epoch.

    The two directions of an undirected link stay together. One batch that holds everything keeps the graph's order.
    """
    links = graph.links
    per_batch = size if graph.directed else max(size // 2, 1)
    if size == 0 or per_batch >= links.numel():
        yield Batch(graph, links)
        return
    shuffle = generator(links.device, seed, epoch, links.numel())
    order = torch.randperm(links.numel(), generator=shuffle, device=links.device)
    for part in order.split(per_batch):
        yield Batch(graph, links[part].sort().values)


def make_optimizers(method: Method, config: TrainingConfig, device: torch.device) -> Optimizers:
    """One optimiser per parameter group. On a GPU the rate is a tensor, so that a recorded step reads the latest."""
    family = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    on_gpu = device.type == "cuda"
    return {
        name: family(
            group,
            lr=torch.tensor(config.lr, device=device) if on_gpu else config.lr,
            weight_decay=config.weight_decay,
            fused=True,
            capturable=on_gpu,
        )
        for name, group in method.parameter_groups().items()
    }


def set_rate(optimizer: torch.optim.Adam, rate: float) -> None:
    """Let the next steps be taken at this learning rate."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def evaluate(
    method: Method, state: TrainingState, best: dict[str, Tensor], loss: float, monitor: Callable[[], float] | None
) -> dict[str, Tensor]:
    """Record one row of history; return the best weights so far.

    Raises:
        UserError: The loss is no longer a number, and never will be again.
    """
    if not math.isfinite(loss):
        raise UserError(f"Training diverged: the loss is {loss} at epoch {state.epoch}. Try a lower training.lr.")
    row = {"epoch": float(state.epoch), "loss": loss, "seconds": state.seconds, **method.diagnostics()}
    if monitor is not None:
        method.eval()
        with torch.no_grad():
            row["monitor"] = monitor()
    state.history.append(row)
    state.progress = state.progress.after(row.get("monitor", float(state.epoch)), state.epoch)
    return weights_of(method) if state.progress.best_epoch == state.epoch else best


def over(state: TrainingState, config: TrainingConfig) -> bool:
    """Whether all epochs are done, or validation has been waited for long enough."""
    return state.epoch >= config.epochs or 0 < config.patience_evaluations <= state.progress.waited


def weights_of(method: Method) -> dict[str, Tensor]:
    """A copy of the weights and buffers."""
    return {name: tensor.detach().clone() for name, tensor in method.state_dict().items()}


def save_state(
    path: Path,
    method: Method,
    optimizers: Optimizers,
    state: TrainingState,
    best: dict[str, Tensor],
) -> None:
    """Write a checkpoint: the weights of now, the best ones, the optimisers and the plain state."""
    tensors = {"now": weights_of(method), "best": best}
    tensors |= {f"adam.{name}": checkpoints.optimizer_tensors(optimizer) for name, optimizer in optimizers.items()}
    checkpoints.save(path, tensors, asdict(state))


def resume(path: Path, method: Method, optimizers: Optimizers) -> tuple[TrainingState, dict[str, Tensor]]:
    """Put back what `save_state` wrote; return the state and the best weights.

    Raises:
        UserError: The file is damaged, or belongs to another training.
    """
    tensors, table = checkpoints.load(path)
    with checkpoints.told_of(path):
        state = TrainingState.from_table(table)
        for weights in ("best", "now"):  # the best ones are wanted at the end only, which is late to find out
            method.load_state_dict(tensors[weights])
        for name, optimizer in optimizers.items():
            checkpoints.restore_optimizer(optimizer, tensors[f"adam.{name}"])
    device = next(method.parameters()).device
    return state, {name: tensor.to(device) for name, tensor in tensors["best"].items()}
