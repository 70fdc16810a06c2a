"""The measures against known shapes, loops and libraries; the record; and sentences that say what the figures say."""

import json
import math
from dataclasses import asdict, replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import skew
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from bandana.data.splits import EdgeSplit, split_edges
from bandana.errors import UserError
from bandana.evaluation import geometry, neighbours, quality
from bandana.evaluation.clusters import clustering, find_clusters, modularity
from bandana.evaluation.geometry import effective_rank, hubness, nearest, preservation, spread
from bandana.evaluation.graph_facts import GraphFacts, describe_graph
from bandana.evaluation.label_quality import LARGEST_CLASS, label_quality
from bandana.evaluation.link_quality import (
    ADAMIC_ADAR,
    ALLOCATION,
    COUNTED,
    DECODER,
    POPULARITY,
    RANDOM,
    SHARED,
    VECTORS,
    LinkQuality,
)
from bandana.evaluation.quality import Quality, collapse_warning, judge
from bandana.evaluation.verdicts import verdicts
from bandana.graph import Graph

GROUPS = 4


def planted(num_nodes: int = 160, *, labels: bool = True, noise: float = 0.3) -> tuple[Graph, Tensor]:
    """Groups linked inside, and vectors that know the group as far as the noise allows."""
    source = torch.Generator().manual_seed(0)
    group = torch.arange(num_nodes) % GROUPS
    pairs = torch.randint(num_nodes, (2, 20 * num_nodes), generator=source)
    inside = pairs[:, group[pairs[0]] == group[pairs[1]]][:, : 4 * num_nodes]
    graph = Graph.from_edges(inside, num_nodes=num_nodes, y=group if labels else None)
    return graph, torch.eye(8)[group] + noise * torch.randn(num_nodes, 8, generator=source)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_effective_rank_of_known_shapes() -> None:
    corners = torch.cat([torch.eye(5), -torch.eye(5)])
    assert effective_rank(corners) == pytest.approx(5)
    assert effective_rank(normal(100, 1) * torch.ones(1, 7)) == pytest.approx(1, abs=1e-3)
    assert effective_rank(torch.ones(10, 3)) == 0
    size = torch.tensor([3.0, 1.0])
    two = torch.cat([torch.diag(size), -torch.diag(size)])
    assert effective_rank(two) == pytest.approx(math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25)))


def test_effective_rank_is_that_of_the_singular_values_and_ignores_the_mean() -> None:
    z = normal(60, 9) @ normal(9, 9, seed=1)
    values = np.linalg.svd((z - z.mean(0)).double().numpy(), compute_uv=False)
    share = values / values.sum()
    assert effective_rank(z) == pytest.approx(float(np.exp(-(share * np.log(share)).sum())), rel=1e-5)
    assert effective_rank(z + 10) == pytest.approx(effective_rank(z), rel=1e-4)


def test_a_sample_of_rows_has_nearly_the_rank_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    z = normal(4_000, 10) * torch.linspace(0.1, 1, 10)
    whole = effective_rank(z)
    monkeypatch.setattr(geometry, "ROWS_FOR_RANK", 1_000)
    assert effective_rank(z) == pytest.approx(whole, rel=0.02)
    assert effective_rank(z) != whole


def test_spread_is_what_the_mean_leaves() -> None:
    z = normal(500, 6)
    z = z - z.mean(0)
    assert spread(z) == pytest.approx(1)
    offset = torch.full((6,), 2.0)
    size = float(z.square().sum(1).mean())
    assert spread(z + offset) == pytest.approx(size / (size + 24), rel=1e-5)
    assert spread(torch.ones(5, 2)) == spread(torch.zeros(5, 2)) == 0


@given(st.integers(3, 40), st.integers(1, 12), st.integers(1, 9))
def test_nearest_are_those_of_scikit_learn_in_any_blocks(num_nodes: int, k: int, block: int) -> None:
    z = normal(num_nodes, 5, seed=num_nodes)
    queries = torch.arange(0, num_nodes, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "SCORES_PER_BLOCK", block * num_nodes)
        found = nearest(z, queries, k)
    reference = NearestNeighbors(n_neighbors=min(k, num_nodes - 1) + 1, metric="cosine", algorithm="brute").fit(z)
    expected = reference.kneighbors(z[queries], return_distance=False)[:, 1:]
    assert found.tolist() == expected.tolist()


