"""The mean of all bandwidths is n / 2|E| (equation of appendix A.2), and where it is not.

Bandwidths sum to one over the neighbours of each node, so their mean over all directed edges is the number of nodes
*that have neighbours* over the number of directed edges: no statistics, an identity. Definition 1 of the paper lets the
node itself take part in the softmax; then its neighbours share less than one, and the identity fails.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from bandana.data.datasets import load
from bandana.graph import Graph
from bandana.method import Clock
from bandana.paper.artifact import Artifact, Claim, Piece, Result, Scope
from bandana.paper.pieces import chosen
from bandana.paper.work import work
from bandana.parts.masks import MaskConfig, draw_mask

DATASETS = ("karate", "swiss_roll", "cora", "citeseer", "pubmed", "photo", "computers")
QUICK_DATASETS = ("karate", "swiss_roll", "digits")
HELD_OUT = 0.15
"""Share of the links that training does not see, as in the paper; it leaves some nodes without neighbours."""
DRAWS = 20
ROUNDING = 1e-5
"""Relative, of sums in single precision."""
SMALL = 0.1
"""What "much smaller" is taken to mean: a factor of ten."""


def measured_mean(graph: Graph, mask: MaskConfig, seed: int, draws: int) -> float:
    """Mean bandwidth over all edges and some draws."""
    drawn = (draw_mask(mask, graph, Clock(seed, step=step), 0).values.double().mean() for step in range(draws))
    return float(sum(drawn, torch.zeros((), dtype=torch.float64))) / draws


def nodes_over_edges(graph: Graph) -> float:
    """The n / 2|E| of the paper: all nodes over directed edges."""
    return graph.num_nodes / graph.num_edges


def inside_expectation(graph: Graph) -> float:
    """Expected mean if a node takes part in its own softmax: of deg + 1 equal chances, deg go to neighbours."""
    degree = graph.structure.row_sizes.double()
    return float((degree / (degree + 1)).sum()) / graph.num_edges


def without(graph: Graph, share: float, seed: int) -> Graph:
    """The graph less a random share of its links."""
    order = graph.links[torch.randperm(graph.links.numel(), generator=torch.Generator().manual_seed(seed))]
    kept = order[int(share * order.numel()) :]
    both = kept if graph.directed else torch.cat([kept, graph.structure.transposed_entry[kept]])
    return graph.keep_edges(both)


@work("check-noise-mean")
def measure(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """The mean on the whole graph and on what training sees, with the node's own share outside and inside."""
    whole = load(arguments["dataset"], data_root).graph
    seed, values = arguments["seed"], {}
    for name, graph in (("whole", whole), ("training", without(whole, HELD_OUT, seed))):
        alone = int((graph.structure.row_sizes == 0).sum())
        values[name] = {
            "n/2E": nodes_over_edges(graph),
            "linked/2E": (graph.num_nodes - alone) / graph.num_edges,
            "measured": measured_mean(graph, MaskConfig(), seed, DRAWS),
            "inside, measured": measured_mean(graph, MaskConfig(self_loop="inside"), seed, DRAWS),
            "inside, expected": inside_expectation(graph),
            "alone": alone,
        }
    return values


def pieces(scope: Scope) -> list[Piece]:
    """Every data set once."""
    names = QUICK_DATASETS if scope.quick else DATASETS
    return [Piece("check-noise-mean", {"dataset": name, "seed": 0}) for name in chosen(names, scope.datasets)]


def show(results: Sequence[tuple[Piece, Result]]) -> list[Claim]:
    """The identity, its condition, the definition's own softmax, and whether the mean is small."""
    found = {piece.arguments["dataset"]: result.values for piece, result in results if result.values}
    graphs = {f"{dataset}, {part}": one for dataset, values in found.items() for part, one in values.items()}
    if not graphs:
        return [Claim(statement=STATEMENTS[0], measured={}, holds=None, explanation="No data set could be read.")]
    linked = {name: one for name, one in graphs.items() if not one["alone"]}
    lonely = {name: one for name, one in graphs.items() if one["alone"]}
    return [
        Claim(
            statement=STATEMENTS[0],
            measured={name: one["measured"] / one["n/2E"] for name, one in linked.items()},
            holds=all(_close(one["measured"], one["n/2E"]) for one in linked.values()) if linked else None,
            explanation=f"Mean of {DRAWS} draws over n/2|E|, where every node has a neighbour. It is 1 in every draw: "
            "each node's shares sum to one.",
        ),
        Claim(
            statement=STATEMENTS[1],
            measured={name: one["measured"] / one["n/2E"] for name, one in lonely.items()},
            holds=all(_close(one["measured"], one["n/2E"]) for one in lonely.values()) if lonely else None,
            explanation="Nodes without neighbours have no shares to sum, and training graphs have such nodes: the mean "
            f"is smaller, as appendix A.4 of the paper remarks: {_exactly(graphs)}.",
            beyond=True,
        ),
        Claim(
            statement=STATEMENTS[2],
            measured={name: one["inside, measured"] / one["n/2E"] for name, one in linked.items()},
            holds=all(_close(one["inside, measured"], one["n/2E"]) for one in linked.values()) if linked else None,
            explanation="With the node itself in the softmax its neighbours expect deg/(deg + 1) together. The ratios "
            "of the paper's own table are those of the softmax over neighbours alone, which is what we train with.",
        ),
        Claim(
            statement=STATEMENTS[3],
            measured={name: one["measured"] for name, one in graphs.items()},
            holds=all(one["measured"] <= SMALL for one in graphs.values()),
            explanation=f"Proposition 1 drops the terms in the mean because n is much smaller than 2|E|; a mean of at "
            f"most {SMALL:g} is taken for that here. On sparse graphs it is not small.",
        ),
    ]


def _exactly(graphs: Mapping[str, Mapping[str, float]]) -> str:
    """Whether counting only nodes that have neighbours mends the formula everywhere."""
    mended = sum(_close(one["measured"], one["linked/2E"]) for one in graphs.values())
    return f"counting only nodes that have neighbours, the formula is right on {mended} of {len(graphs)} graphs"


def _close(measured: float, expected: float) -> bool:
    return abs(measured - expected) <= ROUNDING * expected


STATEMENTS = (
    "The mean bandwidth over all directed edges is n/2|E| where every node has a neighbour.",
    "The mean bandwidth is n/2|E| also where some nodes have no neighbour.",
    "The mean bandwidth is n/2|E| also with the softmax of Definition 1, which the node itself takes part in.",
    "The mean bandwidth is small on the graphs looked at, n being much smaller than 2|E|.",
)

ARTIFACT = Artifact(
    name="theory-noise-mean",
    kind="check",
    title="Mean of the bandwidths (appendix A.2)",
    printed="App. A.2",
    pieces=pieces,
    show=show,
)
