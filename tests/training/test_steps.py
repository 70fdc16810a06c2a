"""Recorded steps against the same steps taken one by one. Recording needs a GPU."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.parts.agreement import AgreementConfig
from bandana.parts.copies import Copies
from bandana.parts.encoders import EncoderConfig
from bandana.parts.feature_recovery import RecoveryConfig
from bandana.parts.masks import MaskConfig
from bandana.registry import all_methods, get_method
from bandana.training import steps
from bandana.training.trainer import TrainingConfig, TrainingState, pretrain

CONFIG = BandanaConfig(encoder=EncoderConfig(num_layers=2, width=16, dropout=0.3), decoder_width=8)
TRAINING = TrainingConfig(epochs=12, lr=0.01, edge_batch_size=64, evaluate_every=1, schedule="cosine")

pytestmark = pytest.mark.cuda


@pytest.fixture
def graph(random_graph: Callable[..., Graph]) -> Graph:
    """Batches of 32 links and a rest."""
    graph = random_graph(60, 150, isolated=3)
    assert graph.links.numel() % 32
    return graph.to("cuda")


def train(
    graph: Graph, replayed: bool, config: BandanaConfig = CONFIG, training: TrainingConfig = TRAINING, **options: object
) -> tuple[TrainingState, Bandana]:
    torch.manual_seed(0)
    method = Bandana(config, GraphSpec.of(graph)).to(graph.device)
    method.replayable = replayed
    return pretrain(method, graph, training, seed=3, **options), method  # type: ignore[arg-type]


@pytest.fixture
def repeatable() -> Iterator[None]:
    """Sums in a fixed order, by the plain functions: what our kernels add up with atomics differs in the last bits."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("repeatable")
@pytest.mark.filterwarnings("ignore")
def test_steps_with_further_terms_are_replayed_too(graph: Graph) -> None:
    config = replace(
        CONFIG, agreement=AgreementConfig(weight=0.1, decorrelation=0.01), recovery=RecoveryConfig(weight=1.0)
    )
    (plain, _), (replayed, _) = (train(graph, flag, config) for flag in (False, True))
    for row, expected in zip(replayed.history, plain.history, strict=True):
        assert row["loss"] == pytest.approx(expected["loss"], rel=1e-5)


@pytest.mark.usefixtures("repeatable")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", [64, 0])
@pytest.mark.parametrize("distribution", ["boltzmann_gibbs", "bernoulli", "uniform", "truncated_gaussian", "none"])
def test_replayed_steps_are_the_steps_they_stand_for(graph: Graph, batch: int, distribution: str) -> None:
    config = replace(CONFIG, mask=MaskConfig(distribution=distribution))  # type: ignore[arg-type]
    training = replace(TRAINING, edge_batch_size=batch)
    (plain, one), (replayed, other) = (train(graph, flag, config, training) for flag in (False, True))
    for row, expected in zip(replayed.history, plain.history, strict=True):
        assert row["loss"] == pytest.approx(expected["loss"], rel=1e-6)
        assert row["mask_ratio"] == pytest.approx(expected["mask_ratio"], abs=1e-6)
    for weight, expected_weight in zip(other.parameters(), one.parameters(), strict=True):
        torch.testing.assert_close(weight, expected_weight)


@pytest.mark.parametrize("batch", [64, 0])
def test_replayed_kernels_draw_the_same_numbers(graph: Graph, batch: int) -> None:
    """Rounding grows from step to step, other draws would show at once."""
    training = replace(TRAINING, edge_batch_size=batch)
    (plain, _), (replayed, _) = (train(graph, flag, training=training) for flag in (False, True))
    for row, expected in zip(replayed.history[:6], plain.history[:6], strict=True):
        assert row["loss"] == pytest.approx(expected["loss"], rel=5e-3)


REPLAYABLE = sorted(name for name, method in all_methods().items() if method.replayable)


