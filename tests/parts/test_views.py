"""Views: what is dropped, how often, and what is left alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bandana.engine.propagate import gcn_weights
from bandana.graph import Graph, SparseFeatures
from bandana.parts import views
from bandana.parts.views import DropOdds, ViewsConfig

GraphFactory = Callable[..., Graph]


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def edge_weights(graph: Graph) -> dict[tuple[int, int], float]:
    values = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    return dict(zip(map(tuple, graph.edge_index.T.tolist()), values.tolist(), strict=True))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("weighted", [True, False])
def test_dropped_edges_leave_the_gcn_of_the_smaller_graph(random_graph: GraphFactory, weighted: bool) -> None:
    graph = random_graph(weighted=weighted)
    kept = views._keep(graph.num_edges, 0.4, source()).nonzero().squeeze(1)
    directed = replace(graph, directed=True).keep_edges(kept)
    smaller = gcn_weights(directed.structure, directed.weight)
    edges = views.drop_edges(graph, 0.4, source())
    torch.testing.assert_close(edges.values[kept], smaller.values)
    torch.testing.assert_close(edges.loop, smaller.loop)
    assert int((edges.values == 0).sum()) == graph.num_edges - kept.numel() > 0


def test_the_two_directions_of_a_link_are_dropped_independently(random_graph: GraphFactory) -> None:
    graph = random_graph(200, 5000)
    gone = views.drop_edges(graph, 0.3, source()).values == 0
    both = gone & gone[graph.structure.transposed_entry]
    assert float(gone.double().mean()) == pytest.approx(0.3, abs=0.02)
    assert float(both.double().mean()) == pytest.approx(0.09, abs=0.02)


@pytest.mark.parametrize("directed", [False, True])
def test_masked_links_vanish_in_both_directions(random_graph: GraphFactory, directed: bool) -> None:
    graph = random_graph(20, 60, directed=directed)
    seen = views.masked_view(graph, 0.3, 0.0, source())
    shown = torch.zeros(20, 20)
    shown[graph.structure.row, graph.structure.col] = (seen.edges.values != 0).float()
    hidden = int(0.3 * graph.links.numel()) * (1 if directed else 2)
    assert int(shown.sum()) == views.num_unmasked(graph, 0.3) == graph.num_edges - hidden
    assert directed or shown.equal(shown.T)


@pytest.mark.parametrize("num_features", [400, 0])
def test_whole_columns_vanish_and_the_others_keep_their_values(random_graph: GraphFactory, num_features: int) -> None:
    x = random_graph(100, num_features=num_features).x
    dropped = views.drop_columns(x, 0.3, source())
    before, after = (f.dense() if isinstance(f, SparseFeatures) else f for f in (x, dropped))
    gone = (after == 0).all(0)
    assert after[:, ~gone].equal(before[:, ~gone])
    assert float(gone.double().mean()) == pytest.approx(0.3, abs=0.1)
    assert isinstance(dropped, SparseFeatures) == (num_features == 0)


def test_nothing_is_dropped_at_rate_zero(random_graph: GraphFactory) -> None:
    graph = random_graph(weighted=True)
    assert views.drop_columns(graph.x, 0.0, source()).equal(graph.x)
    torch.testing.assert_close(views.drop_edges(graph, 0.0, source()), gcn_weights(graph.structure, graph.weight))


def test_two_views_have_their_own_rates_and_their_own_draws(random_graph: GraphFactory) -> None:
    graph = random_graph(100, 2000, num_features=300)
    config = ViewsConfig(edge_drop=(0.2, 0.6), feature_drop=(0.5, 0.1))
    pair = views.two_views(graph, config, source())
    for view, edge_drop, feature_drop in zip(pair, config.edge_drop, config.feature_drop, strict=True):
        assert float((view.edges.values == 0).double().mean()) == pytest.approx(edge_drop, abs=0.05)
        assert float((view.x == 0).all(0).double().mean()) == pytest.approx(feature_drop, abs=0.1)
    equal = ViewsConfig(edge_drop=(0.5, 0.5), feature_drop=(0.5, 0.5))
    first, second = views.two_views(graph, equal, source())
    assert not first.edges.values.equal(second.edges.values)
    assert not first.x.equal(second.x)


def test_odds_reach_the_views(random_graph: GraphFactory) -> None:
    graph = random_graph(100, 2000, num_features=300)
    odds = DropOdds(torch.arange(graph.num_edges) % 2 * 2.0, torch.arange(300) % 2 * 2.0)
    config = ViewsConfig(edge_drop=(0.25, 0.3), feature_drop=(0.2, 0.3))
    for view, edge_drop, feature_drop in zip(
        views.two_views(graph, config, source(), odds), config.edge_drop, config.feature_drop, strict=True
    ):
        gone = (view.edges.values == 0).double()
        assert float(gone[::2].sum()) == 0
        assert float(gone[1::2].mean()) == pytest.approx(2 * edge_drop, abs=0.05)
        assert bool((view.x[:, ::2] == graph.x[:, ::2]).all())
        assert float((view.x[:, 1::2] == 0).all(0).double().mean()) == pytest.approx(2 * feature_drop, abs=0.12)


@pytest.mark.parametrize("shares", [(0.5,), (0.1, 0.2, 0.3), (0.1, 1.0), (-0.1, 0.2), (float("nan"), 0.2)])
@pytest.mark.parametrize("name", ["edge_drop", "feature_drop"])
def test_rules(name: str, shares: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=f"^{name}: give two shares"):
        ViewsConfig(**{name: shares})


@pytest.mark.usefixtures("float64")
@given(importance=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), rate=st.floats(0, 0.9))
def test_chances_are_the_papers_formula(importance: list[float], rate: float) -> None:
    score = torch.tensor(importance).log()
    odds = views.drop_odds(torch.tensor(importance))
    assert float(odds.mean()) == pytest.approx(1)
    chances = views.drop_chances(odds, rate)
    assert float(chances.max()) <= 0.7
    if float(score.max() - score.mean()) > 1e-6:
        weight = (score.max() - score) / (score.max() - score.mean())
        torch.testing.assert_close(chances, (weight / weight.mean() * rate).clamp(max=0.7))


def test_odds_where_the_formula_divides_by_zero() -> None:
    assert views.drop_odds(torch.full((4,), 3.0)).tolist() == [1.0] * 4
    assert views.drop_odds(torch.zeros(4)).tolist() == [1.0] * 4
    assert views.drop_odds(torch.empty(0)).shape == (0,)
    torch.testing.assert_close(
        views.drop_odds(torch.tensor([0.0, 1.0, 8.0])), views.drop_odds(torch.tensor([1.0, 1.0, 8.0]))
    )


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [False, True])
def test_centralities_against_loops(hand_graph: GraphFactory, directed: bool) -> None:
    graph = hand_graph(directed=directed, weighted=True)
    links = list(edge_weights(graph))
    neighbours = [{a for a, b in links if b == i} | {b for a, b in links if a == i} for i in range(5)]
    assert views.node_centrality(graph, "degree").tolist() == [len(near) for near in neighbours]

    rank = [1.0] * 5
    for _ in range(10):
        sent = [rank[i] / max(sum(a == i for a, _ in links), 1) for i in range(5)]
        rank = [0.15 * rank[i] + 0.85 * sum(sent[a] for a, b in links if b == i) for i in range(5)]
    assert views.node_centrality(graph, "pagerank", rounds=10).tolist() == pytest.approx(rank)


@pytest.mark.usefixtures("float64")
def test_eigenvector_centrality_is_the_leading_eigenvector(random_graph: GraphFactory) -> None:
    graph = random_graph(weighted=True)
    adjacency = torch.zeros(30, 30)
    adjacency[graph.structure.row, graph.structure.col] = 1
    leading = torch.linalg.eigh(adjacency).eigenvectors[:, -1].abs()
    torch.testing.assert_close(views.node_centrality(graph, "eigenvector"), leading, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("importance", ["occurrence", "magnitude"])
def test_column_importance_against_loops(sparse: bool, importance: views.Importance) -> None:
    generator = source()
    x = torch.randn(40, 50, generator=generator) * (torch.rand(40, 50, generator=generator) < 0.04)
    centrality = torch.rand(40, generator=generator)
    kept = Graph.from_edges(torch.empty(2, 0, dtype=torch.long), num_nodes=40, x=x).x
    assert isinstance(kept, SparseFeatures)
    expected = [
        sum(float(centrality[i]) * (abs(float(x[i, f])) if importance == "magnitude" else 1) for i in x[:, f].nonzero())
        for f in range(50)
    ]
    found = views.column_importance(kept if sparse else x, centrality, importance)
    assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("centrality", ["degree", "pagerank", "eigenvector"])
def test_edges_into_hubs_are_spared(centrality: views.Centrality) -> None:
    hub = torch.stack([torch.zeros(8, dtype=torch.long), torch.arange(1, 9)])
    graph = Graph.from_edges(hub, num_nodes=10, x=torch.eye(10))
    odds = views.adaptive_odds(graph, centrality, "occurrence")
    into_hub = graph.structure.row == 0
    assert bool((odds.edges[into_hub] == 0).all())
    torch.testing.assert_close(odds.edges[~into_hub], torch.full((8,), 2.0))
    assert float(odds.columns[0]) == 0
    assert float(odds.columns[1:].min()) > 0


@pytest.mark.usefixtures("float64")
def test_page_rank_takes_200_rounds_for_edges_and_10_for_features() -> None:
    """On a path it still moves after both, and with one feature per node a column is as important as its node."""
    steps = torch.arange(39)
    graph = Graph.from_edges(torch.stack([steps, steps + 1]), num_nodes=40, x=torch.eye(40))
    adjacency = torch.zeros(40, 40)
    adjacency[graph.structure.row, graph.structure.col] = 1
    ranks = [torch.ones(40)]
    for _ in range(200):
        ranks.append(0.15 * ranks[-1] + 0.85 * adjacency @ (ranks[-1] / adjacency.sum(1)))
    odds = views.adaptive_odds(graph, "pagerank", "occurrence")
    torch.testing.assert_close(odds.edges, views.drop_odds(ranks[200][graph.structure.row]))
    torch.testing.assert_close(odds.columns, views.drop_odds(ranks[10]))


@pytest.mark.parametrize("num_features", [6, 0])
def test_scrambling_moves_rows_as_they_are(random_graph: GraphFactory, num_features: int) -> None:
    x = random_graph(num_features=num_features).x
    scrambled = views.scramble_rows(x, source())
    before, after = (f.dense() if isinstance(f, SparseFeatures) else f for f in (x, scrambled))
    assert not after.equal(before)
    assert sorted(after.tolist()) == sorted(before.tolist())


def test_sparse_rows_can_be_multiplied_after_scrambling() -> None:
    x = torch.zeros(30, 50)
    x[torch.arange(30), torch.arange(30)] = torch.arange(1.0, 31.0)
    sparse = Graph.from_edges(torch.empty(2, 0, dtype=torch.long), num_nodes=30, x=x).x
    scrambled = views.scramble_rows(sparse, source())
    assert isinstance(scrambled, SparseFeatures)
    pattern, dense = scrambled.structure, scrambled.dense()
    back = torch.zeros(50, 30)
    back.index_put_(
        (torch.arange(50).repeat_interleave(pattern.transposed_rowptr.diff()), pattern.transposed_col),
        scrambled.values[pattern.transposed_entry],
    )
    assert back.equal(dense.T)


def test_random_features_are_uniform(random_graph: GraphFactory) -> None:
    x = views.random_features(random_graph(100, num_features=0).x, source())
    assert x.shape == (100, 100)
    assert 0 <= float(x.min()) <= float(x.max()) < 1
    assert float(x.mean()) == pytest.approx(0.5, abs=0.02)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("weighted", [True, False])
def test_random_edges_are_a_multigraph_without_loops(random_graph: GraphFactory, weighted: bool) -> None:
    graph = random_graph(7, 40, weighted=weighted)
    structure, edges = views.random_edges(graph, source())
    assert structure.num_entries == graph.num_edges
    values = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    adjacency, pairs = torch.zeros(7, 7), list(zip(structure.row.tolist(), structure.col.tolist(), strict=True))
    assert len(set(pairs)) < len(pairs), "the case to check is that of a pair drawn twice"
    for (row, col), value in zip(pairs, values.tolist(), strict=True):
        adjacency[row, col] += value * (row != col)
    adjacency += torch.eye(7)
    scale = adjacency.sum(1).rsqrt()
    x = torch.randn(7, 3, generator=source(1))
    expected: Tensor = scale.unsqueeze(1) * adjacency * scale @ x
    torch.testing.assert_close(views.propagate(structure, edges.values, x, edges.loop), expected)
