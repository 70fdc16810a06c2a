"""The automatic choice: a pure function of the graph's shape that gives reasons, and an estimate of its cost."""

from dataclasses import replace

import pytest
import torch

from bandana.data.splits import count_pairs
from bandana.errors import UserError
from bandana.graph import Graph, SparseFeatures
from bandana.method import GraphSpec
from bandana.own.automatic import HELD_OUT, SIZES, Choice, build, choose, plan, with_dimensions
from bandana.own.calibration import COPIES_OF_VECTORS, Estimate, _power, stand_in
from bandana.own.calibration import _Cost as Cost
from bandana.parts.floor import Floor
from bandana.registry import all_methods, get_method
from bandana.training.trainer import edge_batches, pretrain

METHODS = all_methods()


def big_graph(num_links: int, num_nodes: int, *, directed: bool = False, x: torch.Tensor | None = None) -> Graph:
    draw = torch.Generator().manual_seed(0)
    edges = torch.rand(2, num_links, generator=draw).square_().mul_(num_nodes).long()
    return Graph.from_edges(edges, num_nodes=num_nodes, x=x, directed=directed)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("num_features", [0, 8])
def test_every_method_gets_a_plan_that_trains_and_has_the_width_asked_for(random_graph, name, num_features) -> None:
    graph = random_graph(num_features=num_features)
    if name in ("raw_features", "smoothed_features"):
        with pytest.raises(UserError, match="as many as the graph has features"):
            plan(graph, method=name, dimensions=24)
        return
    made = plan(graph, method=name, dimensions=24, epochs=1)
    method = build(made, GraphSpec.of(graph), seed=0)
    pretrain(method, graph, made.training, seed=0)
    with torch.no_grad():
        assert method.embed(graph).shape == (graph.num_nodes, 24)
    assert made.training.epochs == 1
    assert made.reasons


@pytest.mark.parametrize("dimensions", [7, 48])
def test_bandana_splits_its_dimensions_among_layers_where_they_divide(dimensions: int) -> None:
    model = with_dimensions("bandana", get_method("bandana").Config(), dimensions)
    shared = dimensions % 2 == 0
    assert model.readout == ("concat" if shared else "last")
    assert model.encoder.width == (dimensions // 2 if shared else dimensions)


@pytest.mark.parametrize("dimensions", [6, 7])
def test_on_large_graphs_the_dimensions_are_those_of_the_last_layer(random_graph, monkeypatch, dimensions: int) -> None:
    monkeypatch.setattr("bandana.own.automatic.SIZES", SIZES[2:])
    model = plan(random_graph(), dimensions=dimensions).model
    assert (model.encoder.num_layers, model.encoder.width, model.readout) == (3, dimensions, "last")


@pytest.mark.parametrize(("layers", "readout", "told"), [(2, "concat", "16 numbers"), (1, "last", "8 numbers")])
def test_reasons_tell_the_width_of_the_vectors_as_it_will_be(
    random_graph, layers: int, readout: str, told: str
) -> None:
    changes = {"model.encoder.width": 8, "model.encoder.num_layers": layers, "model.readout": readout}
    assert any(told in reason for reason in plan(random_graph(), changes=changes).reasons)


@pytest.mark.parametrize(("name", "dimensions"), [("bandana", 0), ("graphmae", 7)])
def test_impossible_widths_are_refused(name: str, dimensions: int) -> None:
    with pytest.raises(UserError, match="dimensions: must be"):
        with_dimensions(name, get_method(name).Config(), dimensions)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size.up_to_links:,}")
@pytest.mark.parametrize("directed", [False, True])
def test_about_as_many_steps_are_taken_as_the_size_says(random_graph, monkeypatch, size, directed) -> None:
    graph = random_graph(200, 900, directed=directed)
    tier = size._replace(up_to_links=1e9, batch_links=size.batch_links and 100, steps=50)
    monkeypatch.setattr("bandana.own.automatic.SIZES", (tier,))
    training = plan(graph).training
    per_epoch = len(list(edge_batches(graph, training.edge_batch_size, 0, 1)))
    assert (per_epoch == 1) == (size.batch_links == 0)
    assert tier.steps <= training.epochs * per_epoch < tier.steps + per_epoch


