"""What the figures mean, in sentences for somebody who has never read a paper about embeddings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal, TypeAlias

from bandana.evaluation.graph_facts import GraphFacts
from bandana.evaluation.label_quality import LARGEST_CLASS, ROWS_FOR_LABELS
from bandana.evaluation.link_quality import COUNTED, DECODER, RANDOM, VECTORS, LinkQuality
from bandana.evaluation.quality import Quality
from bandana.evaluation.wording import how_many, in_words, inside

FEW_LINKS = 200
GOOD_AUC, POOR_AUC, GUESSING = 0.9, 0.7, 0.5
GOOD_HITS = 0.5
GOOD_GAIN = 0.5
"""Share of the nodes that guessing gets wrong and the vectors get right."""
GOOD_KEPT = 0.5
HIGH_SKEWNESS, MANY_ORPHANS = 3.0, 0.3
STRONG_COMMUNITIES, WEAK_COMMUNITIES = 0.3, 0.1
WEAK_HOMOPHILY = 0.1
MANY_ISOLATED = 0.1
MANY_FAR = 0.3

FLOOR = "This method learns nothing: its figures are a floor, which a training must pass to be worth its time."

Tone: TypeAlias = Literal["good", "fair", "poor", "note"]


@dataclass(frozen=True)
class Verdict:
    """A judgement in a sentence, or in a word where it stands in a table.

    Attributes:
        tone: How good the news is; a note is no news of quality at all.
        text: What was found.
        advice: What to do about it in the next training, where something can be done.
    """

    tone: Tone
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.advice}".strip()


def verdicts(quality: Quality, facts: GraphFacts, *, trained: bool = True) -> list[Verdict]:
    """Say what is good, what is not and what to try next: collapse first, then links, labels and all the rest.

    A difference counts only if it is larger than the held-out sample lets it be by luck: two standard errors.

    Args:
        quality: From `judge`.
        facts: From `describe_graph`, of the same graph.
        trained: Whether the method learns anything. One that does not is a floor itself: it is compared with counting
            alone, and nothing about a training is advised.
    """
    found = [] if quality.collapse is None else [_on_collapse(quality, facts, trained)]
    if quality.links is not None:
        found += _on_links(quality.links, trained)
    if quality.labels is not None and facts.labels is not None:
        found += _on_labels(quality.labels, min(facts.labels.labelled, ROWS_FOR_LABELS) // 2, trained)
    found += [*_on_neighbourhoods(quality), *_on_clusters(quality), *_on_the_graph(facts, quality.links)]
    return found if trained else [Verdict("note", FLOOR), *(replace(verdict, advice="") for verdict in found)]


def _on_collapse(quality: Quality, facts: GraphFacts, trained: bool) -> Verdict:
    if trained:
        return Verdict("poor", str(quality.collapse), _after_collapse(facts))
    return Verdict(
        "poor",
        f"The vectors have collapsed in part: they use about {quality.effective_rank:.1f} of their {quality.width} "
        f"directions, and {quality.spread:.1%} of their squared length differs from node to node.",
    )


def _after_collapse(facts: GraphFacts) -> str:
    advice = "Try a lower learning rate, fewer layers or another --method"
    return f"{advice}." if facts.num_features is None else f"{advice}, and look whether the features differ at all."


def _on_links(links: LinkQuality, trained: bool) -> Iterator[Verdict]:
    ours, luck = links.easy[VECTORS]["auc"], _luck(links.easy[VECTORS]["auc"], links.num_links)
    yield Verdict(
        "good" if ours >= GOOD_AUC else "fair" if ours >= POOR_AUC else "poor",
        f"A held-out link scores above a random pair that is not linked {ours:.0%} of the time "
        f"({GUESSING:.0%} is guessing).",
    )
    if links.num_links < FEW_LINKS:
        were = "was" if links.num_links == 1 else "were"
        yield Verdict(
            "note",
            f"Only {how_many(links.num_links, 'link')} {were} held out, so figures about links may be off by "
            f"{luck:.0%}.",
        )
    yield from _against_floors(links, ours, luck) if trained else _against_counting(links, ours, luck)
    yield from _on_hard_negatives(links)


def _against_floors(links: LinkQuality, ours: float, luck: float) -> Iterator[Verdict]:
    """How other rankings compare: the decoder's, the best that counts, and those of all other vectors."""
    decoder = links.easy.get(DECODER, {"auc": 0.0})["auc"]
    if decoder > ours + luck:
        yield Verdict(
            "note",
            f"{in_words(DECODER)} ranks links better than dot products (AUC {decoder:.3f} against {ours:.3f}): use it.",
        )
    learned = [name for name in links.easy if name not in (*COUNTED, VECTORS, RANDOM, DECODER)]
    rivals = {name: links.easy[name]["auc"] for name in (_best_count(links), *learned)}
    best = max(rivals, key=lambda name: rivals[name])
    if rivals[best] < ours - luck:
        yield Verdict(
            "good",
            f"Training paid for links: the best that needs none reaches an AUC of {rivals[best]:.3f} against "
            f"{ours:.3f} ({inside(best)}).",
        )
    for name, theirs in rivals.items():
        if theirs > GUESSING and theirs >= ours - luck:
            yield _too_close(name, theirs, ours, links) if theirs < ours else _rival(name, theirs, ours, luck)


