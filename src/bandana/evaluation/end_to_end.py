"""End-to-end link prediction: the ranking by a method's own decoder."""

from collections.abc import Callable

import torch
from torch import Tensor

from bandana.data.splits import Pairs
from bandana.evaluation.metrics import logit_metrics


@torch.no_grad()
def end_to_end(score_edges: Callable[[Tensor], Tensor], pairs: Pairs) -> dict[str, float]:
    """Rank held-out links against non-links by decoder logits; the same metrics as for dot-product probing.

    Args:
        score_edges: Gives ``[P]`` logits for ``[2, P]`` nodes. It is called once for all pairs, because a decoder may
            have to encode the whole graph for each call.
        pairs: Held-out links and non-links.
    """
    num_positive, num_negative = pairs.positive.shape[1], pairs.negative.shape[1]
    scores = score_edges(torch.cat([pairs.positive, pairs.negative], dim=1))
    if scores.shape != (num_positive + num_negative,):
        raise ValueError(f"score_edges: must give [{num_positive + num_negative}] logits, got {tuple(scores.shape)}")
    return logit_metrics(scores[:num_positive], scores[num_positive:])
