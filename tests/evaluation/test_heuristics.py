"""The floors against networkx, against loops from the definition, and block by block."""

import math

import networkx as nx
import pytest
import torch
from torch import Tensor

from bandana.data.splits import Pairs
from bandana.evaluation import shared_neighbours
from bandana.evaluation.heuristics import heuristic_floors
from bandana.evaluation.metrics import ranking_metrics
from bandana.graph import Graph


def common_neighbours(graph: Graph, pairs: Tensor) -> Tensor:
    return shared_neighbours.shared_neighbours(graph, pairs).number


def adamic_adar(graph: Graph, pairs: Tensor) -> Tensor:
    return shared_neighbours.shared_neighbours(graph, pairs).adamic_adar


def resource_allocation(graph: Graph, pairs: Tensor) -> Tensor:
    return shared_neighbours.shared_neighbours(graph, pairs).allocation


def random_graph(num_nodes: int, num_edges: int, seed: int, *, directed: bool = False) -> Graph:
    edges = torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))
    return Graph.from_edges(edges, num_nodes=num_nodes, directed=directed)


def all_pairs(num_nodes: int) -> Tensor:
    """Every ordered pair of different nodes."""
    return torch.ones(num_nodes, num_nodes).fill_diagonal_(0).nonzero().T


def as_networkx(graph: Graph) -> nx.Graph:
    result = nx.Graph()
    result.add_nodes_from(range(graph.num_nodes))
    result.add_edges_from(graph.edge_index.T.tolist())
    return result


@pytest.mark.parametrize("num_edges", [0, 15, 120])
def test_undirected_scores_are_those_of_networkx(num_edges: int) -> None:
    graph, pairs = random_graph(30, num_edges, seed=1), all_pairs(30)
    reference, listed = as_networkx(graph), [tuple(pair) for pair in pairs.T.tolist()]
    expected = [len(list(nx.common_neighbors(reference, u, v))) for u, v in listed]
    assert common_neighbours(graph, pairs).tolist() == expected
    for ours, theirs in [
        (adamic_adar, nx.adamic_adar_index),
        (resource_allocation, nx.resource_allocation_index),
    ]:
        assert ours(graph, pairs).tolist() == pytest.approx(
            [score for *_, score in theirs(reference, listed)], rel=1e-6
        )


def test_directed_scores_follow_paths_from_sender_to_receiver() -> None:
    graph, pairs = random_graph(20, 90, seed=2, directed=True), all_pairs(20)
    edges = {tuple(edge) for edge in graph.edge_index.T.tolist()}
    neighbours = {w: {v for v in range(20) if (v, w) in edges or (w, v) in edges} for w in range(20)}
    between = [[w for w in range(20) if (u, w) in edges and (w, v) in edges] for u, v in pairs.T.tolist()]
    assert common_neighbours(graph, pairs).tolist() == [len(path) for path in between]
    by_log = [sum(1 / math.log(len(neighbours[w])) for w in path) for path in between]
    assert adamic_adar(graph, pairs).tolist() == pytest.approx(by_log, rel=1e-6)
    by_degree = [sum(1 / len(neighbours[w]) for w in path) for path in between]
    assert resource_allocation(graph, pairs).tolist() == pytest.approx(by_degree, rel=1e-6)
    assert common_neighbours(graph, pairs.flip(0)).tolist() != common_neighbours(graph, pairs).tolist()


def test_scores_are_symmetric_without_directions_and_finite_for_a_node_with_itself() -> None:
    graph, pairs = random_graph(25, 40, seed=3), all_pairs(25)
    assert torch.equal(adamic_adar(graph, pairs), adamic_adar(graph, pairs.flip(0)))
    single_edge = Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=2)
    assert adamic_adar(single_edge, torch.tensor([[0], [0]])).isfinite().all()


@pytest.mark.parametrize("entries", [1, 7, 50])
@pytest.mark.parametrize("directed", [False, True])
def test_blocks_change_nothing_and_stay_small(entries: int, directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, pairs = random_graph(25, 80, seed=4, directed=directed), all_pairs(25)
    whole = adamic_adar(graph, pairs)
    monkeypatch.setattr(shared_neighbours, "ENTRIES_PER_BLOCK", entries)
    assert torch.equal(adamic_adar(graph, pairs), whole)
    sizes = graph.structure.row_sizes[pairs[0]]
    blocks = list(shared_neighbours._blocks(sizes))
    assert [pair for block in blocks for pair in range(block.start, block.stop)] == list(range(pairs.shape[1]))
    assert max(sizes[block].sum() for block in blocks) <= entries + sizes.max()
    assert len(blocks) > 1


def test_no_pairs_give_no_scores() -> None:
    empty = torch.empty(2, 0, dtype=torch.long)
    assert common_neighbours(random_graph(5, 8, seed=5), empty).shape == (0,)


def test_equal_sums_tie_whatever_their_order() -> None:
    # Two pairs, each sharing neighbours of degrees 3, 7 and 11, met in another order.
    edges, spare = [], iter(range(10, 200))
    for ends, shared in [((0, 1), {4: 3, 5: 7, 6: 11}), ((2, 3), {7: 11, 8: 3, 9: 7})]:
        for node, degree in shared.items():
            edges += [(ends[0], node), (ends[1], node), *((node, next(spare)) for _ in range(degree - 2))]
    graph = Graph.from_edges(torch.tensor(edges).T, num_nodes=200)
    first, second = adamic_adar(graph, torch.tensor([[0, 2], [1, 3]]))
    assert first == second > 0


def test_floors_rank_held_out_links_on_the_given_graph_alone() -> None:
    graph = random_graph(40, 150, seed=6)
    generator = torch.Generator().manual_seed(7)
    pairs = Pairs(*torch.randint(40, (2, 2, 60), generator=generator))
    floors = heuristic_floors(graph, pairs)
    scorers = {
        "common neighbours": common_neighbours,
        "Adamic-Adar": adamic_adar,
        "resource allocation": resource_allocation,
    }
    assert floors == {
        name: ranking_metrics(score(graph, pairs.positive), score(graph, pairs.negative))
        for name, score in scorers.items()
    }
    assert len({floor["auc"] for floor in floors.values()}) == 3
