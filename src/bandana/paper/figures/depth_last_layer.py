"""Accuracy against depth when only the last layer is read: the question of over-smoothing without a way around it.

Both methods' recipes put all layers side by side, so that a deep encoder still shows its shallow layers to the probe.
The paper's figure does not say which it reads.
"""

from bandana.paper.artifact import Artifact, Picture, Piece, Scope
from bandana.paper.figures import depth
from bandana.paper.figures.series import Results


def pieces(scope: Scope) -> list[Piece]:
    """As for `depth`, with the last layer as the embedding."""
    return depth.pieces(scope, {"model.readout": "last"})


def show(results: Results) -> list[Picture]:
    """As for `depth`."""
    return depth.show(results, "depth-last-layer", "last layer only")


ARTIFACT = Artifact(
    name="depth-last-layer",
    kind="figure",
    title="Accuracy against encoder depth, read from the last layer only",
    pieces=pieces,
    show=show,
)
