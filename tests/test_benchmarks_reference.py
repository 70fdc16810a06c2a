"""The benchmark compares like with like: the plain reference has the loss and the gradients of `Bandana`."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from bandana.engine.bandwidth import gaussian_noise
from bandana.graph import Graph, SparseFeatures
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods import bandana as bandana_file
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.parts.encoders import EncoderConfig
from bandana.parts.masks import MaskConfig
from bandana.training.trainer import TrainingConfig, edge_batches

NODES, FEATURES = 30, 40


def _load(name: str) -> ModuleType:
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = _load("reference")
pytestmark = pytest.mark.usefixtures("float64")


def _graph(*, directed: bool, sparse: bool) -> Graph:
    draw = torch.Generator().manual_seed(0)
    edge_index = torch.randint(NODES - 2, (2, 80), generator=draw)  # the last two nodes have no neighbours
    x = torch.randn(NODES, FEATURES, generator=draw)
    if sparse:
        x = x * (torch.rand(x.shape, generator=draw) < 0.03)
    graph = Graph.from_edges(edge_index, num_nodes=NODES, x=x, directed=directed)
    assert isinstance(graph.x, SparseFeatures) == sparse
    return graph


def _config(*, dropout: float = 0.0, temperature: float = 0.5) -> BandanaConfig:
    encoder = EncoderConfig(num_layers=3, width=8, dropout=dropout)
    mask = MaskConfig(temperature=temperature)
    return BandanaConfig(encoder=encoder, decoder_width=5, decoder_dropout=dropout, mask=mask)


def _copy_weights(ours: Bandana, theirs: torch.nn.Module) -> list[tuple[Tensor, Tensor, bool]]:
    """Make both start from ours; returns each pair of parameters and whether theirs is the transpose."""
    pairs = [(a, b.weight, True) for a, b in zip(ours.encoder.weights, theirs.projections, strict=True)]
    modules = [*zip(ours.encoder.norms, theirs.norms, strict=True)]
    modules += [(ours.decoder.hidden, theirs.hidden), (ours.decoder.out, theirs.out)]
    for mine, other in modules:
        torch.nn.init.uniform_(mine.bias, -0.5, 0.5)
        pairs += [(mine.weight, other.weight, False), (mine.bias, other.bias, False)]
    assert {id(mine) for mine, *_ in pairs} == {id(mine) for mine in ours.parameters()}
    assert {id(other) for _, other, _ in pairs} == {id(other) for other in theirs.parameters()}
    with torch.no_grad():
        for mine, other, transposed in pairs:
            other.copy_(mine.t() if transposed else mine)
    return pairs


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("temperature", [1e-6, 0.5, 100.0])
@pytest.mark.parametrize("whole", [True, False])
def test_reference_has_the_loss_and_the_gradients_of_bandana(
    monkeypatch: pytest.MonkeyPatch, directed: bool, sparse: bool, temperature: float, whole: bool
) -> None:
    graph, config = _graph(directed=directed, sparse=sparse), _config(temperature=temperature)
    torch.manual_seed(1)
    ours = Bandana(config, GraphSpec.of(graph)).train()
    theirs = reference.ReferenceTraining(graph, config, TrainingConfig())
    parameters = _copy_weights(ours, theirs.model)
    links = graph.links if whole else graph.links[::3]
    positives = links if directed else torch.cat([links, graph.structure.transposed_entry[links]])
    negatives = torch.randint(NODES, (2, positives.numel()))
    clock = Clock(seed=3, step=7)

    monkeypatch.setattr(bandana_file, "draw_negatives", lambda *args: negatives)
    loss = ours.loss(Batch(graph, links), clock)
    loss.backward()

    receiver = graph.edge_index[1]
    masks = [
        reference.softmax_at_receiver(
            gaussian_noise(graph.edge_keys, seed=clock.seed, step=clock.step, layer=layer) / temperature,
            receiver,
            NODES,
        )
        for layer in range(config.encoder.num_layers)
    ]
    expected = theirs.model.loss(theirs.x, theirs.edge_index, masks, positives, negatives)
    expected.backward()

    assert_close(loss, expected)
    for mine, other, transposed in parameters:
        assert_close(mine.grad, other.grad.t() if transposed else other.grad)


@pytest.mark.parametrize("batch_size", [0, 32, 50, 10_000])
def test_an_epoch_has_as_many_steps_as_ours_and_covers_every_edge_once(
    monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    graph = _graph(directed=False, sparse=False)
    training = reference.ReferenceTraining(graph, _config(dropout=0.5), TrainingConfig(edge_batch_size=batch_size))
    seen: list[tuple[Tensor, Tensor]] = []
    step = training.step
    monkeypatch.setattr(training, "step", lambda *batch: seen.append(batch) or step(*batch))
    loss = training()

    assert torch.tensor(loss).isfinite()
    assert len(seen) == len(list(edge_batches(graph, batch_size, seed=0, epoch=1)))
    assert_close(torch.cat([positives for positives, _ in seen]).sort().values, torch.arange(graph.num_edges))
    drawn = torch.cat([negatives for _, negatives in seen], dim=1)
    assert drawn.shape[1] == graph.num_edges
    keys = drawn[1] * NODES + drawn[0]
    assert not torch.isin(keys, graph.edge_keys).any()
    assert (drawn[0] != drawn[1]).all()


def test_reference_learns() -> None:
    graph = _graph(directed=False, sparse=True)
    torch.manual_seed(0)
    training = reference.ReferenceTraining(graph, _config(), TrainingConfig(lr=0.01))
    losses = [training() for _ in range(60)]
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])
