"""Which layers become the vectors: all of them side by side, or the last alone. Validation links decide, if asked to.

Which is better depends on the graph. Where links are few, the first layer still tells a node from those around it.
Where they are many, it is little but the mean of many neighbours' features, alike in nodes that are linked and nodes
that are not, and drowns what the last one knows. One training serves both: every layer has a loss, and a readout has no
weights (docs/adr/0012-readout-by-validation-links.md).
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from bandana.data.splits import Pairs
from bandana.evaluation.dot_product_probe import dot_product_auc
from bandana.evaluation.metrics import checked_score
from bandana.graph import Graph
from bandana.method import Method
from bandana.methods.bandana import Bandana
from bandana.own.automatic import Plan

NAMES = {"concat": "all layers side by side", "last": "the last layer alone"}


@torch.no_grad()
def link_aucs(made: Plan, method: Method, graph: Graph, valid: Pairs) -> dict[str, float]:
    """How well dot products tell links from non-links, by the name of each readout that is still open.

    Args:
        made: Says whether the readout is open; if it is not, there is one entry, ``fixed``.
        method: Built as planned, in evaluation mode.
        graph: Training links only.
        valid: What is told apart.
    """
    z = method.embed(graph)
    readings = {"concat": z, "last": z[:, -made.model.encoder.width :]} if made.readout_open else {"fixed": z}
    return {name: checked_score(dot_product_auc(reading, valid)) for name, reading in readings.items()}


def monitor(made: Plan, method: Method, graph: Graph, valid: Pairs) -> Callable[[], float]:
    """What training watches: the better of the readouts, since that is the one that will be taken."""
    return lambda: max(link_aucs(made, method, graph, valid).values())


def settle(made: Plan, method: Method, graph: Graph, valid: Pairs) -> Plan:
    """The plan with the readout that ranks the validation links better, by which `method` embeds from here on."""
    if not made.readout_open:
        return made
    assert isinstance(method, Bandana)
    aucs = link_aucs(made, method, graph, valid)
    best, other = sorted(aucs, key=lambda name: -aucs[name])
    method.config = replace(made.model, readout=best)
    width = method.config.encoder.width * (method.config.encoder.num_layers if best == "concat" else 1)
    why = (
        f"the vectors are {NAMES[best]}, {width} numbers per node: AUC of the validation links {aucs[best]:.3f}, "
        f"against {aucs[other]:.3f} with {NAMES[other]}"
    )
    return replace(made, model=method.config, readout_open=False, reasons=(*made.reasons, why))
