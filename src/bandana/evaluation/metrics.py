"""Numbers for rankings and classifications: exact with ties, on any device, as fractions between 0 and 1.

A ranking metric compares the scores of true links (`positive`) with those of sampled non-links (`negative`). Ties are
counted, never broken by storage order, and only sorting is needed: no matrix of all pairs of scores exists.
"""

import math

import torch
from torch import Tensor

from bandana.errors import UserError

KS = (20, 50, 100)
"""Ranks for hits@K."""


def auc(positive: Tensor, negative: Tensor) -> float:
    """Chance that a positive scores above a negative, a tie counting half: the area under the ROC curve.

    Args:
        positive: ``[P]`` scores.
        negative: ``[Q]`` scores.
    """
    _check(positive, negative)
    if not negative.numel():
        raise UserError("Link metrics: AUC needs at least one negative pair, got none; hold out more links.")
    return float(exact_auc(positive, negative))


def exact_auc(positive: Tensor, negative: Tensor) -> Tensor:
    """`auc` as a float64 scalar that is left on the device, counted in integers; NaN where any score is."""
    above, at_least = _negatives_above(positive, negative)
    comparisons = positive.numel() * negative.numel()
    value = (2 * comparisons - (above + at_least).sum()).double() / (2 * comparisons)
    unordered = positive.isnan().any() | negative.isnan().any()
    return value.masked_fill(unordered, torch.nan)


def checked_score(value: Tensor) -> float:
    """A validation score as a number, to choose weights by.

    Raises:
        UserError: It is none: training diverged.
    """
    score = float(value)
    if math.isnan(score):
        raise UserError("Validation: the scores of links are not numbers any more. Try a lower training.lr.")
    return score


def average_precision(positive: Tensor, negative: Tensor) -> float:
    """Mean over the positives of the precision among all scores that are no lower, without interpolation.

    Args:
        positive: ``[P]`` scores.
        negative: ``[Q]`` scores.
    """
    _check(positive, negative)
    ascending = positive.sort().values
    positives_at_least = positive.numel() - torch.searchsorted(ascending, ascending)
    _, negatives_at_least = _negatives_above(ascending, negative)
    precision = positives_at_least.double() / (positives_at_least + negatives_at_least)
    return float(precision.mean())


def hits_at_k(positive: Tensor, negative: Tensor, k: int) -> float:
    """Share of the positives strictly above the `k`-th highest negative, as OGB defines it.

    Args:
        positive: ``[P]`` scores.
        negative: ``[Q]`` scores; with fewer than `k` of them every positive is a hit.
        k: Rank from 1.
    """
    _check(positive, negative)
    if k < 1:
        raise ValueError(f"k: must be at least 1, got {k}")
    if negative.numel() < k:
        return 1.0
    threshold = negative.topk(k).values[-1]
    return int((positive > threshold).sum()) / positive.numel()


def mean_reciprocal_rank(positive: Tensor, negative: Tensor) -> float:
    """Mean of 1/rank, as OGB defines it; see `ranks`."""
    return float(ranks(positive, negative).reciprocal().mean())


def ranks(positive: Tensor, negative: Tensor) -> Tensor:
    """``[P]`` places of the positives among the negatives, from 1, half-way between winning and losing all ties.

    Args:
        positive: ``[P]`` scores.
        negative: ``[P, Q]`` scores, one list for each positive, or ``[Q]``, one list for all of them.
    """
    _check(positive, negative)
    if negative.dim() == 2:
        above = (negative > positive.unsqueeze(1)).sum(1)
        at_least = (negative >= positive.unsqueeze(1)).sum(1)
    else:
        above, at_least = _negatives_above(positive, negative)
    return 1 + (above + at_least).double() / 2


def ranking_metrics(positive: Tensor, negative: Tensor) -> dict[str, float]:
    """All ranking metrics of ``[P]`` positive and ``[Q]`` negative scores: auc, ap, mrr, and hits@K for all `KS`."""
    return {
        "auc": auc(positive, negative),
        "ap": average_precision(positive, negative),
        "mrr": mean_reciprocal_rank(positive, negative),
        **{f"hits@{k}": hits_at_k(positive, negative, k) for k in KS},
    }


