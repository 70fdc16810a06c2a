"""Bandwidths: a random share of each node's incoming messages for every edge, drawn anew for each layer and step.

The noise is counter-based: the number an edge draws is a hash of (seed, step, layer, edge key). It does not depend on
where the edge is stored, how many processes share the work, or what was drawn before.
"""

import torch
from torch import Tensor

from bandana.engine import kernels
from bandana.engine.propagate import EdgeWeights, gcn_weights, row_sums
from bandana.engine.streams import hash_keys, unit
from bandana.engine.structure import Structure


def gaussian_noise(keys: Tensor, *, seed: int, step: int | Tensor, layer: int) -> Tensor:
    """``[edges]`` standard normal numbers, one per key, by the Box-Muller transform of one 64-bit hash each."""
    bits = hash_keys(keys, seed, step, layer)
    radius = unit(bits >> 32).log_().mul_(-2).sqrt_()
    return radius.mul_(unit(bits).mul_(2 * torch.pi).cos_())


def uniform_noise(keys: Tensor, *, seed: int, step: int | Tensor, layer: int) -> Tensor:
    """``[edges]`` numbers uniform in (0, 1], one per key."""
    return unit(hash_keys(keys, seed, step, layer))


def boltzmann_gibbs(
    structure: Structure, keys: Tensor, temperature: float, *, seed: int, step: int | Tensor, layer: int
) -> tuple[Tensor, EdgeWeights]:
    """Shares of each row, the softmax of Gaussian noise over the temperature, and the GCN weights that they make.

    Self-loops are left out of the softmax and pass with weight one.

    Args:
        structure: Square pattern whose rows are the groups.
        keys: ``[entries]`` what the noise belongs to.
        temperature: Low ones let one entry of the row take nearly all, high ones make the shares equal.
        seed: Of the run.
        step: Of the training; a scalar tensor is read on the device, when the shares are drawn.
        layer: Of the encoder.

    Returns:
        ``[entries]`` shares, and `gcn_weights` of them.
    """
    if kernels.usable(keys.device, torch.get_default_dtype()):
        from bandana.engine.kernels import bandwidth

        return bandwidth.boltzmann_gibbs(structure, keys, temperature, seed=seed, step=step, layer=layer)
    logits = gaussian_noise(keys, seed=seed, step=step, layer=layer).div_(temperature)
    shares = segment_softmax(structure, logits)[0]
    return shares, gcn_weights(structure, shares)


def segment_softmax(structure: Structure, logits: Tensor, loop_logits: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Softmax over the entries of each row, optionally with the row's self-loop among them.

    The row maximum is subtracted first, so that any temperature works.

    Args:
        structure: Pattern whose rows are the groups.
        logits: ``[entries]``.
        loop_logits: ``[rows]`` logit of each self-loop; None leaves self-loops out of the softmax.

    Returns:
        ``[entries]`` shares and ``[rows]`` shares of the self-loops (ones where they are left out).
    """
    highest = torch.segment_reduce(logits, "max", offsets=structure.rowptr, unsafe=True)
    if loop_logits is not None:
        highest = torch.maximum(highest, loop_logits)
    shares = (logits - highest.index_select(0, structure.row)).exp_()
    total = row_sums(structure, shares)
    if loop_logits is None:
        return shares.div_(total.index_select(0, structure.row)), torch.ones_like(total)
    loop = (loop_logits - highest).exp_()
    total += loop
    return shares.div_(total.index_select(0, structure.row)), loop.div_(total)


def segment_logsumexp(rowptr: Tensor, logits: Tensor) -> Tensor:
    """``[rows]`` logarithm of the sum of the exponentials of each row's logits; minus infinity for empty rows."""
    highest = torch.segment_reduce(logits, "max", offsets=rowptr, unsafe=True)
    known = highest.repeat_interleave(rowptr.diff(), output_size=logits.numel())
    return torch.segment_reduce((logits - known).exp_(), "sum", offsets=rowptr, unsafe=True, initial=0).log_() + highest
