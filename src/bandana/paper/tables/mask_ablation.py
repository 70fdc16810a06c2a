"""Mask ablation (Table 3): the distribution of the masks, and what layers of their own add to it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Reading, Results, make_sheet, of_training, percent
from bandana.paper.published import printed
from bandana.paper.variants import file_notes, variant_of, variant_pieces

DATASETS = ("cora", "citeseer", "pubmed")
SHARED = {"model.mask.per_layer": False, "model.predict": "last"}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "Bernoulli": {"model.mask.distribution": "bernoulli", **SHARED},
    "uniform": {"model.mask.distribution": "uniform", **SHARED},
    "truncated Gaussian": {"model.mask.distribution": "truncated_gaussian", **SHARED},
    "Boltzmann-Gibbs": SHARED,
    "+ layer-wise masking": {"model.predict": "last"},
    "Bandana": {},
}
"""Changes to Bandana's recipe. The first four have one mask for all layers, and all but the last predict it from the
last layer alone."""
PROTOCOL = "linear probe, ten repeats per encoder; settings of Bandana's recipe, not tuned for each variant"


def pieces(scope: Scope) -> Sequence[Piece]:
    """Bandana's recipe with the mask of each variant."""
    return variant_pieces(scope, VARIANTS, DATASETS)


def show(results: Results) -> Sequence[Sheet]:
    """Micro-F1 by variant."""
    reading = Reading(of_training(variant_of(VARIANTS)), percent("metrics", "micro_f1"), PROTOCOL, "probes")
    title = "Micro-F1 (%) of node classification by masking strategy"
    return [make_sheet(title, results, reading, printed("mask-ablation"), notes=file_notes(results, reading))]


ARTIFACT = Artifact(
    name="mask-ablation",
    kind="table",
    title="Which masks, and how many of them",
    printed="Table 3",
    pieces=pieces,
    show=show,
)
