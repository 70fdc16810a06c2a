"""All tables, figures and checks. Each stands in a module of its own as `ARTIFACT`, and is found there."""

from collections.abc import Sequence
from functools import cache

from bandana.errors import UserError, did_you_mean
from bandana.paper.artifact import Artifact
from bandana.paper.work import modules

KINDS = ("table", "figure", "check")
PAPER_ORDER = (
    *("node-classification", "link-prediction", "mask-ablation", "targets", "mask-ratios", "statistics"),
    *("hyperparameters", "complexity", "time-and-memory", "end-to-end", "ogb", "wiki-cs", "semi-supervised"),
    "tuned",
    *("masking", "depth", "depth-last-layer", "entropy", "manifold", "karate", "temperature", "embedding-size"),
)
"""Where a reader of the paper looks for them; any other follows by name."""
ALL = "all"


@cache
def artifacts() -> dict[str, Artifact]:
    """Every artifact by name: tables, then figures, then checks."""
    found = [module.ARTIFACT for module in modules() if hasattr(module, "ARTIFACT")]
    named = {artifact.name: artifact for artifact in sorted(found, key=_place)}
    if len(named) != len(found):
        raise ValueError("two artifacts share a name")
    return named


def find(names: Sequence[str]) -> list[Artifact]:
    """The artifacts with these names, in the catalogue's order; ``all`` means all of them.

    Raises:
        UserError: There is no name, or an unknown one.
    """
    known = artifacts()
    if not names:
        raise UserError(f"bandana reproduce: name an artifact or {ALL!r}; bandana reproduce --list shows them.")
    for name in names:
        if name not in known and name != ALL:
            raise UserError(f"bandana reproduce: there is no artifact {name!r}. {did_you_mean(name, [*known, ALL])}")
    return [artifact for name, artifact in known.items() if ALL in names or name in names]


def _place(artifact: Artifact) -> tuple[int, int, str]:
    known = artifact.name in PAPER_ORDER
    return KINDS.index(artifact.kind), PAPER_ORDER.index(artifact.name) if known else len(PAPER_ORDER), artifact.name
