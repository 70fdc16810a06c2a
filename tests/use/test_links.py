"""Missing links against a loop over all pairs, for any block size, kind of graph and choice of candidates."""

from collections.abc import Iterator
from importlib.util import find_spec

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bandana.errors import UserError
from bandana.graph import Graph
from bandana.use import links
from bandana.use.links import missing_links


def candidates(graph: Graph, within: int | None, *, ordered: bool = False) -> Iterator[tuple[int, int]]:
    """Every pair that may be offered, in order, from its definition; ordered, both directions of it are."""
    kind = nx.DiGraph if graph.directed else nx.Graph
    drawn = kind()
    drawn.add_nodes_from(range(graph.num_nodes))
    drawn.add_edges_from(graph.edge_index.T.tolist())
    steps = dict(nx.all_pairs_shortest_path_length(drawn))
    for source in range(graph.num_nodes):
        for target in range(graph.num_nodes):
            if source == target or drawn.has_edge(source, target):
                continue
            if not ordered and (source > target or drawn.has_edge(target, source)):
                continue
            way_back = 99 if ordered else steps[target].get(source, 99)
            if within is None or min(steps[source].get(target, 99), way_back) <= within:
                yield source, target


@given(
    st.integers(2, 14),
    st.integers(0, 30),
    st.booleans(),
    st.sampled_from([None, 2, 3]),
    st.integers(1, 40),
    st.sampled_from([1, 7, 50, 10_000]),
    st.sampled_from([False, True] if find_spec("faiss") else [False]),
    st.integers(0, 999),
)
def test_links_are_those_of_a_loop_over_all_pairs(
    nodes: int, edges: int, directed: bool, within: int | None, top: int, block: int, with_faiss: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    graph = Graph.from_edges(torch.randint(nodes, (2, edges), generator=generator), num_nodes=nodes, directed=directed)
    z = torch.randint(-1, 2, (nodes, 3), generator=generator).float()  # many ties, exact products
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "SCORES_PER_BLOCK", block)
        patch.setattr(links, "find_spec", lambda name: name if with_faiss else None)
        found = missing_links(graph, z, top, within=within)
    expected = sorted(candidates(graph, within), key=lambda pair: (-float(z[pair[0]] @ z[pair[1]]), pair))[:top]
    assert [tuple(pair) for pair in found.pairs.T.tolist()] == expected
    assert found.scores.tolist() == [float(z[a] @ z[b]) for a, b in expected]


@pytest.mark.parametrize("directed", [False, True])
def test_faiss_finds_the_same(random_graph, monkeypatch: pytest.MonkeyPatch, directed: bool) -> None:
    pytest.importorskip("faiss")
    graph = random_graph(300, 1500, directed=directed)
    z = torch.randn(300, 16, generator=torch.Generator().manual_seed(2))
    monkeypatch.setattr(links, "SCORES_PER_BLOCK", 10_000)
    blocks, search = [], links._reaching_by_faiss
    monkeypatch.setattr(links, "_reaching_by_faiss", lambda *given: blocks.append(given) or search(*given))
    theirs = missing_links(graph, z, 50)
    assert len(blocks) == 5  # of the six on and above the diagonal of three by three; nothing bounds the first
    monkeypatch.setattr(links, "find_spec", lambda name: None)
    ours = missing_links(graph, z, 50)
    assert theirs.pairs.equal(ours.pairs)
    assert theirs.scores.allclose(ours.scores, atol=1e-5)


@pytest.mark.parametrize("directed", [False, True])
def test_a_decoder_can_score_near_pairs_and_knows_directions(random_graph, directed: bool) -> None:
    graph = random_graph(20, 25, directed=directed)
    z = torch.randn(20, 4, generator=torch.Generator().manual_seed(3))

    def score(pairs: Tensor) -> Tensor:
        return -(z[pairs[0]] - 2 * z[pairs[1]]).norm(dim=1)

    found = missing_links(graph, z, 5, within=2, score=score)
    pairs = candidates(graph, 2, ordered=directed)
    expected = sorted(pairs, key=lambda pair: float((z[pair[0]] - 2 * z[pair[1]]).norm()))[:5]
    assert [tuple(pair) for pair in found.pairs.T.tolist()] == expected


@pytest.mark.parametrize("within", [None, 2])
def test_the_reverse_of_a_link_is_not_missing_and_no_pair_is_listed_twice(within: int | None) -> None:
    graph = Graph.from_edges(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, directed=True)
    found = missing_links(graph, torch.ones(4, 2), within=within)
    expected = [(0, 2), (1, 3)] if within else [(0, 2), (0, 3), (1, 3)]
    assert [tuple(pair) for pair in found.pairs.T.tolist()] == expected


def test_cosine_ignores_length(hand_graph) -> None:
    z = torch.tensor([[1.0, 0], [0, 1], [0, 1], [0.1, 0.001], [5, 5]])
    assert missing_links(hand_graph(), z, 1, measure="dot").pairs.tolist() == [[0], [4]]
    assert missing_links(hand_graph(), z, 1, measure="cosine").pairs.tolist() == [[0], [3]]


@pytest.mark.parametrize(
    ("options", "word"),
    [({"top": 0}, "top"), ({"within": 4}, "within"), ({"score": lambda pairs: pairs[0].float()}, "decoder")],
)
def test_impossible_questions_are_refused(hand_graph, options: dict, word: str) -> None:
    with pytest.raises(UserError, match=word):
        missing_links(hand_graph(), torch.eye(5), **options)


def test_vectors_of_another_graph_are_refused(hand_graph) -> None:
    with pytest.raises(UserError, match="4 vectors for 5 nodes"):
        missing_links(hand_graph(), torch.eye(4))
