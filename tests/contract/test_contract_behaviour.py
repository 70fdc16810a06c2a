"""What every method does with any graph it may meet."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bandana.errors import UserError
from bandana.graph import Graph, SparseFeatures
from bandana.method import Batch, Clock, Method
from bandana.parts.floor import Floor

GraphFactory = Callable[..., Graph]
Build = Callable[..., Method]
NODES = 37  # no width of any layer, so that a parameter with this many rows has one for each node

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "isolated nodes": {"isolated": 9},
    "no features": {"num_features": 0},
    "one feature": {"num_features": 1},
    "directed": {"directed": True},
    "weighted": {"weighted": True},
    "directed and weighted": {"directed": True, "weighted": True, "isolated": 3},
    "no edges": {"num_edges": 0},
}


@pytest.fixture
def graph(random_graph: GraphFactory) -> Graph:
    return random_graph(NODES, 100)


@pytest.mark.parametrize("kind", KINDS)
def test_any_graph_gives_one_vector_per_node(
    cls: type[Method], build: Build, embed: Callable[..., Tensor], random_graph: GraphFactory, kind: str
) -> None:
    graph = random_graph(NODES, **{"num_edges": 100, **KINDS[kind]})
    z = embed(build(cls, graph), graph)
    assert z.dim() == 2
    assert z.shape[0] == NODES
    assert z.shape[1] >= 1
    assert bool(z.isfinite().all())


@pytest.mark.parametrize("kind", KINDS)
def test_any_graph_gives_a_finite_loss_and_finite_gradients(
    learner: type[Method], build: Build, loss_of: Callable[..., Tensor], random_graph: GraphFactory, kind: str
) -> None:
    graph = random_graph(NODES, **{"num_edges": 100, **KINDS[kind]})
    method = build(learner, graph)
    loss = loss_of(method, graph)
    assert loss.shape == ()
    assert bool(loss.isfinite())
    loss.backward()
    gradients = [parameter.grad for parameter in method.parameters() if parameter.grad is not None]
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.parametrize("directed", [True, False])
def test_one_link_between_two_nodes(
    cls: type[Method], build: Build, loss_of: Callable[..., Tensor], embed: Callable[..., Tensor], directed: bool
) -> None:
    """Undirected, this graph is complete: a method that needs non-links may refuse it, but only in words."""
    graph = Graph.from_edges(torch.tensor([[0], [1]]), num_nodes=2, x=torch.eye(2, 3), directed=directed)
    method = build(cls, graph)
    with nullcontext() if directed else suppress(UserError):
        assert bool(loss_of(method, graph).isfinite())
    assert bool(embed(method, graph).isfinite().all())


def test_some_of_the_links_are_a_batch_too(
    cls: type[Method], build: Build, loss_of: Callable[..., Tensor], graph: Graph
) -> None:
    assert bool(loss_of(build(cls, graph), graph, links=graph.links[:3]).isfinite())


def test_gradients_reach_every_parameter_of_the_turn_that_moves_it(
    learner: type[Method], build: Build, graph: Graph
) -> None:
    method = build(learner, graph).train()
    groups = method.parameter_groups()
    for name, loss in method.turns(Batch(graph, graph.links), Clock(0, epoch=1, num_epochs=10)):
        method.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for parameter in groups[name]:
            assert parameter.grad is not None, (name, parameter.shape)
            assert bool(parameter.grad.isfinite().all())
            assert bool(parameter.grad.any()), (name, parameter.shape)


def test_only_a_floor_has_nothing_to_learn(cls: type[Method], build: Build, graph: Graph) -> None:
    assert (build(cls, graph).parameter_groups() == {}) == issubclass(cls, Floor)


def test_no_trainable_parameter_is_forgotten(cls: type[Method], build: Build, graph: Graph) -> None:
    method = build(cls, graph)
    moved = [parameter for group in method.parameter_groups().values() for parameter in group]
    trainable = [parameter for parameter in method.parameters() if parameter.requires_grad]
    assert {id(parameter) for parameter in moved} == {id(parameter) for parameter in trainable}


def test_embedding_is_deterministic_and_leaves_no_trace(
    cls: type[Method], build: Build, embed: Callable[..., Tensor], graph: Graph
) -> None:
    method = build(cls, graph)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    first = embed(method, graph)
    assert not first.requires_grad
    assert embed(method, graph).equal(first)
    assert all(tensor.equal(before[name]) for name, tensor in method.state_dict().items())


def test_a_step_depends_on_weights_and_clock_alone(
    cls: type[Method], build: Build, loss_of: Callable[..., Tensor], graph: Graph
) -> None:
    """What a loss was asked before must not matter, or an interrupted run could not be continued."""
    method, fresh = build(cls, graph), build(cls, graph)
    for step in range(3):
        loss_of(method, graph, step=step)
    assert loss_of(method, graph, step=5).equal(loss_of(fresh, graph, step=5))


def test_steps_and_seeds_differ_in_their_noise(
    learner: type[Method], build: Build, loss_of: Callable[..., Tensor], graph: Graph, drawn: Callable[[], bool]
) -> None:
    """A loss that draws nothing has no noise to differ in."""
    method = build(learner, graph)
    losses = [float(loss_of(method, graph, seed=s, step=step).detach()) for s, step in ((0, 0), (0, 1), (1, 0))]
    assert len(set(losses)) == 3 or not drawn()


def test_labels_are_never_read(
    cls: type[Method], build: Build, loss_of: Callable[..., Tensor], embed: Callable[..., Tensor], graph: Graph
) -> None:
    assert graph.y is not None
    results = []
    for labels in (graph.y, None, graph.y.flip(0) + 5):
        relabelled = replace(graph, y=labels)
        method = build(cls, relabelled)
        results.append((loss_of(method, relabelled), embed(method, relabelled)))
    for loss, z in results[1:]:
        assert loss.equal(results[0][0])
        assert z.equal(results[0][1])


@pytest.mark.parametrize("directed", [False, True])
def test_renaming_the_nodes_renames_the_embeddings(
    cls: type[Method], build: Build, embed: Callable[..., Tensor], random_graph: GraphFactory, directed: bool
) -> None:
    graph = random_graph(NODES, 100, directed=directed, weighted=True)
    assert isinstance(graph.x, Tensor)
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(0))
    place = order.argsort()
    renamed = Graph.from_edges(
        place[graph.edge_index[:, graph.links]],
        num_nodes=NODES,
        x=graph.x[order],
        weight=None if graph.weight is None else graph.weight[graph.links],
        directed=directed,
    )
    method, other = build(cls, graph), build(cls, renamed)
    state = method.state_dict()
    other.load_state_dict({name: t[order] if t.dim() and t.shape[0] == NODES else t for name, t in state.items()})
    torch.testing.assert_close(embed(other, renamed), embed(method, graph)[order], rtol=1e-4, atol=1e-5)


def test_weights_of_one_are_no_weights(
    cls: type[Method], build: Build, loss_of: Callable[..., Tensor], embed: Callable[..., Tensor], graph: Graph
) -> None:
    weighted = replace(graph, weight=torch.ones(graph.num_edges))
    first, second = build(cls, graph), build(cls, weighted)
    torch.testing.assert_close(loss_of(second, weighted), loss_of(first, graph))
    torch.testing.assert_close(embed(second, weighted), embed(first, graph))


def test_sparse_and_dense_features_mean_the_same(
    cls: type[Method], build: Build, embed: Callable[..., Tensor], random_graph: GraphFactory
) -> None:
    sparse = random_graph(NODES, 100, num_features=0)
    assert isinstance(sparse.x, SparseFeatures)
    dense = replace(sparse, x=sparse.x.dense())
    torch.testing.assert_close(embed(build(cls, dense), dense), embed(build(cls, sparse), sparse), rtol=1e-4, atol=1e-5)


def test_scores_of_pairs_are_finite_numbers_one_each(cls: type[Method], build: Build, graph: Graph) -> None:
    pairs = torch.randint(NODES, (2, 11), generator=torch.Generator().manual_seed(0))
    method = build(cls, graph).eval()
    with torch.no_grad():
        scores = method.score_edges(graph, pairs)
    overridden = cls.score_edges is not Method.score_edges
    assert (scores is not None) == overridden
    if scores is not None:
        assert scores.shape == (11,)
        assert bool(scores.isfinite().all())


def test_the_graph_is_left_alone(
    cls: type[Method], build: Build, embed: Callable[..., Tensor], random_graph: GraphFactory
) -> None:
    for num_features in (6, 0):
        graph = random_graph(NODES, 100, weighted=True, num_features=num_features)
        before = [tensor.clone() for tensor in all_tensors(graph)]
        method = build(cls, graph).train()
        for _, loss in method.turns(Batch(graph, graph.links), Clock(0, epoch=1, num_epochs=10)):
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
        embed(method, graph)
        assert all(tensor.equal(copy) for tensor, copy in zip(all_tensors(graph), before, strict=True))


def all_tensors(graph: Graph) -> list[Tensor]:
    """Every tensor a graph holds, its caches included."""
    structures = [graph.structure]
    tensors = [graph.y, graph.weight, graph.edge_keys, graph.links]
    if isinstance(graph.x, SparseFeatures):
        structures.append(graph.x.structure)
        tensors.append(graph.x.values)
    else:
        tensors.append(graph.x)
    slots = ("rowptr", "row", "col", "transposed_rowptr", "transposed_col", "transposed_entry")
    tensors += [getattr(structure, slot) for structure in structures for slot in slots]
    return [tensor for tensor in tensors if tensor is not None]


def test_torchs_global_randomness_is_not_touched(
    cls: type[Method], build: Build, loss_of: Callable[..., Tensor], embed: Callable[..., Tensor], graph: Graph
) -> None:
    method = build(cls, graph)
    before = torch.get_rng_state()
    loss = loss_of(method, graph)
    if loss.requires_grad:
        loss.backward()
    embed(method, graph)
    assert torch.get_rng_state().equal(before)


def test_diagnostics_are_plain_numbers(
    cls: type[Method], build: Build, loss_of: Callable[..., Tensor], graph: Graph
) -> None:
    method = build(cls, graph)
    loss_of(method, graph)
    assert all(isinstance(value, float) and value == value for value in method.diagnostics().values())