def test_hubness_counts_and_their_skewness() -> None:
    near = nearest(normal(300, 40), torch.arange(300), 10)
    times = [int((near == node).sum()) for node in range(300)]
    found = hubness(near)
    assert found.skewness == pytest.approx(float(skew(times)))
    assert found.orphans == pytest.approx(times.count(0) / 300)
    assert (found.most, found.k) == (max(times), 10)
    ring = torch.stack([torch.arange(6).roll(1), torch.arange(6).roll(-1)], dim=1)
    assert (hubness(ring).skewness, hubness(ring).orphans) == (0, 0)


@pytest.mark.parametrize("directed", [False, True])
def test_preservation_by_loops(directed: bool) -> None:
    edges = torch.randint(25, (2, 70), generator=torch.Generator().manual_seed(1))
    graph = Graph.from_edges(edges, num_nodes=27, directed=directed)
    queries = torch.arange(0, 27, 2)
    near = nearest(normal(27, 4), queries, 5)
    around = [set() for _ in range(27)]
    for u, v in graph.edge_index.T.tolist():
        around[u].add(v)
        around[v].add(u)
    linked = [(around[q], row) for q, row in zip(queries.tolist(), near.tolist(), strict=True) if around[q]]
    found = preservation(graph, queries, near)
    assert found is not None
    assert found.found == pytest.approx(np.mean([len(a & set(row)) / min(5, len(a)) for a, row in linked]))
    assert found.by_chance == pytest.approx(np.mean([len(a) * 5 / 26 / min(5, len(a)) for a, _ in linked]))
    assert preservation(graph, torch.tensor([26]), near[:1]) is None


def test_chance_is_what_vectors_without_meaning_preserve() -> None:
    graph, _ = planted(600)
    queries = torch.arange(600)
    found = [preservation(graph, queries, nearest(normal(600, 6, seed=seed), queries, 10)) for seed in range(4)]
    assert np.mean([f.found for f in found if f]) == pytest.approx(found[0].by_chance, rel=0.1)  # type: ignore[union-attr]


@pytest.mark.parametrize(("directed", "weighted"), [(False, False), (False, True), (True, False), (True, True)])
def test_modularity_is_that_of_networkx(directed: bool, weighted: bool) -> None:
    source = torch.Generator().manual_seed(2)
    edges = torch.randint(20, (2, 60), generator=source)
    weight = torch.rand(60, generator=source) + 0.5 if weighted else None
    graph = Graph.from_edges(edges, num_nodes=20, weight=weight, directed=directed)
    reference: Any = nx.DiGraph() if directed else nx.Graph()
    reference.add_nodes_from(range(20))
    values = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    reference.add_weighted_edges_from(
        (u, v, w) for (u, v), w in zip(graph.edge_index.T.tolist(), values.tolist(), strict=True)
    )
    clusters = torch.randint(3, (20,), generator=source)
    parts = [set((clusters == c).nonzero().flatten().tolist()) for c in range(3)]
    assert modularity(graph, clusters) == pytest.approx(nx.community.modularity(reference, parts), rel=1e-6)


def test_planted_groups_are_found_with_and_without_labels() -> None:
    graph, z = planted(noise=0.1)
    fit = clustering(graph, find_clusters(graph, z))
    assert (fit.count, fit.nmi, fit.ari) == (GROUPS, 1.0, 1.0)
    assert fit.modularity == pytest.approx(1 - 1 / GROUPS, abs=0.02)
    without = replace(graph, y=None)
    assert clustering(without, find_clusters(without, z)) == replace(fit, nmi=None, ari=None)
    some = replace(graph, y=torch.where(torch.arange(160) < 80, graph.y, -1))  # type: ignore[arg-type]
    assert clustering(some, find_clusters(some, z)).nmi == 1.0


def test_clusters_of_equal_vectors_or_without_links() -> None:
    graph, _ = planted()
    assert clustering(graph, find_clusters(graph, torch.ones(160, 3))).count == 1
    empty = Graph.from_edges(torch.empty(2, 0, dtype=torch.long), num_nodes=9)
    assert clustering(empty, find_clusters(empty, normal(9, 3))).modularity is None


def test_labels_are_read_from_vectors_that_know_them_and_only_from_those() -> None:
    graph, z = planted(400, noise=0.2)
    assert graph.y is not None
    scores = label_quality(graph.y, {VECTORS: z, "noise": normal(400, 300, seed=5)})
    assert scores is not None
    assert scores[VECTORS]["accuracy"] > 0.95
    # wide enough to learn every node by heart, which must not help with those held out
    assert scores["noise"]["accuracy"] == pytest.approx(1 / GROUPS, abs=0.1)
    assert scores[LARGEST_CLASS]["accuracy"] == pytest.approx(1 / GROUPS, abs=0.05)
    assert label_quality(torch.full((400,), -1), {VECTORS: z}) is None
    assert label_quality(torch.zeros(400, dtype=torch.long), {VECTORS: z}) is None


