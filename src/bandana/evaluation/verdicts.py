"""What the figures mean, in sentences for somebody who has never read a paper about embeddings."""

from collections.abc import Iterator, Mapping
from math import sqrt

from bandana.evaluation.graph_facts import GraphFacts
from bandana.evaluation.label_quality import LARGEST_CLASS, ROWS_FOR_LABELS
from bandana.evaluation.link_quality import COUNTED, DECODER, RANDOM, VECTORS, LinkQuality
from bandana.evaluation.quality import Quality

FEW_LINKS = 200
GOOD_AUC, POOR_AUC = 0.9, 0.7
HIGH_SKEWNESS, MANY_ORPHANS = 3.0, 0.3
STRONG_COMMUNITIES, WEAK_COMMUNITIES = 0.3, 0.1
WEAK_HOMOPHILY = 0.1
MANY_ISOLATED = 0.1
MANY_FAR = 0.3

WORDS = {
    "shared neighbours": "Counting shared neighbours",
    "resource allocation": "Counting shared neighbours by resource allocation",
    "popularity of the ends": "Multiplying the degrees of the two ends",
    "untrained encoder": "The same encoder without any training",
    "raw features": "The plain features",
    DECODER: "The method's own decoder",
}


def verdicts(quality: Quality, facts: GraphFacts) -> list[str]:
    """Say what is good, what is not and what to try next, the gravest first.

    A difference counts only if it is larger than the held-out sample lets it be by luck: two standard errors.

    Args:
        quality: From `judge`.
        facts: From `describe_graph`, of the same graph.
    """
    sentences = [] if quality.collapse is None else [f"{quality.collapse} {_after_collapse(facts)}"]
    if quality.links is not None:
        sentences += _on_links(quality.links)
    if quality.labels is not None and facts.labels is not None:
        sentences += _on_labels(quality.labels, min(facts.labels.labelled, ROWS_FOR_LABELS) // 2)
    sentences += [*_on_neighbourhoods(quality), *_on_clusters(quality), *_on_the_graph(facts)]
    return sentences


def _after_collapse(facts: GraphFacts) -> str:
    advice = "Try a lower learning rate, fewer layers or another --method"
    return f"{advice}." if facts.num_features is None else f"{advice}, and look whether the features differ at all."


def _on_links(links: LinkQuality) -> Iterator[str]:
    ours, luck = links.easy[VECTORS]["auc"], _luck(links.easy[VECTORS]["auc"], links.num_links)
    grade = "Good" if ours >= GOOD_AUC else "Fair" if ours >= POOR_AUC else "Poor"
    yield (
        f"{grade} at telling links from random pairs: a held-out link scores above a pair that is not linked "
        f"{ours:.0%} of the time (50 % is guessing)."
    )
    if links.num_links < FEW_LINKS:
        yield f"Only {links.num_links} links were held out, so figures about links may be off by {luck:.0%} or more."
    yield from _against_counting(links, ours, luck)
    yield from _against_other_vectors(links, ours, luck)
    yield from _on_hard_negatives(links)


def _against_counting(links: LinkQuality, ours: float, luck: float) -> Iterator[str]:
    best = max(COUNTED, key=lambda name: links.easy[name]["auc"])
    theirs = links.easy[best]["auc"]
    if theirs > ours + luck:
        yield (
            f"{WORDS[best]} ranks links better than these vectors (AUC {theirs:.3f} against {ours:.3f}): to predict "
            "links in this graph, count, or try --method gae_tuned or --tune 20 and compare again."
        )
    elif theirs >= ours - luck:
        yield (
            f"{WORDS[best]} ranks links as well as these vectors do (AUC {theirs:.3f} against {ours:.3f}): for links "
            "alone, they are not worth their training."
        )


def _against_other_vectors(links: LinkQuality, ours: float, luck: float) -> Iterator[str]:
    for name, scores in links.easy.items():
        if name in (*COUNTED, VECTORS, RANDOM):
            continue
        subject, theirs = WORDS.get(name, name), scores["auc"]
        if name == DECODER:
            if theirs > ours + luck:
                yield f"{subject} ranks links better than dot products (AUC {theirs:.3f} against {ours:.3f}): use it."
        elif theirs > ours + luck:
            yield (
                f"{subject} ranks links better than these vectors (AUC {theirs:.3f} against {ours:.3f}): training made "
                "them worse at it; try another --method or fewer epochs."
            )
        elif theirs >= ours - luck:
            yield (
                f"{subject} ranks links as well as these vectors do (AUC {theirs:.3f} against {ours:.3f}): for links, "
                "training added nothing that could be shown; try more epochs or another --method."
            )


def _on_hard_negatives(links: LinkQuality) -> Iterator[str]:
    ours = links.hard[VECTORS]
    luck = _luck(ours["auc"], links.num_lists)
    yield (
        f"Among {links.list_length} pairs that are near in the graph and not linked, a held-out link is in the first "
        f"ten {ours['hits@10']:.0%} of the time (among random pairs {links.easy[VECTORS]['hits@10']:.0%})."
    )
    if links.far > MANY_FAR:
        yield f"{links.far:.0%} of those pairs are random after all: most nodes have too few others near them."
    if ours["auc"] <= 0.5 + luck:
        yield (
            "Near nodes are not told apart: these vectors know the neighbourhood of a link, not the link. Use them to "
            "find groups and similar nodes rather than to choose among friends of friends."
        )
    best = max(COUNTED, key=lambda name: links.hard[name]["mrr"])
    if links.hard[best]["mrr"] > ours["mrr"] + _luck(ours["mrr"], links.num_lists):
        yield (
            f"{WORDS[best]} ranks near pairs better than these vectors (MRR {links.hard[best]['mrr']:.3f} against "
            f"{ours['mrr']:.3f}), although these pairs were chosen to be hard for counting."
        )


def _on_labels(labels: Mapping[str, Mapping[str, float]], tested: int) -> Iterator[str]:
    ours, guess = labels[VECTORS]["accuracy"], labels[LARGEST_CLASS]["accuracy"]
    luck = _luck(ours, tested)
    if ours <= guess + luck:
        yield (
            f"The vectors do not predict the labels: {ours:.0%} right on held-out nodes, and always answering the "
            f"largest class is right {guess:.0%} of the time. Add features that have to do with the labels."
        )
        return
    yield f"Labels can be read from the vectors: {ours:.0%} right on held-out nodes (the largest class: {guess:.0%})."
    for name, scores in labels.items():
        if name not in (VECTORS, LARGEST_CLASS) and scores["accuracy"] >= ours - luck:
            how = "better than" if scores["accuracy"] > ours + luck else "as well as"
            yield f"{WORDS.get(name, name)} predicts labels {how} these vectors ({scores['accuracy']:.0%} right)."


def _on_neighbourhoods(quality: Quality) -> Iterator[str]:
    kept, hubs = quality.preservation, quality.hubness
    if kept is not None:
        times = kept.found / kept.by_chance
        yield (
            f"Of the neighbours that a node could have among its {kept.k} most similar, {kept.found:.0%} are there: "
            + (f"{times:,.0f} times what chance would give." if times >= 2 else "hardly more than by chance.")
        )
    if hubs.skewness > HIGH_SKEWNESS or hubs.orphans > MANY_ORPHANS:
        yield (
            f"A few nodes are similar to very many ({hubs.orphans:.0%} of the nodes are nobody's neighbour, one is a "
            f"neighbour of {hubs.most:,}): lists of similar nodes will repeat themselves. More dimensions often help."
        )


def _on_clusters(quality: Quality) -> Iterator[str]:
    found = quality.clustering
    if found.modularity is not None and found.modularity >= STRONG_COMMUNITIES:
        yield (
            f"The vectors fall into {found.count} groups that are communities of the graph "
            f"(modularity {found.modularity:.2f}; above {STRONG_COMMUNITIES} is clear)."
        )
    elif found.modularity is not None and found.modularity < WEAK_COMMUNITIES:
        yield f"Groups of similar vectors are not communities of the graph (modularity {found.modularity:.2f})."


def _on_the_graph(facts: GraphFacts) -> Iterator[str]:
    isolated = facts.degrees.isolated
    if isolated > MANY_ISOLATED * facts.num_nodes:
        source = "only their features speak for them" if facts.num_features else "their vectors mean nothing"
        yield f"{isolated:,} of {facts.num_nodes:,} nodes have no link: {source}."
    if facts.num_features is None:
        yield "The graph has no features, so vectors cannot be made for new nodes; --features would allow it."
    if facts.bipartite:
        yield (
            "All links run between two sides (such as users and things): no link has a shared neighbour, and hard "
            "negatives were taken three steps away."
        )
    agreement = None if facts.labels is None else facts.labels.adjusted_homophily
    if agreement is not None and agreement < WEAK_HOMOPHILY:
        yield (
            f"Links hardly join equal labels (adjusted homophily {agreement:.2f}): vectors that follow links say "
            "little about labels here, and the features alone may do better."
        )


def _luck(share: float, trials: int) -> float:
    """Two standard errors of a share, never below what a single trial more or less would change."""
    return max(2 * sqrt(max(share * (1 - share), 0.0) / max(trials, 1)), 1 / max(trials, 1))