def test_larger_graphs_never_get_wider_models() -> None:
    limits = [size.up_to_links for size in SIZES]
    assert limits == sorted(limits)
    assert limits[-1] == float("inf")
    widths = [size.width for size in SIZES]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("epochs", [1, 2, 3, 19, 20, 25, 300])
def test_training_cannot_stop_before_half_of_it_is_done(random_graph, epochs: int) -> None:
    training = plan(random_graph(), epochs=epochs).training
    earliest = training.evaluate_every * (1 + training.patience_evaluations)
    assert min(earliest, epochs) >= epochs / 2


def test_the_same_graph_always_gets_the_same_plan(random_graph) -> None:
    assert plan(random_graph()) == plan(random_graph())


def test_features_decide_how_they_are_treated() -> None:
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])

    def treatment(x: torch.Tensor | None) -> tuple[str, float]:
        made = plan(Graph.from_edges(edges, num_nodes=100, x=x))
        return made.features, made.model.encoder.dropout

    words = torch.zeros(100, 500)
    words[:, 0] = 1
    flags = (torch.rand(100, 6, generator=torch.Generator().manual_seed(0)) > 0.5).float()
    numbers = torch.arange(200.0).view(100, 2) + 1
    assert treatment(numbers)[0] == "standardised"
    assert treatment(words)[0] == treatment(flags)[0] == treatment(None)[0] == "raw"
    assert treatment(words)[1] > treatment(numbers)[1]


def test_few_links_or_a_dense_graph_hold_nothing_out(hand_graph, random_graph) -> None:
    dense = Graph.from_edges(torch.combinations(torch.arange(12)).T[:, 1:], num_nodes=12)
    assert plan(hand_graph()).held_out == plan(dense).held_out == 0
    assert "none is held out" in plan(dense).reasons[-1]
    assert choose(dense, epochs=1, device="cpu").estimate.seconds > 0
    assert plan(random_graph()).held_out == HELD_OUT


@pytest.mark.parametrize("directed", [False, True])
def test_a_complete_graph_is_refused_unless_the_method_needs_no_missing_links(directed: bool) -> None:
    pairs = torch.combinations(torch.arange(15)).T
    ends = torch.cat([pairs, pairs.flip(0)], dim=1) if directed else pairs
    complete = Graph.from_edges(ends, num_nodes=15, directed=directed)
    with pytest.raises(UserError, match=r"complete: each of its 15 nodes .* no missing links to learn from; leave out"):
        choose(complete, device="cpu")
    assert choose(complete, method="grace", epochs=1, device="cpu").held_out == 0


def test_changes_have_the_last_word_and_are_checked(random_graph) -> None:
    graph = random_graph()
    made = plan(graph, changes={"training.lr": 0.5, "model.encoder.width": 3, "features": "raw"})
    assert (made.training.lr, made.model.encoder.width, made.features) == (0.5, 3, "raw")
    for wrong in ({"training.rate": 1}, {"model.encoder.width": "wide"}, {"held_out": 0.5}, {"features": "none"}):
        with pytest.raises(UserError, match=next(iter(wrong)).replace(".", r"\.")):
            plan(graph, changes=wrong)


def test_unknown_methods_no_epochs_and_graphs_without_links_are_refused(random_graph) -> None:
    with pytest.raises(UserError, match="Did you mean 'bandana'"):
        plan(random_graph(), method="bandanna")
    with pytest.raises(UserError, match="epochs: must be at least 1"):
        plan(random_graph(), epochs=0)
    loops = Graph.from_edges(torch.tensor([[0, 1], [0, 1]]), num_nodes=3)
    with pytest.raises(UserError, match="no links"):
        plan(loops)


