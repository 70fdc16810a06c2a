"""Splits of nodes and of edges that cannot leak, each edge split with a certificate of what was checked.

Two pairs of an undirected graph are the same link whichever end is named first, so every comparison here is made on
one integer key per link. Randomness comes from a CPU generator: a seed means the same split on every device.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
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


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Node numbers of each part, ascending and without overlap."""

    train: Tensor
    valid: Tensor
    test: Tensor


@dataclass(frozen=True)
class Certificate:
    """What was verified about an edge split.

    Attributes:
        digest: SHA-256 of who is linked to whom in which part; features, labels and edge weights are not in it.
        counts: Number of nodes, and of links or pairs in each part.
        checks: Names of the checks that passed, in the order in which they are made.
    """

    digest: str
    counts: Mapping[str, int]
    checks: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class EdgeSplit:
    """A graph to learn from and held-out links to predict. Building one with a certificate that is not true raises.

    Attributes:
        train: What training and validation pass messages over.
        valid: Pairs to choose a model by.
        test: Pairs to report.
        test_graph: What is passed over when test pairs are scored: `train` itself, unless official rules allow more.
        certificate: What was verified.
    """

    train: Graph
    valid: Pairs
    test: Pairs
    test_graph: Graph
    certificate: Certificate

    def __post_init__(self) -> None:
        verify(self)

    def to(self, device: torch.device | str) -> "EdgeSplit":
        """The same split on another device, verified on arrival."""
        train = self.train.to(device)
        return EdgeSplit(
            train=train,
            valid=self.valid.to(device),
            test=self.test.to(device),
            test_graph=train if self.test_graph is self.train else self.test_graph.to(device),
            certificate=self.certificate,
        )


def split_nodes(nodes: int | Tensor, ratios: tuple[float, float, float] = (0.1, 0.1, 0.8), *, seed: int) -> NodeSplit:
    """Draw training, validation and test nodes at random, without regard to their classes.

    Training and validation take their share rounded down; the test part takes the rest when the shares add up to 1.

    Args:
        nodes: Number of nodes, or ``[nodes]`` labels, of which negative ones mean unlabelled and are in no part.
        ratios: Shares of the training, validation and test part; they may leave nodes out.
        seed: The same seed gives the same split.

    Raises:
        UserError: A part would be empty, or the shares are not positive or exceed 1.
    """
    labelled = torch.arange(nodes) if isinstance(nodes, int) else (nodes >= 0).nonzero().squeeze(1)
    total, asked = labelled.numel(), math.fsum(ratios)
    if not (all(ratio > 0 for ratio in ratios) and asked <= 1 + 1e-9):
        raise UserError(f"split_nodes: ratios must be positive and add up to at most 1, got {ratios}.")
    sizes = [int(ratio * total) for ratio in ratios]
    if asked >= 1 - 1e-9:
        sizes[2] = total - sizes[0] - sizes[1]
    if min(sizes) < 1:
        raise UserError(
            f"split_nodes: ratios {ratios} of {total} labelled nodes give parts of {sizes}, but each needs a node; "
            f"raise the ratio of the empty part."
        )
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed)).to(labelled.device)
    ends = list(accumulate(sizes, initial=0))
    return NodeSplit(*(labelled[order[start:end]].sort().values for start, end in pairwise(ends)))


def split_edges(graph: Graph, valid: float = 0.05, test: float = 0.10, *, seed: int) -> EdgeSplit:
    """Hold out links at random, each with one negative drawn from the pairs that are no link of the whole graph.

    The two directions of an undirected link stay together, no negative occurs twice, and positives and negatives of
    an undirected graph are written with the same end first, so that a pair's orientation tells nothing.

    Args:
        graph: The whole graph.
        valid: Share of the links held out for validation, rounded down.
        test: Share of the links held out for testing, rounded down.
        seed: The same seed gives the same split.

    Raises:
        UserError: The graph has too few links for these shares, or too few pairs that are not linked.
    """
    num_valid, num_test = _held_out_sizes(graph, valid, test)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(graph.links.numel(), generator=generator)[: num_valid + num_test]
    held_out = graph.links[order.to(graph.device)]
    positive = torch.stack([graph.structure.col[held_out], graph.structure.row[held_out]])
    negative = sample_non_links(graph, num_valid + num_test, generator)
    valid_pairs = Pairs(positive[:, :num_valid], negative[:, :num_valid])
    test_pairs = Pairs(positive[:, num_valid:], negative[:, num_valid:])
    train = _without(graph, held_out)
    certificate = certify(train, valid_pairs, test_pairs, train, whole=graph)
    return EdgeSplit(train=train, valid=valid_pairs, test=test_pairs, test_graph=train, certificate=certificate)


