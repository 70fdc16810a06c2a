"""How well vectors tell labels apart, beside other vectors and a guess."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bandana.evaluation.samples import sample
from bandana.evaluation.sparse_vectors import sparse_rows
from bandana.graph import Features, SparseFeatures

ROWS_FOR_LABELS = 10_000
LARGEST_CLASS = "the largest class"


def label_quality(
    labels: Tensor, vectors: Mapping[str, Features], *, seed: int = 0
) -> dict[str, dict[str, float]] | None:
    """Classify one half of the labelled nodes by logistic regression on the other half.

    Args:
        labels: ``[nodes]``, negative for unlabelled nodes.
        vectors: What the classifier reads, by name, each ``[nodes, width]``; sparse ones are never laid out.
        seed: Of the halves, and of the sample if many nodes are labelled.

    Returns:
        accuracy and macro_f1 by name, with those of always answering the largest class; None if the labelled nodes are
        too few to learn two classes from.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    labelled = (labels >= 0).nonzero().squeeze(1)
    labelled = labelled[sample(labelled.numel(), ROWS_FOR_LABELS, seed)]
    order = labelled[torch.randperm(labelled.numel(), generator=torch.Generator().manual_seed(seed))]
    train, test = order.tensor_split(2)
    y_train, y_test = labels[train].numpy(), labels[test].numpy()
    if labels[train].unique().numel() < 2:
        return None
    readers: dict[str, tuple[Any, Any]] = {}
    for name, z in vectors.items():
        rows = sparse_rows(z) if isinstance(z, SparseFeatures) else z.numpy()
        scaler = StandardScaler(with_mean=isinstance(z, Tensor))  # less its mean, nothing of a sparse row is zero
        readers[name] = (make_pipeline(scaler, LogisticRegression(max_iter=300)), rows)
    readers[LARGEST_CLASS] = (DummyClassifier(), labels.unsqueeze(1).numpy())
    scores = {}
    for name, (model, rows) in readers.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 300 steps tell enough
            answer = model.fit(rows[train.numpy()], y_train).predict(rows[test.numpy()])
        macro = f1_score(y_test, answer, average="macro", zero_division=0)
        scores[name] = {"accuracy": float((answer == y_test).mean()), "macro_f1": float(macro)}
    return scores
