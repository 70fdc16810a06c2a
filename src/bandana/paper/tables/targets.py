"""Not in the paper: does it matter what is predicted, or only that messages are masked?

Bandana predicts the bandwidth of every edge. Here an edge's prediction is held against its own bandwidth, against the
one that the released code pairs it with, against that of a random edge, and against a constant; and masks are left
out altogether. If all but the last score alike, masking earns the gain, and predicting bandwidths none of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Reading, Results, make_sheet, of_training, percent
from bandana.paper.variants import contrast_notes, file_notes, variant_of, variant_pieces

DATASETS = ("cora", "citeseer", "pubmed")
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "aligned": {},
    "released": {"model.target": "released"},
    "shuffled": {"model.target": "shuffled"},
    "constant": {"model.target": "constant"},
    "no masking, constant": {"model.mask.distribution": "none", "model.target": "constant"},
}
PROTOCOL = "linear probe, ten repeats per encoder; settings of Bandana's recipe for every row"


def pieces(scope: Scope) -> Sequence[Piece]:
    """Bandana's recipe with other targets."""
    return variant_pieces(scope, VARIANTS, DATASETS)


def show(results: Results) -> Sequence[Sheet]:
    """Micro-F1 by target, with paired tests against the aligned one."""
    place = of_training(variant_of(VARIANTS))
    reading = Reading(place, percent("metrics", "micro_f1"), PROTOCOL, "probes")
    title = "Micro-F1 (%) of node classification by what is predicted"
    notes = [*contrast_notes("aligned", results, reading), *file_notes(results, reading)]
    return [make_sheet(title, results, reading, {}, notes=notes)]


ARTIFACT = Artifact(
    name="targets",
    kind="table",
    title="Does predicting the bandwidth matter?",
    pieces=pieces,
    show=show,
)
