"""How well vectors rank held-out links, against easy and hard negatives, beside what needs no learning."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bandana.data.splits import EdgeSplit
from bandana.engine.streams import generator
from bandana.evaluation.dot_product_probe import pair_scores
from bandana.evaluation.graph_facts import is_bipartite
from bandana.evaluation.hard_negatives import NegativeLists, negative_lists
from bandana.evaluation.metrics import auc, average_precision, ranks
from bandana.evaluation.samples import sample
from bandana.evaluation.shared_neighbours import neighbour_counts, shared_neighbours
from bandana.evaluation.sparse_vectors import sparse_pair_scores
from bandana.graph import Features, Graph, SparseFeatures

VECTORS = "these vectors"
DECODER = "the method's decoder"
RANDOM = "random vectors"
SHARED = "shared neighbours"
ADAMIC_ADAR = "Adamic-Adar"
ALLOCATION = "resource allocation"
POPULARITY = "popularity of the ends"
COUNTED = (SHARED, ADAMIC_ADAR, ALLOCATION, POPULARITY)
"""Floors that read the graph and learn nothing."""

PAIRS_RANKED = 50_000
LINKS_WITH_LISTS = 2_000
LIST_LENGTH = 100
KS = (1, 10)
RANDOM_WIDTH = 32

Ranker = Callable[[Tensor], Tensor]
"""From ``[2, P]`` pairs to ``[P]`` scores."""


@dataclass(frozen=True, kw_only=True)
class LinkQuality:
    """Rankings of held-out links by everything that was compared.

    Attributes:
        easy: For each ranker auc and ap over the split's own pairs, one random non-link for each link, and mrr, hits@1
            and hits@10 of each link within its own list of random negatives.
        hard: The same against negatives that are near. There auc and ap are taken over all lists, with the negatives
            weighted down to as many as there are links, so that ap can be compared with the easy one.
        num_links: Links that the easy auc and ap are taken over.
        num_lists: Links with lists.
        list_length: Negatives in each list.
        steps: Distance of the hard negatives: 2, or 3 if the graph is bipartite; two more where there are too few.
        near: Share of the hard negatives at the smaller distance.
        far: Share of them for which even the larger one had no node left; they are random.
        notes: What was sampled.
    """

    easy: Mapping[str, Mapping[str, float]]
    hard: Mapping[str, Mapping[str, float]]
    num_links: int
    num_lists: int
    list_length: int
    steps: int
    near: float
    far: float
    notes: tuple[str, ...]


class Trial(NamedTuple):
    """What every ranker is asked to order: links, single negatives, and lists of negatives for some of the links."""

    positive: Tensor
    negative: Tensor
    listed: Tensor
    easy: Tensor
    hard: Tensor


def link_quality(
    split: EdgeSplit,
    z: Tensor,
    *,
    floors: Mapping[str, Features] | None = None,
    decoder: Ranker | None = None,
    seed: int = 0,
) -> LinkQuality:
    """Rank the test links of a split by dot products of vectors and by all floors.

    Args:
        split: On the CPU.
        z: ``[nodes, width]`` vectors taken on the split's `test_graph`, which does not hold the test links.
        floors: Other vectors of the same nodes by name, such as those of an untrained encoder on the same graph;
            sparse ones are never laid out.
        decoder: The method's own score for ``[2, P]`` pairs, if it has one.
        seed: Of samples, negatives and random vectors.
    """
    steps = 3 if is_bipartite(split.test_graph) else 2
    trial, hard = _trial(split, steps, seed)
    rankers: dict[str, Ranker] = {VECTORS: _by_dot_product(z)}
    if decoder is not None:
        rankers[DECODER] = decoder
    rankers |= {name: _by_dot_product(other) for name, other in (floors or {}).items()}
    rankers[RANDOM] = _by_dot_product(_random_vectors(z.shape[0], seed))
    pairs = _flat(trial)
    scored = {name: _arranged(trial, ranker(pairs)) for name, ranker in rankers.items()}
    scored |= _counted(split.test_graph, trial)
    num_links, num_lists = trial.positive.shape[1], trial.listed.shape[1]
    return LinkQuality(
        easy={name: _easy(scores) for name, scores in scored.items()},
        hard={name: _hard(scores) for name, scores in scored.items()},
        num_links=num_links,
        num_lists=num_lists,
        list_length=trial.easy.shape[2],
        steps=steps,
        near=hard.near,
        far=hard.far,
        notes=_notes(split.test.positive.shape[1], num_links, num_lists),
    )


def _trial(split: EdgeSplit, steps: int, seed: int) -> tuple[Trial, NegativeLists]:
    positive, negative = split.test
    listed = positive[:, sample(positive.shape[1], LINKS_WITH_LISTS, seed)]
    easy = negative_lists(split, listed, LIST_LENGTH, steps=0, seed=seed)
    hard = negative_lists(split, listed, LIST_LENGTH, steps=steps, seed=seed)
    ranked = positive[:, sample(positive.shape[1], PAIRS_RANKED, seed)]
    single = negative[:, sample(negative.shape[1], PAIRS_RANKED, seed)]
    return Trial(ranked, single, listed, easy.pairs, hard.pairs), hard


def _by_dot_product(z: Features) -> Ranker:
    if isinstance(z, SparseFeatures):
        return lambda pairs: sparse_pair_scores(z, pairs)
    return lambda pairs: pair_scores(z, pairs)


def _random_vectors(num_nodes: int, seed: int) -> Tensor:
    source = generator(torch.device("cpu"), seed, num_nodes)
    return torch.randn(num_nodes, RANDOM_WIDTH, generator=source, dtype=torch.float32)


def _flat(trial: Trial) -> Tensor:
    """``[2, P]`` all pairs of a trial in a row."""
    return torch.cat([pairs.flatten(1) for pairs in trial], dim=1)


def _arranged(trial: Trial, scores: Tensor) -> Trial:
    """The trial with a score in place of each pair, from the scores of `_flat`."""
    parts = scores.detach().cpu().split([pairs[0].numel() for pairs in trial])
    return Trial(*(part.view(pairs.shape[1:]) for part, pairs in zip(parts, trial, strict=True)))


def _counted(graph: Graph, trial: Trial) -> dict[str, Trial]:
    """The floors that only count."""
    pairs, degree = _flat(trial), neighbour_counts(graph).double()
    shared = shared_neighbours(graph, pairs)
    scores = (*shared, degree[pairs[0]] * degree[pairs[1]])
    return {name: _arranged(trial, score) for name, score in zip(COUNTED, scores, strict=True)}


def _easy(scores: Trial) -> dict[str, float]:
    return {
        "auc": auc(scores.positive, scores.negative),
        "ap": average_precision(scores.positive, scores.negative),
        **list_metrics(scores.listed, scores.easy),
    }


def _hard(scores: Trial) -> dict[str, float]:
    return {
        "auc": auc(scores.listed, scores.hard.flatten()),
        "ap": balanced_average_precision(scores.listed, scores.hard.flatten()),
        **list_metrics(scores.listed, scores.hard),
    }


def list_metrics(positive: Tensor, negative: Tensor) -> dict[str, float]:
    """Give mrr and hits@K of ``[P]`` links, each ranked within its own list of ``[P, Q]`` negatives.

    A tie counts half: a score that tells nothing apart lands in the middle of every list.
    """
    rank = ranks(positive, negative)
    hits = {f"hits@{k}": float((rank <= k).double().mean()) for k in KS}
    return {"mrr": float(rank.reciprocal().mean()), **hits}


def balanced_average_precision(positive: Tensor, negative: Tensor) -> float:
    """Average precision with the negatives weighted to be as many as the positives, whatever their number."""
    from sklearn.metrics import average_precision_score

    truth = np.concatenate([np.ones(positive.numel()), np.zeros(negative.numel())])
    weight = np.where(truth == 1, 1.0, positive.numel() / max(negative.numel(), 1))
    scores = torch.cat([positive, negative]).double().numpy()
    return float(average_precision_score(truth, scores, sample_weight=weight))


def _notes(held_out: int, num_links: int, num_lists: int) -> tuple[str, ...]:
    notes = []
    if num_links < held_out:
        notes.append(f"AUC and AP were taken over {num_links:,} of {held_out:,} held-out links, chosen at random.")
    if num_lists < held_out:
        notes.append(f"MRR and Hits were taken over {num_lists:,} of {held_out:,} held-out links, chosen at random.")
    return tuple(notes)
