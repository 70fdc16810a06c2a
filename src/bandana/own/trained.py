"""A trained method together with all that a graph must go through, or must have, before the method embeds it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from bandana.data.features import Preprocessing, Scaling, preprocess
from bandana.engine.structure import build_structure
from bandana.errors import UserError
from bandana.graph import Graph, SparseFeatures
from bandana.method import GraphSpec, Method
from bandana.registry import get_method


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedModel:
    """What `bandana.model_folder` keeps.

    Attributes:
        name: The method's name in the registry.
        config: The method's configuration.
        spec: The shape of the graph it was built for.
        method: With its learned weights.
        features: What is done to the features first.
        scaling: The numbers for it, where the features are standardised.
        feature_names: Columns of the features, in order, where they have names.
        nodes: Fingerprint of the node ids, where the weights belong to single nodes; None for a model that embeds
            nodes it has never seen.
        facts: Whatever else is worth keeping, as JSON can hold it.
    """

    name: str
    config: Any
    spec: GraphSpec
    method: Method
    features: Preprocessing = "raw"
    scaling: Scaling | None = None
    feature_names: tuple[str, ...] = ()
    nodes: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def width(self) -> int:
        """Numbers per vector, seen on a graph that says nothing: two nodes, or all whose vectors the model keeps."""
        ends = torch.tensor([[0], [1]])
        device = next(iter(self.method.state_dict().values()), ends).device
        empty = torch.empty(0, dtype=torch.long)
        nodes = 2 if self.nodes is None else self.spec.num_nodes
        silent, _ = build_structure(empty, empty, nodes, self.spec.num_features)
        graph = Graph.from_edges(ends, num_nodes=nodes, x=SparseFeatures(silent, torch.empty(0)))
        with torch.no_grad():
            return self.method.eval().embed(graph.to(device)).shape[1]

    def prepare(self, graph: Graph) -> Graph:
        """The graph as the method wants it.

        Raises:
            UserError: The graph does not fit the model.
        """
        self._check(graph)
        if self.scaling is not None:
            return replace(graph, x=self.scaling.apply(graph.x))
        return preprocess(graph, self.features)

    @torch.no_grad()
    def embed(self, graph: Graph) -> Tensor:
        """``[nodes, width]`` embeddings of a graph with the same features, on the graph's device.

        Raises:
            UserError: The graph does not fit the model.
        """
        prepared = self.prepare(graph)
        self.method.to(graph.device).eval()
        return self.method.embed(prepared)

    def _check(self, graph: Graph) -> None:
        if self.nodes is not None:
            if self.nodes != nodes_fingerprint(graph):
                raise UserError(
                    "This model learned one vector per node, because its graph had no features, so it can only embed "
                    "the same nodes in the same order; train a new model on the new graph, or one with features."
                )
        elif not graph.has_features:
            raise UserError(f"This model reads {self.spec.num_features} features per node, but the graph has none.")
        elif graph.num_features != self.spec.num_features:
            raise UserError(
                f"This model reads {self.spec.num_features} features per node, but the graph has "
                f"{graph.num_features}; give the same columns in the same order."
            )


def weight_shapes(name: str, config: Any, spec: GraphSpec) -> dict[str, tuple[int, ...]]:
    """The shapes of a method's weights, without the memory for them."""
    with torch.device("meta"):
        weights = get_method(name)(config, spec).state_dict()
    return {key: tuple(weight.shape) for key, weight in weights.items()}


def learns_single_nodes(name: str, config: Any, graph: Graph) -> bool:
    """Whether weights belong to single nodes: without features, or with a learned vector beside or in place of them."""
    spec = GraphSpec.of(graph)
    one_more = replace(spec, num_nodes=spec.num_nodes + 1)
    return not graph.has_features or weight_shapes(name, config, spec) != weight_shapes(name, config, one_more)


def nodes_fingerprint(graph: Graph) -> str:
    """A digest of the node ids in row order."""
    ids: Sequence[Any] = range(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    digest = hashlib.sha256()
    for name in ids:
        digest.update(json.dumps(name, default=str).encode() + b"\n")
    return digest.hexdigest()
