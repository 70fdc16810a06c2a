"""How unlike the weights of a node's neighbours are: entropies of edge weights in ego-graphs (Figure 3 of the paper).

Three ways to weigh: a GCN, whose weights are degrees and nothing learned; attention, trained under MaskGAE; and one
draw of Bandana's bandwidths. GCN and attention weights do not sum to one over the neighbours (attention gives a node a
share of its own), so the entropy as the paper writes it mixes how alike weights are with how large. Each is therefore
also taken of the weights as shares of their sum, and held against equal shares, which are the most that can be.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bandana.config import to_table
from bandana.data.datasets import load
from bandana.data.splits import split_edges
from bandana.engine.attention import attention_shares
from bandana.engine.propagate import gcn_weights, row_sums
from bandana.engine.structure import Structure
from bandana.evaluation.metrics import exact_auc
from bandana.experiment import Experiment
from bandana.graph import Features, Graph
from bandana.method import Clock, GraphSpec
from bandana.methods.maskgae_edge import MaskGAEEdge, MaskGAEEdgeConfig
from bandana.paper.artifact import ORIGINS, Artifact, Picture, Piece, Result, Scope
from bandana.paper.cookbook import recipe
from bandana.paper.sentences import failure_notes
from bandana.paper.work import work
from bandana.parts.attention import GATConfig, GATEncoder, GATLayer
from bandana.parts.masks import draw_mask
from bandana.reporting.drawing import COLOURS, INK, blank, draw
from bandana.training.trainer import pretrain

WEIGHTS = {"gcn": "GCN, MaskGAE", "gat": "GAT, MaskGAE", "bandana": "bandwidths, Bandana"}
MEASURES = ("entropy", "entropy_of_shares", "entropy_of_equal_shares")
COLUMNS = ("weights", "node", *MEASURES, ORIGINS)
HEADS = 4
SHOWN = 0.99
"""Share of the nodes that the histograms show: a few hubs would stretch the axis for all others."""


class AttentiveMaskGAE(MaskGAEEdge):
    """MaskGAE-edge with attention layers in place of convolutions."""

    def __init__(self, config: MaskGAEEdgeConfig, spec: GraphSpec) -> None:
        super().__init__(config, spec)
        del self.encoder
        shape = GATConfig(
            num_layers=config.num_layers,
            heads=HEADS,
            head_width=config.out_width // HEADS,
            feature_dropout=config.dropout,
            attention_dropout=0.0,
        )
        self.attention = GATEncoder(shape, spec.num_features)

    def _encode(self, graph: Graph, weight: Tensor | None, generator: torch.Generator | None = None) -> list[Tensor]:
        out: Tensor = self.attention(graph.x, graph.structure, weight, generator)
        return [out]


def ego_entropies(structure: Structure, weights: Tensor) -> Tensor:
    """``[rows]`` the sum of -w log w over each row's ``[entries]`` weights."""
    return row_sums(structure, torch.special.entr(weights))


def shares(structure: Structure, weights: Tensor) -> Tensor:
    """``[entries]`` weights as parts of their row's sum."""
    return weights / row_sums(structure, weights).index_select(0, structure.row)


@torch.no_grad()
def attention_weights(encoder: GATEncoder, graph: Graph) -> list[Tensor]:
    """``[edges]`` attention weights of a trained encoder, one vector for each head of each layer."""
    hidden: Features = graph.x
    found: list[Tensor] = []
    for layer, activation in zip(encoder.layers, encoder.activations, strict=True):
        assert isinstance(layer, GATLayer)
        projected = layer.project(hidden, None)
        heads = projected[:, : layer.weight.shape[1]].unflatten(1, layer.sender.shape[1:])
        sender, receiver = ((heads * scorer).sum(2).t() for scorer in (layer.sender, layer.receiver))
        found.extend(attention_shares(graph.structure, sender, receiver, graph.weight).edges)
        hidden = activation(layer.mix(projected, graph.structure, graph.weight, None))
    return found