@pytest.fixture(scope="module")
def judged() -> tuple[Graph, EdgeSplit, Quality]:
    graph, z = planted()
    split = split_edges(graph, seed=0)
    return graph, split, judge(graph, z, split, z, floors={"untrained encoder": normal(160, 8, seed=9)})


def test_the_record_holds_what_the_parts_find_and_can_be_written(judged: tuple[Graph, EdgeSplit, Quality]) -> None:
    graph, split, found = judged
    _, z = planted()
    assert found == judge(graph, z, split, z, floors={"untrained encoder": normal(160, 8, seed=9)})
    assert (found.width, found.effective_rank, found.spread) == (8, effective_rank(z), spread(z))
    assert found.hubness == hubness(nearest(z, torch.arange(160), 10))
    assert found.links is not None
    assert set(found.links.easy) == {VECTORS, "untrained encoder", RANDOM, *COUNTED}
    assert found.labels is not None
    assert set(found.labels) == {VECTORS, "untrained encoder", LARGEST_CLASS}
    assert found.notes == ()
    assert json.loads(json.dumps(asdict(found)))["links"]["steps"] == 2


def test_links_are_judged_by_the_blind_vectors(judged: tuple[Graph, EdgeSplit, Quality]) -> None:
    graph, split, _ = judged
    _, z = planted()
    blind = judge(graph, z, split, normal(160, 8, seed=4)).links
    assert blind is not None
    assert blind.easy[VECTORS]["auc"] < 0.65
    with pytest.raises(ValueError, match="go together"):
        judge(graph, z, split)


def test_large_graphs_are_sampled_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, z = planted(400, labels=False)
    whole = judge(graph, z)
    monkeypatch.setattr(quality, "ROWS_FOR_HUBNESS", 150)
    monkeypatch.setattr(quality, "COMPARISONS", 150**2)
    part = judge(graph, z)
    assert [note.split(":")[0] for note in part.notes] == ["Neighbourhood preservation", "Hubness"]
    assert "56 of 400" in part.notes[0]
    assert part.preservation is not None
    assert whole.preservation is not None
    assert part.preservation.found == pytest.approx(whole.preservation.found, abs=0.1)


@pytest.mark.parametrize("bad", [torch.full((160, 3), torch.nan), torch.ones(159, 3), torch.ones(160)])
def test_vectors_that_cannot_be_judged_are_refused(bad: Tensor) -> None:
    with pytest.raises(UserError, match="Quality"):
        judge(planted()[0], bad)


def test_collapse_is_told_from_health() -> None:
    assert collapse_warning(0, 0, 16) is not None
    assert "the same" in str(collapse_warning(9.0, 1e-4, 16))
    assert "1.2 of their 16" in str(collapse_warning(1.2, 0.9, 16))
    assert collapse_warning(9.0, 0.9, 16) is None
    assert collapse_warning(1.2, 0.9, 2) is None


def rankings(ours: float, **others: float) -> dict[str, dict[str, float]]:
    names = dict.fromkeys((VECTORS, RANDOM, *COUNTED), 0.5) | others | {VECTORS: ours}
    return {name: {"auc": value, "ap": value, "mrr": value, "hits@10": value} for name, value in names.items()}


def sentences(found: Quality, facts: GraphFacts, **change: Any) -> str:
    return " ".join(map(str, verdicts(replace(found, **change), facts)))


def tone_of(words: str, found: Quality, facts: GraphFacts, **change: Any) -> str:
    """The tone of the one verdict with these words."""
    (tone,) = [verdict.tone for verdict in verdicts(replace(found, **change), facts) if words in str(verdict)]
    return tone


def link_figures(
    easy: dict[str, dict[str, float]],
    hard: dict[str, dict[str, float]] | None = None,
    num_links: int = 5_000,
    far: float = 0.0,
) -> LinkQuality:
    return LinkQuality(
        easy=easy,
        hard=hard or rankings(0.6),
        num_links=num_links,
        num_lists=1_000,
        list_length=100,
        steps=2,
        near=1.0,
        far=far,
        notes=(),
    )


