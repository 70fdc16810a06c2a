"""Other splits of nodes, made from an official one whose test nodes have been looked at often."""

import torch
from torch import Tensor

from bandana.data.splits import NodeSplit
from bandana.errors import UserError


def redrawn(split: NodeSplit, labels: Tensor, *, seed: int) -> NodeSplit:
    """The same test nodes, and the others dealt anew, as many of each class to the training part as before.

    An official split with a few labelled nodes says as much about these nodes as about an embedding. Several such
    splits say more about it, and test nodes stay out of reach.
    """
    pool = torch.cat([split.train, split.valid])
    pool = pool[torch.randperm(pool.numel(), generator=torch.Generator().manual_seed(seed)).to(pool.device)]
    dealt = labels.to(pool.device)[pool]
    wanted = labels.to(pool.device)[split.train].bincount(minlength=int(dealt.max()) + 1)
    for_training = torch.cat([(dealt == label).nonzero().squeeze(1)[:count] for label, count in enumerate(wanted)])
    rest = torch.ones_like(pool, dtype=torch.bool).index_fill_(0, for_training, False)
    return NodeSplit(pool[for_training].sort().values, pool[rest].sort().values, split.test)


def left_out(split: NodeSplit, labels: Tensor) -> NodeSplit:
    """The same training and validation nodes, and for testing the labelled nodes that are in no part of the split.

    Whatever was chosen by the test nodes of an official split was not chosen by these.

    Raises:
        UserError: There are none.
    """
    nodes = labels >= 0
    nodes[torch.cat([split.train, split.valid, split.test]).to(labels.device)] = False
    if not bool(nodes.any()):
        raise UserError("left_out: every labelled node is in a part of the split, so there is none to score instead.")
    return NodeSplit(split.train, split.valid, nodes.nonzero().squeeze(1).to(split.test.device))


def widened(split: NodeSplit, labels: Tensor) -> NodeSplit:
    """The same training and test nodes, and all other labelled nodes for validation."""
    return NodeSplit(split.train, torch.cat([split.valid, left_out(split, labels).test]).sort().values, split.test)
