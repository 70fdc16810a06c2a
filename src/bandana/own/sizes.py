"""How large a model a graph gets, and how long a training, by its number of links."""

import math
from typing import NamedTuple


class Size(NamedTuple):
    """What a graph of up to so many links gets."""

    up_to_links: float
    layers: int
    width: int
    """Of each layer."""
    decoder_width: int
    batch_links: int
    """Links whose loss a step takes, each step with a pass over the whole graph; 0 takes them all."""
    steps: int
    lr: float
    weight_decay: float
    sparse_dropout: float
    """Of the nodes' features and the hidden layers, where most features of a node are zero."""


_SMALL = Size(
    up_to_links=10_000,
    layers=2,
    width=128,
    decoder_width=64,
    batch_links=0,
    steps=400,
    lr=0.01,
    weight_decay=5e-5,
    sparse_dropout=0.8,
)
_MIDDLE = _SMALL._replace(up_to_links=300_000, layers=3, batch_links=16_384, weight_decay=2e-4, sparse_dropout=0.65)
_LARGE = _MIDDLE._replace(up_to_links=3_000_000, width=64, decoder_width=32, batch_links=32_768, steps=300, lr=0.02)
SIZES = (
    _SMALL,
    _SMALL._replace(up_to_links=50_000, steps=240),
    _MIDDLE,
    _LARGE,
    _LARGE._replace(up_to_links=math.inf, batch_links=131_072, steps=120),
)
"""Chosen by validation links of Cora, CiteSeer, PubMed, CS, Photo and Computers, with and without their features, and
so that a million links take a few minutes on two cores (benchmarks/estimate.py). Below 50,000 links a third layer gains
nothing where there are features. Above, it is worth up to a point of AUC, most where nodes have many neighbours, and
many steps over few links go further in the same time than few steps over many. Dropping less of sparse features there
is worth a point on CS and, which is why it holds for all, on Physics."""
