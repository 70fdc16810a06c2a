"""The report of ``bandana embed``: what was measured, laid out as a page."""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from torch import Tensor
from torch.nn.functional import pad

from bandana.data.tables import OwnGraph
from bandana.evaluation.graph_facts import GraphFacts
from bandana.evaluation.quality import Quality
from bandana.evaluation.samples import sample
from bandana.evaluation.verdicts import Verdict
from bandana.evaluation.wording import how_many
from bandana.graph import Graph
from bandana.reporting.charts import Curve, LineChart
from bandana.reporting.html import Fact, Groups, Map, NextStep, Report, Row, Score, Section, Shades, Table
from bandana.use.similar import nearest

MOST_POINTS = 50_000
MOST_FOR_TSNE = 2_000
NEIGHBOURS = 8
_LINK_COLUMNS = {"auc": "AUC", "ap": "AP", "hits@10": "Hits@10", "mrr": "MRR"}


def own_report(
    title: str,
    own: OwnGraph,
    embedding: Tensor,
    facts: GraphFacts,
    quality: Quality,
    clusters: Tensor,
    found: Sequence[Verdict],
    history: Sequence[Mapping[str, float]],
    made_with: Mapping[str, str],
    folder: str,
) -> Report:
    """Everything on the page.

    Args:
        title: Of the page.
        own: The graph and what was understood of it.
        embedding: ``[nodes, width]``.
        facts: Of the graph.
        quality: Of the vectors.
        clusters: ``[nodes]`` numbers of the groups that the vectors fall into.
        found: Verdicts on all of it.
        history: Rows of training.
        made_with: Settings and versions.
        folder: Where the vectors lie, for the commands that are suggested.
    """
    first, place = str(own.graph.node_ids[0]) if own.graph.node_ids else "0", quote(folder)
    return Report(
        title=title,
        summary=f"{how_many(facts.num_nodes, 'node')} and {how_many(facts.num_links, 'link')} became vectors of "
        f"{how_many(quality.width, 'number')}.",
        facts=_graph_facts(facts)[:4],
        verdicts=tuple(found),
        map=embedding_map(own, embedding, clusters),
        sections=(
            Section(title="The graph", facts=_graph_facts(facts), lead=" ".join(own.notes)),
            Section(title="Quality", facts=_quality_facts(quality), tables=_quality_tables(quality)),
            Section(title="Training", charts=_curves(history)),
        ),
        next_steps=(
            NextStep("Find the nodes most similar to one.", f"bandana similar {place} --id {quote(first)}"),
            NextStep("List the most likely missing links.", f"bandana links {place} --top 100"),
        ),
        made_with=tuple(Fact(name, value) for name, value in made_with.items()),
    )


def embedding_map(own: OwnGraph, embedding: Tensor, clusters: Tensor, seed: int = 0) -> Map:
    """Nodes as points: by t-SNE where they are few, by their two main directions else; collapsed, all at 0."""
    graph = own.graph
    drawn = sample(graph.num_nodes, MOST_POINTS, seed)
    z = embedding[drawn]
    points, how = _placed(z, seed)
    ids = list(graph.node_ids) if graph.node_ids is not None else list(range(graph.num_nodes))
    place = torch.full((graph.num_nodes,), -1)
    place[drawn] = torch.arange(len(drawn))
    similar = place[drawn[nearest(z, k=NEIGHBOURS).rows]]
    shown = "" if len(drawn) == graph.num_nodes else f" A sample of {len(drawn):,} of {graph.num_nodes:,} nodes."
    return Map(
        points=points,
        ids=[ids[row] for row in drawn.tolist()],
        colourings=(*_labels(own, drawn), _communities(graph, ids, clusters, drawn), _degrees(graph, drawn)),
        neighbours={"most similar": similar.numpy()},
        note=f"{how}{shown} Near is similar; far says little. A community is a group of similar vectors "
        "(k-means), named after its node with the most links.",
    )


def _placed(z: Tensor, seed: int) -> tuple[NDArray[np.float32], str]:
    """``[nodes, 2]`` points for ``[nodes, width]`` vectors, and a sentence on how they were placed."""
    if not bool(z.isfinite().all()):
        return _in_one_place(z), "Some vectors are not finite, so all points lie in one place."
    if bool((z == z[:1]).all()):
        return _in_one_place(z), "All vectors are the same, so all points lie in one place: the vectors collapsed."
    z = _in_unit_box(z)
    if len(z) <= MOST_FOR_TSNE:
        return np.asarray(_tsne(z, seed), dtype=np.float32), "Placed by t-SNE."
    points = PCA(2, random_state=seed).fit_transform(z.numpy())
    return np.asarray(points, dtype=np.float32), "Placed by the two directions of largest variance."


def _in_one_place(z: Tensor) -> NDArray[np.float32]:
    return np.zeros((len(z), 2), dtype=np.float32)


def _in_unit_box(z: Tensor) -> Tensor:
    """The same vectors about 0, reaching to 1, in two dimensions or more: no square vanishes or overflows."""
    centred = z.double() - z.double().mean(0)
    return pad((centred / centred.abs().max()).float(), (0, max(2 - z.shape[1], 0)))


