"""Edge splits are judged by plain Python sets of tuples, which share nothing with the key arithmetic under test."""

import hashlib
import json
import math
import struct
from collections import Counter
from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit

from bandana.data.splits import (
    WHOLE_GRAPH,
    EdgeSplit,
    LeakError,
    NodeSplit,
    Pairs,
    SplitConfig,
    _share_of,
    certify,
    official_edge_split,
    sample_non_links,
    split_edges,
    split_nodes,
    verify,
)
from bandana.errors import UserError
from bandana.graph import Graph

NO_TEST_LINK_IN_TRAINING = "no test link is in the training graph"
NUM_CHECKS = 11


def graph_of(edges, num_nodes, directed=False, **more):
    edge_index = torch.tensor(sorted(edges), dtype=torch.long).reshape(-1, 2).T
    return Graph.from_edges(edge_index, num_nodes=num_nodes, directed=directed, **more)


def random_graph(num_nodes=60, num_edges=240, directed=False, seed=0):
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))
    return Graph.from_edges(edge_index, num_nodes=num_nodes, directed=directed)


def as_links(pairs, directed):
    """The pairs as a list of tuples, or of unordered pairs when the direction does not matter."""
    tuples = [tuple(pair) for pair in pairs.T.tolist()]
    return tuples if directed else [frozenset(pair) for pair in tuples]


def all_links(num_nodes, directed):
    pairs = [(u, v) for u in range(num_nodes) for v in range(num_nodes) if u != v]
    return set(pairs) if directed else {frozenset(pair) for pair in pairs}


@st.composite
def graphs(draw):
    """Small graphs from empty to complete, of either kind; nodes that no edge names are isolated."""
    num_nodes = draw(st.integers(2, 12))
    pairs = [(u, v) for u in range(num_nodes) for v in range(num_nodes) if u != v]
    chosen = draw(st.sets(st.sampled_from(pairs)))
    if draw(st.booleans()):
        chosen = set(pairs) - chosen
    isolated = draw(st.integers(0, 3))
    return graph_of(chosen, num_nodes + isolated, directed=draw(st.booleans()))


ratios = st.sampled_from([(0.05, 0.10), (0.2, 0.3), (0.4, 0.5), (0.1, 0.05)])


@given(graph=graphs(), shares=ratios, seed=st.integers(0, 2**40))
@settings(max_examples=300, deadline=None)
def test_no_split_leaks_and_only_impossible_ones_are_refused(graph, shares, seed):
    directed, links = graph.directed, set(as_links(graph.edge_index, graph.directed))
    num_valid, num_test = (int(share * len(links)) for share in shares)
    non_links = all_links(graph.num_nodes, directed) - links
    if min(num_valid, num_test) == 0 or len(non_links) < num_valid + num_test:
        with pytest.raises(UserError):
            split_edges(graph, *shares, seed=seed)
        return

    split = split_edges(graph, *shares, seed=seed)

    train = as_links(split.train.edge_index, directed)
    assert Counter(train) == Counter(dict.fromkeys(train, 1 if directed else 2))
    positives = [*as_links(split.valid.positive, directed), *as_links(split.test.positive, directed)]
    negatives = [*as_links(split.valid.negative, directed), *as_links(split.test.negative, directed)]
    assert len(positives) == len(set(positives)) == num_valid + num_test
    assert len(negatives) == len(set(negatives)) == num_valid + num_test
    assert set(train).isdisjoint(positives)
    assert set(train).union(positives) == links
    assert set(negatives) <= non_links
    assert [part.shape for part in split.valid] == [(2, num_valid)] * 2
    assert [part.shape for part in split.test] == [(2, num_test)] * 2
    assert split.test_graph is split.train
    assert len(split.certificate.checks) == NUM_CHECKS
    verify(split, whole=graph)


@given(graph=graphs(), seed=st.integers(0, 2**40))
@settings(deadline=None)
def test_drawing_all_non_links_gives_exactly_the_non_links(graph, seed):
    expected = all_links(graph.num_nodes, graph.directed) - set(as_links(graph.edge_index, graph.directed))
    drawn = sample_non_links(graph, len(expected), torch.Generator().manual_seed(seed))
    assert Counter(as_links(drawn, graph.directed)) == Counter(expected)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("count", [2, 12])  # few of many are drawn by trial, most of them from a shuffled list
