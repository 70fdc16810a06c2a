"""Linear probing: how well one linear layer reads the class of a node from its frozen embedding.

All repeats train at once, as one product; on a GPU, an epoch is recorded and replayed. Each repeat has its own initial
weights and its own order of the nodes in every epoch, drawn from a stream that depends on the seed and the number of
the repeat alone, so that each is the probe it would be by itself, whatever the number of repeats.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot
from torch.nn.init import xavier_uniform_

from bandana.data.splits import NodeSplit
from bandana.engine.streams import generator
from bandana.errors import UserError
from bandana.evaluation.metrics import batch_macro_f1, batch_micro_f1
from bandana.training.steps import Recorded, own_stream


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearProbeConfig:
    """How the probe is trained.

    Attributes:
        lr: Learning rate of Adam.
        weight_decay: L2 penalty on weight and bias, added to the gradient.
        epochs: Passes over the training nodes.
        batch_size: Nodes in a step.
        normalize: Whether embeddings are first scaled to length one.
        repeats: Probes trained from different initial weights and averaged.
    """

    lr: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 100
    batch_size: int = 512
    normalize: bool = False
    repeats: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr: must be a positive number, got {self.lr}.")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"weight_decay: must be zero or a positive number, got {self.weight_decay}.")
        for name in ("epochs", "batch_size", "repeats"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}.")


class Probes(NamedTuple):
    """Linear classifiers side by side, each as it stood at its chosen epoch.

    Attributes:
        weight: ``[repeats, classes, width]``.
        bias: ``[repeats, classes]``.
        epoch: ``[repeats]`` the chosen epoch, from 0.
        valid: ``[repeats]`` the validation score that chose it.
        seen: Epochs that were there to choose from.
    """

    weight: Tensor
    bias: Tensor
    epoch: Tensor
    valid: Tensor
    seen: Tensor

    def predict(self, x: Tensor) -> Tensor:
        """``[repeats, n]`` classes of ``[n, width]`` embeddings."""
        return _predict(self.weight, self.bias, x)


class Labelled(NamedTuple):
    """Embeddings ``[n, width]`` and classes ``[n]`` of some nodes."""

    x: Tensor
    y: Tensor


def linear_probe(z: Tensor, y: Tensor, split: NodeSplit, config: LinearProbeConfig, seed: int) -> dict[str, float]:
    """Train linear classifiers on frozen embeddings and score them on the test nodes.

    Both metrics are scored at the epoch of the best validation micro-F1. Published figures let each metric have the
    epoch of its own best validation value (`as_published`), so macro-F1 is there a second time. Ties go to the latest
    epoch.

    Args:
        z: ``[nodes, width]`` embeddings.
        y: ``[nodes]`` classes; only those of the split's nodes are read, and test labels only for the final score.
        split: The nodes to train on, to choose the epoch by, and to score.
        config: The probe.
        seed: Seed of initial weights and mini-batches.

    Returns:
        micro_f1, macro_f1 and macro_f1_own_epoch on the test nodes and valid_micro_f1, each a mean over the repeats;
        with two repeats or more the first three also with _std, the spread of the probes alone (n - 1 in the
        denominator).

    Raises:
        UserError: A part of the split is empty or lacks labels, or an embedding is not finite.
    """
    train, valid, test = (_part(z, y, name, getattr(split, name), config) for name in ("train", "valid", "test"))
    by_micro, by_macro = train_probes(train, valid, config, seed)
    predicted, num_classes = by_micro.predict(test.x), _num_classes(train, valid, test)
    tested = {
        "micro_f1": batch_micro_f1(predicted, test.y),
        "macro_f1": batch_macro_f1(predicted, test.y, num_classes),
        "macro_f1_own_epoch": batch_macro_f1(by_macro.predict(test.x), test.y, num_classes),
    }
    summary = {name: float(values.mean()) for name, values in tested.items()}
    if config.repeats > 1:
        summary |= {f"{name}_std": float(values.std()) for name, values in tested.items()}
    return {**summary, "valid_micro_f1": float(by_micro.valid.mean())}


def as_published(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores of `linear_probe` with an epoch of its own for each metric, as the authors' scripts choose them."""
    own = {name.replace("_own_epoch", ""): value for name, value in scores.items() if "_own_epoch" in name}
    return {**scores, **own}


def validation_score(z: Tensor, y: Tensor, split: NodeSplit, config: LinearProbeConfig, seed: int) -> float:
    """Mean micro-F1 on the validation nodes of probes at their chosen epochs: what `linear_probe` calls valid_micro_f1.

    The test part of the split is not read, neither its nodes nor their classes. For the arguments see `linear_probe`.
    """
    train, valid = (_part(z, y, name, getattr(split, name), config) for name in ("train", "valid"))
    return float(train_probes(train, valid, config, seed)[0].valid.mean())


