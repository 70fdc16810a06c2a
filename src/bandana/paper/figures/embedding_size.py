"""Accuracy against the widths of encoder and decoder (appendix E.5.2 of the paper).

The paper calls them the input and output size of the decoder's layers. Its figure's data sets and sizes are not in the
text: here, the three citation graphs that the text and the tables speak of, and the powers of two around their recipes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandana.paper.artifact import Artifact, Picture, Piece, Scope, Score
from bandana.paper.figures.series import (
    POINT,
    Results,
    caveats,
    dataset_of,
    in_order,
    points,
    scores,
    seeds_set_aside,
    spoken,
    too_few,
    trials,
)
from bandana.paper.names import called
from bandana.paper.pieces import datasets_of
from bandana.reporting.drawing import INK, blank, draw

DATASETS = ("cora", "citeseer", "pubmed")
ENCODER_WIDTHS, QUICK_ENCODER_WIDTHS = (32, 64, 128, 256, 512), (32, 128)
DECODER_WIDTHS, QUICK_DECODER_WIDTHS = (32, 64, 128, 256), (32, 128)
PUBLISHED_BEST = {"pubmed": (64, 32)}
"""Encoder and decoder width that the paper calls best."""
COLUMNS = ("dataset", "encoder_width", "decoder_width", *POINT)


def pieces(scope: Scope) -> list[Piece]:
    """Bandana on every data set with every pair of widths."""
    cells = [
        ("bandana", dataset, {"model.encoder.width": wide, "model.decoder_width": narrow})
        for dataset in datasets_of(scope, DATASETS)
        for wide in (QUICK_ENCODER_WIDTHS if scope.quick else ENCODER_WIDTHS)
        for narrow in (QUICK_DECODER_WIDTHS if scope.quick else DECODER_WIDTHS)
    ]
    return trials(scope, cells)


def show(results: Results) -> list[Picture]:
    """One chequered panel per data set."""
    found = scores(results, dataset_of, _encoder, _decoder)
    datasets, encoders, decoders = (in_order(results, setting) for setting in (dataset_of, _encoder, _decoder))
    title = "Accuracy against the widths of encoder and decoder"

    def paint(panels: Any) -> None:
        for axes, dataset in zip(panels.flat, datasets, strict=True):
            grid = [[found.get((dataset, wide, narrow)) for wide in encoders] for narrow in decoders]
            _chequer(axes, np.array([[np.nan if cell is None else cell.mean for cell in row] for row in grid]))
            axes.set(
                title=f"{called(dataset)}, micro-F1, %", xlabel="width of the encoder", ylabel="width of the decoder"
            )
            axes.set_xticks(range(len(encoders)), encoders)
            axes.set_yticks(range(len(decoders)), decoders)

    picture = Picture(
        title=title,
        svg=draw("embedding-size", title, (1, len(datasets)), (3.5, 2.9), paint),
        columns=COLUMNS,
        rows=points(results, dataset_of, _encoder, _decoder),
        notes=(
            "The paper: wide is not always better, not even on a large graph (PubMed is best with 64 and 32), while "
            "CiteSeer likes wide layers.",
            *_readings(found, datasets, encoders, decoders),
            *seeds_set_aside(results, dataset_of, _encoder, _decoder),
            *caveats(results, dataset_of, _encoder, _decoder),
        ),
    )
    return [picture]


def _chequer(axes: Any, grid: Any) -> None:
    """Squares with their numbers, the larger the darker."""
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if not np.isfinite(grid).any():
        blank(axes, "not run")
        return
    low, high = np.nanmin(grid), np.nanmax(grid)
    axes.imshow(grid, cmap="Blues", vmin=low - 0.3 * (high - low), vmax=high, origin="lower", aspect="auto")
    for (row, column), value in np.ndenumerate(grid):
        dark = value > low + 0.6 * (high - low)
        text = f"{value:.1f}" if np.isfinite(value) else "–"
        axes.text(column, row, text, ha="center", va="center", color="white" if dark else INK)


def _readings(
    found: Mapping[tuple[Any, ...], Score], datasets: Sequence[str], encoders: Sequence[int], decoders: Sequence[int]
) -> list[str]:
    """The best pair of widths of each data set that has all pairs, and what the widest one gives."""
    said = []
    for dataset in datasets:
        here = {key[1:]: score for key, score in found.items() if key[0] == dataset}
        wanted = len(encoders) * len(decoders)
        if len(here) < wanted:
            said += [f"{called(dataset)}: {too_few(len(here), wanted, 'pairs of widths')}."] if here else []
            continue
        best = max(here, key=lambda widths: here[widths].mean)
        said.append(f"{called(dataset)}: best with {best[0]} and {best[1]}, {spoken(here[best])} %")
        for words, widths in (
            ("the paper's best", PUBLISHED_BEST.get(dataset)),
            ("the widest", (max(encoders), max(decoders))),
        ):
            if widths in here and widths != best:
                difference = here[widths].mean - here[best].mean
                said[-1] += f"; {words}, {widths[0]} and {widths[1]}, {difference:+.2f} points"
        said[-1] += "."
    return said


def _encoder(experiment: Mapping[str, Any]) -> int:
    return int(experiment["model"]["encoder"]["width"])


def _decoder(experiment: Mapping[str, Any]) -> int:
    return int(experiment["model"]["decoder_width"])


ARTIFACT = Artifact(
    name="embedding-size",
    kind="figure",
    title="Accuracy against the widths of encoder and decoder",
    printed="App. E.5.2",
    pieces=pieces,
    show=show,
)
