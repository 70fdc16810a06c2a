"""From a few labels to a probability for every class of every node, with a score that was held out.

A logistic regression reads the vectors. What it says is divided by a temperature, so that of the answers given with
80 % about 80 % are right. Its penalty and its temperature are chosen together, by the answers to labelled nodes that
were left out of the fit; the score comes from a second round of leaving out, around all of that.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from bandana.errors import UserError

PENALTIES = (0.001, 0.01, 0.1, 1.0)
"""Inverse strengths of the penalty that are tried, on vectors of which each dimension has variance one."""
OUTER_FOLDS, INNER_FOLDS = 5, 3
COOLEST, HOTTEST = 0.05, 20.0


class HeldOut(NamedTuple):
    """How good the answers are at labelled nodes that neither fit nor calibration saw.

    Attributes:
        nodes: How many were asked.
        accuracy: Share of right answers.
        macro_f1: Mean F1 of the classes.
        log_loss: Mean of −log of the probability that the true class got.
        confidence: Mean probability of the answers; calibrated if it is about the accuracy.
        majority: The share of the most frequent class: what a constant answer would score.
    """

    nodes: int
    accuracy: float
    macro_f1: float
    log_loss: float
    confidence: float
    majority: float


class Classification(NamedTuple):
    """Classes for all nodes.

    Attributes:
        probability: ``[nodes, classes]``, for labelled nodes too.
        classes: ``[classes]`` the label that each column stands for.
        held_out: The score; None if no class has two examples.
        notes: What the user should know, in words.
    """

    probability: Tensor
    classes: Tensor
    held_out: HeldOut | None
    notes: tuple[str, ...]

    @property
    def predicted(self) -> Tensor:
        """``[nodes]`` the likeliest label."""
        return self.classes[self.probability.argmax(1)]


class _Calibrated(NamedTuple):
    model: LogisticRegression
    temperature: float

    def log_probability(self, x: Any) -> Any:
        return log_softmax(_logits(self.model, x) / self.temperature, axis=1)


def classify(z: Tensor, labels: Tensor, *, names: tuple[str, ...] | None = None, seed: int = 0) -> Classification:
    """Learn the labelled nodes' classes and give the probabilities of all nodes.

    Args:
        z: ``[nodes, width]`` embeddings.
        labels: ``[nodes]`` label numbers; negative ones mean unknown.
        names: What the labels are called, for notes and errors.
        seed: Decides which labelled nodes are left out together.

    Raises:
        UserError: There are fewer than two classes, or a vector is not finite.
    """
    if not bool(z.isfinite().all()):
        raise UserError("Classify: a vector holds NaN or infinity, so training diverged; try a lower learning rate.")
    known = (labels >= 0).nonzero().squeeze(1).cpu()
    classes, y = labels.cpu()[known].unique(return_inverse=True)
    if classes.numel() < 2:
        raise UserError(
            f"Classify: the labels name {classes.numel()} class and at least two are needed; label nodes of another."
        )
    x, y = _standardised(z), y.numpy()
    labelled = x[known.numpy()]
    folds = _folds(y, OUTER_FOLDS, seed)
    held_out = _held_out(labelled, y, folds, seed) if folds else None
    fitted = _fit(labelled, y, seed)
    probability = torch.from_numpy(np.exp(fitted.log_probability(x)))
    return Classification(probability, classes, held_out, _notes(y, classes, names))


def _held_out(x: Any, y: Any, folds: list[tuple[Any, Any]], seed: int) -> HeldOut:
    asked = np.concatenate([test for _, test in folds])
    answers = np.concatenate([_fit(x[train], y[train], seed).log_probability(x[test]) for train, test in folds])
    truth, predicted = y[asked], answers.argmax(1)
    return HeldOut(
        nodes=asked.size,
        accuracy=float(accuracy_score(truth, predicted)),
        macro_f1=float(f1_score(truth, predicted, labels=np.unique(truth), average="macro", zero_division=0)),
        log_loss=_misfit(answers, truth),
        confidence=float(np.exp(answers.max(1)).mean()),
        majority=float(np.bincount(truth).max() / truth.size),
    )


def _fit(x: Any, y: Any, seed: int) -> _Calibrated:
    """The penalty and temperature with the best answers at left-out nodes, and a model of all nodes with them."""
    folds = _folds(y, INNER_FOLDS, seed)
    if not folds:
        return _Calibrated(_regression(PENALTIES[0], x, y), 1.0)
    truth = y[np.concatenate([test for _, test in folds])]
    trials = []
    for penalty in PENALTIES:
        logits = np.concatenate([_logits(_regression(penalty, x[a], y[a]), x[b]) for a, b in folds])
        trials.append((*_best_temperature(logits, truth), penalty))
    _, temperature, penalty = min(trials)
    return _Calibrated(_regression(penalty, x, y), temperature)


def _best_temperature(logits: Any, truth: Any) -> tuple[float, float]:
    """The smallest misfit that any temperature reaches, and that temperature."""
    search = minimize_scalar(
        lambda log_t: _misfit(log_softmax(logits / np.exp(log_t), axis=1), truth),
        bounds=(np.log(COOLEST), np.log(HOTTEST)),
        method="bounded",
    )
    return float(search.fun), float(np.exp(search.x))


def _folds(y: Any, num_folds: int, seed: int) -> list[tuple[Any, Any]]:
    """(train, test) positions with every class in every training part: an only example is always trained on."""
    counts = np.bincount(y)
    several = np.flatnonzero(counts[y] > 1)
    if not several.size:
        return []
    alone = np.flatnonzero(counts[y] == 1)
    # A class with fewer examples than folds is only left out in some of them, so the largest class sets the limit.
    splitter = StratifiedKFold(min(num_folds, int(counts.max())), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        parts = list(splitter.split(several, y[several]))
    return [(np.sort(np.concatenate([several[train], alone])), several[test]) for train, test in parts]


def _regression(penalty: float, x: Any, y: Any) -> LogisticRegression:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")  # `_notes` says so
        return LogisticRegression(C=penalty, max_iter=2000).fit(x, y)


def _logits(model: LogisticRegression, x: Any) -> Any:
    """``[rows, classes]``; of two classes scikit-learn gives one column only."""
    scores = model.decision_function(x)
    return scores if scores.ndim == 2 else np.stack([-scores / 2, scores / 2], axis=1)


def _misfit(log_probability: Any, truth: Any) -> float:
    return float(-log_probability[np.arange(truth.size), truth].mean())


def _standardised(z: Tensor) -> Any:
    """Each dimension with mean zero and variance one over all nodes, labelled or not; a constant one is zero."""
    x = z.detach().cpu().double()
    spread = x.std(0, correction=0)
    return ((x - x.mean(0)) / spread.where(spread > 0, 1)).numpy()


def _notes(y: Any, classes: Tensor, names: tuple[str, ...] | None) -> tuple[str, ...]:
    alone = classes[torch.from_numpy(np.bincount(y) == 1)].tolist()
    if not alone:
        return ()
    called = ", ".join(repr(names[label]) if names else str(label) for label in alone)
    if len(alone) == classes.numel():
        return (
            "Every class has a single example, so nothing could be left out: there is no held-out score, and the "
            "probabilities are not calibrated. Label at least two nodes of each class.",
        )
    which, it = ("Class", "it") if len(alone) == 1 else ("Classes", "they")
    verb = "has" if len(alone) == 1 else "have"
    return (
        f"{which} {called} {verb} a single example each: {it} can be predicted, but no example could be left out, so "
        "the held-out score is that of the other classes. Label another node.",
    )
