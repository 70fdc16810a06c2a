"""What an embedding of a store is worth, on the parts that are evaluated."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from bandana.data.certificates import certify
from bandana.data.splits import NodeSplit, split_nodes
from bandana.errors import UserError
from bandana.evaluation.dot_product_probe import dot_product_probe
from bandana.evaluation.heuristics import heuristic_floors
from bandana.evaluation.linear_probe import LinearProbeConfig, linear_probe
from bandana.graph import Graph, dense
from bandana.reporting.record import Metrics
from bandana.scale.batches import Region, evaluation_parts, read_region, region_with_all_links
from bandana.scale.store import Store

if TYPE_CHECKING:
    from bandana.store_experiment import StoreExperiment


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores embeddings of the parts that are evaluated: by held-out links, and by labels where there are enough."""

    region: Region
    whole: Graph
    labels: Tensor | None
    nodes: NodeSplit | None
    of_features: bool
    probe: LinearProbeConfig
    seed: int
    facts: dict[str, Any]

    @classmethod
    def of(cls, experiment: "StoreExperiment", store: Store, seed: int, device: torch.device) -> "Judge":
        parts = evaluation_parts(store, experiment.shards, seed)
        region = read_region(store, parts, experiment.shards, seed).to(device)
        whole = region_with_all_links(store, parts, experiment.shards, seed).to(device)
        labels, nodes = labelled_nodes(experiment, store, parts, seed)
        facts = {
            **asdict(certify(region.graph, region.valid, region.test, region.graph)),
            "parts": f"{parts.numel()} of {store.num_parts}",
            "validation links": region.valid.positive.shape[1],
            "test links": region.test.positive.shape[1],
        }
        if nodes is not None:
            facts["nodes"] = asdict(nodes.certificate)
        elif store.labels is not None:
            facts["nodes"] = f"not classified, because too few of the {whole.num_nodes:,} that are judged have labels"
        labels = None if labels is None else labels.to(device)
        return cls(region, whole, labels, nodes, store.features is not None, experiment.probe, seed, facts)

    def score(self, embedding_of: Callable[[Graph], Tensor]) -> Metrics:
        metrics = dot_product_probe(embedding_of(self.region.graph), self.region.test)
        if self.labels is not None and self.nodes is not None:
            metrics |= linear_probe(embedding_of(self.whole), self.labels, self.nodes, self.probe, self.seed)
        return metrics

    def floors(self, untrained: Callable[[Graph], Tensor]) -> dict[str, Metrics]:
        """What any training must beat: the untrained encoder, the features as they are, and shared neighbours."""
        floors = {"untrained encoder": self.score(untrained)}
        if self.of_features:
            floors["raw features"] = self.score(lambda graph: dense(graph.x))
        return floors | heuristic_floors(self.region.graph, self.region.test)


def labelled_nodes(
    experiment: "StoreExperiment", store: Store, parts: Tensor, seed: int
) -> tuple[Tensor | None, NodeSplit | None]:
    """``[nodes]`` classes in some parts, and how their nodes are split; nothing where links matter and labels are few.

    Raises:
        UserError: Nodes are to be classified, and too few of them have labels.
    """
    if store.labels is None:
        if experiment.task == "node":
            raise UserError(f"{store.folder}: has no labels; give bandana partition some, or use --task link.")
        return None, None
    starts = store.part_starts
    rows = torch.cat([torch.arange(int(starts[part]), int(starts[part + 1])) for part in parts]).numpy()
    labels = torch.from_numpy(store.labels[rows].astype(np.int64))
    try:
        return labels, split_nodes(labels, seed=seed)
    except UserError:
        if experiment.task == "link":
            return None, None
        raise UserError(
            f"{store.folder}: only {int((labels >= 0).sum())} of the nodes that seed {seed} is judged by have labels, "
            f"too few to learn from, choose by and test on; give more labels, evaluate more parts "
            f"(--set shards.evaluation_edges=…), or use --task link."
        ) from None


def check_labels(experiment: "StoreExperiment", store: Store, seed: int) -> None:
    """Refuse before training what could not be judged after it.

    Raises:
        UserError: See `labelled_nodes`.
    """
    labelled_nodes(experiment, store, evaluation_parts(store, experiment.shards, seed), seed)
