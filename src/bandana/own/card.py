"""The figures of a training that stay with its model, and the model card that tells them to a reader."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from bandana import __version__
from bandana.data.splits import EdgeSplit
from bandana.evaluation.dot_product_probe import dot_product_auc
from bandana.evaluation.graph_facts import GraphFacts
from bandana.evaluation.link_quality import VECTORS
from bandana.evaluation.quality import Quality
from bandana.graph import Graph
from bandana.own.trained import TrainedModel

_SCORES = {"auc": "AUC", "ap": "average precision", "hits@10": "Hits@10", "mrr": "MRR"}


def first_figures(graph: Graph, split: EdgeSplit | None, blind: Tensor | None) -> dict[str, Any]:
    """What is known at the end of a training: what it learned from, and how it does on links that it never saw."""
    facts: dict[str, Any] = {"nodes": graph.num_nodes, "links": graph.links.numel(), "directed": graph.directed}
    if split is not None and blind is not None:
        facts["held-out links against random pairs"] = {"auc": float(dot_product_auc(blind, split.test))}
    return facts


def figures(facts: GraphFacts, quality: Quality) -> dict[str, Any]:
    """What is worth keeping beside the weights: the size of the graph, and how well held-out links were told apart."""
    kept: dict[str, Any] = {"nodes": facts.num_nodes, "links": facts.num_links, "directed": facts.directed}
    if quality.links is not None:
        for kind, scores in (("random pairs", quality.links.easy), ("near pairs", quality.links.hard)):
            if VECTORS in scores:
                kept[f"held-out links against {kind}"] = {
                    key: scores[VECTORS][key] for key in _SCORES if key in scores[VECTORS]
                }
    return kept


def model_card(model: TrainedModel) -> str:
    """The card in Markdown, with the header that model hubs read."""
    scope = (
        "It learned a vector for each node of its graph and can embed only these."
        if model.nodes is not None
        else f"It embeds nodes that it has never seen, from {model.spec.num_features:,} features and their links."
    )
    scores = [(name, values) for name, values in model.facts.items() if isinstance(values, Mapping)]
    plain = [(name, value) for name, value in model.facts.items() if not isinstance(value, Mapping)]
    lines = [
        *("---", "library_name: bandana", "tags:", "- graph-ml", "- node-embedding", "---", ""),
        *(f"# Node embeddings by {model.name}", ""),
        *(f"Trained with bandana {__version__}. {scope}", ""),
        *("```python", "from bandana import GraphEmbedder", ""),
        *('embedder = GraphEmbedder.from_pretrained("THIS FOLDER OR REPOSITORY")', ""),
        *("vectors = embedder.transform(graph)", "```", ""),
        *(["## Learned from", "", *(f"- {name}: {_written(value)}" for name, value in plain), ""] if plain else []),
    ]
    if scores:
        lines += ["## Measured on links that were held out", ""]
        for name, values in scores:
            told = ", ".join(f"{_SCORES.get(key, key)} {value:.3f}" for key, value in values.items())
            lines.append(f"- {name}: {told}")
        lines.append("")
    if model.feature_names:
        shown = ", ".join(f"`{name}`" for name in model.feature_names[:20])
        rest = "" if len(model.feature_names) <= 20 else f" and {len(model.feature_names) - 20:,} more"
        lines += ["## Features, in this order", "", f"{shown}{rest}", ""]
    return "\n".join(lines)


def _written(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
