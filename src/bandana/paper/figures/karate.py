"""Karate Club under three maskings (Figure of appendix B of the paper).

The three trainings differ in the distribution of the mask alone. As in the paper's ablation, one mask serves all layers
of a step and only the last layer predicts it. All edges are trained on, since nothing is scored on held-out ones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from bandana.config import to_table
from bandana.data.datasets import load
from bandana.engine.propagate import row_sums
from bandana.evaluation.geometry import nearest
from bandana.experiment import Experiment, build, embed
from bandana.graph import Graph
from bandana.method import Clock, GraphSpec
from bandana.paper.artifact import ORIGINS, Artifact, Picture, Piece, Result, Scope
from bandana.paper.cookbook import recipe
from bandana.paper.pieces import seeds_of
from bandana.paper.sentences import failure_notes
from bandana.paper.work import work
from bandana.parts.masks import MaskConfig, draw_mask
from bandana.reporting.drawing import (
    CLASSES,
    DARK_CLASSES,
    EDGE,
    INK,
    MARKS,
    bare,
    blank,
    draw,
    layout,
    lying,
    plot_halves,
)
from bandana.training.trainer import pretrain

MASKS = {"bernoulli": "discrete", "uniform": "uniform", "boltzmann_gibbs": "bandwidths"}
GROUPS: Mapping[str, tuple[int, ...]] = {
    "community": (4, 5, 6, 10, 16),
    "between communities": (8, 9, 27, 28),
    "equal neighbourhoods": (14, 15, 18, 20, 22),
}
"""As the paper lists them."""
FORMS = dict(zip(MARKS, ("others", *GROUPS), strict=True))
"""Of each mark, the group whose nodes have it."""
KEY = "colour: class of a node\nform: its group"
HUBS = (0, 33)
DRAWS = 200
PERPLEXITY = 8
COLUMNS = ("mask", "seed", *(f"mates: {name}" for name in GROUPS), "nodes_cut_off", ORIGINS)


@work("karate-masking")
def train_karate(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Train under one kind of mask; a mask, the most similar pairs, a map, and how well the groups hold together."""
    experiment, seed = Experiment.from_table(arguments["experiment"]), arguments["seed"]
    graph = load(experiment.dataset, data_root).graph
    method = build(experiment, GraphSpec.of(graph), seed)
    pretrain(method, graph, experiment.training, seed=seed)
    z, mask = embed(method, graph), experiment.model.mask
    return {
        "bandwidths": draw_mask(mask, graph, Clock(seed), 0).values.tolist(),
        "similar": most_similar(z, graph.links.numel()).tolist(),
        "places": _tsne(z, seed).tolist(),
        "mates": {name: mates(z, members) for name, members in GROUPS.items()},
        "cut_off": cut_off(graph, mask, seed),
        "edges": graph.edge_index.tolist(),
        "labels": [] if graph.y is None else graph.y.tolist(),
    }


def mates(z: Tensor, members: Sequence[int]) -> float:
    """Of each member's nearest vectors, as many as it has mates, the share that are mates; mean over the members."""
    group = torch.tensor(members)
    near = nearest(z, group, len(members) - 1)
    return float(torch.isin(near, group).double().mean())


def most_similar(z: Tensor, count: int) -> Tensor:
    """``[2, count]`` the pairs of nodes with the largest cosine of their vectors."""
    first, second = torch.triu_indices(z.shape[0], z.shape[0], offset=1)
    likeness = (normalize(z) @ normalize(z).T)[first, second]
    best = likeness.topk(count).indices
    return torch.stack([first[best], second[best]])


def cut_off(graph: Graph, mask: MaskConfig, seed: int) -> float:
    """Nodes that hear from nobody, on average over draws of the mask."""
    heard = [
        row_sums(graph.structure, draw_mask(mask, graph, Clock(seed, step=step), 0).values) for step in range(DRAWS)
    ]
    return float((torch.stack(heard) == 0).sum(1).double().mean())


def _tsne(z: Tensor, seed: int) -> Any:
    from sklearn.manifold import TSNE

    return TSNE(perplexity=PERPLEXITY, init="pca", random_state=seed, n_jobs=1).fit_transform(z.numpy())


def pieces(scope: Scope) -> list[Piece]:
    """Every mask, with every seed."""
    shared = {"model.mask.per_layer": False, "model.predict": "last", "training.epochs": 50 if scope.quick else 200}
    tables = [
        to_table(recipe("bandana", "karate", "node", {**shared, "model.mask.distribution": mask})) for mask in MASKS
    ]
    return [
        Piece("karate-masking", {"experiment": table, "seed": seed}) for seed in seeds_of(scope) for table in tables
    ]


def _mask(piece: Piece) -> str:
    return str(piece.arguments["experiment"]["model"]["mask"]["distribution"])


