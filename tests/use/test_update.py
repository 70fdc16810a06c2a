"""An update equals a full pass, for every method, and touches no row that the change cannot reach."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.errors import UserError
from bandana.graph import Graph, SparseFeatures, compact
from bandana.method import GraphSpec, Method
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.methods.maskgae_edge import MaskGAEEdge, MaskGAEEdgeConfig
from bandana.parts.encoders import EncoderConfig
from bandana.registry import all_methods
from bandana.use.merge import merge
from bandana.use.receptive import embed_rows, local_encoder
from bandana.use.update import distance_from_full_pass, update

ROUNDING = {torch.float32: 2e-6, torch.float64: 1e-13}
LOCAL = {
    *("arga", "arvga", "bandana", "cca_ssg", "costa", "gae", "gca", "grace"),
    *("maskgae_edge", "maskgae_path", "t_bgrl", "untrained_encoder", "vgae"),
}


def ring(nodes: int, *, directed: bool = False, weighted: bool = False, sparse: bool = False, seed: int = 0) -> Graph:
    """A cycle: the only way from one node to another is long, so what a change can reach is known."""
    generator = torch.Generator().manual_seed(seed)
    here = torch.arange(nodes)
    x = torch.randn(nodes, 6, generator=generator, dtype=torch.get_default_dtype())
    if sparse:
        x = torch.cat([x * (x > 1.2), torch.zeros(nodes, 60)], dim=1)
    return Graph.from_edges(
        torch.stack([here, (here + 1) % nodes]),
        num_nodes=nodes,
        x=compact(x),
        weight=torch.rand(nodes, generator=generator) + 0.5 if weighted else None,
        directed=directed,
        node_ids=[f"n{node}" for node in range(nodes)],
    )


def addition(*links: tuple[str, str], x: torch.Tensor | None = None, weighted: bool = False, directed: bool = False):
    ids = sorted({name for link in links for name in link})
    edges = torch.tensor([[ids.index(a) for a, _ in links], [ids.index(b) for _, b in links]])
    weight = torch.full((len(links),), 0.7) if weighted else None
    return Graph.from_edges(edges, num_nodes=len(ids), x=x, weight=weight, directed=directed, node_ids=ids)


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(9), dtype=torch.get_default_dtype())


def build(cls: type[Method], graph: Graph, config: object = None) -> Method:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = cls(config or cls.Config(), GraphSpec.of(graph))  # type: ignore[call-arg]
        for norm in method.modules():
            if isinstance(norm, torch.nn.BatchNorm1d):  # statistics as training leaves them, not the initial ones
                norm.running_mean.normal_()
                norm.running_var.uniform_(0.5, 2)
    method.prepare(graph)
    return method.eval()


def bandana(graph: Graph, **encoder: object) -> Method:
    return build(Bandana, graph, BandanaConfig(encoder=EncoderConfig(width=8, **encoder)))


@pytest.mark.parametrize("name", sorted(all_methods()))
def test_every_method_is_updated_to_what_a_full_pass_gives(name: str) -> None:
    before = ring(24, sparse=True)
    method = build(all_methods()[name], before)
    with torch.no_grad():
        z = method.embed(before)
    vectors_per_node = name == "gae_tuned"
    new = addition(("n0", "n5"), ("n1", "n3")) if vectors_per_node else None
    if new is None:
        new = addition(("n0", "n5"), ("n5", "new"), x=noise(3, 66))
    after = merge(before, new)
    outcome = update(method, before, z, after)
    assert distance_from_full_pass(method, after, outcome.z) <= 1e-5 * max(1, float(outcome.z.abs().max()))
    assert (local_encoder(method) is not None) == (name in LOCAL)
    assert outcome.recomputed.numel() < after.num_nodes if name in LOCAL else True
    if name in LOCAL or name == "raw_features":
        untouched = torch.ones(after.num_nodes, dtype=torch.bool).index_fill(0, outcome.changed, False)
        assert outcome.z[untouched].equal(z[untouched[: before.num_nodes]])


@given(
    directed=st.booleans(),
    weighted=st.booleans(),
    sparse=st.booleans(),
    layers=st.integers(1, 3),
    readout=st.sampled_from(["concat", "last"]),
    seed=st.integers(0, 999),
)
def test_any_change_of_any_graph_is_followed(
    directed: bool, weighted: bool, sparse: bool, layers: int, readout: str, seed: int
) -> None:
    """Links come and go, nodes come, go and are numbered anew, features change; all of it by ids."""
    generator = torch.Generator().manual_seed(seed)

    def draw(ids: list[str], x: torch.Tensor) -> Graph:
        edges = torch.randint(len(ids), (2, 40), generator=generator)
        weight = torch.rand(40, generator=generator) + 0.5 if weighted else None
        return Graph.from_edges(edges, num_nodes=len(ids), x=x, weight=weight, directed=directed, node_ids=ids)

    x = torch.randn(30, 40, generator=generator)
    x = x * (torch.rand(30, 40, generator=generator) < 0.04) if sparse else x
    names = [f"n{node}" for node in range(30)]
    before = draw(names[:25], x[:25])
    order = torch.randperm(30, generator=generator)[:26]
    changed_x = x[order].clone()
    changed_x[0] += 1
    after = draw([names[node] for node in order], changed_x)
    method = build(Bandana, before, BandanaConfig(encoder=EncoderConfig(width=8, num_layers=layers), readout=readout))
    with torch.no_grad():
        z = method.embed(before)
    outcome = update(method, before, z, after)
    assert distance_from_full_pass(method, after, outcome.z) <= ROUNDING[torch.float32] * float(outcome.z.abs().max())


def test_a_change_reaches_as_many_steps_as_there_are_layers() -> None:
    before = ring(40)
    for layers in (1, 2, 3):
        method = bandana(before, num_layers=layers)
        with torch.no_grad():
            z = method.embed(before)
        outcome = update(method, before, z, merge(before, addition(("n10", "n11"), ("n10", "n12"))))
        # n10 and n12 have another degree, which their neighbours hear of, and so on by layer.
        assert outcome.recomputed.tolist() == list(range(10 - layers, 12 + layers + 1))
        assert outcome.changed.equal(outcome.recomputed)


def test_nothing_changed_means_nothing_is_computed() -> None:
    before = ring(12, weighted=True)
    method = bandana(before)
    with torch.no_grad():
        z = method.embed(before)
    outcome = update(method, before, z, before)
    assert outcome.recomputed.numel() == outcome.changed.numel() == 0
    assert outcome.z.equal(z)


@pytest.mark.parametrize("readout", ["concat", "last"])
def test_in_double_precision_nothing_but_rounding_is_left(float64: None, readout: str) -> None:
    before = ring(40, weighted=True)
    method = build(Bandana, before, BandanaConfig(encoder=EncoderConfig(width=8), readout=readout))
    with torch.no_grad():
        z = method.embed(before)
    after = merge(before, addition(("n3", "new"), ("n20", "n30"), x=noise(4, 6), weighted=True))
    assert distance_from_full_pass(method, after, update(method, before, z, after).z) <= ROUNDING[torch.float64]


@pytest.mark.parametrize("name", ["bandana", "gae", "vgae", "graphmae"])
def test_rows_without_some_links_are_those_of_the_graph_without_them(random_graph, name: str) -> None:
    graph = random_graph(30, 60)
    method = build(all_methods()[name], graph)
    link = graph.links[[0, 5]]
    gone = torch.cat([link, graph.structure.transposed_entry[link]])
    keep = torch.ones(graph.num_edges, dtype=torch.bool).index_fill(0, gone, False).nonzero().squeeze(1)
    with torch.no_grad():
        expected = method.embed(graph.keep_edges(keep))
    nodes = torch.tensor([0, 7, 29])
    assert embed_rows(method, graph, nodes, without=gone).allclose(expected[nodes], atol=1e-5)
    everything = torch.arange(30)
    with torch.no_grad():
        assert embed_rows(method, graph, everything).allclose(method.embed(graph), atol=1e-5)


def test_merging_is_reading_both_lists_as_one() -> None:
    before = ring(6, weighted=True)
    x = torch.arange(18, dtype=torch.float32).view(3, 6)
    after = merge(before, addition(("n1", "n0"), ("n5", "q"), x=torch.cat([x, x[:1]]), weighted=True))
    assert list(after.node_ids) == [*before.node_ids, "q"]
    assert after.num_edges == before.num_edges + 2
    dense = torch.sparse_coo_tensor(after.edge_index, after.weight, check_invariants=True).to_dense()
    old = torch.sparse_coo_tensor(before.edge_index, before.weight, check_invariants=True).to_dense()
    assert dense[0, 1] == dense[1, 0] == old[0, 1] + 0.7
    assert after.x[0].equal(x[0])
    assert after.x[6].equal(x[0])
    assert after.x[2].equal(before.x[2])


def test_sparse_features_are_replaced_row_by_row() -> None:
    before = ring(24, sparse=True)
    x = torch.zeros(3, 66)
    x[0, 5], x[1, 7], x[2, 65] = 1, 2, 3
    assert isinstance(before.x, SparseFeatures)
    first, second = [row for row in before.x.structure.row.unique().tolist() if row < 10][:2]
    after = merge(before, addition((f"n{first}", "q"), (f"n{second}", "q"), x=x))
    assert isinstance(after.x, SparseFeatures)
    expected = torch.cat([before.x.dense(), x[2:]])
    expected[first], expected[second] = x[0], x[1]
    assert after.x.dense().equal(expected)


def test_known_nodes_may_get_links_without_features() -> None:
    before = ring(6)
    after = merge(before, addition(("n1", "n4")))
    assert after.x.equal(before.x)
    assert after.num_edges == before.num_edges + 2


def test_without_features_new_links_work_and_new_nodes_are_refused_by_name() -> None:
    before = replace(ring(10), x=Graph.from_edges(torch.empty(2, 0, dtype=torch.long), num_nodes=10).x)
    method = bandana(before)
    with torch.no_grad():
        z = method.embed(before)
    after = merge(before, addition(("n0", "n5")))
    assert distance_from_full_pass(method, after, update(method, before, z, after).z) <= 1e-6
    with pytest.raises(
        UserError, match="no features, so it can follow new links but not other nodes such as 'q' and 1"
    ):
        update(method, before, z, merge(before, addition(("n0", "q"), ("r", "q"))))


def test_a_vector_per_node_cannot_be_had_for_new_nodes() -> None:
    before = ring(10)
    method = bandana(before, node_embedding=5)
    with torch.no_grad():
        z = method.embed(before)
    after = merge(before, addition(("n0", "n5")))
    assert distance_from_full_pass(method, after, update(method, before, z, after).z) <= 1e-6
    with pytest.raises(UserError, match="learned a vector per node"):
        update(method, before, z, merge(before, addition(("n0", "q"), x=torch.zeros(2, 6))))


@pytest.mark.parametrize("layer", ["gcn", "sage"])
@pytest.mark.parametrize("width", [0, 5])
def test_layers_of_maskgae_follow_links_and_its_vectors_no_new_nodes(layer: str, width: int) -> None:
    before = ring(24)
    method = build(MaskGAEEdge, before, MaskGAEEdgeConfig(layer=layer, node_embedding=width, out_width=7, width=8))
    assert (local_encoder(method) is None) == (layer == "sage")
    with torch.no_grad():
        z = method.embed(before)
    after = merge(before, addition(("n0", "n12")))
    assert distance_from_full_pass(method, after, update(method, before, z, after).z) <= 1e-6
    more = merge(before, addition(("n0", "q"), x=torch.zeros(2, 6)))
    with pytest.raises(UserError, match="learned a vector per node") if width else nullcontext():
        update(method, before, z, more)


def test_other_columns_are_refused() -> None:
    before = ring(6)
    with pytest.raises(UserError, match="'q' is new and has no features"):
        merge(before, addition(("n0", "q")))
    with pytest.raises(UserError, match="4 feature columns and the graph has 6"):
        merge(before, addition(("n0", "q"), x=torch.zeros(2, 4)))
    with pytest.raises(UserError, match="directed or neither"):
        merge(before, addition(("n0", "n1"), directed=True))
    wider = replace(before, x=torch.zeros(6, 7))
    method = bandana(before)
    with pytest.raises(UserError, match="reads 6 feature columns and the new graph has 7"):
        update(method, before, torch.zeros(6, 16), wider)