def test_every_non_link_is_equally_likely(directed, count):
    edges = {(0, 1), (1, 2), (2, 3), (4, 0), (5, 3)}
    graph = graph_of(edges, 8, directed=directed)
    expected = all_links(8, directed) - set(as_links(graph.edge_index, directed))
    generator = torch.Generator().manual_seed(0)
    rounds = 3000
    seen = Counter()
    for _ in range(rounds):
        seen.update(as_links(sample_non_links(graph, count, generator), directed))
    share = count / len(expected)
    assert set(seen) == expected
    five_sigma = 5 * math.sqrt(rounds * share * (1 - share))
    assert all(abs(times - rounds * share) < five_sigma for times in seen.values())


@pytest.mark.parametrize("directed", [False, True])
def test_a_million_nodes_with_few_links_need_no_list_of_all_pairs(directed):
    graph = random_graph(num_nodes=1_000_000, num_edges=2000, directed=directed)
    drawn = as_links(sample_non_links(graph, 5000, torch.Generator().manual_seed(0)), directed)
    assert len(set(drawn)) == 5000
    assert set(drawn).isdisjoint(as_links(graph.edge_index, directed))
    assert all(len(set(pair)) == 2 and min(pair) >= 0 and max(pair) < 1_000_000 for pair in drawn)


def test_orientation_does_not_tell_positives_from_negatives():
    split = split_edges(random_graph(), seed=3)
    for part in (*split.valid, *split.test):
        assert bool((part[0] > part[1]).all())


@pytest.mark.parametrize("directed", [False, True])
def test_a_seed_names_one_split_and_other_seeds_name_others(directed):
    graph = random_graph(directed=directed)
    first, again = split_edges(graph, seed=7), split_edges(graph, seed=7)
    assert torch.equal(first.test.negative, again.test.negative)
    assert torch.equal(first.valid.positive, again.valid.positive)
    assert first.certificate == again.certificate
    assert len({split_edges(graph, seed=seed).certificate.digest for seed in range(20)}) == 20


def test_validation_and_test_negatives_never_meet_even_when_almost_all_are_used():
    """PyG's splitter draws (u, v) for one part and (v, u) for the other; here that is one and the same negative."""
    edges = {(u, v) for u in range(12) for v in range(u) if (u + v) % 2 or u < 6}
    graph = graph_of(edges, 12)
    for seed in range(100):
        split = split_edges(graph, 0.15, 0.15, seed=seed)
        assert set(as_links(split.valid.negative, False)).isdisjoint(as_links(split.test.negative, False))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("valid", "test"), [(0.05, 0.10), (0.1, 0.05), (0.07, 0.29)])
def test_sizes_are_those_of_random_link_split(directed, valid, test):
    graph = random_graph(num_nodes=2708, num_edges=5278, directed=directed)
    splitter = RandomLinkSplit(valid, test, is_undirected=not directed, split_labels=True)
    data = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    train, theirs_valid, theirs_test = splitter(data)
    ours = split_edges(graph, valid, test, seed=0)
    assert ours.train.num_edges == train.edge_index.shape[1]
    assert ours.valid.positive.shape == theirs_valid.pos_edge_label_index.shape
    assert ours.test.positive.shape == theirs_test.pos_edge_label_index.shape
    assert ours.test.negative.shape == theirs_test.neg_edge_label_index.shape


def test_the_training_graph_keeps_weights_features_and_labels():
    edges = [(u, v) for u in range(20) for v in range(u)]
    weight = torch.tensor([100.0 * u + v for u, v in edges], dtype=torch.float64)
    edge_index = torch.tensor(edges).T[:, ::3]
    x, y = torch.randn(20, 4), torch.arange(20) % 3
    train = split_edges(Graph.from_edges(edge_index, num_nodes=20, x=x, y=y, weight=weight[::3]), seed=0).train
    sender, receiver = train.edge_index
    assert torch.equal(train.weight, 100.0 * torch.maximum(sender, receiver) + torch.minimum(sender, receiver))
    assert torch.equal(train.x, x)
    assert torch.equal(train.y, y)