def show(results: Sequence[tuple[Piece, Result]]) -> list[Picture]:
    """The club with its groups; below the masks of the first seed, what becomes similar, and maps."""
    title = "Karate Club under three maskings"
    known = {(_mask(piece), piece.arguments["seed"]): result for piece, result in results}
    done = {key: result.values for key, result in known.items() if result.values}

    def paint(panels: Any) -> None:
        for axes in panels.flat:
            bare(axes)
        one = next(iter(done.values()), None)
        if one is None:
            blank(panels[0, 0], "not run")
            return
        edges = np.array(one["edges"])
        places = layout(torch.from_numpy(edges), len(one["labels"]))
        plot_halves(panels[0, 0], places, edges, np.full(edges.shape[1], 0.4), widest=1.2)
        _members(panels[0, 0], places, one["labels"])
        panels[0, 0].set_title("Karate Club")
        panels[1, 0].legend(handles=_group_marks(), loc="center", title=KEY, labelspacing=1.1)
        for column, (mask, name) in enumerate(MASKS.items(), start=1):
            found = done.get((mask, 0))
            if found:
                _column(panels[:, column], name, found, places)

    picture = Picture(
        title=title,
        svg=draw("karate", title, (3, 4), (2.9, 2.4), paint),
        columns=COLUMNS,
        rows=tuple(
            (*key, *found["mates"].values(), found["cut_off"], known[key].origin) for key, found in done.items()
        ),
        notes=(
            "The paper: discrete masks cut nodes off and tear 16 and 18 out of their groups, uniform masks mend that "
            "but lose node 2 from those between the communities, bandwidths keep all three groups.",
            *_readings(done),
            "One training is one draw: which single node strays changes with the seed, so groups are measured over all "
            "seeds and single nodes are not judged.",
            *failure_notes(results, lambda piece: MASKS[_mask(piece)]),
        ),
    )
    return [picture]


def _column(panels: Any, name: str, values: Mapping[str, Any], places: Any) -> None:
    """Below each other: a mask, the most similar pairs, the map."""
    strength = np.array(values["bandwidths"])
    plot_halves(panels[0], places, np.array(values["edges"]), strength, widest=1.2 if set(strength) <= {0, 1} else 3.4)
    panels[0].set_title(f"mask: {name}")
    for first, second in zip(*values["similar"], strict=True):
        panels[1].plot(*places[[first, second]].T, color=EDGE, linewidth=0.7, marker="", zorder=1)
    panels[1].set_title("most similar pairs")
    panels[2].set_title("t-SNE map")
    for axes, where in zip(panels, (places, places, lying(np.array(values["places"]))), strict=True):
        _members(axes, where, values["labels"])


def _group_marks() -> list[Any]:
    """Entries of a legend for the forms alone: nodes of a group may be of several classes."""
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {
        "linestyle": "",
        "markerfacecolor": "white",
        "markeredgecolor": INK,
        "markersize": 9,
    }
    return [Line2D([], [], marker=mark, label=name, **style) for mark, name in FORMS.items()]


def _members(axes: Any, places: Any, labels: Sequence[int]) -> None:
    """Nodes by class in colour and by group in form; members and hubs carry their numbers."""
    grouped = {node for members in GROUPS.values() for node in members}
    rest = [node for node in range(len(labels)) if node not in grouped]
    for (mark, name), nodes in zip(FORMS.items(), (rest, *GROUPS.values()), strict=True):
        colours = [CLASSES[labels[node]] for node in nodes]
        rim = "white" if name == "others" else INK
        where = places[list(nodes)].T
        axes.scatter(
            *where,
            c=colours,
            marker=mark,
            s=150 if mark == "^" else 85,
            edgecolors=rim,
            linewidths=0.8,
            zorder=3,
        )
    for node in (*grouped, *HUBS):
        ink = "white" if CLASSES[labels[node]] in DARK_CLASSES else INK
        drop = (0, -1.5) if node in GROUPS["between communities"] else (0, 0)  # where a triangle is wide
        style = {"ha": "center", "va": "center", "fontsize": 5.5, "color": ink, "zorder": 4}
        axes.annotate(str(node), places[node], drop, textcoords="offset points", **style)


def _readings(done: Mapping[tuple[str, int], Mapping[str, Any]]) -> list[str]:
    """How well each mask keeps the groups, over all seeds."""
    said, means = [], {}
    for mask, name in MASKS.items():
        found = [one for key, one in done.items() if key[0] == mask]
        if not found:
            continue
        held = {group: fmean(one["mates"][group] for one in found) for group in GROUPS}
        means[name] = fmean(held.values())
        words = ", ".join(f"{share:.0%} {group}" for group, share in held.items())
        lost = fmean(one["cut_off"] for one in found)
        said.append(
            f"{name}: mates among the nearest {words} (seeds: {len(found)}); {lost:.1f} of 34 nodes hear nobody."
        )
    if len(means) == len(MASKS):
        words = ", ".join(f"{name} {mean:.1%}" for name, mean in means.items())
        ahead = "is seen" if max(means, key=lambda name: means[name]) == MASKS["boltzmann_gibbs"] else "is not seen"
        said.append(f"Mean of the three groups: {words}. That bandwidths hold them together best {ahead} here.")
    return said


ARTIFACT = Artifact(
    name="karate", kind="figure", title="Karate Club under three maskings", printed="App. B", pieces=pieces, show=show
)
