"""Each metric against scikit-learn or a loop written from its definition, with ties the rule and not the exception."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from bandana.errors import UserError
from bandana.evaluation import metrics
from bandana.evaluation.metrics import (
    auc,
    average_precision,
    batch_macro_f1,
    batch_micro_f1,
    checked_score,
    hits_at_k,
    logit_metrics,
    macro_f1,
    mean_reciprocal_rank,
    micro_f1,
    ranking_metrics,
)

few_values = st.integers(-3, 3).map(float)
many_values = st.floats(-1e6, 1e6, allow_nan=False, width=32)
scores = st.one_of(st.lists(few_values, min_size=1, max_size=40), st.lists(many_values, min_size=1, max_size=40))


def labelled(positive: list[float], negative: list[float]) -> tuple[list[int], list[float]]:
    return [1] * len(positive) + [0] * len(negative), positive + negative


@given(scores, scores)
def test_auc_and_average_precision_are_those_of_scikit_learn(positive: list[float], negative: list[float]) -> None:
    expected_auc = roc_auc_score(*labelled(positive, negative))
    expected_ap = average_precision_score(*labelled(positive, negative))
    for dtype in (torch.float64, torch.float32):
        above, below = torch.tensor(positive, dtype=dtype), torch.tensor(negative, dtype=dtype)
        assert auc(above, below) == pytest.approx(expected_auc, abs=1e-12)
        assert average_precision(above, below) == pytest.approx(expected_ap, abs=1e-12)


@given(scores, scores)
def test_auc_counts_a_tie_half(positive: list[float], negative: list[float]) -> None:
    won = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    assert auc(torch.tensor(positive), torch.tensor(negative)) == won / (len(positive) * len(negative))


def test_auc_and_ap_on_many_scores_in_few_values() -> None:
    generator = torch.Generator().manual_seed(0)
    positive = torch.randint(0, 50, (20_000,), generator=generator).float()
    negative = torch.randint(-5, 45, (30_000,), generator=generator).float()
    truth, ranking = labelled(positive.tolist(), negative.tolist())
    assert auc(positive, negative) == pytest.approx(roc_auc_score(truth, ranking), abs=1e-12)
    assert average_precision(positive, negative) == pytest.approx(average_precision_score(truth, ranking), abs=1e-12)


def test_all_equal_scores_carry_no_information() -> None:
    same = torch.zeros(7)
    assert auc(same, torch.zeros(3)) == 0.5
    assert average_precision(same, torch.zeros(3)) == pytest.approx(0.7, abs=1e-12)
    assert hits_at_k(same, torch.zeros(3), 1) == 0.0
    assert mean_reciprocal_rank(same, torch.zeros(3)) == pytest.approx(1 / 2.5, abs=1e-12)


def hits_by_definition(positive: list[float], negative: list[float], k: int) -> float:
    if len(negative) < k:
        return 1.0
    bar = sorted(negative, reverse=True)[k - 1]
    return sum(score > bar for score in positive) / len(positive)


@given(scores, scores, st.integers(1, 45))
def test_hits_at_k_follows_ogb(positive: list[float], negative: list[float], k: int) -> None:
    expected = hits_by_definition(positive, negative, k)
    assert hits_at_k(torch.tensor(positive), torch.tensor(negative), k) == expected


def test_hits_at_k_where_negatives_run_out() -> None:
    positive, negative = torch.tensor([-5.0, 2.0]), torch.tensor([1.0, 0.0, -1.0])
    assert hits_at_k(positive, negative, 3) == 0.5
    assert hits_at_k(positive, negative, 4) == 1.0
    with pytest.raises(ValueError, match="k: must be at least 1, got 0"):
        hits_at_k(positive, negative, 0)


def reciprocal_rank_by_definition(positive: float, negatives: list[float]) -> float:
    optimistic = 1 + sum(score > positive for score in negatives)
    pessimistic = 1 + sum(score >= positive for score in negatives)
    return 2 / (optimistic + pessimistic)


@given(scores, scores)
def test_mrr_against_one_shared_list(positive: list[float], negative: list[float]) -> None:
    expected = np.mean([reciprocal_rank_by_definition(score, negative) for score in positive])
    assert mean_reciprocal_rank(torch.tensor(positive), torch.tensor(negative)) == pytest.approx(expected, abs=1e-12)


@given(st.integers(1, 6), st.integers(0, 9), st.integers(0, 2**31))
def test_mrr_against_a_list_for_each_positive(num_positive: int, num_negative: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    positive = torch.randint(0, 4, (num_positive,), generator=generator).float()
    negative = torch.randint(0, 4, (num_positive, num_negative), generator=generator).float()
    pairs = zip(positive.tolist(), negative.tolist(), strict=True)
    expected = np.mean([reciprocal_rank_by_definition(score, row) for score, row in pairs])
    assert mean_reciprocal_rank(positive, negative) == pytest.approx(expected, abs=1e-12)


def test_mrr_worked_by_hand() -> None:
    negative = torch.tensor([[3.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    # Rank of 1.0 among 3, 1, 1, 0 lies between 2 and 4; rank of 1.0 above all zeros is 1.
    assert mean_reciprocal_rank(torch.tensor([1.0, 1.0]), negative) == pytest.approx((1 / 3 + 1) / 2)


classes = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=60)


@given(classes)
def test_f1_scores_are_those_of_scikit_learn(both: list[tuple[int, int]]) -> None:
    prediction, target = (list(column) for column in zip(*both, strict=True))
    micro = micro_f1(torch.tensor(prediction), torch.tensor(target))
    macro = macro_f1(torch.tensor(prediction), torch.tensor(target), num_classes=9)
    assert micro == pytest.approx(f1_score(target, prediction, average="micro"), abs=1e-12)
    assert macro == pytest.approx(f1_score(target, prediction, average="macro"), abs=1e-12)


def test_batched_f1_treats_each_row_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    prediction = torch.randint(0, 4, (5, 200), generator=generator)
    target = torch.randint(0, 5, (200,), generator=generator)
    assert batch_micro_f1(prediction, target).tolist() == [micro_f1(row, target) for row in prediction]
    assert batch_macro_f1(prediction, target, 5).tolist() == [macro_f1(row, target, 5) for row in prediction]


def test_ranking_metrics_names_every_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "KS", (1, 3))
    positive, negative = torch.tensor([3.0, 1.0]), torch.tensor([2.0, 0.0, -1.0])
    expected = {"auc": 5 / 6, "ap": (1 + 2 / 3) / 2, "mrr": 0.75, "hits@1": 0.5, "hits@3": 1.0}
    assert ranking_metrics(positive, negative) == pytest.approx(expected)


def test_float32_sigmoid_ties_what_the_logits_separate() -> None:
    positive, negative = torch.tensor([30.0, 25.0]), torch.tensor([20.0, 0.0])
    metrics = logit_metrics(positive, negative)
    assert metrics["auc"] == metrics["ap"] == 1.0
    assert metrics["auc_sigmoid32"] == 0.75
    assert metrics["ap_sigmoid32"] == pytest.approx(2 / 3, abs=1e-12)
    assert metrics["tied_share"] == 0.75


def test_float64_logits_are_squashed_in_float32_all_the_same() -> None:
    metrics = logit_metrics(torch.tensor([25.0]).double(), torch.tensor([20.0]).double())
    assert (metrics["auc"], metrics["auc_sigmoid32"], metrics["tied_share"]) == (1.0, 0.5, 1.0)


@pytest.mark.parametrize(("logit", "share"), [(16.5, 0.0), (16.7, 1.0)])
def test_saturation_begins_near_16_64(logit: float, share: float) -> None:
    assert logit_metrics(torch.full((9,), logit), torch.full((4,), logit))["tied_share"] == share


@pytest.mark.cuda
def test_the_device_changes_no_value() -> None:
    generator = torch.Generator().manual_seed(1)
    positive, negative = torch.randn(2, 4000, generator=generator).mul(8).round().unbind()
    assert ranking_metrics(positive.cuda(), negative.cuda()) == pytest.approx(ranking_metrics(positive, negative))
    prediction, target = torch.randint(5, (2, 4000), generator=generator)
    assert macro_f1(prediction.cuda(), target.cuda(), 5) == pytest.approx(macro_f1(prediction, target, 5))
    assert micro_f1(prediction.cuda(), target.cuda()) == micro_f1(prediction, target)


def test_scores_that_cannot_be_ranked_are_refused() -> None:
    good, broken, none = torch.ones(2), torch.tensor([0.0, math.nan]), torch.ones(0)
    for metric in (auc, average_precision, mean_reciprocal_rank):
        with pytest.raises(UserError, match="1 NaN of 4"):
            metric(good, broken)
        with pytest.raises(UserError, match="at least one positive pair"):
            metric(none, good)
    with pytest.raises(UserError, match="at least one negative pair"):
        auc(good, none)


def test_a_score_that_is_no_number_is_refused_in_words() -> None:
    assert checked_score(torch.tensor(0.5)) == 0.5
    with pytest.raises(UserError, match=r"not numbers any more.*training\.lr"):
        checked_score(torch.tensor(float("nan")))