def test_a_split_too_small_for_its_graph_is_refused_with_the_numbers():
    path = graph_of({(u, u + 1) for u in range(12)}, 13)
    with pytest.raises(UserError, match=r"of 12 links hold out 0 and 1, .* at least 20 links"):
        split_edges(path, seed=0)
    complete = graph_of({(u, v) for u in range(10) for v in range(u)} - {(1, 0)}, 10)
    with pytest.raises(UserError, match="6 are needed, but only 1 pairs of the 10 nodes"):
        split_edges(complete, seed=0)
    with pytest.raises(UserError, match="of 0 links"):
        split_edges(graph_of(set(), 5), seed=0)


@pytest.mark.parametrize("shares", [(0.0, 0.1), (0.1, -0.1), (0.5, 0.5), (0.05, math.nan), (1.5, 0.1)])
def test_impossible_shares_of_links_are_refused(shares):
    with pytest.raises(UserError, match="positive and below 1 together"):
        split_edges(random_graph(), *shares, seed=0)


def bypassing_construction(split, **changes):
    """A split altered behind the back of its constructor, as by unpickling."""
    altered = object.__new__(EdgeSplit)
    for name, value in {**vars(split), **changes}.items():
        object.__setattr__(altered, name, value)
    return altered


def with_edges(graph, pairs):
    edge_index = torch.cat([graph.edge_index, pairs], dim=1)
    return Graph.from_edges(edge_index, num_nodes=graph.num_nodes, x=graph.x, directed=graph.directed)


def move_first(source, target):
    return torch.cat([target[:, 1:], source[:, :1]], dim=1)


def one_direction_missing(graph):
    return graph.keep_edges(torch.arange(1, graph.num_edges))


TAMPERINGS = {
    "no validation link is in the training graph": lambda split: {
        "train": with_edges(split.train, split.valid.positive[:, :1])
    },
    NO_TEST_LINK_IN_TRAINING: lambda split: {"train": with_edges(split.train, split.test.positive[:, :1])},
    "no test link is in the test graph": lambda split: {
        "test_graph": with_edges(split.train, split.test.positive[:, :1])
    },
    "the test graph adds at most validation links": lambda split: {
        "test_graph": with_edges(split.train, split.test.negative[:, :1])
    },
    "no link is held out twice": lambda split: {
        "test": split.test._replace(positive=move_first(split.valid.positive, split.test.positive))
    },
    "no negative is a link of any part": lambda split: {
        "valid": split.valid._replace(negative=move_first(split.train.edge_index, split.valid.negative))
    },
    "no negative repeats within validation or test": lambda split: {
        "test": split.test._replace(negative=move_first(split.test.negative[:, 1:], split.test.negative))
    },
    "validation and test share no negative": lambda split: {
        "valid": split.valid._replace(negative=move_first(split.test.negative, split.valid.negative))
    },
    "no pair joins a node to itself": lambda split: {
        "test": split.test._replace(negative=move_first(torch.full((2, 1), 5), split.test.negative))
    },
}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("broken", TAMPERINGS)
def test_tampering_is_caught_by_the_check_it_breaks(broken, directed):
    split = split_edges(random_graph(directed=directed), seed=1)
    changes = TAMPERINGS[broken](split)
    with pytest.raises(LeakError, match=broken):
        replace(split, **changes)
    with pytest.raises(LeakError, match=broken):
        verify(bypassing_construction(split, **changes))


def test_an_undirected_graph_with_half_a_link_is_caught():
    split = split_edges(random_graph(), seed=1)
    with pytest.raises(LeakError, match="both directions"):
        replace(split, train=one_direction_missing(split.train))
    with pytest.raises(LeakError, match="both directions"):
        replace(split, test_graph=one_direction_missing(split.train))
    leaking = one_direction_missing(with_edges(split.train, split.test.positive[:, :1]))
    with pytest.raises(LeakError, match=NO_TEST_LINK_IN_TRAINING):
        replace(split, train=leaking)


def test_reversing_an_undirected_pair_hides_nothing():
    split = split_edges(random_graph(), seed=1)
    with pytest.raises(LeakError, match="validation and test share no negative"):
        replace(
            split, valid=split.valid._replace(negative=move_first(split.test.negative.flip(0), split.valid.negative))
        )


