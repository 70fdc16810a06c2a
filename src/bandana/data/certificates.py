"""What is known about a split of edges or of nodes: checks on its parts, and a digest of their content.

Two pairs of an undirected graph are the same link whichever end is named first, so every comparison here is made on
one integer key per link.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from bandana.engine.structure import entry_keys
from bandana.errors import UserError
from bandana.graph import Graph

WHOLE_GRAPH = "the parts together are the whole graph"
"""The one check that cannot be made again from the split alone."""


class LeakError(RuntimeError):
    """A split and its certificate disagree: a defect of the program, never the user's to mend."""


class Pairs(NamedTuple):
    """Node pairs to rank: ``[2, positives]`` held-out links and ``[2, negatives]`` others, as (sender, receiver)."""

    positive: Tensor
    negative: Tensor

    def to(self, device: torch.device | str) -> "Pairs":
        """The same pairs on another device."""
        return Pairs(self.positive.to(device), self.negative.to(device))


@dataclass(frozen=True)
class Certificate:
    """What was verified about a split.

    Attributes:
        digest: SHA-256 of who is linked to whom, or of who is, in which part; features, labels and edge weights are not
            in it.
        counts: Number of nodes, links or pairs in each part.
        checks: Names of the checks that passed, in the order in which they are made.
    """

    digest: str
    counts: Mapping[str, int]
    checks: tuple[str, ...]


def certify(train: Graph, valid: Pairs, test: Pairs, test_graph: Graph, whole: Graph | None = None) -> Certificate:
    """Find out what holds of the parts of an edge split.

    Raises:
        LeakError: A check fails although the parts are known to come from the graph `whole`.
        UserError: The parts do not name the same nodes.
    """
    if (train.num_nodes, train.directed) != (test_graph.num_nodes, test_graph.directed):
        raise UserError(
            f"Edge split: both message graphs must have the same nodes and direction, got {train.num_nodes} nodes with "
            f"directed={train.directed} and {test_graph.num_nodes} with directed={test_graph.directed}."
        )
    train_links = _link_keys(train)
    parts = _Parts(
        train_links=train_links,
        valid_positives=_pair_keys(valid.positive, train),
        valid_negatives=_pair_keys(valid.negative, train),
        test_positives=_pair_keys(test.positive, train),
        test_negatives=_pair_keys(test.negative, train),
        test_graph_links=train_links if test_graph is train else _link_keys(test_graph),
    )
    checks = {
        "both directions of a link are in the same graph": _is_two_way(train) and _is_two_way(test_graph),
        WHOLE_GRAPH: whole is not None and _make_up(parts, _link_keys(whole)),
        "no pair joins a node to itself": not any(_has_loops(pairs) for pairs in (*valid, *test)),
        **_overlap_checks(parts),
    }
    broken = [name for name, holds in checks.items() if not holds]
    if whole is not None and broken:
        raise LeakError(f"This is not true of a split that was drawn: {'; '.join(broken)}.")
    return Certificate(
        digest=_digest(parts, train),
        counts={"nodes": train.num_nodes} | {name: keys.numel() for name, keys in parts._asdict().items()},
        checks=tuple(name for name, holds in checks.items() if holds),
    )


def certify_nodes(train: Tensor, valid: Tensor, test: Tensor) -> Certificate:
    """Make sure that no node is in two parts of a node split.

    Raises:
        UserError: A part is out of order or repeats a node, or two parts share one.
    """
    parts = {"train": train, "valid": valid, "test": test}
    for name, nodes in parts.items():
        if nodes.numel() and (int(nodes.min()) < 0 or not _distinct(nodes) or bool((nodes.diff() < 0).any())):
            raise UserError(f"Node split: the {name} nodes must be numbers from 0 on, ascending, each of them once.")
    for first, second in combinations(parts, 2):
        shared = parts[first][_among(parts[first], parts[second])]
        if shared.numel():
            raise UserError(
                f"Node split: {shared.numel()} nodes are in {first} and in {second}, such as {int(shared[0])}; "
                "a node belongs to one part."
            )
    digest = hashlib.sha256()
    for name, nodes in parts.items():
        digest.update(f"\n{name} {nodes.numel()}\n".encode())
        digest.update(nodes.cpu().numpy().astype("<i8").tobytes())
    return Certificate(
        digest=digest.hexdigest(),
        counts={name: nodes.numel() for name, nodes in parts.items()},
        checks=("no part names a node twice", "no node is in two parts"),
    )


