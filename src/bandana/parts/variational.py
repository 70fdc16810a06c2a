"""Gaussian posteriors by their mean and the logarithm of their standard deviation (not of their variance)."""

import torch
from torch import Tensor

from bandana.method import Batch
from bandana.parts.autoencoder import HeadedGCN, Reconstruction

MAX_LOG_STD = 10.0
"""Wider posteriors are drawn and measured as if they had this width, so that no exponential overflows."""


def sample_gaussian(mean: Tensor, log_std: Tensor, generator: torch.Generator) -> Tensor:
    """One draw from each posterior, with gradients for both of its parameters: ``mean + ε · exp(log_std)``."""
    noise = torch.empty_like(mean).normal_(generator=generator)
    return mean + noise * log_std.clamp(max=MAX_LOG_STD).exp()


def gaussian_kl(mean: Tensor, log_std: Tensor) -> Tensor:
    """How far the posteriors are from N(0, I): ``-½ Σ_d (1 + 2ℓ - μ² - e^{2ℓ})``, averaged over the nodes.

    Args:
        mean: ``[nodes, width]`` means μ.
        log_std: ``[nodes, width]`` logarithms ℓ of the standard deviations.
    """
    double = 2 * log_std.clamp(max=MAX_LOG_STD)
    return (mean.square() + double.expm1() - double).sum(1).mean() / 2


def variational_bound(
    encoder: HeadedGCN, reconstruction: Reconstruction, batch: Batch, generator: torch.Generator
) -> Tensor:
    """How badly one draw of every node explains the links, and how far the posteriors are from N(0, I).

    The mean divergence is divided by the number of nodes once more: the reconstruction is a mean over pairs.
    """
    mean, log_std = encoder(batch.graph, generator)
    z = sample_gaussian(mean, log_std, generator)
    divergence = gaussian_kl(mean, log_std) / batch.graph.num_nodes
    return reconstruction.loss(z, batch, generator) + divergence
