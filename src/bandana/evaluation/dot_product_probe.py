"""Dot-product probing: how well bare embeddings tell links from non-links, with nothing learned on top."""

import torch
from torch import Tensor

from bandana.data.splits import Pairs
from bandana.evaluation.metrics import exact_auc, logit_metrics

CHUNK = 4096
"""Pairs whose rows a CPU gathers at a time. Few enough that it reuses the same memory: larger chunks take twice as
long, smaller ones are not faster."""
GPU_CHUNK = 1 << 20


@torch.no_grad()
def pair_scores(z: Tensor, pairs: Tensor, chunk: int | None = None) -> Tensor:
    """Dot products of the embeddings of pairs of nodes.

    Args:
        z: ``[nodes, width]`` embeddings.
        pairs: ``[2, P]`` node numbers.
        chunk: Pairs gathered at a time, so that memory is ``P + chunk · width``.

    Returns:
        ``[P]`` scores in the type of `z`.
    """
    chunk = chunk or (CHUNK if z.device.type == "cpu" else GPU_CHUNK)
    scores = z.new_empty(pairs.shape[1])
    for start in range(0, pairs.shape[1], chunk):
        left, right = pairs[:, start : start + chunk]
        scores[start : start + chunk] = (z[left] * z[right]).sum(1)
    return scores


def dot_product_probe(z: Tensor, pairs: Pairs) -> dict[str, float]:
    """Rank held-out links against non-links by the dot product of their ends.

    The raw products are ranked. The values after a float32 sigmoid stand beside them as ``auc_sigmoid32`` and
    ``ap_sigmoid32``, with the share of pairs it ties: `logit_metrics` says why they differ.

    Args:
        z: ``[nodes, width]`` embeddings, taken on the training graph.
        pairs: Held-out links and non-links.
    """
    return logit_metrics(pair_scores(z, pairs.positive), pair_scores(z, pairs.negative))


def dot_product_auc(z: Tensor, pairs: Pairs, *, as_published: bool = False) -> Tensor:
    """The AUC of `dot_product_probe` alone, left on the device; `as_published` ranks float32 sigmoids."""
    positive, negative = pair_scores(z, pairs.positive), pair_scores(z, pairs.negative)
    if as_published:
        positive, negative = positive.float().sigmoid(), negative.float().sigmoid()
    return exact_auc(positive, negative)