def _against_counting(links: LinkQuality, ours: float, luck: float) -> Iterator[Verdict]:
    """The same for vectors that nothing was learned for: other floors are no rivals, and one of them they may be."""
    best = _best_count(links)
    theirs = links.easy[best]["auc"]
    if theirs > max(GUESSING, ours + luck):
        yield Verdict(
            "fair", f"{in_words(best)} ranks links better than these vectors (AUC {theirs:.3f} against {ours:.3f})."
        )


def _best_count(links: LinkQuality) -> str:
    return max(COUNTED, key=lambda name: links.easy[name]["auc"])


def _too_close(name: str, theirs: float, ours: float, links: LinkQuality) -> Verdict:
    return Verdict(
        "fair",
        f"{how_many(links.num_links, 'held-out link')} cannot tell whether these vectors rank links better than "
        f"{inside(name)} does (AUC {ours:.3f} against {theirs:.3f}).",
    )


def _rival(name: str, theirs: float, ours: float, luck: float) -> Verdict:
    better = theirs > ours + luck
    how = "better than these vectors" if better else "as well as these vectors do"
    text = f"{in_words(name)} ranks links {how} (AUC {theirs:.3f} against {ours:.3f}): "
    match name in COUNTED, better:
        case True, True:
            text += "to predict links in this graph, count."
            return Verdict("poor", text, "Or try --method gae_tuned or --tune 20, and compare again.")
        case True, False:
            return Verdict("fair", f"{text}for links alone, they are not worth their training.")
        case False, True:
            return Verdict("poor", f"{text}training made them worse at it.", "Try another --method or fewer epochs.")
    text += "for links, training added nothing that could be shown."
    return Verdict("fair", text, "Try more epochs or another --method.")


def _on_hard_negatives(links: LinkQuality) -> Iterator[Verdict]:
    ours = links.hard[VECTORS]
    luck = _luck(ours["auc"], links.num_lists)
    blurred = ours["auc"] <= GUESSING + luck
    yield Verdict(
        "poor" if blurred else "good" if ours["hits@10"] >= GOOD_HITS else "fair",
        f"Among {links.list_length} pairs that are near in the graph and not linked, a held-out link is in the first "
        f"ten {ours['hits@10']:.0%} of the time (among random pairs {links.easy[VECTORS]['hits@10']:.0%}).",
    )
    if links.far > MANY_FAR:
        yield Verdict(
            "note", f"{links.far:.0%} of those pairs are random after all: most nodes have too few others near them."
        )
    if blurred:
        yield Verdict(
            "poor",
            "Near nodes are not told apart: these vectors know the neighbourhood of a link, not the link. Use them to "
            "find groups and similar nodes rather than to choose among friends of friends.",
        )
    best = max(COUNTED, key=lambda name: links.hard[name]["mrr"])
    if links.hard[best]["mrr"] > ours["mrr"] + _luck(ours["mrr"], links.num_lists):
        yield Verdict(
            "fair",
            f"{in_words(best)} ranks near pairs better than these vectors (MRR {links.hard[best]['mrr']:.3f} against "
            f"{ours['mrr']:.3f}), although these pairs were chosen to be hard for counting.",
        )


