"""Labels from few examples: right where classes are clear, honest where they are not, calibrated in between."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bandana.errors import UserError
from bandana.use.classify import _best_temperature, _folds, classify


def blobs(per_class: int, classes: int, apart: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(classes).repeat(per_class)
    centres = apart * torch.randn(classes, 8, generator=generator)
    return centres[y] + torch.randn(y.numel(), 8, generator=generator), y


def few(y: Tensor, count: int) -> Tensor:
    return torch.where(torch.arange(y.numel()) < count, y, -1)


@pytest.mark.parametrize("classes", [2, 4])
def test_clear_classes_are_found(classes: int) -> None:
    z, y = blobs(60, classes, 4.0)
    outcome = classify(z, few(y, 10 * classes))
    assert outcome.probability.shape == (y.numel(), classes)
    assert outcome.probability.sum(1).allclose(torch.ones(y.numel(), dtype=torch.float64))
    assert (outcome.predicted == y).double().mean() > 0.97
    assert outcome.held_out is not None
    assert outcome.held_out.nodes == 10 * classes
    assert outcome.held_out.accuracy > 0.9
    assert outcome.notes == ()


def test_noise_scores_no_better_than_the_majority_and_says_so() -> None:
    z, y = blobs(150, 2, 0.0)
    held_out = classify(z, few(y, 100)).held_out
    assert held_out is not None
    assert held_out.majority == 0.5
    assert abs(held_out.accuracy - 0.5) < 0.15
    assert held_out.confidence < 0.65
    assert held_out.log_loss < 0.75  # ln 2 = 0.693 is what no knowledge costs


def test_probabilities_mean_what_they_say_on_unseen_nodes() -> None:
    z, y = blobs(700, 3, 0.6, seed=3)
    labels = few(y, 90)
    outcome = classify(z, labels)
    unseen = labels < 0
    confidence = outcome.probability[unseen].amax(1)
    right = (outcome.predicted[unseen] == y[unseen]).double()
    assert 0.45 < right.mean() < 0.9
    assert abs(float(confidence.mean() - right.mean())) < 0.06
    assert outcome.held_out is not None
    assert abs(outcome.held_out.accuracy - float(right.mean())) < 0.12


def test_temperature_undoes_what_was_done_to_the_logits() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 3)) * 2
    drawn = (logits + rng.gumbel(size=logits.shape)).argmax(1)  # classes with exactly these log-odds
    for factor in (0.25, 1.0, 4.0):
        assert _best_temperature(factor * logits, drawn)[1] == pytest.approx(factor, rel=0.05)


def test_a_single_example_is_trained_on_and_named() -> None:
    z, y = blobs(30, 3, 4.0)
    labels = torch.where((y < 2) & (torch.arange(90) < 40), y, -1)
    labels[2] = 2
    outcome = classify(z, labels, names=("red", "green", "blue"))
    assert outcome.classes.tolist() == [0, 1, 2]
    assert (outcome.predicted[y == 2] == 2).double().mean() > 0.5
    assert outcome.held_out is not None
    assert outcome.held_out.nodes == int((labels >= 0).sum()) - 1
    assert "'blue' has a single example" in outcome.notes[0]


def test_one_example_of_each_class_gives_answers_without_a_score() -> None:
    z, y = blobs(20, 3, 6.0)
    outcome = classify(z, few(y, 3))
    assert outcome.held_out is None
    assert "no held-out score" in outcome.notes[0]
    assert (outcome.predicted == y).double().mean() > 0.8


def test_label_numbers_need_not_be_consecutive_and_seeds_decide_everything() -> None:
    z, y = blobs(30, 2, 3.0)
    labels = few(torch.where(y == 0, 4, 9), 20)
    first, second = classify(z, labels, seed=1), classify(z, labels, seed=1)
    assert set(first.predicted.tolist()) == {4, 9}
    assert first.probability.equal(second.probability)
    assert first.held_out == second.held_out


@pytest.mark.parametrize("counts", [[5, 5], [1, 7, 2], [2, 2, 2], [1, 1, 3], [40, 3]])
def test_every_training_part_has_every_class_and_every_testable_node_is_tested_once(counts: list[int]) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    folds = _folds(y, 5, seed=0)
    assert all(set(y[train]) == set(y) and not set(train) & set(test) for train, test in folds)
    several = [node for node in range(y.size) if counts[y[node]] > 1]
    assert sorted(node for _, test in folds for node in test) == several


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(UserError, match="name 1 class"):
        classify(torch.eye(3), torch.tensor([0, 0, -1]))
    with pytest.raises(UserError, match="name 0 class"):
        classify(torch.eye(3), torch.tensor([-1, -1, -1]))
    with pytest.raises(UserError, match="NaN"):
        classify(torch.full((3, 1), torch.nan), torch.tensor([0, 1, -1]))
