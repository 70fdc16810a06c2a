"""Semi-implicit posteriors against loops, and the properties that follow from their definition."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bandana.engine.propagate import gcn_weights
from bandana.graph import Graph
from bandana.parts.encoders import Stack
from bandana.parts.semi_implicit import (
    Perceptron,
    Posterior,
    bernoulli_noise,
    importance_weighted,
    log_mixture,
    log_prior,
    mean_noise,
    noisy_means,
    warm_up,
)

GraphFactory = Callable[..., Graph]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def posterior(rows: int = 4, samples: int = 3, others: int = 2, width: int = 3, *, seed: int = 0) -> Posterior:
    draw = generator(seed)
    shapes = [(rows, samples, width), (rows, others, width), (rows, width)]
    means, extra, log_variance = (torch.randn(shape, generator=draw).requires_grad_() for shape in shapes)
    return Posterior(means, extra, log_variance)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("floor", [1e-10, 0.1])
def test_mixture_density_is_the_mean_of_the_kernels(floor: float) -> None:
    given_posterior = posterior()
    means, others, log_variance = given_posterior
    z = given_posterior.sample(generator(1)).detach().requires_grad_()
    expected = []
    for n in range(4):
        spread = (log_variance[n] / 2).exp() + floor
        for k in range(3):
            centres = [*others[n], means[n, k]]
            kernels = [torch.exp(-0.5 * ((z[n, k] - centre) / spread).square().sum()) for centre in centres]
            expected.append(torch.log(sum(kernels) / 3 + floor) - 0.5 * log_variance[n].sum())
    result, wanted = log_mixture(given_posterior, z, floor).flatten(), torch.stack(expected)
    torch.testing.assert_close(result, wanted)
    weights = torch.randn(12, generator=generator(2))
    inputs = [z, means, others, log_variance]
    for grad, want in zip(
        torch.autograd.grad(result @ weights, inputs), torch.autograd.grad(wanted @ weights, inputs), strict=True
    ):
        torch.testing.assert_close(grad, want)


def test_wide_kernels_vanish_beneath_the_floor() -> None:
    """With 512 dimensions a kernel is about exp(-256): what is left to learn from is the log variance."""
    wide = posterior(rows=5, samples=1, others=1, width=512)
    z = wide.sample(generator(1)).detach()
    density = log_mixture(wide, z, 1e-10)
    expected = math.log(1e-10) - wide.log_variance.sum(1, keepdim=True) / 2
    torch.testing.assert_close(density, expected)
    to_others, to_spread = torch.autograd.grad(density.sum(), [wide.others, wide.log_variance])
    assert not to_others.any()
    torch.testing.assert_close(to_spread, torch.full_like(to_spread, -0.5))


def test_samples_have_the_posteriors_moments() -> None:
    means = torch.tensor([[[1.0, -2.0]]]).expand(1, 20_000, 2)
    log_variance = torch.tensor([[0.0, math.log(9.0)]])
    z = Posterior(means, means[:, :0], log_variance).sample(generator())[0]
    torch.testing.assert_close(z.mean(0), torch.tensor([1.0, -2.0]), rtol=0, atol=0.1)
    torch.testing.assert_close(z.std(0), torch.tensor([1.0, 3.0]), rtol=0, atol=0.1)


def test_noise_is_a_fair_coin() -> None:
    noise = bernoulli_noise(100, 5, 40, generator())
    assert noise.shape == (100, 5, 40)
    assert noise.unique().tolist() == [0.0, 1.0]
    assert abs(float(noise.mean()) - 0.5) < 0.02
    assert mean_noise(3, 4, torch.device("cpu")).equal(torch.full((3, 1, 4), 0.5))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("network", ["graph", "perceptron"])
@pytest.mark.parametrize("num_features", [6, 0])
def test_noisy_means_are_those_of_each_sample_alone(
    random_graph: GraphFactory, network: str, num_features: int
) -> None:
    """Against the stack's own forward pass on noise and features side by side."""
    graph = random_graph(12, 30, num_features=num_features)
    widths = [5 + graph.num_features, 7, 3]
    stack = Stack(widths, activate_last=False, bias=False) if network == "graph" else Perceptron(widths, 0.0)
    edges = gcn_weights(graph.structure)
    noise = bernoulli_noise(12, 4, 5, generator())
    means = noisy_means(stack, graph.x, noise, graph.structure, edges)
    x = graph.x if isinstance(graph.x, Tensor) else graph.x.dense()
    for k in range(4):
        both = torch.cat([noise[:, k], x.to(noise.dtype)], dim=1)
        alone = stack(both, graph.structure, [edges, edges])[-1]
        torch.testing.assert_close(means[:, k], alone)
        assert alone.equal(stack(both)[-1]) == (network == "perceptron")


def test_each_sample_has_its_own_dropout(random_graph: GraphFactory) -> None:
    graph = random_graph(12, 30)
    stack = Stack([2 + 6, 3], bias=False, dropout=0.5)
    noise = torch.zeros(12, 2, 2)
    edges = gcn_weights(graph.structure)
    first, second = noisy_means(stack, graph.x, noise, graph.structure, edges, generator()).unbind(1)
    assert not first.equal(second)
    first, second = noisy_means(stack, graph.x, noise, graph.structure, edges).unbind(1)
    assert first.equal(second)


@given(values=st.lists(st.floats(-50, 50), min_size=1, max_size=6), shift=st.floats(-50, 50))
def test_the_bound_averages_ratios(values: list[float], shift: float) -> None:
    bounds = torch.tensor(values, dtype=torch.float64)
    loss = importance_weighted(bounds)
    torch.testing.assert_close(loss, -bounds.exp().mean().log(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(importance_weighted(bounds + shift), loss - shift, rtol=1e-9, atol=1e-9)
    assert float(loss) <= float(-bounds.mean()) + 1e-9  # never looser than the plain bound


def test_prior_and_warm_up() -> None:
    z = torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])
    assert log_prior(z).tolist() == [[-12.5, 0.0]]
    assert [warm_up(epoch) for epoch in (-1, 0, 150, 300, 999)] == [0.0, 0.0, 0.5, 1.0, 1.0]


def test_perceptrons_begin_like_linear_layers() -> None:
    stack = Perceptron([400, 25, 10], 0.0)
    assert 0.045 < float(stack.weights[0].detach().abs().max()) <= 1 / 20
    assert 0.15 < float(stack.weights[1].detach().abs().max()) <= 1 / 5
    assert all(bool(bias.any()) for bias in stack.biases)
    hidden, out = stack(torch.full((3, 400), 100.0))
    assert bool((hidden.abs() <= 1).all())
    torch.testing.assert_close(out, hidden @ stack.weights[1] + stack.biases[1])