@torch.no_grad()
def train_probes(train: Labelled, valid: Labelled, config: LinearProbeConfig, seed: int) -> tuple[Probes, Probes]:
    """Train all repeats and keep the best epoch of each, by validation micro-F1 and by validation macro-F1.

    Test nodes are out of reach here.
    """
    device, width, num_classes = train.x.device, train.x.shape[1], _num_classes(train, valid)
    generators = [generator(device, seed, repeat) for repeat in range(config.repeats)]
    weight = torch.stack([xavier_uniform_(train.x.new_empty(num_classes, width), generator=g) for g in generators])
    bias = weight.new_zeros(config.repeats, num_classes)
    on_gpu = device.type == "cuda"
    optimizer = torch.optim.Adam(
        [weight, bias], lr=config.lr, weight_decay=config.weight_decay, fused=True, capturable=on_gpu
    )
    truth = one_hot(train.y, num_classes).to(weight.dtype)
    batches = _Batches(train.x, truth, config.repeats, config.batch_size)
    by_micro, by_macro = (_untrained(weight, bias, valid.x) for _ in range(2))

    def epoch() -> Tensor:
        for x, target in batches:
            _step(optimizer, weight, bias, x, target)
        prediction = _predict(weight, bias, valid.x)
        _keep_better(by_micro, weight, bias, batch_micro_f1(prediction, valid.y))
        _keep_better(by_macro, weight, bias, batch_macro_f1(prediction, valid.y, num_classes))
        return by_micro.valid

    with own_stream(device):
        one_epoch = Recorded(epoch) if on_gpu else epoch
        for _ in range(config.epochs):
            batches.shuffle(generators)
            one_epoch()
    return by_micro, by_macro


class _Batches:
    """The training nodes of each probe in an order of its own; batches are read into memory that stays in place."""

    def __init__(self, x: Tensor, truth: Tensor, repeats: int, size: int) -> None:
        self._x, self._truth, self._size = x, truth, min(size, x.shape[0])
        self._order = torch.empty(repeats, x.shape[0], dtype=torch.long, device=x.device)
        # One buffer for all steps: on a CPU, fresh pages for a gather of this size cost more than the products.
        self._gathered = None if self._is_one else x.new_empty(repeats * self._size, x.shape[1])

    @property
    def _is_one(self) -> bool:
        return self._size == self._x.shape[0]

    def shuffle(self, generators: Sequence[torch.Generator]) -> None:
        if not self._is_one:  # one batch of all nodes is the same in any order
            for row, own in zip(self._order, generators, strict=True):
                torch.randperm(row.numel(), generator=own, device=row.device, out=row)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """``x [batch, width]`` and ``truth [batch, classes]`` for all, or with ``[repeats]`` in front, for each."""
        if self._gathered is None:
            yield self._x, self._truth
            return
        for nodes in self._order.split(self._size, dim=1):
            x = torch.index_select(self._x, 0, nodes.flatten(), out=self._gathered[: nodes.numel()])
            yield x.view(*nodes.shape, -1), self._truth[nodes]


def _step(optimizer: torch.optim.Optimizer, weight: Tensor, bias: Tensor, x: Tensor, truth: Tensor) -> None:
    """Descend the mean cross entropy of each probe over its batch.

    Its gradient in the logits is probability minus truth, so the step is a handful of kernels without autograd.

    Args:
        optimizer: Of `weight` and `bias`.
        weight: ``[repeats, classes, width]``.
        bias: ``[repeats, classes]``.
        x: ``[repeats, batch, width]`` embeddings, or ``[batch, width]`` of a batch that all probes share.
        truth: One at the class of each node, zero elsewhere, ``[…, classes]``.
    """
    if x.dim() == 2:
        logits = torch.addmm(bias.flatten().unsqueeze(1), weight.flatten(0, 1), x.T).view(*bias.shape, -1)
    else:
        logits = torch.baddbmm(bias.unsqueeze(2), weight, x.transpose(1, 2))
    error = logits.softmax(1).sub_(truth.mT).div_(x.shape[-2])
    weight.grad = (error.flatten(0, 1) @ x).view_as(weight) if x.dim() == 2 else torch.bmm(error, x)
    bias.grad = error.sum(2)
    optimizer.step()


def _predict(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    repeats, classes, _ = weight.shape
    logits = torch.addmm(bias.flatten(), x, weight.flatten(0, 1).T)
    return logits.view(-1, repeats, classes).argmax(2).T


def _untrained(weight: Tensor, bias: Tensor, valid: Tensor) -> Probes:
    """Room for the best probes, worse than any."""
    score = valid.new_full((weight.shape[0],), -1, dtype=torch.float64)
    return Probes(weight.clone(), bias.clone(), score.long(), score, torch.zeros_like(score, dtype=torch.long)[0])


def _keep_better(best: Probes, weight: Tensor, bias: Tensor, valid: Tensor) -> None:
    """Take over the probes after this epoch where they validate at least as well as the best before."""
    better = valid >= best.valid
    torch.where(better[:, None, None], weight, best.weight, out=best.weight)
    torch.where(better[:, None], bias, best.bias, out=best.bias)
    torch.where(better, best.seen, best.epoch, out=best.epoch)
    torch.where(better, valid, best.valid, out=best.valid)
    best.seen.add_(1)


def _part(z: Tensor, y: Tensor, name: str, nodes: Tensor, config: LinearProbeConfig) -> Labelled:
    """The rows of one part of the split, ready for training."""
    if not nodes.numel():
        raise UserError(f"Linear probe: the {name} part of the node split is empty; give it at least one node.")
    x, labels = z.detach()[nodes.to(z.device)], y[nodes.to(y.device)].to(z.device)
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    if int(labels.min()) < 0:
        raise UserError(f"Linear probe: a {name} node has the label {int(labels.min())}; classes are counted from 0.")
    if not bool(torch.stack(x.aminmax()).isfinite().all()):
        raise UserError(
            f"Linear probe: embeddings of {name} nodes must be finite, got NaN or infinity; training diverged, so try "
            "a lower learning rate."
        )
    return Labelled(normalize(x) if config.normalize else x, labels)


def _num_classes(*parts: Labelled) -> int:
    return 1 + max(int(part.y.max()) for part in parts)
