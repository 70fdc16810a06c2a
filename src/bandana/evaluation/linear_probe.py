"""Linear probing: how well one linear layer reads the class of a node from its frozen embedding.

All repeats train at once, as one batched product. Each has its own initial weights and its own order of the nodes in
every epoch, drawn from a stream that depends on the seed and the number of the repeat alone, so that each is the
probe it would be by itself, whatever the number of repeats.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot
from torch.nn.init import xavier_uniform_

from bandana.data.splits import NodeSplit
from bandana.engine.streams import generator
from bandana.errors import UserError
from bandana.evaluation.metrics import batch_macro_f1, batch_micro_f1

Selection: TypeAlias = Literal["joint", "separate"]
"""``"joint"`` scores both metrics at the epoch of best validation micro-F1; ``"separate"`` lets each metric have the
epoch of its own best validation value, as published figures do. Ties go to the latest epoch."""


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
    """

    weight: Tensor
    bias: Tensor
    epoch: Tensor
    valid: Tensor

    def predict(self, x: Tensor) -> Tensor:
        """``[repeats, n]`` classes of ``[n, width]`` embeddings."""
        return _predict(self.weight, self.bias, x)


class Labelled(NamedTuple):
    """Embeddings ``[n, width]`` and classes ``[n]`` of some nodes."""

    x: Tensor
    y: Tensor


def linear_probe(
    z: Tensor, y: Tensor, split: NodeSplit, config: LinearProbeConfig, seed: int, selection: Selection = "joint"
) -> dict[str, float]:
    """Train linear classifiers on frozen embeddings and score them on the test nodes.

    Args:
        z: ``[nodes, width]`` embeddings.
        y: ``[nodes]`` classes; only those of the split's nodes are read, and test labels only for the final score.
        split: The nodes to train on, to choose the epoch by, and to score.
        config: The probe.
        seed: Seed of initial weights and mini-batches.
        selection: Which epoch each metric is scored at.

    Returns:
        micro_f1 and macro_f1 on the test nodes and valid_micro_f1, each a mean over the repeats; with two repeats or
        more also micro_f1_std and macro_f1_std, the spread of the probes alone (n - 1 in the denominator).

    Raises:
        UserError: A part of the split is empty or lacks labels, or an embedding is not finite.
    """
    train, valid, test = (_part(z, y, name, getattr(split, name), config) for name in ("train", "valid", "test"))
    by_micro, by_macro = train_probes(train, valid, config, seed, selection)
    micro_f1 = batch_micro_f1(by_micro.predict(test.x), test.y)
    macro_f1 = batch_macro_f1(by_macro.predict(test.x), test.y, _num_classes(train, valid, test))
    valid_micro_f1 = batch_micro_f1(by_micro.predict(valid.x), valid.y)
    results = {"micro_f1": micro_f1, "macro_f1": macro_f1, "valid_micro_f1": valid_micro_f1}
    summary = {name: float(values.mean()) for name, values in results.items()}
    if config.repeats > 1:
        summary |= {"micro_f1_std": float(micro_f1.std()), "macro_f1_std": float(macro_f1.std())}
    return summary


@torch.no_grad()
def train_probes(
    train: Labelled, valid: Labelled, config: LinearProbeConfig, seed: int, selection: Selection = "joint"
) -> tuple[Probes, Probes]:
    """Train all repeats and keep the best epoch of each. Test nodes are out of reach here.

    Returns:
        The probes at the epochs to be scored by micro-F1 and by macro-F1: the same ones if the selection is joint.
    """
    device, (num_nodes, width), num_classes = train.x.device, train.x.shape, _num_classes(train, valid)
    generators = [generator(device, seed, repeat) for repeat in range(config.repeats)]
    weight = torch.stack([xavier_uniform_(train.x.new_empty(num_classes, width), generator=g) for g in generators])
    bias = weight.new_zeros(config.repeats, num_classes)
    optimizer = torch.optim.Adam([weight, bias], lr=config.lr, weight_decay=config.weight_decay, fused=True)
    truth = one_hot(train.y, num_classes).to(weight.dtype)
    # One buffer for all steps: on a CPU, fresh pages for a gather of this size cost more than the products.
    gathered = train.x.new_empty(config.repeats * min(config.batch_size, num_nodes), width)
    untrained = valid.x.new_full((config.repeats,), -1, dtype=torch.float64)
    by_micro = by_macro = Probes(weight, bias, untrained.long(), untrained)
    for epoch in range(config.epochs):
        orders = torch.stack([torch.randperm(num_nodes, generator=g, device=device) for g in generators])
        for start in range(0, num_nodes, config.batch_size):
            nodes = orders[:, start : start + config.batch_size]
            x = torch.index_select(train.x, 0, nodes.flatten(), out=gathered[: nodes.numel()])
            _step(optimizer, weight, bias, x.view(*nodes.shape, width), truth[nodes])
        prediction = _predict(weight, bias, valid.x)
        by_micro = _better(by_micro, weight, bias, epoch, batch_micro_f1(prediction, valid.y))
        if selection == "separate":
            macro = batch_macro_f1(prediction, valid.y, num_classes)
            by_macro = _better(by_macro, weight, bias, epoch, macro)
    return by_micro, by_macro if selection == "separate" else by_micro


def _step(optimizer: torch.optim.Optimizer, weight: Tensor, bias: Tensor, x: Tensor, truth: Tensor) -> None:
    """Descend the mean cross entropy of each probe over its own batch.

    Its gradient in the logits is probability minus truth, so the step is a handful of kernels without autograd.

    Args:
        optimizer: Of `weight` and `bias`.
        weight: ``[repeats, classes, width]``.
        bias: ``[repeats, classes]``.
        x: ``[repeats, batch, width]`` embeddings.
        truth: ``[repeats, batch, classes]`` one at the class of each node, zero elsewhere.
    """
    logits = torch.baddbmm(bias.unsqueeze(2), weight, x.transpose(1, 2))
    error = logits.softmax(1).sub_(truth.transpose(1, 2)).div_(x.shape[1])
    weight.grad, bias.grad = torch.bmm(error, x), error.sum(2)
    optimizer.step()


def _predict(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    repeats, classes, _ = weight.shape
    logits = torch.addmm(bias.flatten(), x, weight.flatten(0, 1).T)
    return logits.view(-1, repeats, classes).argmax(2).T


def _better(best: Probes, weight: Tensor, bias: Tensor, epoch: int, valid: Tensor) -> Probes:
    """The probes after this epoch where they validate at least as well as before, the former best elsewhere."""
    better = valid >= best.valid
    return Probes(
        torch.where(better[:, None, None], weight, best.weight),
        torch.where(better[:, None], bias, best.bias),
        torch.where(better, epoch, best.epoch),
        torch.where(better, valid, best.valid),
    )


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