def test_a_change_that_breaks_no_check_is_still_caught_by_the_digest():
    graph = random_graph()
    split = split_edges(graph, seed=1)
    fewer = split.train.keep_edges(
        (split.train.structure.row > 3).logical_and(split.train.structure.col > 3).nonzero()[:, 0]
    )
    with pytest.raises(LeakError, match="not the split that was certified"):
        replace(split, train=fewer, test_graph=fewer)
    with pytest.raises(LeakError, match=WHOLE_GRAPH):
        verify(bypassing_construction(split, train=fewer, test_graph=fewer), whole=graph)
    with pytest.raises(LeakError, match="not the split that was certified"):
        replace(split, certificate=split_edges(graph, seed=2).certificate)


def test_writing_into_a_split_is_caught():
    split = split_edges(random_graph(), seed=1)
    split.test.negative[:, 0] = split.train.edge_index[:, 0]
    with pytest.raises(LeakError, match="no negative is a link"):
        verify(split)
    split = split_edges(random_graph(), seed=1)
    split.train.structure.col[3] = (split.train.structure.col[3] + 1) % 60
    with pytest.raises(LeakError):
        verify(split)


def test_parts_of_another_graph_are_not_certified():
    graph = random_graph()
    split = split_edges(graph, seed=1)
    with pytest.raises(LeakError, match=WHOLE_GRAPH):
        certify(split.train, split.valid, split.test, split.train, whole=random_graph(seed=5))


def pairs(positive, negative):
    return Pairs(torch.tensor(positive).T, torch.tensor(negative).T)


def tiny_official(**changes):
    parts = {
        "train": graph_of({(0, 1), (1, 2), (2, 3)}, 7),
        "valid": pairs([(3, 4)], [(0, 5), (1, 5)]),
        "test": pairs([(4, 5)], [(2, 5), (6, 0)]),
    }
    return parts | changes


def test_a_clean_official_split_passes_all_checks_but_the_one_that_needs_the_whole_graph():
    split = official_edge_split(**tiny_official())
    assert len(split.certificate.checks) == NUM_CHECKS - 1
    assert WHOLE_GRAPH not in split.certificate.checks
    assert split.test_graph is split.train


def test_official_rules_may_add_validation_links_to_the_test_graph():
    test_graph = graph_of({(0, 1), (1, 2), (2, 3), (3, 4)}, 7)
    split = official_edge_split(**tiny_official(test_graph=test_graph))
    assert split.test_graph is test_graph
    assert len(split.certificate.checks) == NUM_CHECKS - 1
    assert split.certificate.counts["test_graph_links"] == 4


IN_TEST_GRAPH = "no test link is in the test graph"
FLAWS = [
    ({"test": pairs([(2, 1)], [(2, 5)])}, {NO_TEST_LINK_IN_TRAINING, IN_TEST_GRAPH}),
    ({"test": pairs([(4, 3)], [(2, 5)])}, {"no link is held out twice"}),
    ({"test": pairs([(4, 5)], [(5, 0)])}, {"validation and test share no negative"}),
    ({"test": pairs([(4, 5)], [(2, 6), (6, 2)])}, {"no negative repeats within validation or test"}),
    ({"test": pairs([(4, 5)], [(6, 6)])}, {"no pair joins a node to itself"}),
    ({"test": pairs([(4, 5)], [(4, 3)])}, {"no negative is a link of any part"}),
    ({"test_graph": graph_of({(0, 1), (4, 5)}, 7)}, {IN_TEST_GRAPH, "the test graph adds at most validation links"}),
]


@pytest.mark.parametrize(("changes", "missing"), FLAWS)
def test_what_does_not_hold_of_an_official_split_is_missing_from_its_certificate(changes, missing):
    clean = official_edge_split(**tiny_official()).certificate.checks
    flawed = official_edge_split(**tiny_official(**changes)).certificate.checks
    assert set(clean) - set(flawed) == missing


def test_an_official_split_cannot_claim_what_does_not_hold():
    clean = official_edge_split(**tiny_official())
    leaking = official_edge_split(**tiny_official(train=graph_of({(0, 1), (4, 5)}, 7)))
    with pytest.raises(LeakError, match=NO_TEST_LINK_IN_TRAINING):
        replace(leaking, certificate=replace(leaking.certificate, checks=clean.certificate.checks))


