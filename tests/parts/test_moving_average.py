"""A moving average, weight by weight, and what it leaves alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bandana.parts.moving_average import follow


def network(seed: int, width: int = 3) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width), nn.PReLU(), nn.Linear(width, 2))


def values(module: nn.Module) -> list[list[float]]:
    return [parameter.detach().flatten().tolist() for parameter in module.parameters()]


@pytest.mark.usefixtures("float64")
@given(momentum=st.floats(0, 1), steps=st.integers(1, 4))
def test_every_weight_moves_its_share_of_the_way(momentum: float, steps: int) -> None:
    target, source = network(0), network(1)
    expected, theirs = values(target), values(source)
    for _ in range(steps):
        follow(target, source, momentum)
        expected = [
            [momentum * mine + (1 - momentum) * other for mine, other in zip(row, others, strict=True)]
            for row, others in zip(expected, theirs, strict=True)
        ]
    for row, reference in zip(values(target), expected, strict=True):
        assert row == pytest.approx(reference, rel=1e-12, abs=1e-12)
    assert values(source) == theirs


def test_no_momentum_copies_and_full_momentum_stays() -> None:
    target, source = network(0), network(1)
    before = values(target)
    follow(target, source, 1.0)
    assert values(target) == before
    follow(target, source, 0.0)
    assert values(target) == values(source)


def test_batch_statistics_are_the_targets_own() -> None:
    target, source = network(0), network(1)
    source(torch.randn(20, 2, generator=torch.Generator().manual_seed(0)))
    before = {name: buffer.clone() for name, buffer in target.named_buffers()}
    follow(target, source, 0.5)
    assert before
    assert all(buffer.equal(before[name]) for name, buffer in target.named_buffers())


def test_following_is_no_part_of_the_gradient() -> None:
    target, source = network(0), network(1)
    follow(target, source, 0.5)
    target(torch.ones(4, 2)).sum().backward()
    assert all(parameter.is_leaf and parameter.grad is not None for parameter in target.parameters())
    assert all(parameter.grad is None for parameter in source.parameters())


def test_networks_of_different_makes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        follow(network(0), nn.Linear(2, 3), 0.5)
    with pytest.raises(RuntimeError):
        follow(network(0), network(1, width=4), 0.5)