def logit_metrics(positive: Tensor, negative: Tensor) -> dict[str, float]:
    """`ranking_metrics` of logits, and what a float32 sigmoid would make of them.

    A sigmoid is increasing, so on paper it changes no ranking. In float32 it does: from a logit of about 16.64 on, the
    result is exactly 1.0, and wide unnormalised embeddings push a large share of the pairs up there, where links and
    non-links tie. Published figures were computed in that way. We rank the logits, and give the other value beside
    it so that such figures can be checked and the distance explained.

    Args:
        positive: ``[P]`` logits.
        negative: ``[Q]`` logits.

    Returns:
        The ranking metrics; auc_sigmoid32 and ap_sigmoid32, ranked after the sigmoid; tied_share, the share of all
        pairs whose sigmoid is exactly 1.0.
    """
    squashed_positive, squashed_negative = positive.float().sigmoid(), negative.float().sigmoid()
    saturated = int((squashed_positive == 1).sum()) + int((squashed_negative == 1).sum())
    return {
        **ranking_metrics(positive, negative),
        "auc_sigmoid32": auc(squashed_positive, squashed_negative),
        "ap_sigmoid32": average_precision(squashed_positive, squashed_negative),
        "tied_share": saturated / (positive.numel() + negative.numel()),
    }


def micro_f1(prediction: Tensor, target: Tensor) -> float:
    """Share of right predictions: with one label per node, micro-averaged F1 is accuracy.

    Args:
        prediction: ``[n]`` class numbers.
        target: ``[n]`` class numbers.
    """
    return float(batch_micro_f1(prediction, target))


def macro_f1(prediction: Tensor, target: Tensor, num_classes: int) -> float:
    """Mean F1 over the classes that occur in the predictions or in the targets.

    Args:
        prediction: ``[n]`` class numbers.
        target: ``[n]`` class numbers.
        num_classes: A bound on the class numbers; classes that never occur do not count.
    """
    return float(batch_macro_f1(prediction.unsqueeze(0), target, num_classes))


def batch_micro_f1(prediction: Tensor, target: Tensor) -> Tensor:
    """`micro_f1` of each row of ``[..., n]`` predictions, left on the device: ``[...]`` float64."""
    return (prediction == target).double().mean(-1)


def batch_macro_f1(prediction: Tensor, target: Tensor, num_classes: int) -> Tensor:
    """`macro_f1` of each row of ``[batch, n]`` predictions, left on the device: ``[batch]`` float64."""
    target = target.expand_as(prediction)
    ones = torch.ones_like(prediction)
    counts = ones.new_zeros(prediction.shape[0], num_classes)
    predicted = counts.scatter_add(1, prediction, ones)
    actual = counts.scatter_add(1, target, ones)
    right = counts.scatter_add(1, target, (prediction == target).to(ones.dtype))
    occurrences = predicted + actual
    f1 = 2 * right.double() / occurrences.clamp(min=1)
    return f1.sum(1) / (occurrences > 0).sum(1)


def _negatives_above(positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """For each positive, how many negatives are strictly above it, and how many are not below it."""
    ascending, positive = negative.sort().values, positive.contiguous()
    not_above = torch.searchsorted(ascending, positive, right=True)
    below = torch.searchsorted(ascending, positive)
    return negative.numel() - not_above, negative.numel() - below


def _check(positive: Tensor, negative: Tensor) -> None:
    if not positive.numel():
        raise UserError("Link metrics: at least one positive pair is needed, got none; hold out more links.")
    unordered = int(positive.isnan().sum()) + int(negative.isnan().sum())
    if unordered:
        total = positive.numel() + negative.numel()
        raise UserError(
            f"Link metrics: scores must be numbers, got {unordered} NaN of {total}; training diverged, so try a lower "
            "learning rate."
        )