@work("ego-entropy")
def entropy_of_weights(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Entropies of one kind of weights for every node that has neighbours; means over heads and layers of attention."""
    graph = load(arguments["dataset"], data_root).graph.to(device)
    weights = _weights(arguments, graph)
    linked = (graph.structure.row_sizes > 0).nonzero().squeeze(1)

    def mean(of: Sequence[Tensor]) -> list[float]:
        entropies = torch.stack([ego_entropies(graph.structure, one) for one in of]).mean(0)
        return [round(value, 5) for value in entropies[linked].tolist()]

    return {
        "node": linked.tolist(),
        "entropy": mean(weights),
        "entropy_of_shares": mean([shares(graph.structure, one) for one in weights]),
        "entropy_of_equal_shares": [round(value, 5) for value in graph.structure.row_sizes[linked].log().tolist()],
    }


def _weights(arguments: Mapping[str, Any], graph: Graph) -> list[Tensor]:
    """``[edges]`` vectors: one, or one per head and layer."""
    match arguments["weights"]:
        case "gcn":
            return [gcn_weights(graph.structure, graph.weight).values]
        case "bandana":
            mask = Experiment.from_table(arguments["experiment"]).model.mask
            return [draw_mask(mask, graph, Clock(arguments["seed"]), 0).values]
    method = train_attention(Experiment.from_table(arguments["experiment"]), graph, arguments["seed"])
    return attention_weights(method.attention, graph)


def train_attention(experiment: Experiment, graph: Graph, seed: int) -> AttentiveMaskGAE:
    """An experiment of MaskGAE-edge with attention layers; validation links choose the weights."""
    edges = split_edges(graph, experiment.split.valid_edges, experiment.split.test_edges, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        method = AttentiveMaskGAE(experiment.model, GraphSpec.of(graph)).to(graph.device)

    def score() -> float:
        found = (method.score_edges(edges.train, pairs) for pairs in (edges.valid.positive, edges.valid.negative))
        return float(exact_auc(*found))

    pretrain(method, edges.train, experiment.training, seed=seed, monitor=score)
    return method


def pieces(scope: Scope) -> list[Piece]:
    """One for each kind of weights."""
    dataset, epochs = ("digits", 20) if scope.quick else ("cora", 500)
    settings = {
        "gat": recipe("maskgae_edge", dataset, "node", {"training.epochs": epochs}),
        "bandana": recipe("bandana", dataset, "node"),
    }
    known = {kind: {"experiment": to_table(experiment)} for kind, experiment in settings.items()}
    return [
        Piece("ego-entropy", {"dataset": dataset, "weights": kind, "seed": 0, **known.get(kind, {})})
        for kind in WEIGHTS
    ]


def show(results: Sequence[tuple[Piece, Result]]) -> list[Picture]:
    """Histograms as the paper takes entropies, and of shares below them."""
    title = "Entropy of edge weights in ego-graphs"
    found = {piece.arguments["weights"]: result.values for piece, result in results}
    origins = {piece.arguments["weights"]: result.origin for piece, result in results}
    readings = {"entropy": "as the paper writes it", "entropy_of_shares": "of shares that sum to one"}
    ends = {
        reading: max((float(np.quantile(values[reading], SHOWN)) for values in found.values() if values), default=1.0)
        for reading in readings
    }

    def paint(panels: Any) -> None:
        for column, (kind, name) in enumerate(WEIGHTS.items()):
            for row, (reading, words) in enumerate(readings.items()):
                axes, values = panels[row, column], found.get(kind)
                if values is None:
                    blank(axes, "not run")
                    continue
                _histogram(axes, values[reading], ends[reading])
                axes.set(title=name if row == 0 else "", xlabel=f"entropy {words}", ylabel="density of nodes")

    kinds = {kind: values for kind, values in found.items() if values}
    picture = Picture(
        title=title,
        svg=draw("entropy", title, (2, 3), (3.3, 2.3), paint),
        columns=COLUMNS,
        rows=tuple(
            (kind, *row, origins[kind])
            for kind, values in kinds.items()
            for row in zip(*(values[name] for name in ("node", *MEASURES)), strict=True)
        ),
        notes=(
            "The paper: entropies are high for GCN and attention under MaskGAE and lowest for Bandana, whose "
            "neighbours are told apart best.",
            *(f"{WEIGHTS[kind]}: median {_medians(values)}." for kind, values in kinds.items()),
            *_verdict(kinds),
            "Bandwidths are drawn, not learned: their entropy is a matter of degrees and temperature alone, and falls "
            "to zero with τ. The figure says how masks look, not what an encoder has learned.",
            f"The axes leave out the highest {1 - SHOWN:.0%} of the entropies; the medians are of all.",
            *failure_notes(results, lambda piece: WEIGHTS[piece.arguments["weights"]]),
        ),
    )
    return [picture]


def _histogram(axes: Any, values: Sequence[float], largest: float) -> None:
    """Bars, a kernel estimate of the density, and the median."""
    from scipy.stats import gaussian_kde

    axes.hist(values, bins=np.linspace(0, largest, 31), density=True, color=COLOURS[0], alpha=0.3, linewidth=0)
    grid = np.linspace(0, largest, 200)
    if np.ptp(values) > 0:
        axes.plot(grid, gaussian_kde(values)(grid), color=COLOURS[0])
    axes.axvline(median(values), color=COLOURS[1], linestyle="--")
    axes.text(0.97, 0.93, f"median {median(values):.2f}", ha="right", va="top", color=INK, transform=axes.transAxes)
    axes.set_xlim(0, largest)


def _medians(values: Mapping[str, Sequence[float]]) -> str:
    plain, of_shares, equal = (median(values[name]) for name in MEASURES)
    return f"{plain:.3f} as the paper writes it; {of_shares:.3f} as shares, of {equal:.3f} if all shares were equal"


def _verdict(kinds: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Whether Bandana's median is the lowest, in both readings."""
    if set(kinds) != set(WEIGHTS):
        return []
    lowest = {name: min(kinds, key=lambda kind: median(kinds[kind][name])) for name in MEASURES[:2]}
    plain, of_shares = (WEIGHTS[lowest[name]] for name in MEASURES[:2])
    return [f"The lowest median belongs to {plain} as the paper writes it, and to {of_shares} as shares."]


ARTIFACT = Artifact(
    name="entropy",
    kind="figure",
    title="Entropy histograms of ego-graph edge weights",
    printed="Figure 3",
    pieces=pieces,
    show=show,
)