def test_pairs_and_graphs_must_name_the_same_nodes():
    with pytest.raises(UserError, match="0 to 6, but pairs name 4 to 7"):
        official_edge_split(**tiny_official(test=pairs([(4, 7)], [(2, 5)])))
    with pytest.raises(UserError, match="same nodes and direction"):
        official_edge_split(**tiny_official(test_graph=graph_of({(0, 1)}, 8)))


def test_the_digest_is_sha256_over_sorted_little_endian_keys():
    certificate = official_edge_split(**tiny_official()).certificate
    content = {  # smaller node × 7 + larger node, ascending
        "train_links": [1, 9, 17],
        "valid_positives": [25],
        "valid_negatives": [5, 12],
        "test_positives": [33],
        "test_negatives": [6, 19],
        "test_graph_links": [1, 9, 17],
    }
    expected = hashlib.sha256(b"7 nodes, directed=False")
    for name, keys in content.items():
        expected.update(f"\n{name} {len(keys)}\n".encode() + struct.pack(f"<{len(keys)}q", *keys))
    assert certificate.digest == expected.hexdigest()
    assert certificate.counts == {"nodes": 7} | {name: len(keys) for name, keys in content.items()}


def test_the_digest_does_not_depend_on_the_order_or_orientation_or_integer_type_of_pairs():
    parts = tiny_official()
    turned = {name: Pairs(*(part.flip(0, 1).int() for part in parts[name])) for name in ("valid", "test")}
    assert official_edge_split(**tiny_official(**turned)).certificate == official_edge_split(**parts).certificate


def test_the_digest_tells_directed_from_undirected_and_counts_isolated_nodes():
    empty = Pairs(torch.empty(2, 0, dtype=torch.long), torch.empty(2, 0, dtype=torch.long))
    graphs = [graph_of({(1, 0)}, 3), graph_of({(1, 0)}, 3, directed=True), graph_of({(1, 0)}, 4)]
    assert len({official_edge_split(graph, empty, empty).certificate.digest for graph in graphs}) == 3


def test_a_certificate_goes_through_json():
    certificate = split_edges(random_graph(), seed=0).certificate
    told = json.loads(json.dumps(asdict(certificate)))
    assert told == {
        "digest": certificate.digest,
        "counts": dict(certificate.counts),
        "checks": list(certificate.checks),
    }


def test_moving_a_split_keeps_its_content_and_its_message_graphs():
    test_graph = graph_of({(0, 1), (1, 2), (2, 3), (3, 4)}, 7)
    for split in (official_edge_split(**tiny_official()), official_edge_split(**tiny_official(test_graph=test_graph))):
        moved = split.to("cpu")
        assert (moved.test_graph is moved.train) == (split.test_graph is split.train)
        assert moved.certificate == split.certificate
        verify(moved)


@pytest.mark.cuda
@pytest.mark.parametrize("directed", [False, True])
def test_a_split_is_the_same_on_every_device(directed):
    graph = random_graph(num_nodes=500, num_edges=4000, directed=directed)
    here, there = split_edges(graph, seed=5), split_edges(graph.to("cuda"), seed=5)
    assert there.train.device.type == there.test.negative.device.type == "cuda"
    assert here.certificate == there.certificate
    assert torch.equal(here.test.negative, there.test.negative.cpu())
    assert torch.equal(here.valid.positive, there.valid.positive.cpu())
    moved = here.to("cuda")
    assert moved.test_graph is moved.train
    assert moved.train.device.type == moved.valid.positive.device.type == "cuda"


@given(
    total=st.integers(1, 400),
    shares=st.sampled_from([(0.1, 0.1, 0.8), (0.05, 0.1, 0.85), (0.01, 0.1, 0.89), (0.3, 0.3, 0.3), (0.6, 0.2, 0.2)]),
    seed=st.integers(0, 2**40),
)
@settings(deadline=None)
def test_node_parts_are_disjoint_sorted_and_of_the_asked_sizes(total, shares, seed):
    sizes = [int(share * total) for share in shares]
    if shares != (0.3, 0.3, 0.3):
        sizes[2] = total - sizes[0] - sizes[1]
    if min(sizes) < 1:
        with pytest.raises(UserError, match=f"of {total} labelled nodes"):
            split_nodes(total, shares, seed=seed)
        return
    split = split_nodes(total, shares, seed=seed)
    parts = [part.tolist() for part in (split.train, split.valid, split.test)]
    assert [len(part) for part in parts] == sizes
    assert all(part == sorted(part) for part in parts)
    together = [node for part in parts for node in part]
    assert len(set(together)) == len(together)
    assert set(together) <= set(range(total))
    assert split.train.dtype == torch.long


