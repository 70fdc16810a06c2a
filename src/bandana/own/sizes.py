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


SIZES = (
    Size(10_000, layers=2, width=128, decoder_width=64, batch_links=0, steps=400, lr=0.01, weight_decay=5e-5),
    Size(50_000, layers=2, width=128, decoder_width=64, batch_links=0, steps=240, lr=0.01, weight_decay=5e-5),
    Size(300_000, layers=3, width=128, decoder_width=64, batch_links=16_384, steps=400, lr=0.01, weight_decay=2e-4),
    Size(3_000_000, layers=3, width=64, decoder_width=32, batch_links=32_768, steps=300, lr=0.02, weight_decay=2e-4),
    Size(math.inf, layers=3, width=64, decoder_width=32, batch_links=131_072, steps=120, lr=0.02, weight_decay=2e-4),
)
"""Chosen by validation links of Cora, CiteSeer, PubMed, CS, Photo and Computers, with and without their features, and
so that a million links take a few minutes on two cores (benchmarks/estimate.py). Below 50,000 links a third layer gains
nothing where there are features. Above, it is worth up to a point of AUC, most where nodes have many neighbours, and
many steps over few links go further in the same time than few steps over many."""