@pytest.mark.parametrize(
    ("words", "easy", "hard", "tone"),
    [
        ("90% of the time (50% is guessing)", rankings(0.90), rankings(0.6), "good"),
        ("89% of the time (50% is guessing)", rankings(0.89), rankings(0.6), "fair"),
        ("69% of the time (50% is guessing)", rankings(0.69), rankings(0.6), "poor"),
        ("Training paid", rankings(0.69), rankings(0.6), "good"),
        ("ranks links better", rankings(0.90, **{SHARED: 0.95}), rankings(0.6), "poor"),
        ("ranks links as well", rankings(0.90, **{SHARED: 0.90}), rankings(0.6), "fair"),
        ("made them worse", rankings(0.80, **{"untrained encoder": 0.9}), rankings(0.6), "poor"),
        ("added nothing", rankings(0.80, **{"untrained encoder": 0.8}), rankings(0.6), "fair"),
        ("cannot tell", rankings(0.90, **{SHARED: 0.899}), rankings(0.6), "fair"),
        ("own decoder", rankings(0.80, **{DECODER: 0.9}), rankings(0.6), "note"),
        ("in the first ten", rankings(0.90), rankings(0.6), "good"),
        ("in the first ten", rankings(0.90), rankings(0.45), "poor"),
        ("not told apart", rankings(0.90), rankings(0.45), "poor"),
    ],
)
def test_the_tone_of_a_verdict_on_links_follows_the_figures(
    judged: tuple[Graph, EdgeSplit, Quality], words: str, easy: Any, hard: Any, tone: str
) -> None:
    graph, _, found = judged
    assert tone_of(words, found, describe_graph(graph), links=link_figures(easy, hard)) == tone


def test_verdicts_on_links_name_the_winner(judged: tuple[Graph, EdgeSplit, Quality]) -> None:
    graph, _, found = judged
    facts = describe_graph(graph)

    def on(easy: dict[str, dict[str, float]], **rest: Any) -> str:
        return sentences(found, facts, links=link_figures(easy, **rest))

    assert "Counting shared neighbours ranks links better" in on(rankings(0.90, **{SHARED: 0.95}))
    assert "Multiplying the degrees" in on(rankings(0.90, **{POPULARITY: 0.95, SHARED: 0.93}))
    assert "ranks links as well as these vectors" in on(rankings(0.90, **{ALLOCATION: 0.901}))
    assert "better" not in on(rankings(0.90, **{SHARED: 0.91}), num_links=100)
    assert "Only 100 links were held out" in on(rankings(0.90), num_links=100)
    assert "training made them worse" in on(rankings(0.80, **{"untrained encoder": 0.9}))
    assert "training added nothing" in on(rankings(0.80, **{"untrained encoder": 0.8}))
    assert "own decoder ranks links better" in on(rankings(0.80, **{DECODER: 0.9}))
    assert "decoder" not in on(rankings(0.90, **{DECODER: 0.9}))
    assert "Near nodes are not told apart" in on(rankings(0.9), hard=rankings(0.5))
    assert "although these pairs were chosen" in on(rankings(0.9), hard=rankings(0.6, **{SHARED: 0.8}))
    assert "80% of those pairs are random" in on(rankings(0.9), far=0.8)
    best = "the best that needs none reaches an AUC of 0.800 against 0.950 (the same encoder without any training)"
    assert f"Training paid for links: {best}." in on(rankings(0.95, **{"untrained encoder": 0.8}))
    assert "Training paid" not in on(rankings(0.95, **{"untrained encoder": 0.95}))
    assert "Only 1 link was held out" in on(rankings(0.9), num_links=1)


def test_a_floor_that_is_worse_is_not_as_good_and_one_that_guesses_is_not_named(
    judged: tuple[Graph, EdgeSplit, Quality],
) -> None:
    graph, _, found = judged
    facts = describe_graph(graph)

    def on(ours: float, **floors: float) -> str:
        return sentences(found, facts, links=link_figures(rankings(ours, **floors), num_links=12))

    near = on(0.944, **{ADAMIC_ADAR: 0.913})
    assert "12 held-out links cannot tell whether these vectors rank links better than counting" in near
    assert "by Adamic-Adar does (AUC 0.944 against 0.913)." in near
    assert "as well" not in near
    for floors in ({"untrained encoder": 0.375}, {"untrained encoder": 0.5, SHARED: 0.5}):
        assert "without any training" not in on(0.542, **floors)
        assert "cannot tell" not in on(0.542, **floors)
    assert "without any training" not in on(0.3, **{"untrained encoder": 0.45})


