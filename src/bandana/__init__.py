"""Node embeddings from a graph without labels.

Only names live here; each is imported when it is first used, so that ``import bandana`` and ``bandana --help``
load neither torch nor PyG.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bandana.data.datasets import load
    from bandana.estimator import GraphEmbedder
    from bandana.experiment import Experiment, run
    from bandana.graph import Graph
    from bandana.paper.cookbook import recipe

__version__ = "0.1.0"
__all__ = ["Experiment", "Graph", "GraphEmbedder", "load", "recipe", "run"]

_HOME = {
    "Experiment": "bandana.experiment",
    "Graph": "bandana.graph",
    "GraphEmbedder": "bandana.estimator",
    "load": "bandana.data.datasets",
    "recipe": "bandana.paper.cookbook",
    "run": "bandana.experiment",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bandana' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
