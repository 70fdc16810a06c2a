"""Splits of nodes and of edges that cannot leak, each with a certificate of what was checked.

Randomness comes from a CPU generator: a seed means the same split on every device.
"""

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from bandana.data.certificates import WHOLE_GRAPH, Certificate, LeakError, Pairs, certify, certify_nodes
from bandana.errors import UserError
from bandana.graph import Graph

__all__ = [
    "WHOLE_GRAPH",
    "Certificate",
    "EdgeSplit",
    "LeakError",
    "NodeSplit",
    "Pairs",
    "SplitConfig",
    "certify",
    "count_pairs",
    "official_edge_split",
    "sample_non_links",
    "split_edges",
    "split_nodes",
    "verify",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitConfig:
    """What is held out, anew for every seed."""

    valid_edges: float = 0.05
    test_edges: float = 0.10
    """Shares of the links. Zero for both holds out nothing, for a node task that chooses no weights by links."""
    nodes: tuple[float, float, float] = (0.1, 0.1, 0.8)
    """Training, validation and test share of the nodes, where the data set has no official split."""

    def __post_init__(self) -> None:
        for name in ("valid_edges", "test_edges"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: must lie in [0, 1), got {getattr(self, name)}")
        if not all(0 < share < 1 for share in self.nodes):
            raise ValueError(f"nodes: shares must lie in (0, 1), got {list(self.nodes)}")


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Node numbers of each part, ascending and without overlap. Building one of which that is not true raises."""

    train: Tensor
    valid: Tensor
    test: Tensor

    def __post_init__(self) -> None:
        certify_nodes(self.train, self.valid, self.test)

    @property
    def certificate(self) -> Certificate:
        """What was verified."""
        return certify_nodes(self.train, self.valid, self.test)


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
    sizes = [_share_of(total, ratio) for ratio in ratios]
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


def split_edges(
    graph: Graph, valid: float = 0.05, test: float = 0.10, *, seed: int, times: Tensor | None = None
) -> EdgeSplit:
    """Hold out links, each with one negative drawn from the pairs that are no link of the whole graph.

    Without times they are chosen at random. With times the latest are for testing and those before them for validation,
    so that what is predicted came after all that was seen.

    The two directions of an undirected link stay together, no negative occurs twice, and positives and negatives of
    an undirected graph are written with the same end first, so that a pair's orientation tells nothing.

    Args:
        graph: The whole graph.
        valid: Share of the links held out for validation, rounded down.
        test: Share of the links held out for testing, rounded down; zero for both holds out nothing.
        seed: The same seed gives the same split.
        times: ``[edges]`` when each edge appeared, in the structure's order; among equal times the seed chooses.

    Raises:
        UserError: The graph has too few links for these shares, or too few pairs that are not linked.
    """
    num_valid, num_test = _held_out_sizes(graph, valid, test)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(graph.links.numel(), generator=generator).to(graph.device)
    if times is not None:
        order = order[times[graph.links[order]].argsort(stable=True)][graph.links.numel() - num_valid - num_test :]
    held_out = graph.links[order[: num_valid + num_test]]
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
    links = Links(graph.structure.row[graph.links], graph.structure.col[graph.links])
    return draw_non_links(links, graph.num_nodes, graph.directed, count, generator)


class Links(NamedTuple):
    """Each link of a graph once, by ascending receiver and then sender; of an undirected one the larger end sends."""

    receiver: Tensor
    sender: Tensor


def draw_non_links(links: Links, num_nodes: int, directed: bool, count: int, generator: torch.Generator) -> Tensor:
    """What `sample_non_links` draws, for the links of a graph of which nothing else is known."""
    (receiver, sender), nodes = links, torch.arange(num_nodes, device=links.receiver.device)
    if directed:
        first = nodes * (num_nodes - 1)
        number = first[receiver] + sender - (sender > receiver).long()
    else:
        first = nodes * (2 * num_nodes - nodes - 1) // 2
        number = first[receiver] + sender - receiver - 1
    non_links = _count_pairs(num_nodes, directed) - number.numel()
    if non_links < count:
        raise UserError(
            f"Negatives: {count} are needed, but only {non_links} pairs of the {num_nodes} nodes are "
            f"not linked; hold out fewer links or use a sparser graph."
        )
    rank = _distinct_integers(non_links, count, generator).to(nodes.device)
    non_links_before = number - torch.arange(number.numel(), device=nodes.device)
    drawn = rank + torch.searchsorted(non_links_before, rank, right=True)
    receiver = torch.searchsorted(first, drawn, right=True) - 1
    sender = drawn - first[receiver]
    sender += (sender >= receiver).long() if directed else receiver + 1
    return torch.stack([sender, receiver])


def count_pairs(graph: Graph) -> int:
    """Pairs of different nodes: ordered ones if the graph is directed."""
    return _count_pairs(graph.num_nodes, graph.directed)


def _count_pairs(num_nodes: int, directed: bool) -> int:
    return math.perm(num_nodes, 2) // (1 if directed else 2)


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


def _share_of(total: int, share: float) -> int:
    """The share rounded down, as on paper: in floating point 0.29 of 100 falls just short of 29."""
    return math.floor(share * total * (1 + 1e-12))


def _held_out_sizes(graph: Graph, valid: float, test: float) -> tuple[int, int]:
    if valid == test == 0:
        return 0, 0
    if not (valid > 0 and test > 0 and valid + test < 1):
        raise UserError(
            f"split_edges: valid and test must be positive and below 1 together, or both zero, got {valid} and {test}."
        )
    num_links = graph.links.numel()
    num_valid, num_test = _share_of(num_links, valid), _share_of(num_links, test)
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
