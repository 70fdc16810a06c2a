"""MaskGAE as on the links of OGB: what tests/contract asks of every method, with the settings of those recipes."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bandana.graph import Graph, SparseFeatures
from bandana.method import Batch, Clock, GraphSpec, Method
from bandana.paper.cookbook import load_recipe, recipe
from bandana.registry import get_method
from bandana.training import trainer
from bandana.training.trainer import TrainingConfig, TrainingState, pretrain

GraphFactory = Callable[..., Graph]
NODES = 37  # no width of any layer, so that a parameter with this many rows has one for each node
SMALL = {"node_embedding": 12, "out_width": 10, "decoder_width": 6}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "isolated nodes": {"isolated": 9},
    "no features": {"num_features": 0},
    "directed and weighted": {"directed": True, "weighted": True, "isolated": 3},
    "no edges": {"num_edges": 0},
}

pytestmark = pytest.mark.parametrize("name", ["maskgae_edge", "maskgae_path"])


def build(name: str, graph: Graph, seed: int = 0, **changes: Any) -> Method:
    config = replace(recipe(name, "ogbl-collab", "link").model, **SMALL | changes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_method(name)(config, GraphSpec.of(graph))  # type: ignore[call-arg]


def loss_of(method: Method, graph: Graph, step: int = 0) -> Tensor:
    return method.train().loss(Batch(graph, graph.links), Clock(0, epoch=1, step=step, num_epochs=10))


@torch.no_grad()
def embed(method: Method, graph: Graph) -> Tensor:
    return method.eval().embed(graph)


@pytest.mark.parametrize("kind", KINDS)
def test_any_graph_gives_finite_vectors_losses_gradients_and_scores(
    name: str, kind: str, random_graph: GraphFactory
) -> None:
    graph = random_graph(NODES, **{"num_edges": 100, **KINDS[kind]})
    method = build(name, graph)
    loss = loss_of(method, graph)
    loss.backward()
    assert bool(loss.isfinite())
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in method.parameters())
    z = embed(method, graph)
    assert z.shape == (NODES, 10)
    scores = method.score_edges(graph, torch.tensor([[0, 1], [2, 1]]))
    assert scores is not None
    torch.testing.assert_close(scores, torch.stack([z[0] @ z[2], z[1] @ z[1]]))


def test_gradients_reach_every_parameter(name: str, random_graph: GraphFactory) -> None:
    graph = random_graph(NODES, 100)
    method = build(name, graph)
    loss_of(method, graph).backward()
    for parameter, tensor in method.named_parameters():
        assert tensor.grad is not None, parameter
        assert bool(tensor.grad.any()), parameter
    assert {parameter.split(".")[0] for parameter, _ in method.named_parameters()} == {
        *("encoder", "node_vectors", "degree_head")
    }


def test_a_step_depends_on_weights_and_clock_alone(name: str, random_graph: GraphFactory) -> None:
    graph = random_graph(NODES, 100)
    method, fresh = build(name, graph), build(name, graph)
    losses = [float(loss_of(method, graph, step).detach()) for step in range(3)]
    assert len(set(losses)) == 3
    assert loss_of(method, graph, 5).equal(loss_of(fresh, graph, 5))


def test_renaming_the_nodes_renames_the_embeddings(name: str, random_graph: GraphFactory) -> None:
    graph = random_graph(NODES, 100, weighted=True)
    assert graph.weight is not None
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(0))
    edges = order.argsort()[graph.edge_index[:, graph.links]]
    renamed = Graph.from_edges(edges, num_nodes=NODES, x=graph.x[order], weight=graph.weight[graph.links])
    method, other = build(name, graph), build(name, renamed)
    state = method.state_dict()
    other.load_state_dict({key: t[order] if t.shape[0] == NODES else t for key, t in state.items()})
    torch.testing.assert_close(embed(other, renamed), embed(method, graph)[order], rtol=1e-4, atol=1e-5)


def test_weights_of_one_are_no_weights_and_sparse_features_dense_ones(name: str, random_graph: GraphFactory) -> None:
    graph = random_graph(NODES, 100)
    weighted = replace(graph, weight=torch.ones(graph.num_edges))
    torch.testing.assert_close(loss_of(build(name, weighted), weighted), loss_of(build(name, graph), graph))
    sparse = random_graph(NODES, 100, num_features=0)
    assert isinstance(sparse.x, SparseFeatures)
    dense = replace(sparse, x=sparse.x.dense())
    first, second = (embed(build(name, one, node_embedding=0), one) for one in (sparse, dense))
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def _interrupt_after_two(state: TrainingState) -> None:
    if state.epoch == 2:
        raise KeyboardInterrupt


def test_it_learns_and_an_interrupted_run_continues_bit_for_bit(
    name: str, random_graph: GraphFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "TIME_PER_SAVING", 0.0)
    graph, schedule = random_graph(NODES, 100), TrainingConfig(epochs=12, lr=0.01, evaluate_every=1, edge_batch_size=60)
    whole, first, second = (build(name, graph) for _ in range(3))
    before = loss_of(whole, graph, 99)
    state = pretrain(whole, graph, schedule, seed=1)
    assert state.step == 12 * -(-graph.num_edges // 60)
    assert float(loss_of(whole, graph, 99).detach()) < float(before.detach())
    file = tmp_path / "checkpoint.safetensors"
    with suppress(KeyboardInterrupt):
        pretrain(first, graph, schedule, seed=1, checkpoint=file, on_epoch=_interrupt_after_two)
    pretrain(second, graph, schedule, seed=1, checkpoint=file)
    assert embed(second, graph).equal(embed(whole, graph))


@pytest.mark.parametrize(("dataset", "where"), [("ogbl-collab", "scripts"), ("ogbl-ppa", "for ogbl-collab")])
def test_every_value_says_where_it_comes_from(name: str, dataset: str, where: str) -> None:
    found = load_recipe(name, dataset, "link")
    own = {option for option in found.values if option.startswith(("model.", "training."))}
    inherited = {"model.readout", "training.evaluate_every"}
    assert all(where in found.sources[option] for option in own - inherited)
    assert recipe(name, dataset, "link").model == recipe(name, "ogbl-collab", "link").model