@pytest.mark.usefixtures("repeatable")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", [64, 0])
@pytest.mark.parametrize("name", REPLAYABLE)
def test_steps_of_every_method_are_replayed_as_they_are_written(graph: Graph, name: str, batch: int) -> None:
    losses, weights = [], []
    for replayed in (False, True):
        torch.manual_seed(0)
        family = get_method(name)
        method = family(family.Config(), GraphSpec.of(graph)).to(graph.device)
        method.replayable = replayed
        state = pretrain(method, graph, replace(TRAINING, edge_batch_size=batch, lr=1e-3), seed=3)
        losses.append([row["loss"] for row in state.history])
        weights.append(torch.cat([weight.detach().flatten() for weight in method.parameters()]))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert len(set(losses[1])) == TRAINING.epochs
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("repeatable")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adamw", "weight_decay": 0.1},
        {"weight_decay": 0.1},
        {"warmup_epochs": 5},
        {"clip_norm": 0.01},
        {"clip_norm": 0.0, "schedule": "constant"},
    ],
    ids=str,
)
def test_optimisers_and_schedules_are_replayed(graph: Graph, changes: dict[str, object]) -> None:
    training = replace(TRAINING, **changes)  # type: ignore[arg-type]
    (plain, one), (replayed, other) = (train(graph, flag, training=training) for flag in (False, True))
    for row, expected in zip(replayed.history, plain.history, strict=True):
        assert row["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    for weight, expected_weight in zip(other.parameters(), one.parameters(), strict=True):
        torch.testing.assert_close(weight, expected_weight, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("repeatable")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["directed", "weighted"])
def test_steps_on_other_kinds_of_graphs_are_replayed(random_graph: Callable[..., Graph], kind: str) -> None:
    graph = random_graph(60, 150, isolated=3, **{kind: True}).to("cuda")
    (plain, _), (replayed, _) = (train(graph, flag) for flag in (False, True))
    for row, expected in zip(replayed.history, plain.history, strict=True):
        assert row["loss"] == pytest.approx(expected["loss"], rel=1e-5)


@pytest.mark.usefixtures("repeatable")
@pytest.mark.filterwarnings("ignore")
def test_steps_of_copies_are_replayed_as_they_are_written(graph: Graph) -> None:
    histories = []
    for replayed in (False, True):
        torch.manual_seed(0)
        method = Copies([Bandana(CONFIG, GraphSpec.of(graph)) for _ in range(2)]).to(graph.device)
        method.replayable = replayed
        histories.append(pretrain(method, graph, TRAINING, seed=3).history)
    losses = [[row["loss"] for row in history] for history in histories]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert len(set(losses[1])) == TRAINING.epochs


@pytest.mark.parametrize("target", ["aligned", "released", "shuffled", "constant"])
def test_every_target_can_be_replayed(graph: Graph, target: str) -> None:
    state, _ = train(graph, True, replace(CONFIG, target=target))  # type: ignore[arg-type]
    assert len({row["loss"] for row in state.history}) == TRAINING.epochs


@pytest.mark.parametrize("edges", ["keep", "random", "drop"])
@pytest.mark.parametrize("features", ["keep", "scramble", "random"])
def test_every_corruption_of_t_bgrl_can_be_replayed(graph: Graph, features: str, edges: str) -> None:
    family = get_method("t_bgrl")
    config = family.Config(width=16, corrupt_features=features, corrupt_edges=edges)
    state = pretrain(family(config, GraphSpec.of(graph)).to(graph.device), graph, TRAINING, seed=3)
    assert len({row["loss"] for row in state.history}) == TRAINING.epochs


def test_most_steps_are_replayed(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    original = Bandana.loss
    monkeypatch.setattr(Bandana, "loss", lambda self, batch, clock: taken.append(1) or original(self, batch, clock))
    state, _ = train(graph, True)
    sizes = 2
    assert len(taken) == sizes * (steps.WARM_UP + 1) < state.step


@pytest.mark.usefixtures("repeatable")
@pytest.mark.filterwarnings("ignore")
def test_an_interrupted_run_goes_on(graph: Graph, tmp_path: Path) -> None:
    whole, _ = train(graph, True)

    class InterruptionError(Exception):
        pass

    def interrupt(state: TrainingState) -> None:
        if state.epoch == 7:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        train(graph, True, checkpoint=tmp_path / "a", on_epoch=interrupt)
    resumed, _ = train(graph, True, checkpoint=tmp_path / "a")
    assert [row["loss"] for row in resumed.history] == pytest.approx([row["loss"] for row in whole.history], rel=1e-6)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_lower_precision_stays_near(graph: Graph, precision: str) -> None:
    exact, _ = train(graph, True)
    rough, _ = train(graph, True, training=replace(TRAINING, precision=precision))  # type: ignore[arg-type]
    assert torch.get_float32_matmul_precision() == "highest"
    assert rough.history[0]["loss"] == pytest.approx(exact.history[0]["loss"], rel=1e-2)


def test_a_recorded_function_follows_its_inputs() -> None:
    x = torch.zeros(3, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        total = steps.Recorded(lambda: x.sum())
        for value in range(8):
            x.fill_(value)
            assert float(total()) == 3 * value
