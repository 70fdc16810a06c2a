"""Every distribution of bandwidths: its mean, its range, its shape, and what it may depend on."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy import stats

from bandana.engine.bandwidth import gaussian_noise
from bandana.engine.propagate import gcn_weights, row_sums
from bandana.graph import Graph
from bandana.method import Clock
from bandana.parts.masks import MaskConfig, draw_mask, draw_masks, mean_bandwidth

GraphFactory = Callable[..., Graph]
DISTRIBUTIONS = ["boltzmann_gibbs", "bernoulli", "uniform", "truncated_gaussian", "none"]
RANDOM = [name for name in DISTRIBUTIONS if name != "none"]
CLOCK = Clock(seed=1, step=2)


@pytest.fixture(scope="module")
def big(random_graph: GraphFactory) -> Graph:
    """About 20,000 edges; a tenth of the nodes receive nothing."""
    return random_graph(2000, 10_000, isolated=200, num_features=1)


def many_to_one(senders: int) -> Graph:
    """A directed graph in which every fourth node hears the three after it: the mean bandwidth is a third."""
    receivers = torch.arange(senders // 3) * 4
    edges = torch.stack([torch.cat([receivers + i for i in (1, 2, 3)]), receivers.repeat(3)])
    return Graph.from_edges(edges, num_nodes=len(receivers) * 4, directed=True)


def cycle(num_nodes: int) -> Graph:
    """A directed cycle: every node hears one other, so that the mean bandwidth is 1."""
    nodes = torch.arange(num_nodes)
    return Graph.from_edges(torch.stack([nodes, (nodes + 1) % num_nodes]), num_nodes=num_nodes, directed=True)


def values(graph: Graph, distribution: str, **more: Any) -> torch.Tensor:
    return draw_mask(MaskConfig(distribution=distribution, **more), graph, CLOCK, layer=0).values  # type: ignore[arg-type]


def test_mean_bandwidth_is_receivers_per_edge(big: Graph) -> None:
    receivers = len(set(big.structure.row.tolist()))
    assert float(mean_bandwidth(big.structure)) == receivers / big.num_edges
    assert float(mean_bandwidth(many_to_one(300).structure)) == 1 / 3
    assert float(mean_bandwidth(cycle(5).structure)) == 1


@pytest.mark.parametrize("temperature", [1e-6, 0.4, 1.0, 100.0])
def test_boltzmann_gibbs_has_exactly_that_mean(big: Graph, temperature: float) -> None:
    mean = float(values(big, "boltzmann_gibbs", temperature=temperature).double().mean())
    assert mean == pytest.approx(float(mean_bandwidth(big.structure)), rel=1e-6)


@pytest.mark.parametrize(
    ("distribution", "variance"),
    [
        ("bernoulli", lambda m: m * (1 - m)),
        ("uniform", lambda m: m * m / 3),
        ("truncated_gaussian", lambda m: m * m / 3),
    ],
)
def test_the_others_have_that_mean_on_average(
    big: Graph, distribution: str, variance: Callable[[float], float]
) -> None:
    """A Gaussian cut to a narrow range varies less than a uniform number in it."""
    mean = float(mean_bandwidth(big.structure))
    drawn = values(big, distribution).double()
    assert abs(float(drawn.mean()) - mean) < 4 * math.sqrt(variance(mean) / big.num_edges)


def test_bernoulli_values_are_zero_and_one(big: Graph) -> None:
    assert set(values(big, "bernoulli").unique().tolist()) == {0.0, 1.0}


def test_bernoulli_keeps_all_edges_when_the_mean_is_one() -> None:
    assert bool((values(cycle(1000), "bernoulli") == 1).all())


@pytest.mark.parametrize("distribution", ["uniform", "truncated_gaussian"])
def test_continuous_values_fill_the_range_around_the_mean(big: Graph, distribution: str) -> None:
    drawn, mean = values(big, distribution), mean_bandwidth(big.structure)
    assert 0 <= float(drawn.min()) < 0.01 * mean
    assert 1.99 * mean < float(drawn.max()) <= 2 * mean * (1 + 1e-6)


@pytest.mark.parametrize("graph", [many_to_one(20_000), cycle(20_000)], ids=["mean one third", "mean one"])
def test_shape_of_the_continuous_distributions(graph: Graph) -> None:
    mean = float(mean_bandwidth(graph.structure))
    uniform = stats.uniform(0, 2 * mean)
    gaussian = stats.truncnorm(-mean, mean, loc=mean)
    assert stats.kstest(values(graph, "uniform").double().numpy(), uniform.cdf).pvalue > 0.01
    assert stats.kstest(values(graph, "truncated_gaussian").double().numpy(), gaussian.cdf).pvalue > 0.01


def test_the_truncated_gaussian_is_not_simply_uniform() -> None:
    drawn = values(cycle(20_000), "truncated_gaussian").double().numpy()
    assert stats.kstest(drawn, stats.uniform(0, 2).cdf).pvalue < 1e-9


def test_none_is_all_ones(big: Graph) -> None:
    mask = draw_mask(MaskConfig(distribution="none"), big, CLOCK, 0)
    assert mask.values.equal(torch.ones(big.num_edges))
    assert mask.loop.equal(torch.ones(big.num_nodes))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("self_loop", ["outside", "inside"])
@pytest.mark.parametrize("directed", [False, True])
def test_boltzmann_gibbs_is_the_softmax_of_equation_5(hand_graph: GraphFactory, self_loop: str, directed: bool) -> None:
    graph, temperature = hand_graph(directed=directed), 0.7
    config = MaskConfig(temperature=temperature, self_loop=self_loop)  # type: ignore[arg-type]
    mask = draw_mask(config, graph, CLOCK, layer=3)

    def power(sender: int, receiver: int) -> float:
        key = torch.tensor([receiver * graph.num_nodes + sender])
        return math.exp(float(gaussian_noise(key, seed=1, step=2, layer=3)) / temperature)

    edges = graph.edge_index.T.tolist()
    for entry, (sender, receiver) in enumerate(edges):
        total = sum(power(k, receiver) for k, j in edges if j == receiver)
        total += power(receiver, receiver) if self_loop == "inside" else 0
        assert float(mask.values[entry]) == pytest.approx(power(sender, receiver) / total, rel=1e-12)
    for node in range(graph.num_nodes):
        heard = [k for k, j in edges if j == node]
        own = power(node, node)
        expected = own / (own + sum(power(k, node) for k in heard)) if self_loop == "inside" else 1
        assert float(mask.loop[node]) == pytest.approx(expected, rel=1e-12)


def test_shares_sum_to_one_with_the_loop_inside(big: Graph) -> None:
    mask = draw_mask(MaskConfig(self_loop="inside"), big, CLOCK, 0)
    torch.testing.assert_close(row_sums(big.structure, mask.values) + mask.loop, torch.ones(big.num_nodes))
    assert bool((mask.loop[big.structure.row_sizes > 0] < 1).all())


@pytest.mark.parametrize("temperature", [1e-6, 1.0, 1e6])
def test_after_normalisation_a_node_listens_to_itself_by_half(big: Graph, temperature: float) -> None:
    mask = draw_mask(MaskConfig(temperature=temperature), big, CLOCK, 0)
    weights = gcn_weights(big.structure, mask.values, mask.loop)
    alone = big.structure.row_sizes == 0
    assert alone.sum() >= 200
    torch.testing.assert_close(weights.loop, torch.where(alone, 1.0, 0.5))
    torch.testing.assert_close(weights.values, mask.values / 2)


def test_one_mask_for_all_layers(big: Graph) -> None:
    shared = draw_masks(MaskConfig(per_layer=False), big, CLOCK, 3)
    separate = draw_masks(MaskConfig(), big, CLOCK, 3)
    assert len(shared) == len(separate) == 3
    assert all(mask.bandwidths.equal(separate[0].bandwidths) for mask in shared)
    assert not separate[0].bandwidths.equal(separate[1].bandwidths)
    assert not separate[1].bandwidths.equal(separate[2].bandwidths)


def test_each_layer_has_its_own_temperature(big: Graph) -> None:
    cold, warm = draw_masks(MaskConfig(temperature=(1e-6, 1e6)), big, CLOCK, 2)
    assert set(cold.bandwidths.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(warm.bandwidths, 1 / big.structure.row_sizes[big.structure.row])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("kind", [{}, {"weighted": True}, {"directed": True, "isolated": 5}])
def test_messages_are_the_gcn_of_the_masked_graph(random_graph: GraphFactory, distribution: str, kind: Any) -> None:
    graph, config = random_graph(30, 90, **kind), MaskConfig(distribution=distribution)  # type: ignore[arg-type]
    (drawn,), mask = draw_masks(config, graph, CLOCK, 1), draw_mask(config, graph, CLOCK, 0)
    assert drawn.bandwidths.equal(mask.values)
    values = mask.values if graph.weight is None else mask.values * graph.weight
    expected = gcn_weights(graph.structure, values, mask.loop)
    torch.testing.assert_close(drawn.messages.values, expected.values)
    torch.testing.assert_close(drawn.messages.loop, expected.loop)


@pytest.mark.parametrize("distribution", RANDOM)
def test_a_mask_follows_from_seed_step_and_layer(big: Graph, distribution: str) -> None:
    config = MaskConfig(distribution=distribution)  # type: ignore[arg-type]
    first = draw_mask(config, big, CLOCK, 0).values
    assert draw_mask(config, big, replace(CLOCK, epoch=9, num_epochs=99), 0).values.equal(first)
    for clock, layer in [(replace(CLOCK, seed=5), 0), (replace(CLOCK, step=5), 0), (CLOCK, 1)]:
        assert not draw_mask(config, big, clock, layer).values.equal(first)


@pytest.mark.parametrize("distribution", RANDOM)
def test_bandwidths_do_not_depend_on_how_edges_are_stored(random_graph: GraphFactory, distribution: str) -> None:
    graph = random_graph()
    shuffled = graph.edge_index[:, torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(0))]
    again = Graph.from_edges(shuffled, num_nodes=30, x=graph.x)
    assert values(again, distribution).equal(values(graph, distribution))


def test_bandwidths_of_a_node_do_not_depend_on_other_neighbourhoods(random_graph: GraphFactory) -> None:
    graph = random_graph(directed=True)
    kept = graph.structure.row % 2 == 0
    part = graph.keep_edges(kept.nonzero().squeeze(1))
    assert 0 < part.num_edges < graph.num_edges
    assert values(part, "boltzmann_gibbs").equal(values(graph, "boltzmann_gibbs")[kept])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_graph_without_edges(distribution: str) -> None:
    graph = Graph.from_edges(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    mask = draw_mask(MaskConfig(distribution=distribution), graph, CLOCK, 0)  # type: ignore[arg-type]
    assert mask.values.shape == (0,)
    assert mask.loop.equal(torch.ones(3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.0}, "temperature: must be a number from 1e-30 on"),
        ({"temperature": 1e-300}, "temperature: must be a number from 1e-30 on"),
        ({"temperature": -1.0}, "temperature: must be a number from 1e-30 on"),
        ({"temperature": float("nan")}, "temperature: must be a number from 1e-30 on"),
        ({"temperature": ()}, "temperature: must be a number from 1e-30 on"),
        ({"temperature": (1.0, 0.0)}, "temperature: must be a number from 1e-30 on"),
        ({"temperature": (1.0, float("nan"))}, "temperature: must be a number from 1e-30 on"),
        ({"temperature": (1.0, 0.5), "per_layer": False}, "temperature: one mask for all layers"),
        ({"self_loop": "inside", "distribution": "uniform"}, "self_loop: 'inside' needs"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        MaskConfig(**changes)
