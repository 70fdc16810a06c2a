"""A connected component before and after discrete and bandwidth masking (Figure 1c of the paper).

Both masks let the same share of the messages pass on average. The paper does not say which component of Cora it draws:
here, the second largest is drawn, whose 26 nodes can be told apart, and the largest is counted.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from bandana.data.datasets import load
from bandana.graph import Graph
from bandana.method import Clock
from bandana.paper.artifact import ORIGINS, Artifact, Picture, Piece, Result, Scope
from bandana.paper.sentences import failure_notes
from bandana.paper.work import work
from bandana.parts.edge_masks import hide_links_by_count
from bandana.parts.masks import MaskConfig, draw_mask, mean_bandwidth
from bandana.reporting.drawing import COLOURS, bare, blank, draw, layout, plot_halves, plot_nodes

DRAWS = 50
NARROW = 0.01
"""A bandwidth below this in both directions is as good as no edge to a sceptic."""
DRAWN_AT_MOST = 100
COLUMNS = ("component_nodes", "sender", "receiver", "kept_by_discrete", "bandwidth", ORIGINS)
TITLES = {"cora": "Cora", "karate": "the Karate Club"}
PLACES = ("largest component", "second largest component")


def component(graph: Graph, place: int) -> Graph:
    """The component that is the `place`-th largest, from 0, as a graph of its own without features."""
    _, names = connected_components(_matrix(graph.edge_index, graph.num_nodes), directed=False)
    sizes = np.bincount(names)
    chosen = torch.from_numpy(names == np.argsort(-sizes, kind="stable")[place])
    number = chosen.cumsum(0) - 1
    inside = chosen[graph.structure.row]
    return Graph.from_edges(number[graph.edge_index[:, inside]], num_nodes=int(chosen.sum()), directed=graph.directed)


def parts(graph: Graph, passes: Tensor) -> tuple[int, float]:
    """Into how many parts a graph falls when only some edges pass, and the share of nodes in the largest of them.

    Args:
        graph: The graph.
        passes: ``[edges]`` truth values.
    """
    count, names = connected_components(_matrix(graph.edge_index[:, passes], graph.num_nodes), directed=False)
    return int(count), float(np.bincount(names).max()) / graph.num_nodes


@work("component-masking")
def mask_component(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Mask a component both ways many times; count what is left, and list one draw of a small component."""
    graph = component(load(arguments["dataset"], data_root).graph, arguments["place"])
    counts: dict[str, list[float]] = {}
    for step in range(DRAWS):
        kept, bandwidths = masks(graph, arguments["temperature"], arguments["seed"], step)
        wide = bandwidths >= NARROW
        wide |= wide[graph.structure.transposed_entry]
        for name, passes in (("discrete", kept), ("bandwidth", bandwidths > 0), ("wide bandwidth", wide)):
            number, share = parts(graph, passes)
            counts.setdefault(f"parts, {name}", []).append(number)
            counts.setdefault(f"largest, {name}", []).append(share)
    values: dict[str, Any] = {name: fmean(found) for name, found in counts.items()}
    values |= {
        "nodes": graph.num_nodes,
        "links": graph.links.numel(),
        "ratio": 1 - float(mean_bandwidth(graph.structure)),
    }
    if graph.num_nodes <= DRAWN_AT_MOST:
        kept, bandwidths = masks(graph, arguments["temperature"], arguments["seed"], 0)
        values |= {"edges": graph.edge_index.tolist(), "kept": kept.int().tolist(), "bandwidths": bandwidths.tolist()}
    return values


def masks(graph: Graph, temperature: float, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """``[edges]`` what a discrete mask keeps, link by link, and the bandwidths, at the same mean over the edges."""
    random = torch.Generator().manual_seed(seed * DRAWS + step)
    hidden = hide_links_by_count(graph, 1 - float(mean_bandwidth(graph.structure)), random)
    clock = Clock(seed, step=step)
    return hidden.visible > 0, draw_mask(MaskConfig(temperature=temperature), graph, clock, 0).values


def pieces(scope: Scope) -> list[Piece]:
    """The drawn component, and the largest one for the counts; on the karate club both are the same."""
    dataset, places, temperature = ("karate", (0,), 1.0) if scope.quick else ("cora", (1, 0), 0.9)
    return [
        Piece("component-masking", {"dataset": dataset, "place": place, "temperature": temperature, "seed": 0})
        for place in places
    ]


def show(results: Sequence[tuple[Piece, Result]]) -> list[Picture]:
    """The component whole, with links hidden, and with bandwidths."""
    (dataset,) = {piece.arguments["dataset"] for piece, _ in results}
    title = f"A connected component of {TITLES[dataset]} under discrete and bandwidth masks"
    small = (result for _, result in results if result.values and "edges" in result.values)
    drawn, _, origin, _ = next(small, Result(None))

    def paint(panels: Any) -> None:
        if drawn is None:
            for axes in panels.flat:
                blank(axes, "not run")
            return
        edges = np.array(drawn["edges"])
        places = layout(torch.from_numpy(edges), drawn["nodes"])
        sights = {
            "before": np.ones(edges.shape[1]),
            "after a discrete mask": np.array(drawn["kept"], dtype=float),
            "after a bandwidth mask": np.array(drawn["bandwidths"]),
        }
        for axes, (name, strength) in zip(panels.flat, sights.items(), strict=True):
            plot_halves(axes, places, edges, strength, widest=1.2 if strength.min() in (0, 1) else 3.4)
            plot_nodes(axes, places, COLOURS[0] if name == "before" else COLOURS[1], size=34)
            axes.set_title(name)
            bare(axes)

    rows = [] if drawn is None else zip(*drawn["edges"], drawn["kept"], drawn["bandwidths"], strict=True)
    picture = Picture(
        title=title,
        svg=draw("masking", title, (1, 3), (3.6, 2.8), paint),
        columns=COLUMNS,
        rows=tuple((drawn["nodes"] if drawn else 0, *row, origin) for row in rows),
        notes=(
            "The paper: a discrete mask breaks the component apart, bandwidths leave it whole. Each half of a line is "
            "the message into the node it touches, as wide and dark as its bandwidth.",
            *(_reading(result.values) for _, result in results if result.values),
            *failure_notes(results, lambda piece: PLACES[piece.arguments["place"]]),
        ),
    )
    return [picture]


def _reading(values: Mapping[str, Any]) -> str:
    def spoken(name: str) -> str:
        return f"{values[f'parts, {name}']:.1f} parts, the largest with {values[f'largest, {name}']:.0%} of the nodes"

    return (
        f"Component of {values['nodes']} nodes and {values['links']} links at mask ratio {values['ratio']:.3f}, mean "
        f"over {DRAWS} draws: {spoken('discrete')}, after a discrete mask; {spoken('bandwidth')}, after bandwidths; "
        f"{spoken('wide bandwidth')}, if links narrower than {NARROW:g} both ways are not counted."
    )


def _matrix(edges: Tensor, num_nodes: int) -> Any:
    return coo_array((np.ones(edges.shape[1]), tuple(edges.numpy())), shape=(num_nodes, num_nodes))


ARTIFACT = Artifact(
    name="masking",
    kind="figure",
    title="A connected component before and after discrete and bandwidth masking",
    printed="Figure 1c",
    pieces=pieces,
    show=show,
)