def test_shares_are_rounded_as_on_paper():
    """In floating point 0.29 of 100 is 28.999999999999996."""
    parts = split_nodes(100, (0.29, 0.29, 0.42), seed=0)
    assert [part.numel() for part in (parts.train, parts.valid, parts.test)] == [29, 29, 42]
    graph = graph_of(sorted(all_links(40, directed=True))[:100], 40, directed=True)
    split = split_edges(graph, 0.29, 0.1, seed=0)
    assert (split.valid.positive.shape[1], split.test.positive.shape[1]) == (29, 10)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.6, 0.8, 0.85, 0.89])
def test_shares_of_recipes_have_always_been_right(share):
    """Figures of earlier versions have splits of the same sizes."""
    for total in (*range(1, 20_000), *range(20_000, 3_000_000, 997)):
        assert _share_of(total, share) == int(share * total)


@pytest.mark.parametrize("total", [100, 10**6, 10**8, 10**9])
def test_shares_are_rounded_alike_whatever_the_size(total):
    assert [_share_of(total, hundredths / 100) for hundredths in range(101)] == [
        hundredths * total // 100 for hundredths in range(101)
    ]


@pytest.mark.parametrize("wrong", [{"valid_edges": math.nan}, {"test_edges": -0.1}, {"nodes": (0.1, math.nan, 0.8)}])
def test_shares_that_are_none_are_refused_at_once(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: .*must lie in"):
        SplitConfig(**wrong)


def test_node_splits_follow_their_seed():
    first, again, other = (split_nodes(200, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(first.test, again.test)
    assert not torch.equal(first.train, other.train)


def test_every_node_is_equally_likely_to_train():
    rounds = 2000
    seen = torch.zeros(20)
    for seed in range(rounds):
        seen[split_nodes(20, (0.3, 0.1, 0.6), seed=seed).train] += 1
    assert bool(((seen - 0.3 * rounds).abs() < 5 * math.sqrt(rounds * 0.3 * 0.7)).all())


def test_unlabelled_nodes_are_in_no_part():
    labels = torch.arange(100) % 5 - 1
    split = split_nodes(labels, (0.25, 0.25, 0.5), seed=0)
    together = torch.cat([split.train, split.valid, split.test])
    assert sorted(together.tolist()) == [node for node in range(100) if node % 5]
    assert [part.numel() for part in (split.train, split.valid, split.test)] == [20, 20, 40]


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5), (-0.1, 0.1, 0.8), (0.0, 0.2, 0.8), (math.nan, 0.1, 0.8)])
def test_impossible_shares_of_nodes_are_refused(shares):
    with pytest.raises(UserError, match="positive and add up to at most 1"):
        split_nodes(100, shares, seed=0)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (([0, 1], [1], [2]), "1 nodes are in train and in valid, such as 1"),
        (([0], [3], [2, 3]), "1 nodes are in valid and in test, such as 3"),
        (([0, 0], [1], [2]), "the train nodes must be numbers from 0 on"),
        (([0], [2, 1], [3]), "the valid nodes must be numbers from 0 on"),
        (([0], [1], [-1]), "the test nodes must be numbers from 0 on"),
    ],
)
def test_a_node_split_that_leaks_cannot_be_built(parts: tuple[list[int], ...], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        NodeSplit(*map(torch.tensor, parts))


def test_a_node_split_carries_a_certificate() -> None:
    split = split_nodes(50, seed=1)
    assert split.certificate.counts == {"train": 5, "valid": 5, "test": 40}
    assert "no node is in two parts" in split.certificate.checks
    assert split.certificate == split_nodes(50, seed=1).certificate
    assert split.certificate.digest != split_nodes(50, seed=2).certificate.digest
