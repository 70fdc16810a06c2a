"""Semi-implicit posteriors: Gaussians whose means are random themselves, and the bound that trains them.

A mean is the output of an encoder that reads Bernoulli noise next to the features, so the posterior is a mixture
without closed form. Its density at a sample is estimated from the Gaussian that the sample came from and from some
others, whose means were drawn only for that.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bandana.engine.dropout import dropout
from bandana.engine.propagate import EdgeWeights, propagate
from bandana.engine.structure import Structure
from bandana.graph import Features
from bandana.parts.encoders import Stack, project
from bandana.parts.variational import sample_gaussian

WARM_UP_EPOCHS = 300
"""Until then the regulariser is let in little by little."""
MEAN_NOISE = 0.5
_FEW_PAIRS = 4  # per vector: up to here, differences of single precision are cheaper than products of double


class Posterior(NamedTuple):
    """A mixture of Gaussians for each of some rows, of which a few means are known.

    Attributes:
        means: ``[rows, samples, width]`` of the Gaussians that samples are drawn from.
        others: ``[rows, others, width]`` of further Gaussians of the same mixture.
        log_variance: ``[rows, width]`` common to all.
    """

    means: Tensor
    others: Tensor
    log_variance: Tensor

    @classmethod
    def of(cls, means: Tensor, num_samples: int, log_variance: Tensor) -> "Posterior":
        """With the first of ``[rows, samples + others, width]`` means to draw from."""
        return cls(means[:, :num_samples], means[:, num_samples:], log_variance)

    def sample(self, generator: torch.Generator) -> Tensor:
        """``[rows, samples, width]`` one draw from each Gaussian."""
        return sample_gaussian(self.means, self.log_variance.unsqueeze(1) / 2, generator)


def bernoulli_noise(num_rows: int, samples: int, width: int, generator: torch.Generator) -> Tensor:
    """``[rows, samples, width]`` zeros and ones, each as likely."""
    return torch.empty(num_rows, samples, width, device=generator.device).bernoulli_(0.5, generator=generator)


def mean_noise(num_rows: int, width: int, device: torch.device) -> Tensor:
    """``[rows, 1, width]`` what Bernoulli noise is on average: the noise of a deterministic embedding."""
    return torch.full((num_rows, 1, width), MEAN_NOISE, device=device)


def noisy_means(
    stack: Stack,
    x: Features,
    noise: Tensor,
    structure: Structure | None = None,
    edges: EdgeWeights | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """What `stack` makes of ``[noise ‖ x]``, for every sample of the noise at once.

    The samples lie side by side in the columns of one propagation, and without dropout the features are read once for
    all of them.

    Args:
        stack: Without norms; the first rows of its first weight read the noise.
        x: ``[nodes, features]``.
        noise: ``[nodes, samples, noise width]``.
        structure: Edges by receiving node.
        edges: Their weights, the same in every layer; None leaves the graph out.
        generator: Randomness for dropout; None for evaluation.

    Returns:
        ``[nodes, samples, width]``.
    """
    noise_width = noise.shape[2]
    copies = noise.shape[1] if stack.dropout and generator is not None else 1
    hidden = noise
    for depth, weight in enumerate(stack.weights):
        mixed = dropout(hidden, stack.dropout, generator) @ (weight[:noise_width] if not depth else weight)
        if not depth:
            features = [project(x, weight[noise_width:], stack.dropout, generator) for _ in range(copies)]
            mixed = mixed + torch.stack(features, dim=1)
        if structure is not None and edges is not None and stack.hears_graph:
            mixed = propagate(structure, edges.values, mixed.flatten(1), edges.loop).view_as(mixed)
        if stack.biases:
            mixed = mixed + stack.biases[depth]
        hidden = stack.activations[depth](mixed)
    return hidden


def node_posterior(
    mean: Stack,
    log_variance: Stack,
    x: Features,
    noise: Tensor,
    num_samples: int,
    structure: Structure,
    edges: EdgeWeights,
    generator: torch.Generator,
) -> Posterior:
    """The mixtures of all nodes, by two networks that read the features; `mean` reads noise beside them.

    Args:
        mean: As `noisy_means` wants it.
        log_variance: Reads the features alone.
        x: ``[nodes, features]``.
        noise: ``[nodes, samples + others, noise width]``.
        num_samples: How many of the means are drawn from.
        structure: Edges by receiving node.
        edges: Their weights, the same in every layer.
        generator: Randomness for dropout.
    """
    means = noisy_means(mean, x, noise, structure, edges, generator)
    layers = [edges] * len(log_variance.weights)
    return Posterior.of(means, num_samples, log_variance(x, structure, layers, generator)[-1])


def group_posterior(
    shares: Features, members: Posterior, mean: Stack, log_variance: Stack, generator: torch.Generator
) -> Posterior:
    """The mixtures of groups, by two perceptrons that read the averages of their members' means and log variances.

    Args:
        shares: ``[groups, members]`` what each member counts.
        members: Their mixtures.
        mean: Reads the average of each of the means.
        log_variance: Reads the average of the log variances.
        generator: Randomness for dropout.
    """
    known = torch.cat([members.means, members.others], dim=1)
    averages = project(shares, known.flatten(1), 0.0, None).view(-1, known.shape[2])
    means = mean(averages, generator=generator)[-1].view(shares.shape[0], known.shape[1], -1)
    averages = project(shares, members.log_variance, 0.0, None)
    return Posterior.of(means, members.means.shape[1], log_variance(averages, generator=generator)[-1])


def log_mixture(posterior: Posterior, z: Tensor, floor: float) -> Tensor:
    """``[rows, samples]`` log density of each sample under its own Gaussian and the others, up to a constant.

    As the authors of both methods compute it, which no logsumexp could: `floor` is added to the mean of the kernels and
    to the standard deviation in them. From about a hundred dimensions on, nearly all kernels are far below the floor,
    and only ``-½ Σ log variance`` is left to learn from. That is the objective as it was published.

    Args:
        posterior: With the Gaussians' means.
        z: ``[rows, samples, width]`` as `Posterior.sample` drew them.
        floor: Small and positive.
    """
    spread = (posterior.log_variance / 2).exp().unsqueeze(1) + floor
    own = ((z - posterior.means) / spread).square().sum(-1, keepdim=True)
    others = squared_distances(z, posterior.others, spread)
    kernel = torch.cat([others, own], dim=2).mul(-0.5).exp().mean(2)
    return (kernel + floor).log() - posterior.log_variance.sum(1, keepdim=True) / 2


def squared_distances(z: Tensor, centres: Tensor, spread: Tensor) -> Tensor:
    """``[rows, samples, centres]`` ``Σ ((z - centre) / spread)²`` over the width, within each row.

    Many of them are taken from products, ``|a|² + |b|² - 2 a·b``, instead of a tensor that is as large as all of them
    times the width. In double precision: three large numbers may leave a small one.

    Args:
        z: ``[rows, samples, width]``.
        centres: ``[rows, centres, width]``.
        spread: ``[rows, 1, width]``.
    """
    num_samples, num_centres = z.shape[1], centres.shape[1]
    if num_samples * num_centres <= _FEW_PAIRS * (num_samples + num_centres):
        return ((z.unsqueeze(2) - centres.unsqueeze(1)) / spread.unsqueeze(1)).square().sum(-1)
    a, b = (side.double() / spread.double() for side in (z, centres))
    lengths = a.square().sum(2).unsqueeze(2) + b.square().sum(2).unsqueeze(1)
    return torch.baddbmm(lengths, a, b.mT, alpha=-2).to(z.dtype)


def log_prior(z: Tensor) -> Tensor:
    """``[rows, samples]`` log density of a standard Gaussian, up to a constant."""
    return -z.square().sum(2) / 2


def joint_divergence(posteriors: Sequence[Posterior], draws: Sequence[Tensor], floor: float) -> Tensor:
    """``[samples]`` by how much mixtures of several kinds of rows exceed a standard Gaussian at their draws.

    As the authors of SeeGera weigh it: mixtures are averaged over all rows and divided by their number, and so are the
    Gaussians, but within each kind.
    """
    mixtures = torch.cat([log_mixture(*pair, floor) for pair in zip(posteriors, draws, strict=True)])
    priors = [log_prior(z).mean(0) / z.shape[0] for z in draws]
    return mixtures.mean(0) / mixtures.shape[0] - sum(priors)


def importance_weighted(bounds: Tensor) -> Tensor:
    """The loss of ``[samples]`` log ratios of target and posterior density: minus the log of their mean ratio."""
    return math.log(bounds.numel()) - bounds.logsumexp(0)


def warm_up(epochs_done: int | Tensor) -> float | Tensor:
    """Share of the regulariser that counts."""
    if isinstance(epochs_done, Tensor):
        return (epochs_done / WARM_UP_EPOCHS).clamp(0, 1)
    return min(max(epochs_done, 0) / WARM_UP_EPOCHS, 1.0)


class Perceptron(Stack):
    """Layers ``tanh(dropout(X) · W + b)``, the last without tanh, with the initial weights of torch's linear layers."""

    hears_graph = False

    def __init__(self, widths: list[int], dropout: float) -> None:
        super().__init__(widths, name="none", activate_last=False, dropout=dropout)
        self.activations = nn.ModuleList([*(nn.Tanh() for _ in widths[2:]), nn.Identity()])

    def reset_parameters(self) -> None:
        """Weights and biases uniform up to one over the root of the number of inputs."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = weight.shape[0] ** -0.5
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)


def graph_stack(widths: list[int], dropout: float) -> Stack:
    """Graph layers with ReLU between them and, if there is only one, behind it."""
    return Stack(widths, activate_last=len(widths) == 2, bias=False, dropout=dropout)
