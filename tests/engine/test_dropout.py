"""Dropout: how many survive, by how much they are scaled, and which gradient comes back."""

import math

import pytest
import torch

from bandana.engine.dropout import dropout, keep_mask, keep_scale

SIZE = 200_000


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("probability", [0.001, 0.2, 0.5, 0.8, 0.999])
def test_share_of_survivors(probability: float) -> None:
    kept = int(keep_mask((SIZE,), probability, seeded()).sum())
    deviation = math.sqrt(SIZE * probability * (1 - probability))
    assert abs(kept - SIZE * (1 - probability)) < 4 * deviation


def test_the_rarest_survivor_is_one_in_65536() -> None:
    """At the edge of the range a threshold that is off by one keeps nothing at all, or twice too much."""
    expected = 32
    kept = int(keep_mask((expected << 16,), 0.999999, seeded()).sum())
    assert abs(kept - expected) < 4 * math.sqrt(expected)


@pytest.mark.parametrize("probability", [1e-9, 0.001, 0.2, 1 / 3, 0.5, 0.8, 0.999999])
def test_scale_makes_the_expectation_exact(probability: float) -> None:
    """Of the 65,536 values that 16 bits can have, as many keep an element as the scale makes up for."""
    kept = round((1 << 16) / keep_scale(probability))
    assert kept * keep_scale(probability) == pytest.approx(1 << 16, rel=1e-15)
    assert 1 <= kept <= 1 << 16
    assert abs(kept / (1 << 16) - (1 - probability)) <= 1 / (1 << 16)


def test_survivors_are_scaled_and_the_others_zero() -> None:
    x = torch.rand(50, 30, generator=seeded(1)) + 0.5
    mask = keep_mask(x.shape, 0.3, seeded())
    assert 0 < int(mask.sum()) < x.numel()
    torch.testing.assert_close(dropout(x, 0.3, seeded()), torch.where(mask.bool(), x * keep_scale(0.3), 0.0))


def test_gradient_is_mask_times_scale() -> None:
    x = torch.rand(50, 30, generator=seeded(1)).requires_grad_()
    upstream = torch.randn(50, 30, generator=seeded(2))
    (gradient,) = torch.autograd.grad(dropout(x, 0.3, seeded()), x, upstream)
    torch.testing.assert_close(gradient, upstream * keep_mask(x.shape, 0.3, seeded()) * keep_scale(0.3))


def test_without_probability_or_generator_nothing_happens() -> None:
    x = torch.rand(4, 3)
    generator = seeded()
    before = generator.get_state()
    assert dropout(x, 0.0, generator) is x
    assert dropout(x, 0.5, None) is x
    assert generator.get_state().equal(before)


@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (3,), (5,), (3, 5), (7, 1, 3)])
def test_sizes_that_four_does_not_divide(shape: tuple[int, ...]) -> None:
    mask = keep_mask(shape, 0.5, seeded())
    assert mask.shape == shape
    whole_words = keep_mask((64,), 0.5, seeded())
    assert mask.flatten().equal(whole_words[: mask.numel()])


def test_the_four_elements_of_a_word_are_unrelated() -> None:
    lanes = keep_mask((SIZE // 4, 4), 0.5, seeded()).T.double()
    off_diagonal = torch.corrcoef(lanes) - torch.eye(4)
    assert float(off_diagonal.abs().max()) < 4 / math.sqrt(SIZE // 4)
    assert float((lanes.mean(1) - 0.5).abs().max()) < 4 * 0.5 / math.sqrt(SIZE // 4)


def test_masks_repeat_with_the_seed_and_move_on_with_the_generator() -> None:
    generator = seeded()
    first, second = (keep_mask((100,), 0.5, generator) for _ in range(2))
    assert not first.equal(second)
    assert first.equal(keep_mask((100,), 0.5, seeded()))


def test_layout_does_not_matter_and_the_input_is_left_alone() -> None:
    x = torch.rand(6, 5, generator=seeded(1)).T
    before = x.clone()
    out = dropout(x, 0.5, seeded())
    assert out.equal(dropout(x.contiguous(), 0.5, seeded()))
    assert x.equal(before)