def _tsne(z: Tensor, seed: int) -> Any:
    perplexity = max(min(30.0, (len(z) - 1) / 3), 1.0)
    return TSNE(2, random_state=seed, init="pca", perplexity=perplexity).fit_transform(z.numpy())


def _labels(own: OwnGraph, drawn: Tensor) -> tuple[Groups, ...]:
    if own.graph.y is None or own.label_names is None:
        return ()
    return (Groups(name="label", values=own.graph.y[drawn].numpy(), names=own.label_names),)


def _communities(graph: Graph, ids: Sequence[Any], clusters: Tensor, drawn: Tensor) -> Groups:
    """Groups of similar vectors. A number would mean nothing to anybody, so each is named after its busiest node."""
    by_degree = graph.structure.row_sizes.cpu().argsort(stable=True)
    busiest = dict(zip(clusters[by_degree].tolist(), by_degree.tolist(), strict=True))
    names = [f"around {ids[busiest[group]]}" if group in busiest else "" for group in range(int(clusters.max()) + 1)]
    return Groups(name="community", values=clusters[drawn].numpy(), names=names)


def _degrees(graph: Graph, drawn: Tensor) -> Shades:
    return Shades(name="degree", values=graph.structure.row_sizes[drawn].numpy().astype(float), logarithmic=True)


def _graph_facts(facts: GraphFacts) -> tuple[Fact, ...]:
    degrees = facts.degrees
    rows = [
        Fact("nodes", f"{facts.num_nodes:,}"),
        Fact("links", f"{facts.num_links:,}", "each counted once" if not facts.directed else "each with a direction"),
        Fact("features", "none" if facts.num_features is None else f"{facts.num_features:,}"),
        Fact(
            "neighbours",
            f"{degrees.mean:.1f}",
            f"on average; half have at most {degrees.median:g}, one {degrees.most:,}",
        ),
        Fact("isolated nodes", f"{degrees.isolated:,}", "nothing can be learned about them from links"),
        Fact("parts", f"{facts.num_components:,}", f"the largest holds {facts.largest_component:.0%} of the nodes"),
    ]
    if facts.closed is not None:
        rows.append(Fact("closed links", f"{facts.closed:.0%}", "of links whose ends share a neighbour"))
    if facts.labels is not None and facts.labels.homophily is not None:
        rows.append(Fact("homophily", f"{facts.labels.homophily:.0%}", "of links join equal labels"))
    return tuple(rows)


def _quality_facts(quality: Quality) -> tuple[Fact, ...]:
    rows = [
        Fact("effective rank", f"{quality.effective_rank:.1f}", f"of {quality.width} directions"),
        Fact("hubness", f"{quality.hubness.skewness:.1f}", "0 means that no node is near to everything"),
    ]
    if quality.preservation is not None:
        kept = quality.preservation
        rows.append(
            Fact("neighbours kept", f"{kept.found:.0%}", f"among the {kept.k} nearest; chance: {kept.by_chance:.1%}")
        )
    if quality.clustering.modularity is not None:
        rows.append(
            Fact("modularity", f"{quality.clustering.modularity:.2f}", f"of {quality.clustering.count} clusters")
        )
    if quality.clustering.nmi is not None and quality.clustering.ari is not None:
        rows.append(Fact("clusters and labels, NMI", f"{quality.clustering.nmi:.2f}", "1: they say the same"))
        rows.append(Fact("clusters and labels, ARI", f"{quality.clustering.ari:.2f}", "0: by chance; 1: the same"))
    return tuple(rows)


def _quality_tables(quality: Quality) -> tuple[Table, ...]:
    tables = []
    if quality.links is not None:
        for name, kind in (("random non-links", quality.links.easy), ("near non-links", quality.links.hard)):
            tables.append(_table(f"Held-out links against {name}", kind, _LINK_COLUMNS))
    if quality.labels is not None:
        tables.append(
            _table("Labels of held-out nodes", quality.labels, {"accuracy": "accuracy", "macro_f1": "macro-F1"})
        )
    return tuple(tables)


def _table(caption: str, scores: Mapping[str, Mapping[str, float]], columns: Mapping[str, str]) -> Table:
    rows = []
    for place, (name, values) in enumerate(scores.items()):
        cells = tuple(Score(f"{100 * values[key]:.1f}", values[key]) if key in values else "–" for key in columns)
        rows.append(Row(name, cells, kind="floor" if place else "result"))
    return Table(caption=caption, columns=tuple(columns.values()), rows=tuple(rows), note="In per cent.")


def _curves(history: Sequence[Mapping[str, float]]) -> tuple[LineChart, ...]:
    charts = []
    for key, title in (("loss", "Loss"), ("monitor", "AUC of validation links")):
        rows = [row for row in history if key in row]
        if len(rows) > 1:
            curve = Curve(name=title, x=[row["epoch"] for row in rows], y=[row[key] for row in rows])
            charts.append(LineChart(title=title, x_label="epoch", curves=(curve,)))
    return tuple(charts)
