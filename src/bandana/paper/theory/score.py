"""Theorem 2 of the paper: what the best reconstructor adds to its input is σ² times the score, ∇ log p.

Checked where the score is known: a mixture of Gaussians. The best denoiser has a closed form there, the minimiser of
the appendix's functional solves a linear system on a grid, and a regressor is fitted to samples as in practice. The
last is also fitted to the target that the proof of Proposition 1 writes, the noisy point itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bandana.paper.artifact import Artifact, Claim, Piece, Result, Scope
from bandana.paper.theory.denoising import Target, slope
from bandana.paper.work import work

SIGMAS = (0.2, 0.1, 0.05, 0.025)
FITTED_SIGMA = 0.2
SAMPLES, FEATURES, RIDGE = 20_000, 300, 1e-4
GRID, REACH = 8_001, 6.0
POINTS = 2_000
SHRINKS = 1.5
"""Errors that fall with at least this power of σ vanish for σ → 0; σ² is expected."""
AGREES = 0.95
"""Cosine between a fitted residual and the score that counts as an estimate of its direction."""


class Mixture(NamedTuple):
    """Isotropic Gaussians: ``weights [K]``, ``means [K, d]``, ``variances [K]``."""

    weights: Tensor
    means: Tensor
    variances: Tensor


PLANE = Mixture(
    torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64),
    torch.tensor([[-1.0, 0.0], [1.0, 0.6], [0.3, -1.2]], dtype=torch.float64),
    torch.tensor([0.25, 0.36, 0.16], dtype=torch.float64),
)
LINE = Mixture(
    torch.tensor([0.6, 0.4], dtype=torch.float64),
    torch.tensor([[-1.0], [1.2]], dtype=torch.float64),
    torch.tensor([0.36, 0.25], dtype=torch.float64),
)


def log_density(mixture: Mixture, x: Tensor, noise: float = 0.0) -> Tensor:
    """``[N]`` log p at ``[N, d]`` points, of the mixture with Gaussian noise of this variance added."""
    return _component_logs(mixture, x, noise).logsumexp(1)


def score(mixture: Mixture, x: Tensor, noise: float = 0.0) -> Tensor:
    """``[N, d]`` ∇ log p at the same."""
    share = _component_logs(mixture, x, noise).softmax(1)
    pull = (mixture.means - x.unsqueeze(1)) / (mixture.variances + noise).unsqueeze(1)
    return (share.unsqueeze(2) * pull).sum(1)


def best_denoiser(mixture: Mixture, x: Tensor, sigma: float) -> Tensor:
    """``[N, d]`` the mean of clean points given noisy ones, which has the least squared error against the former."""
    share = _component_logs(mixture, x, sigma**2).softmax(1)
    trust = (mixture.variances / (mixture.variances + sigma**2)).unsqueeze(1)
    guess = mixture.means + trust * (x.unsqueeze(1) - mixture.means)
    return (share.unsqueeze(2) * guess).sum(1)


def regularised_optimum(mixture: Mixture, sigma: float) -> tuple[Tensor, Tensor]:
    """Minimise ``∫ p ((r - x)² + σ² r'²)`` on a line, by finite differences.

    Returns:
        ``[GRID]`` places and the minimiser there.
    """
    from scipy.linalg import solveh_banded

    x = torch.linspace(-REACH, REACH, GRID, dtype=torch.float64)
    step = float(x[1] - x[0])
    p = log_density(mixture, x.unsqueeze(1)).exp()
    between = sigma**2 * (p[1:] + p[:-1]) / 2 / step**2
    diagonal = p.clone()
    diagonal[1:] += between
    diagonal[:-1] += between
    bands = np.stack([np.concatenate([[0.0], -between.numpy()]), diagonal.numpy()])
    return x, torch.from_numpy(solveh_banded(bands, (p * x).numpy()))


def samples(mixture: Mixture, count: int, random: torch.Generator) -> Tensor:
    """``[count, d]`` draws."""
    which = torch.multinomial(mixture.weights, count, replacement=True, generator=random)
    noise = torch.randn(count, mixture.means.shape[1], generator=random, dtype=torch.float64)
    return mixture.means[which] + mixture.variances[which].sqrt().unsqueeze(1) * noise


def fitted_residual(mixture: Mixture, sigma: float, target: Target, x: Tensor, random: torch.Generator) -> Tensor:
    """``[N, d]`` what a regressor that was fitted to noisy samples adds at ``x``.

    The regressor is the identity plus a combination of random waves, fitted by least squares.
    """
    clean = samples(mixture, SAMPLES, random)
    noisy = clean + sigma * torch.randn(clean.shape, generator=random, dtype=torch.float64)
    aim = noisy if target == "noisy" else clean
    frequencies = torch.randn(clean.shape[1], FEATURES, generator=random, dtype=torch.float64)
    phases = 2 * torch.pi * torch.rand(FEATURES, generator=random, dtype=torch.float64)
    inputs = (noisy @ frequencies + phases).cos()
    gram = inputs.T @ inputs + RIDGE * SAMPLES * torch.eye(FEATURES, dtype=torch.float64)
    weights = torch.linalg.solve(gram, inputs.T @ (aim - noisy))
    added: Tensor = (x @ frequencies + phases).cos() @ weights
    return added


@work("check-score")
def measure(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Residuals of three reconstructors beside σ² times the true score."""
    random = torch.Generator().manual_seed(arguments["seed"])
    x = samples(PLANE, POINTS, random)
    truth = score(PLANE, x)
    closed = [_relative(best_denoiser(PLANE, x, sigma) - x, sigma**2 * truth) for sigma in SIGMAS]
    tweedie = max(
        _relative(best_denoiser(PLANE, x, sigma) - x, sigma**2 * score(PLANE, x, sigma**2)) for sigma in SIGMAS
    )
    values: dict[str, Any] = {"closed form": closed, "noised density": tweedie, "functional": []}
    for sigma in SIGMAS:
        places, best = regularised_optimum(LINE, sigma)
        weight = log_density(LINE, places.unsqueeze(1)).exp().sqrt()
        wanted = sigma**2 * score(LINE, places.unsqueeze(1)).squeeze(1)
        values["functional"].append(_relative((best - places) * weight, wanted * weight))
    for target in ("clean", "noisy"):
        found = fitted_residual(PLANE, FITTED_SIGMA, "noisy" if target == "noisy" else "clean", x, random)
        values[f"fitted, {target}"] = {
            "size": _relative(found, torch.zeros_like(found)) / float(truth.norm() * FITTED_SIGMA**2),
            "cosine": float((found * truth).sum() / (found.norm() * truth.norm()).clamp(min=1e-300)),
        }
    return values


def pieces(scope: Scope) -> list[Piece]:
    """One, and the same when quick: it takes seconds."""
    return [Piece("check-score", {"seed": 0})]


def show(results: Sequence[tuple[Piece, Result]]) -> list[Claim]:
    """Three ways to the score, and the target that leads nowhere."""
    values = results[0][1].values
    if values is None:
        return [
            Claim(statement=STATEMENTS[0], measured={}, holds=None, explanation=results[0][1].failure or "Not run.")
        ]
    clean, noisy = values["fitted, clean"], values["fitted, noisy"]
    return [
        _vanishing(
            STATEMENTS[0],
            values["closed form"],
            "Root mean square over points of a mixture in the plane. For any "
            "σ the residual is exactly σ² times the score of the density with the noise in it (relative difference "
            f"{values['noised density']:.0e}); that score tends to the one without.",
        ),
        _vanishing(
            STATEMENTS[1],
            values["functional"],
            "The appendix's functional on a line, minimised on a grid of "
            f"{GRID} points; errors weighted by the density.",
        ),
        Claim(
            statement=STATEMENTS[2],
            measured={"cosine with the score": clean["cosine"], "size over σ² score": clean["size"]},
            holds=clean["cosine"] > AGREES,
            explanation=f"Least squares on {SAMPLES} noisy samples with σ = {FITTED_SIGMA:g}, clean points as targets.",
        ),
        Claim(
            statement=STATEMENTS[3],
            measured={"cosine with the score": noisy["cosine"], "size over σ² score": noisy["size"]},
            holds=noisy["cosine"] > AGREES,
            explanation="The same fit with the noisy point as its own target, as the proof of Proposition 1 writes the "
            "loss: the identity is best, nothing is added, and there is no direction to compare.",
        ),
    ]


def _vanishing(statement: str, errors: Sequence[float], explanation: str) -> Claim:
    power = slope(SIGMAS, errors)
    named = {f"relative error at σ = {sigma:g}": error for sigma, error in zip(SIGMAS, errors, strict=True)}
    return Claim(
        statement=statement, measured={**named, "power of σ": power}, holds=power > SHRINKS, explanation=explanation
    )


def _component_logs(mixture: Mixture, x: Tensor, noise: float) -> Tensor:
    """``[N, K]`` logarithm of each component's part of the density."""
    variance, width = mixture.variances + noise, x.shape[1]
    squares = (x.unsqueeze(1) - mixture.means).square().sum(2)
    return mixture.weights.log() - squares / (2 * variance) - width / 2 * (2 * torch.pi * variance).log()


def _relative(found: Tensor, wanted: Tensor) -> float:
    """Size of the difference, relative to what is wanted; absolute where that is zero."""
    size = float(wanted.norm())
    return float((found - wanted).norm()) / (size or 1.0)


STATEMENTS = (
    "What the best denoiser adds, over σ², tends to the score as σ → 0.",
    "What the minimiser of the regularised functional adds, over σ², tends to the score as σ → 0.",
    "A regressor fitted to noisy samples against clean targets adds a multiple of the score.",
    "A regressor fitted to noisy samples against the noisy points adds a multiple of the score.",
)

ARTIFACT = Artifact(
    name="theory-score",
    kind="check",
    title="The reconstruction residual as an estimate of the score (Theorem 2)",
    printed="Theorem 2",
    pieces=pieces,
    show=show,
)
