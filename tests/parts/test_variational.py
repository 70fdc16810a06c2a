"""Draws from Gaussian posteriors and their divergence from the prior."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Independent, Normal, kl_divergence

from bandana.parts.variational import MAX_LOG_STD, gaussian_kl, sample_gaussian

NUMBERS = st.lists(st.floats(-3, 3), min_size=6, max_size=6)


@given(NUMBERS, NUMBERS)
def test_divergence_is_that_of_torchs_distributions(means: list[float], logs: list[float]) -> None:
    mean, log_std = (torch.tensor(numbers, dtype=torch.float64).view(2, 3) for numbers in (means, logs))
    posterior = Independent(Normal(mean, log_std.exp()), 1)
    prior = Independent(Normal(torch.zeros_like(mean), torch.ones_like(mean)), 1)
    torch.testing.assert_close(gaussian_kl(mean, log_std), kl_divergence(posterior, prior).mean(), rtol=1e-9, atol=1e-9)


def test_divergence_vanishes_with_its_slope_at_the_prior() -> None:
    mean, log_std = (torch.zeros(4, 3, requires_grad=True) for _ in range(2))
    loss = gaussian_kl(mean, log_std)
    loss.backward()
    assert float(loss.detach()) == 0
    assert not mean.grad.any()
    assert not log_std.grad.any()


def test_divergence_of_a_shifted_prior_is_half_its_squared_length_per_node() -> None:
    mean = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert float(gaussian_kl(mean, torch.zeros(2, 2))) == 25 / 2 / 2


def test_draws_have_the_mean_and_the_standard_deviation_asked_for() -> None:
    mean, log_std = torch.full((100_000, 2), 2.0), torch.tensor([[math.log(0.5), math.log(3)]]).expand(100_000, 2)
    z = sample_gaussian(mean, log_std, torch.Generator().manual_seed(0))
    assert z.mean(0).tolist() == pytest.approx([2, 2], abs=0.05)
    assert z.std(0).tolist() == pytest.approx([0.5, 3], rel=0.02)


def test_gradients_go_through_a_draw() -> None:
    mean, log_std = (torch.randn(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    z = sample_gaussian(mean, log_std, torch.Generator().manual_seed(1))
    to_mean, to_log_std = torch.autograd.grad(z.sum(), (mean, log_std))
    assert to_mean.equal(torch.ones_like(mean))
    torch.testing.assert_close(to_log_std, (z - mean).detach(), rtol=1e-9, atol=1e-12)


def test_a_huge_spread_is_cut_off() -> None:
    mean, log_std = torch.zeros(2, 2), torch.full((2, 2), 1e4)
    at_limit = torch.full((2, 2), MAX_LOG_STD)
    draws = [sample_gaussian(mean, spread, torch.Generator().manual_seed(0)) for spread in (log_std, at_limit)]
    assert draws[0].equal(draws[1])
    assert gaussian_kl(mean, log_std).equal(gaussian_kl(mean, at_limit))
