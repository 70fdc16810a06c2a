"""Accuracy against the depth of the encoder (Figure 2b of the paper).

The paper names neither the five data sets nor the settings. Here they are the five smallest of its main table, and each
method keeps its recipe at every depth: width, learning rate, epochs, and all layers side by side as the embedding.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from bandana.paper.artifact import Artifact, Picture, Piece, Scope, Score
from bandana.paper.figures.series import (
    POINT,
    Results,
    caveats,
    dataset_of,
    in_order,
    line,
    points,
    scores,
    seeds_set_aside,
    too_few,
    trials,
)
from bandana.paper.names import called
from bandana.paper.pieces import chosen, datasets_of
from bandana.reporting.drawing import blank, draw, legend_below, plot_lines

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers")
DEPTHS, QUICK_DEPTHS = range(1, 9), (1, 4, 8)
DEEP = 5
"""Layers from which on the paper sees MaskGAE fall."""
NOSEDIVE = 5.0
"""Points below its best depth, averaged over the deep ones, that count as a fall here; the paper gives no number."""
METHODS: Mapping[str, str] = {
    "bandana": "model.encoder.num_layers",
    "maskgae_edge": "model.num_layers",
    "maskgae_path": "model.num_layers",
    "untrained_encoder": "model.num_layers",
}
"""Who is drawn, and the option that sets the depth."""
COLUMNS = ("dataset", "method", "layers", *POINT)


def pieces(scope: Scope, changes: Mapping[str, Any] | None = None) -> list[Piece]:
    """Every method on every data set at every depth, with `changes` (dotted options) on top."""
    cells = [
        (method, dataset, {**(changes or {}), METHODS[method]: depth})
        for dataset in datasets_of(scope, DATASETS)
        for method in chosen(METHODS, scope.methods)
        for depth in (QUICK_DEPTHS if scope.quick else DEPTHS)
    ]
    return trials(scope, cells)


def show(results: Results, name: str = "depth", reading: str = "all layers side by side") -> list[Picture]:
    """One panel per data set, one line per method."""
    found = scores(results, dataset_of, _method, _depth)
    datasets, methods, depths = (in_order(results, setting) for setting in (dataset_of, _method, _depth))
    title, columns = f"Accuracy against depth, {reading}", min(3, len(datasets))

    def paint(panels: Any) -> None:
        for axes, dataset in zip(panels.flat, datasets, strict=False):
            for_method = {method: [found.get((dataset, method, depth)) for depth in depths] for method in methods}
            plot_lines(axes, [line(called(method), depths, values) for method, values in for_method.items()])
            axes.set(title=called(dataset), xlabel="layers of the encoder", ylabel="micro-F1, %", xticks=depths)
        for axes in list(panels.flat)[len(datasets) :]:
            blank(axes, "")
        legend_below(panels.flat[0], 2 * columns)

    shape = (-(-len(datasets) // columns), columns)
    picture = Picture(
        title=title,
        svg=draw(name, title, shape, (3.4 if columns > 1 else 4.6, 2.7), paint),
        columns=COLUMNS,
        rows=points(results, dataset_of, _method, _depth),
        notes=(
            _claim,
            *_readings(found, datasets, methods, depths),
            *seeds_set_aside(results, dataset_of, _method, _depth),
            *caveats(results, dataset_of, _method, _depth),
        ),
    )
    return [picture]


_claim = (
    f"The paper: MaskGAE's accuracy dives from {DEEP} layers on, and Bandana stays far above it there. The line of the "
    "untrained encoder shows what depth does without any training."
)


def _readings(
    found: Mapping[tuple[Any, ...], Score], datasets: Sequence[str], methods: Sequence[str], depths: Sequence[int]
) -> list[str]:
    """What each method loses in the deep, data set by data set, where it has come out at every depth."""
    said = []
    for dataset in datasets:
        deep_means, losses, partial = {}, [], []
        for method in methods:
            here = {depth: found[dataset, method, depth].mean for depth in depths if (dataset, method, depth) in found}
            if not here:
                continue
            if len(here) < len(depths):
                partial.append(f"{called(method)} {len(here)}")
                continue
            deep = [value for depth, value in here.items() if depth >= DEEP]
            best = max(here, key=lambda depth: here[depth])
            deep_means[method] = fmean(deep)
            fall = here[best] - deep_means[method]
            dives = ", a dive" if fall > NOSEDIVE else ""
            losses.append(
                f"{called(method)} is best at {best} and loses {fall:.1f} points on average over the deep ones, "
                f"{here[best] - here[max(here)]:.1f} at {max(here)}{dives}"
            )
        if partial:
            said.append(f"{called(dataset)}: {too_few(', '.join(partial), len(depths), 'depths')}.")
        if losses:
            said.append(f"{called(dataset)}: {'; '.join(losses)}.{_lead(deep_means)}")
    return said


def _lead(deep_means: Mapping[str, float]) -> str:
    """How far Bandana stands above the better MaskGAE where the encoder is deep."""
    others = [deep_means[name] for name in ("maskgae_edge", "maskgae_path") if name in deep_means]
    if "bandana" not in deep_means or not others:
        return ""
    lead = deep_means["bandana"] - max(others)
    place = "above" if lead > 0 else "below"
    return f" With {DEEP} or more layers Bandana is {abs(lead):.1f} points {place} the better MaskGAE."


def _method(experiment: Mapping[str, Any]) -> str:
    return str(experiment["method"])


def _depth(experiment: Mapping[str, Any]) -> int:
    model = experiment["model"]
    return int(model["encoder"]["num_layers"] if experiment["method"] == "bandana" else model["num_layers"])


ARTIFACT = Artifact(
    name="depth",
    kind="figure",
    title="Accuracy against encoder depth 1 to 8",
    printed="Figure 2b",
    pieces=pieces,
    show=show,
)
