"""Accuracy against the temperature of the bandwidths (appendix E.5.1 of the paper)."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from bandana.paper.artifact import Artifact, Picture, Piece, Scope, Score
from bandana.paper.figures.series import (
    POINT,
    Results,
    caveats,
    counted,
    dataset_of,
    in_order,
    line,
    points,
    scores,
    seeds_set_aside,
    spoken,
    too_few,
    trials,
)
from bandana.paper.names import called
from bandana.paper.pieces import datasets_of
from bandana.reporting.drawing import blank, draw, plot_lines

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics")
TEMPERATURES = (1e-6, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0)
QUICK_TEMPERATURES = (1e-6, 0.5, 1.0, 5.0)
MIDDLE = (0.2, 1.0)
"""Neither small nor large. The ends are held against the mean of these, not against the best of many draws."""
CLEARLY = 0.5
"""Points by which both ends must lie below the middle to be counted; less is what a few seeds differ by."""
ENOUGH = 3
"""Seeds from which on a best temperature is named; the highest of thirteen single trainings means nothing."""
COLUMNS = ("dataset", "temperature", *POINT)


def pieces(scope: Scope) -> list[Piece]:
    """Bandana on every data set at every temperature."""
    cells = [
        ("bandana", dataset, {"model.mask.temperature": temperature})
        for dataset in datasets_of(scope, DATASETS)
        for temperature in (QUICK_TEMPERATURES if scope.quick else TEMPERATURES)
    ]
    return trials(scope, cells)


def show(results: Results) -> list[Picture]:
    """One panel per data set; temperatures stand at equal distances."""
    found = scores(results, dataset_of, _temperature)
    datasets, temperatures = in_order(results, dataset_of), in_order(results, _temperature)
    places, title = range(len(temperatures)), "Accuracy against the temperature of the bandwidths"

    def paint(panels: Any) -> None:
        for axes, dataset in zip(panels.flat, datasets, strict=False):
            plot_lines(axes, [line("Bandana", places, [found.get((dataset, one)) for one in temperatures])])
            axes.set(title=called(dataset), xlabel="temperature τ", ylabel="micro-F1, %")
            axes.set_xticks(
                places, [f"{one:g}".replace("e-0", "e-") for one in temperatures], rotation=60, fontsize=7.5
            )
        for axes in list(panels.flat)[len(datasets) :]:
            blank(axes, "")

    columns = min(4, len(datasets))
    picture = Picture(
        title=title,
        svg=draw(
            "temperature", title, (-(-len(datasets) // columns), columns), (3.0 if columns > 1 else 4.6, 2.6), paint
        ),
        columns=COLUMNS,
        rows=points(results, dataset_of, _temperature),
        notes=(
            "The paper: on most data sets accuracy declines where τ is too small (nearly discrete masks) or too large "
            "(nearly uniform ones); best in [0.8, 0.9] on Cora and in [0.2, 1] on PubMed.",
            *_readings(found, datasets, len(temperatures)),
            *seeds_set_aside(results, dataset_of, _temperature),
            *caveats(results, dataset_of, _temperature),
        ),
    )
    return [picture]


def _readings(found: Mapping[tuple[Any, ...], Score], datasets: Sequence[str], wanted: int) -> list[str]:
    """Where each data set that has all temperatures is best, and what it loses at both ends."""
    said, both = [], []
    for dataset in datasets:
        here = {key[1]: score for key, score in found.items() if key[0] == dataset}
        if len(here) < wanted:
            said += [f"{called(dataset)}: {too_few(len(here), wanted, 'temperatures')}."] if here else []
            continue
        middle = [score.mean for value, score in here.items() if MIDDLE[0] <= value <= MIDDLE[1]]
        best = max(here, key=lambda value: here[value].mean)
        ends = {value: here[value].mean - fmean(middle) for value in (min(here), max(here))}
        both.append(all(difference <= -CLEARLY for difference in ends.values()))
        changes = " and ".join(f"{difference:+.2f} points at τ = {value:g}" for value, difference in ends.items())
        enough = here[best].seeds >= ENOUGH
        highest = f"best at τ = {best:g} with {spoken(here[best])} %" if enough else f"{counted(here[best].seeds)}"
        said.append(
            f"{called(dataset)}: {highest}; against the mean over τ from {MIDDLE[0]:g} to {MIDDLE[1]:g}: {changes}."
        )
    if both:
        said.append(
            f"Both ends lie at least {CLEARLY:g} points below the middle on {sum(both)} of {len(both)} data sets."
        )
    return said


def _temperature(experiment: Mapping[str, Any]) -> float:
    return float(experiment["model"]["mask"]["temperature"])


ARTIFACT = Artifact(
    name="temperature",
    kind="figure",
    title="Accuracy against the temperature τ",
    printed="App. E.5.1",
    pieces=pieces,
    show=show,
)
