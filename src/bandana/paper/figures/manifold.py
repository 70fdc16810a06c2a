"""Manifold learning on Swiss Roll and Two-moon (Figure 4 of the paper).

Nodes have no features but their own number, so all that an embedding knows it has from the graph. Beside the two
methods of the paper stands the untrained encoder: it sees the same graph and has learned nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from scipy.stats import spearmanr
from torch import Tensor

from bandana.config import to_table
from bandana.data.datasets import Dataset, load
from bandana.evaluation.geometry import nearest, preservation
from bandana.evaluation.samples import sample
from bandana.experiment import Experiment, embed, run_seed
from bandana.graph import Graph, dense, identity_features
from bandana.paper.artifact import ORIGINS, Artifact, Picture, Piece, Result, Scope
from bandana.paper.cookbook import recipe
from bandana.paper.names import called
from bandana.paper.pieces import chosen, seeds_of
from bandana.paper.sentences import failure_notes
from bandana.paper.work import work
from bandana.reporting.drawing import CLASSES, bare, blank, draw, lying, plot_nodes

DATASETS = {"swiss_roll": "Swiss Roll", "two_moon": "Two-moon"}
METHODS = ("maskgae_edge", "bandana", "untrained_encoder")
NEAREST = 10
SOURCES = 200
"""Nodes from which distances in the graph are compared with those between vectors."""
SEEN_FROM = {"swiss_roll": (0, 2), "two_moon": (0, 1)}
"""The two coordinates in which the shape shows."""
MEASURES = ("neighbours_kept", "distance_correlation", "same_label")
COLUMNS = ("dataset", "method", "seed", *MEASURES, ORIGINS)
FEW = 500
"""Points that can be drawn larger."""


@work("manifold")
def learn_manifold(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Embed the graph without coordinates; how well its shape is kept, and a t-SNE map of it."""
    experiment, seed = Experiment.from_table(arguments["experiment"]), arguments["seed"]
    data = load(experiment.dataset, data_root)
    blind = replace(data.graph, x=identity_features(data.graph.num_nodes)).to(device)
    trained = run_seed(experiment, Dataset(data.name, blind), seed, device, floors=False)
    z = embed(trained.method, blind).cpu()
    assert data.graph.y is not None
    shown = sample(data.graph.num_nodes, arguments["shown"], seed)
    return {
        **shape_kept(data.graph, z, seed),
        "places": np.round(tsne(z[shown], seed), 3).tolist(),
        "truth": dense(data.graph.x)[shown][:, list(SEEN_FROM[data.name])].round(decimals=4).tolist(),
        "labels": data.graph.y[shown].tolist(),
    }


def shape_kept(graph: Graph, z: Tensor, seed: int) -> dict[str, float]:
    """How much of the graph's shape is in ``[nodes, width]`` vectors: neighbours, distances, labels.

    Returns:
        `neighbours_kept`, the share of graph neighbours among the nearest vectors; `distance_correlation`, the rank
        correlation of distances between vectors with steps in the graph; `same_label`, among the nearest vectors.
    """
    assert graph.y is not None
    everyone = torch.arange(graph.num_nodes)
    near = nearest(z, everyone, NEAREST)
    kept = preservation(graph, everyone, near)
    assert kept is not None, "these graphs have edges"
    return {
        "neighbours_kept": kept.found,
        "distance_correlation": distance_correlation(graph, z, seed),
        "same_label": float((graph.y[near] == graph.y.unsqueeze(1)).double().mean()),
    }


def distance_correlation(graph: Graph, z: Tensor, seed: int) -> float:
    """Rank correlation between steps in the graph and distances of vectors, from some nodes to all they can reach."""
    random = torch.Generator().manual_seed(seed)
    sources = torch.randperm(graph.num_nodes, generator=random)[:SOURCES]
    ends = tuple(graph.edge_index.numpy())
    matrix = coo_array((np.ones(graph.num_edges), ends), shape=(graph.num_nodes, graph.num_nodes)).tocsr()
    steps = shortest_path(matrix, unweighted=True, indices=sources.numpy())
    between = torch.cdist(z[sources].double(), z.double()).numpy()
    reached = np.isfinite(steps) & (steps > 0)
    return float(spearmanr(steps[reached], between[reached]).statistic)