def test_labels_that_cannot_tell_two_readings_apart_say_so(judged: tuple[Graph, EdgeSplit, Quality]) -> None:
    graph, _, found = judged
    facts = describe_graph(graph)

    def on(theirs: float) -> str:
        shares = {VECTORS: 0.7, "raw features": theirs, LARGEST_CLASS: 0.3}
        return sentences(found, facts, labels={name: {"accuracy": share} for name, share in shares.items()})

    assert "80 held-out nodes cannot tell whether these vectors predict labels better than reading" in on(0.65)
    assert "reading the plain features does (70% against 65% right)" in on(0.65)
    assert "predicts labels as well as these vectors" in on(0.7)
    assert "predicts labels better than these vectors" in on(0.9)
    assert "plain features" not in on(0.3)


def test_a_floor_is_not_compared_with_itself_nor_advised_to_train(judged: tuple[Graph, EdgeSplit, Quality]) -> None:
    graph, _, found = judged
    facts = describe_graph(graph)
    figures = link_figures(rankings(0.6, **{"raw features": 0.6, "untrained encoder": 0.6, SHARED: 0.8}))
    labels = {VECTORS: {"accuracy": 0.7}, "raw features": {"accuracy": 0.7}, LARGEST_CLASS: {"accuracy": 0.3}}
    alike = replace(found, links=figures, labels=labels, collapse="All the same: training collapsed.")
    said = verdicts(alike, facts, trained=False)
    text = " ".join(map(str, said))
    assert "This method learns nothing" in said[0].text
    assert not any(verdict.advice for verdict in said)
    for words in ("plain features", "without any training", "training collapsed", "Training paid", "worth their"):
        assert words not in text
    assert "Counting shared neighbours ranks links better than these vectors (AUC 0.800 against 0.600)." in text
    assert "The vectors have collapsed in part" in text


def test_verdicts_on_everything_else(judged: tuple[Graph, EdgeSplit, Quality]) -> None:
    graph, _, found = judged
    facts = describe_graph(graph)
    assert verdicts(replace(found, collapse="All the same."), facts)[0].text == "All the same."
    assert verdicts(replace(found, collapse="All the same."), facts)[0].advice.startswith("Try a lower learning rate")
    assert "communities of the graph" in sentences(found, facts)
    weak = replace(found.clustering, modularity=0.01)
    assert "are not communities" in sentences(found, facts, clustering=weak)
    assert tone_of("are not communities", found, facts, clustering=weak) == "fair"
    assert tone_of("that are communities", found, facts) == "good"
    for kept, chance, tone in ((0.6, 0.1, "good"), (0.3, 0.1, "fair"), (0.6, 0.5, "poor")):
        figures = replace(found.preservation, found=kept, by_chance=chance)
        assert tone_of("most similar", found, facts, preservation=figures) == tone
    for right, tone in ((0.7, "good"), (0.5, "fair"), (0.31, "poor")):
        labels = {VECTORS: {"accuracy": right}, LARGEST_CLASS: {"accuracy": 0.3}}
        assert tone_of("right on held-out nodes", found, facts, labels=labels) == tone
    hubs = replace(found.hubness, skewness=6.0, orphans=0.5, most=90)
    assert "repeat themselves" in sentences(found, facts, hubness=hubs)
    assert "Labels can be read" in sentences(found, facts)
    guess = {name: {"accuracy": 0.3} for name in (VECTORS, LARGEST_CLASS)}
    assert "do not predict the labels" in sentences(found, facts, labels=guess)
    assert "no features" in sentences(found, facts)
    crowd = replace(facts, degrees=replace(facts.degrees, isolated=80), bipartite=True)
    assert "80 of 160 nodes have no link" in sentences(found, crowd)
    assert "hard negatives are taken 2 steps away" in sentences(found, crowd)
    unmeasured = sentences(found, crowd, links=None)
    assert "between two sides" in unmeasured
    assert "hard negatives" not in unmeasured
    assert facts.labels is not None
    mixed = replace(facts, labels=replace(facts.labels, adjusted_homophily=0.02))
    assert "hardly join equal labels" in sentences(found, mixed)


def test_verdicts_without_links_or_labels() -> None:
    graph = Graph.from_edges(torch.empty(2, 0, dtype=torch.long), num_nodes=12)
    said = verdicts(judge(graph, normal(12, 4)), describe_graph(graph))
    assert any("12 of 12 nodes have no link" in verdict.text for verdict in said)
    assert not any("held-out" in verdict.text for verdict in said)
