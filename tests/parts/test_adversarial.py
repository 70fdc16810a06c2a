"""The discriminator: how it starts, whom its losses move, and that it can win."""

import math

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from bandana.parts.adversarial import AdversaryConfig, Discriminator


def build(in_width: int = 6, widths: tuple[int, ...] = (5, 4)) -> Discriminator:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Discriminator(in_width, widths)


def test_starts_with_small_normal_weights_and_no_bias() -> None:
    discriminator = build(200, (300, 100))
    assert [tuple(layer.weight.shape) for layer in discriminator.layers] == [(300, 200), (100, 300), (1, 100)]
    assert float(discriminator.layers[0].weight.detach().std()) == pytest.approx(0.01, rel=0.05)
    assert not any(layer.bias.any() for layer in discriminator.layers)


def test_losses_are_cross_entropies_of_a_perceptron() -> None:
    discriminator = build()
    for parameter in discriminator.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
    z = torch.randn(7, 6, generator=torch.Generator().manual_seed(2))
    prior = torch.empty(7, 6).normal_(generator=torch.Generator().manual_seed(3))

    def logits(vectors: torch.Tensor) -> torch.Tensor:
        first, second, last = discriminator.layers
        return last(second(first(vectors).relu()).relu()).squeeze(1)

    expected = cross_entropy(logits(prior), torch.ones(7)) + cross_entropy(logits(z), torch.zeros(7))
    torch.testing.assert_close(discriminator.loss(z, torch.Generator().manual_seed(3)), expected)
    torch.testing.assert_close(discriminator.suspicion(z), cross_entropy(logits(z), torch.ones(7)))


def test_embeddings_feel_the_suspicion_and_never_the_discriminators_own_loss() -> None:
    discriminator = build()
    z = torch.randn(7, 6, generator=torch.Generator().manual_seed(2)).requires_grad_()
    discriminator.loss(z, torch.Generator().manual_seed(3)).backward()
    assert z.grad is None
    discriminator.suspicion(z).backward()
    assert z.grad.any()


def test_learns_to_tell_a_shifted_cloud_from_the_prior() -> None:
    discriminator = build()
    z = torch.randn(200, 6, generator=torch.Generator().manual_seed(2)) + 2
    optimizer = torch.optim.Adam(discriminator.parameters(), lr=0.02)
    for step in range(60):
        optimizer.zero_grad()
        loss = discriminator.loss(z, torch.Generator().manual_seed(step))
        if not step:
            assert float(loss.detach()) == pytest.approx(2 * math.log(2), rel=1e-3)
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.5


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"widths": (64, 0)}, r"widths: .*\[64, 0\]"),
        ({"reconstruction_steps": 0}, "reconstruction_steps: must be at least 1, got 0"),
        ({"discriminator_rate": 0.0}, "discriminator_rate: must be positive"),
        ({"generator_rate": math.inf}, "generator_rate: must be positive"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        AdversaryConfig(**options)