def test_a_stand_in_has_the_degrees_and_features_of_the_graph() -> None:
    x = torch.zeros(5_000, 90)
    x[torch.arange(5_000), torch.arange(5_000) % 90] = torch.arange(5_000.0) + 1
    graph = big_graph(50_000, 5_000, x=x)
    small = stand_in(graph, 5_000)
    share = graph.links.numel() / 5_000
    assert small.num_nodes == pytest.approx(graph.num_nodes / share, rel=0.01)
    assert small.links.numel() == 5_000
    assert isinstance(small.x, SparseFeatures)
    rows = small.x.dense()
    nodes = rows.sum(1).long() - 1
    assert rows.equal(x[nodes])
    degrees = torch.stack([small.structure.row_sizes, graph.structure.row_sizes[nodes]]).double()
    assert torch.corrcoef(degrees)[0, 1] > 0.8
    assert stand_in(graph, 10**6) is graph
    bare = replace(graph, x=Graph.from_edges(graph.edge_index, num_nodes=graph.num_nodes).x)
    assert stand_in(bare, 5_000).x.is_identity


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("nodes", "degree"), [(400, 150), (600, 400), (300, 298)])
def test_a_stand_in_of_a_dense_graph_has_pairs_without_a_link(nodes: int, degree: int, directed: bool) -> None:
    every_pair = torch.combinations(torch.arange(nodes)).T
    kept = torch.randperm(every_pair.shape[1], generator=torch.Generator().manual_seed(0))[: nodes * degree // 2]
    graph = Graph.from_edges(every_pair[:, kept], num_nodes=nodes, directed=directed)
    for links in (20_000, 5_000):
        small = stand_in(graph, links)
        assert small.links.numel() <= max(count_pairs(small) / 2, graph.links.numel() * (small is graph))
    assert choose(graph, epochs=1).estimate.seconds > 0


def test_growth_is_linear_or_quadratic_and_noise_is_neither() -> None:
    def cost(links: int) -> Cost:
        return Cost(links=links, split_s=1, epoch_s=1, embed_s=1, tensor_bytes=1, node_bytes=1)

    small, large = cost(5_000), cost(20_000)
    assert [_power(small, large, ratio) for ratio in (1.0, 4.0, 7.0, 9.0, 16.0)] == [1, 1, 1, 2, 2]


@pytest.mark.parametrize(("power", "epochs"), [(1, 10), (2, 7)])
def test_what_was_measured_on_stand_ins_is_scaled_to_the_graph(monkeypatch, power: int, epochs: int) -> None:
    graph = big_graph(60_000, 6_000)
    links = graph.links.numel()

    def cost_of(graph: Graph, build: object, training: object, share: float) -> Cost:
        own = graph.links.numel()
        return Cost(
            links=own,
            split_s=own * 1e-4,
            epoch_s=(own / 1e3) ** power,
            embed_s=0.0,
            tensor_bytes=5e6 + 100 * own,
            node_bytes=1_000,
        )

    monkeypatch.setattr("bandana.own.calibration._measure", cost_of)
    monkeypatch.setattr("bandana.own.calibration.resident_bytes", lambda: 0)
    found = choose(graph, epochs=epochs).estimate
    assert found.seconds == pytest.approx(links * 1e-4 + 0.75 * epochs * (links / 1e3) ** power, rel=1e-6)
    vectors = COPIES_OF_VECTORS * graph.num_nodes * 1_000
    beyond_the_graph = found.bytes - 5e6 - 100 * links - vectors
    assert 0 < beyond_the_graph < 200 * graph.num_edges + 100 * graph.num_nodes


def test_memory_of_a_stand_in_tells_that_of_the_graph(monkeypatch) -> None:
    """The graph is small enough to stand for itself; then it may not, and the estimate hardly changes."""
    graph = big_graph(19_000, 1_900)
    monkeypatch.setattr("bandana.own.calibration.resident_bytes", lambda: 0)
    itself = choose(graph, epochs=1).estimate
    monkeypatch.setattr("bandana.own.calibration.STAND_IN_LINKS", 8_000)
    assert choose(graph, epochs=1).estimate.bytes == pytest.approx(itself.bytes, rel=0.25)


def test_an_estimate_comes_with_the_plan(random_graph) -> None:
    graph = random_graph()
    choice = choose(graph, device="cpu")
    assert isinstance(choice, Choice)
    assert isinstance(choice.estimate, Estimate)
    assert choice.estimate.seconds > 0
    assert choice.estimate.bytes > 1 << 20
    assert plan(graph).reasons == choice.reasons
    assert choose(graph, method="untrained_encoder").training.epochs == 1
    assert issubclass(get_method("untrained_encoder"), Floor)