class _Parts(NamedTuple):
    """Who is linked to whom, as one ascending key per link or pair."""

    train_links: Tensor
    valid_positives: Tensor
    valid_negatives: Tensor
    test_positives: Tensor
    test_negatives: Tensor
    test_graph_links: Tensor


def _overlap_checks(parts: _Parts) -> dict[str, bool]:
    train, valid, valid_negatives, test, test_negatives, test_graph = parts
    added = test_graph[:0] if test_graph is train else test_graph[~_among(test_graph, train)]
    return {
        "no link is held out twice": _distinct(valid, test),
        "no validation link is in the training graph": not _meet(valid, train),
        "no test link is in the training graph": not _meet(test, train),
        "no test link is in the test graph": not _meet(test, test_graph),
        "the test graph adds at most validation links": bool(_among(added, valid).all()),
        "no negative is a link of any part": not any(
            _meet(negatives, links)
            for negatives in (valid_negatives, test_negatives)
            for links in (train, valid, test, test_graph)
        ),
        "no negative repeats within validation or test": _distinct(valid_negatives) and _distinct(test_negatives),
        "validation and test share no negative": not _meet(valid_negatives, test_negatives),
    }


def _among(keys: Tensor, ascending: Tensor) -> Tensor:
    return torch.searchsorted(ascending, keys, right=True) > torch.searchsorted(ascending, keys)


def _meet(keys: Tensor, ascending: Tensor) -> bool:
    return bool(_among(keys, ascending).any())


def _distinct(*keys: Tensor) -> bool:
    return bool((torch.cat(keys).sort().values.diff() > 0).all())


def _make_up(parts: _Parts, links: Tensor) -> bool:
    together = torch.cat([parts.train_links, parts.valid_positives, parts.test_positives])
    return torch.equal(together.sort().values, links)


def _has_loops(pairs: Tensor) -> bool:
    return bool((pairs[0] == pairs[1]).any())


def _is_two_way(graph: Graph) -> bool:
    pattern = graph.structure
    same_degrees = torch.equal(pattern.rowptr, pattern.transposed_rowptr)
    return graph.directed or (same_degrees and torch.equal(pattern.col, pattern.transposed_col))


def _link_keys(graph: Graph) -> Tensor:
    if not _is_two_way(graph):
        return _pair_keys(graph.edge_index, graph)
    receiver, sender = graph.structure.row, graph.structure.col
    keys = entry_keys(receiver, sender, graph.num_nodes)
    return keys if graph.directed else keys[receiver < sender]


def _pair_keys(pairs: Tensor, graph: Graph) -> Tensor:
    """Ascending keys of ``[2, pairs]``; in an undirected graph it does not matter which end comes first."""
    if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < graph.num_nodes:
        raise UserError(
            f"Edge split: nodes are numbered 0 to {graph.num_nodes - 1}, but pairs name {int(pairs.min())} to "
            f"{int(pairs.max())}; check that pairs and graph come from the same data."
        )
    sender, receiver = pairs.to(graph.device, torch.long)
    if not graph.directed:
        sender, receiver = torch.maximum(sender, receiver), torch.minimum(sender, receiver)
    return entry_keys(receiver, sender, graph.num_nodes).sort().values


def _digest(parts: _Parts, graph: Graph) -> str:
    digest = hashlib.sha256(f"{graph.num_nodes} nodes, directed={graph.directed}".encode())
    for name, keys in parts._asdict().items():
        digest.update(f"\n{name} {keys.numel()}\n".encode())
        digest.update(keys.cpu().numpy().astype("<i8").tobytes())
    return digest.hexdigest()