def tsne(z: Tensor, seed: int) -> Any:
    """``[nodes, 2]`` t-SNE map."""
    from sklearn.manifold import TSNE

    return TSNE(perplexity=30, init="pca", random_state=seed, n_jobs=1).fit_transform(z.numpy())


def pieces(scope: Scope) -> list[Piece]:
    """Every method on both shapes."""
    changes, shown = ({"training.epochs": 20}, 300) if scope.quick else ({}, 2_000)
    tables = [
        to_table(recipe(method, dataset, "link", changes))
        for dataset in chosen(DATASETS, scope.datasets)
        for method in chosen(METHODS, scope.methods)
    ]
    return [
        Piece("manifold", {"experiment": table, "seed": seed, "shown": shown})
        for seed in seeds_of(scope)
        for table in tables
    ]


def show(results: Sequence[tuple[Piece, Result]]) -> list[Picture]:
    """The true shapes, and the maps of the first seed."""
    title = "Manifold learning on Swiss Roll and Two-moon"
    origins = {_key(piece): result.origin for piece, result in results}
    values = {_key(piece): result.values for piece, result in results if result.values}
    datasets = [name for name in DATASETS if any(key[0] == name for key in values)] or list(DATASETS)

    def paint(panels: Any) -> None:
        for row, dataset in zip(panels, datasets, strict=True):
            maps = {method: values.get((dataset, method, 0)) for method in METHODS}
            one = next((found for found in maps.values() if found), None)
            _map(row[0], f"{DATASETS[dataset]}, as it is", one, "truth")
            for axes, (method, found) in zip(row[1:], maps.items(), strict=True):
                _map(axes, called(method), found, "places")

    picture = Picture(
        title=title,
        svg=draw("manifold", title, (len(datasets), 1 + len(METHODS)), (2.7, 2.6), paint),
        columns=COLUMNS,
        rows=tuple((*key, *(found[name] for name in MEASURES), origins[key]) for key, found in values.items()),
        notes=(
            "The paper: Bandana unrolls the roll into a compact surface and learns both crescents, MaskGAE's vectors "
            "scatter. Maps by t-SNE; the measures below are taken of the embeddings themselves.",
            *_readings(values, datasets),
            *failure_notes(results, _name),
        ),
    )
    return [picture]


def _map(axes: Any, name: str, values: Mapping[str, Any] | None, which: str) -> None:
    axes.set_title(name)
    if values is None:
        blank(axes, "not run")
        return
    colours = [CLASSES[label % len(CLASSES)] for label in values["labels"]]
    places = np.array(values[which])
    plot_nodes(axes, lying(places) if which == "places" else places, colours, size=7 if len(colours) <= FEW else 3)
    bare(axes)


def _readings(values: Mapping[tuple[str, str, int], Mapping[str, Any]], datasets: Sequence[str]) -> list[str]:
    """Means over seeds of each method, and who keeps more of each."""
    said = []
    for dataset in datasets:
        means = {}
        for method in METHODS:
            found = [one for key, one in values.items() if key[:2] == (dataset, method)]
            if found:
                means[method] = {name: fmean(one[name] for one in found) for name in MEASURES}
        if not means:
            continue
        words = "; ".join(
            f"{called(method)} keeps {one['neighbours_kept']:.1%} of the neighbours, its distances correlate "
            f"{one['distance_correlation']:.2f} with steps in the graph, and {one['same_label']:.1%} of the "
            f"{NEAREST} nearest have the same label"
            for method, one in means.items()
        )
        if {"bandana", "maskgae_edge"} <= set(means):
            ahead = sum(means["bandana"][name] > means["maskgae_edge"][name] for name in MEASURES)
            above = sum(means["bandana"][name] > means.get("untrained_encoder", {}).get(name, -1) for name in MEASURES)
            words += f". Bandana is ahead of MaskGAE in {ahead} of 3 measures, and of the untrained encoder in {above}"
        said.append(f"{DATASETS[dataset]}: {words}.")
    return said


def _key(piece: Piece) -> tuple[str, str, int]:
    table = piece.arguments["experiment"]
    return table["dataset"], table["method"], piece.arguments["seed"]


def _name(piece: Piece) -> str:
    dataset, method, _ = _key(piece)
    return f"{called(method)} on {DATASETS[dataset]}"


ARTIFACT = Artifact(
    name="manifold",
    kind="figure",
    title="Manifold learning on Swiss Roll and Two-moon",
    printed="Figure 4",
    pieces=pieces,
    show=show,
)