def _on_labels(labels: Mapping[str, Mapping[str, float]], tested: int, trained: bool) -> Iterator[Verdict]:
    ours, guess = labels[VECTORS]["accuracy"], labels[LARGEST_CLASS]["accuracy"]
    luck = _luck(ours, tested)
    if ours <= guess + luck:
        yield Verdict(
            "poor",
            f"The vectors do not predict the labels: {ours:.0%} right on held-out nodes, and always answering the "
            f"largest class is right {guess:.0%} of the time.",
            "Add features that have to do with the labels.",
        )
        return
    yield Verdict(
        "good" if ours - guess >= GOOD_GAIN * (1 - guess) else "fair",
        f"Labels can be read from the vectors: {ours:.0%} right on held-out nodes (the largest class: {guess:.0%}).",
    )
    if trained:
        yield from _floors_on_labels(labels, luck, tested)


def _floors_on_labels(labels: Mapping[str, Mapping[str, float]], luck: float, tested: int) -> Iterator[Verdict]:
    ours, guess = labels[VECTORS]["accuracy"], labels[LARGEST_CLASS]["accuracy"]
    for name in (name for name in labels if name not in (VECTORS, LARGEST_CLASS)):
        theirs = labels[name]["accuracy"]
        if theirs >= ours:
            how = "better than" if theirs > ours + luck else "as well as"
            yield Verdict("fair", f"{in_words(name)} predicts labels {how} these vectors ({theirs:.0%} right).")
        elif theirs > guess and theirs >= ours - luck:
            yield Verdict(
                "fair",
                f"{how_many(tested, 'held-out node')} cannot tell whether these vectors predict labels better than "
                f"{inside(name)} does ({ours:.0%} against {theirs:.0%} right).",
            )


def _on_neighbourhoods(quality: Quality) -> Iterator[Verdict]:
    kept, hubs = quality.preservation, quality.hubness
    if kept is not None:
        times = kept.found / kept.by_chance
        yield Verdict(
            "poor" if times < 2 else "good" if kept.found >= GOOD_KEPT else "fair",
            f"Of the neighbours that a node could have among its {kept.k} most similar, {kept.found:.0%} are there: "
            + (f"{times:,.0f} times what chance would give." if times >= 2 else "hardly more than by chance."),
        )
    if hubs.skewness > HIGH_SKEWNESS or hubs.orphans > MANY_ORPHANS:
        yield Verdict(
            "fair",
            f"A few nodes are similar to very many ({hubs.orphans:.0%} of the nodes are nobody's neighbour, one is a "
            f"neighbour of {hubs.most:,}): lists of similar nodes will repeat themselves.",
            "More dimensions often help.",
        )


def _on_clusters(quality: Quality) -> Iterator[Verdict]:
    found = quality.clustering
    if found.modularity is not None and found.modularity >= STRONG_COMMUNITIES:
        yield Verdict(
            "good",
            f"The vectors fall into {found.count} groups that are communities of the graph "
            f"(modularity {found.modularity:.2f}; above {STRONG_COMMUNITIES} is clear).",
        )
    elif found.modularity is not None and found.modularity < WEAK_COMMUNITIES:
        yield Verdict(
            "fair", f"Groups of similar vectors are not communities of the graph (modularity {found.modularity:.2f})."
        )


def _on_the_graph(facts: GraphFacts, links: LinkQuality | None) -> Iterator[Verdict]:
    isolated = facts.degrees.isolated
    if isolated > MANY_ISOLATED * facts.num_nodes:
        source = "only their features speak for them" if facts.num_features else "their vectors mean nothing"
        yield Verdict("fair", f"{isolated:,} of {facts.num_nodes:,} nodes have no link: {source}.")
    if facts.num_features is None:
        yield Verdict(
            "note",
            "The graph has no features, so vectors cannot be made for new nodes.",
            "Training with --features would allow it.",
        )
    if facts.bipartite:
        taken = "" if links is None else f", and hard negatives are taken {links.steps} steps away"
        yield Verdict(
            "note",
            f"All links run between two sides (such as users and things): no link has a shared neighbour{taken}.",
        )
    agreement = None if facts.labels is None else facts.labels.adjusted_homophily
    if agreement is not None and agreement < WEAK_HOMOPHILY:
        yield Verdict(
            "note",
            f"Links hardly join equal labels (adjusted homophily {agreement:.2f}): vectors that follow links say "
            "little about labels here, and the features alone may do better.",
        )


def _luck(share: float, trials: int) -> float:
    """Two standard errors of a share, never below what a single trial more or less would change."""
    return max(2 * sqrt(max(share * (1 - share), 0.0) / max(trials, 1)), 1 / max(trials, 1))