def official_edge_split(train: Graph, valid: Pairs, test: Pairs, test_graph: Graph | None = None) -> EdgeSplit:
    """Certify a split that others published, as it is: what does not hold of it is missing from the certificate.

    Args:
        train: Message graph of training and validation.
        valid: Validation pairs.
        test: Test pairs.
        test_graph: Message graph for test pairs, where the rules allow one with more edges.

    Raises:
        UserError: A pair names a node that the graph does not have.
    """
    test_graph = train if test_graph is None else test_graph
    certificate = certify(train, valid, test, test_graph)
    return EdgeSplit(train=train, valid=valid, test=test, test_graph=test_graph, certificate=certificate)


def sample_non_links(graph: Graph, count: int, generator: torch.Generator) -> Tensor:
    """Draw distinct pairs of different nodes that are not linked, every set of them equally likely.

    All pairs are numbered by receiver, then sender. The non-link of rank r has the number r plus the count of links
    before it, which binary search finds: nothing is listed and nothing is drawn in vain, however dense the graph.

    Args:
        graph: Its links are avoided. If undirected, pairs are written as its `links` are, larger node first.
        count: How many pairs.
        generator: On the CPU.

    Returns:
        ``[2, count]`` (sender, receiver) on the graph's device, in random order.

    Raises:
        UserError: The graph has fewer such pairs.
    """
    receiver, sender = graph.structure.row[graph.links], graph.structure.col[graph.links]
    nodes = torch.arange(graph.num_nodes, device=graph.device)
    if graph.directed:
        first = nodes * (graph.num_nodes - 1)
        number = first[receiver] + sender - (sender > receiver).long()
    else:
        first = nodes * (2 * graph.num_nodes - nodes - 1) // 2
        number = first[receiver] + sender - receiver - 1
    non_links = math.perm(graph.num_nodes, 2) // (1 if graph.directed else 2) - number.numel()
    if non_links < count:
        raise UserError(
            f"Negatives: {count} are needed, but only {non_links} pairs of the {graph.num_nodes} nodes are "
            f"not linked; hold out fewer links or use a sparser graph."
        )
    rank = _distinct_integers(non_links, count, generator).to(graph.device)
    non_links_before = number - torch.arange(number.numel(), device=graph.device)
    drawn = rank + torch.searchsorted(non_links_before, rank, right=True)
    receiver = torch.searchsorted(first, drawn, right=True) - 1
    sender = drawn - first[receiver]
    sender += (sender >= receiver).long() if graph.directed else receiver + 1
    return torch.stack([sender, receiver])


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


def verify(split: EdgeSplit, whole: Graph | None = None) -> None:
    """Make every check again; with the `whole` graph also that the parts add up to it.

    Raises:
        LeakError: The certificate claims something that is not so, or was made for other content.
    """
    claimed, found = split.certificate, certify(split.train, split.valid, split.test, split.test_graph, whole)
    untrue = [name for name in claimed.checks if name not in {*found.checks, WHOLE_GRAPH}]
    if untrue:
        raise LeakError(f"This is not true of a split that was certified for it: {'; '.join(untrue)}.")
    if (found.digest, found.counts) != (claimed.digest, claimed.counts):
        raise LeakError(f"This is not the split that was certified: {claimed.digest} has become {found.digest}.")


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


def _held_out_sizes(graph: Graph, valid: float, test: float) -> tuple[int, int]:
    if not (valid > 0 and test > 0 and valid + test < 1):
        raise UserError(f"split_edges: valid and test must be positive and below 1 together, got {valid} and {test}.")
    num_links = graph.links.numel()
    num_valid, num_test = int(valid * num_links), int(test * num_links)
    if num_valid < 1 or num_test < 1:
        raise UserError(
            f"split_edges: valid={valid} and test={test} of {num_links} links hold out {num_valid} and {num_test}, but "
            f"each needs one; raise the shares or use a graph of at least {math.ceil(1 / min(valid, test))} links."
        )
    return num_valid, num_test


def _without(graph: Graph, links: Tensor) -> Graph:
    keep = torch.ones(graph.num_edges, dtype=torch.bool, device=graph.device)
    keep[links] = False
    if not graph.directed:
        keep[graph.structure.transposed_entry[links]] = False
    return graph.keep_edges(keep.nonzero().squeeze(1))


def _distinct_integers(below: int, count: int, generator: torch.Generator) -> Tensor:
    if below <= 4 * count:
        return torch.randperm(below, generator=generator)[:count]
    drawn = torch.empty(0, dtype=torch.long)
    while drawn.numel() < count:
        drawn = torch.cat([drawn, torch.randint(below, (count,), generator=generator)]).unique()
    return drawn[torch.randperm(drawn.numel(), generator=generator)[:count]]
