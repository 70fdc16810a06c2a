"""The decoder module: its start, its symmetry, and that it hands its weights and dropout to the engine."""

import pytest
import torch
from torch import nn

from bandana.parts.decoders import HadamardMLP


def build(in_width: int = 6, width: int = 5, dropout: float = 0.0) -> HadamardMLP:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HadamardMLP(in_width, width, dropout)


@pytest.fixture
def z() -> torch.Tensor:
    return torch.randn(10, 6, generator=torch.Generator().manual_seed(1))


PAIRS = torch.tensor([[0, 1, 2, 9], [3, 4, 5, 9]])


def test_starts_xavier_uniform_with_zero_biases() -> None:
    decoder = build(200, 100)
    for layer in (decoder.hidden, decoder.out):
        bound = (6 / sum(layer.weight.shape)) ** 0.5
        assert 0.9 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert not layer.bias.any()
    assert decoder.out.weight.shape == (2, 100)


def test_is_a_perceptron_on_the_products_with_two_classes(z: torch.Tensor) -> None:
    decoder = build()
    two_logits = nn.Sequential(decoder.hidden, nn.ReLU(), decoder.out)(z[PAIRS[0]] * z[PAIRS[1]])
    torch.testing.assert_close(decoder.logits(z, PAIRS), two_logits[:, 0] - two_logits[:, 1])
    weight = torch.tensor([0.5, 0.25, -1.0, -0.5])
    classes = torch.tensor([0, 0, 1, 1])
    each = nn.functional.cross_entropy(two_logits, classes, reduction="none")
    torch.testing.assert_close(decoder.loss(z, PAIRS, weight, None), (each * weight.abs()).sum())


def test_does_not_know_the_direction_of_a_pair(z: torch.Tensor) -> None:
    decoder = build()
    assert decoder.logits(z, PAIRS).equal(decoder.logits(z, PAIRS.flip(0)))


def test_dropout_acts_in_training_only(z: torch.Tensor) -> None:
    decoder = build(dropout=0.5)
    weight = torch.ones(4)
    without = build().loss(z, PAIRS, weight, None)
    first, second = (decoder.loss(z, PAIRS, weight, torch.Generator().manual_seed(seed)) for seed in (1, 2))
    assert not first.equal(second)
    assert decoder.loss(z, PAIRS, weight, None).equal(without)
