"""The loop: batches cover everything once, evaluation keeps the best, and nothing depends on interruptions."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.errors import UserError
from bandana.graph import Graph
from bandana.method import GraphSpec, Method
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.parts.encoders import EncoderConfig
from bandana.training import checkpoint as checkpoints
from bandana.training import trainer
from bandana.training.early_stopping import Progress
from bandana.training.trainer import (
    TrainingConfig,
    TrainingState,
    edge_batches,
    learning_rate,
    pretrain,
)

CONFIG = BandanaConfig(encoder=EncoderConfig(num_layers=2, width=8, dropout=0.3), decoder_width=4)
SCHEDULE = TrainingConfig(epochs=12, lr=0.01, evaluate_every=2, patience_evaluations=0, edge_batch_size=40)


def toy_graph(directed: bool = False) -> Graph:
    random = torch.Generator().manual_seed(7)
    edges = torch.randint(30, (2, 90), generator=random)
    return Graph.from_edges(edges, num_nodes=30, x=torch.randn(30, 5, generator=random), directed=directed)


def fresh(graph: Graph) -> Bandana:
    torch.manual_seed(3)
    return Bandana(CONFIG, GraphSpec.of(graph))


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("size", [0, 1, 40, 10_000])
def test_batches_hold_every_link_once(directed: bool, size: int) -> None:
    graph = toy_graph(directed)
    batches = list(edge_batches(graph, size, seed=0, epoch=1))
    assert torch.equal(torch.cat([batch.links for batch in batches]).sort().values, graph.links)
    limit = graph.num_edges if size == 0 else max(size, 2 - directed)
    assert max(batch.links.numel() * (2 - directed) for batch in batches) <= limit


def test_batches_are_shuffled_anew_every_epoch_and_by_seed() -> None:
    graph = toy_graph()
    first, again, later, other = (
        torch.cat([batch.links for batch in edge_batches(graph, 40, seed, epoch)])
        for seed, epoch in ((0, 1), (0, 1), (0, 2), (1, 1))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, later)
    assert not torch.equal(first, other)


def test_the_same_seed_gives_the_same_weights_to_the_last_bit() -> None:
    graph = toy_graph()
    runs = []
    for seed in (0, 0, 1):
        method = fresh(graph)
        pretrain(method, graph, SCHEDULE, seed=seed)
        runs.append(method.state_dict())
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


@pytest.mark.parametrize(
    ("stop_after", "changes"),
    [
        (1, {}),
        (2, {}),
        (5, {"optimizer": "adamw", "weight_decay": 0.1}),
        (5, {"schedule": "cosine", "warmup_epochs": 4}),
        (11, {}),
    ],
)
def test_an_interrupted_run_ends_with_the_bits_of_an_uninterrupted_one(
    tmp_path, monkeypatch: pytest.MonkeyPatch, stop_after: int, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(trainer, "TIME_PER_SAVING", 0.0)
    graph, path = toy_graph(), tmp_path / "checkpoint.safetensors"
    schedule = replace(SCHEDULE, **changes)

    def watched(method: Bandana):
        return lambda: -float(method.embed(graph).square().mean())

    whole = fresh(graph)
    expected = pretrain(whole, graph, schedule, seed=0, monitor=watched(whole))

    class KilledError(Exception):
        pass

    def kill(state) -> None:
        if state.epoch == stop_after:
            raise KilledError

    broken = fresh(graph)
    with pytest.raises(KilledError):
        pretrain(broken, graph, schedule, seed=0, monitor=watched(broken), checkpoint=path, on_epoch=kill)
    resumed = fresh(graph)
    torch.manual_seed(99)  # what happened elsewhere in the process must not matter
    state = pretrain(resumed, graph, schedule, seed=0, monitor=watched(resumed), checkpoint=path)
    assert same(whole.state_dict(), resumed.state_dict())
    timeless = [[{**row, "seconds": 0} for row in each.history] for each in (expected, state)]
    assert timeless[0] == timeless[1]
    assert state.progress == expected.progress


@pytest.mark.parametrize(
    ("patience", "pause", "saved"), [(0, 0.0, [2, 4, 6, 8, 10, 12]), (0, 1e9, [2, 12]), (2, 1e9, [2, 6])]
)
def test_checkpoints_are_as_frequent_as_is_cheap_and_the_end_is_always_saved(
    tmp_path, monkeypatch: pytest.MonkeyPatch, patience: int, pause: float, saved: list[int]
) -> None:
    graph, epochs = toy_graph(), []

    def save_state(path, method, optimizers, state, best) -> None:
        epochs.append(state.epoch)

    monkeypatch.setattr(trainer, "TIME_PER_SAVING", pause)
    monkeypatch.setattr(trainer, "save_state", save_state)
    schedule = replace(SCHEDULE, patience_evaluations=patience)
    falling = iter(range(0, -12, -1))
    pretrain(fresh(graph), graph, schedule, seed=0, monitor=lambda: next(falling), checkpoint=tmp_path / "none")
    assert epochs == saved


def test_the_best_weights_are_kept_and_the_latest_of_equals() -> None:
    graph, method = toy_graph(), fresh(toy_graph())
    values, seen = iter([0.1, 0.9, 0.9, 0.2, 0.3, 0.4]), []

    def monitor() -> float:
        seen.append({name: tensor.clone() for name, tensor in method.state_dict().items()})
        return next(values)

    state = pretrain(method, graph, SCHEDULE, seed=0, monitor=monitor)
    assert (state.progress.best_epoch, state.progress.best_value) == (6, 0.9)
    assert same(method.state_dict(), seen[2])
    assert not same(method.state_dict(), seen[1])


def test_patience_counts_evaluations_not_epochs() -> None:
    graph, method = toy_graph(), fresh(toy_graph())
    values = iter([0.5, 0.4, 0.3, 0.2, 0.1, 0.0])
    state = pretrain(method, graph, replace(SCHEDULE, patience_evaluations=3), seed=0, monitor=lambda: next(values))
    assert state.epoch == 2 * (1 + 3)


def test_without_a_monitor_the_last_weights_stay() -> None:
    graph, method = toy_graph(), fresh(toy_graph())
    last = {}
    pretrain(method, graph, SCHEDULE, seed=0, on_epoch=lambda state: last.update(method.state_dict()))
    assert same(method.state_dict(), last)


def test_gradients_are_clipped_to_the_norm() -> None:
    graph = toy_graph()
    norms = []
    for limit in (0.0, 1e-3):
        method = fresh(graph)
        step = torch.optim.Adam.step

        def spy(self, *args, method=method, step=step, **kwargs):
            norms.append(float(torch.stack([p.grad.norm() for p in method.parameters()]).norm()))
            return step(self, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(torch.optim.Adam, "step", spy)
            pretrain(method, graph, replace(SCHEDULE, epochs=1, edge_batch_size=0, clip_norm=limit), seed=0)
    assert norms[0] > 2e-3
    assert norms[1] == pytest.approx(1e-3, rel=1e-3)


def test_divergence_is_said_and_not_trained_on(monkeypatch) -> None:
    graph, method = toy_graph(), fresh(toy_graph())
    monkeypatch.setattr(method, "loss", lambda batch, clock: method.encoder.weights[0].sum() * float("nan"))
    with pytest.raises(UserError, match=r"Training diverged: the loss is nan at epoch 2.*training\.lr"):
        pretrain(method, graph, SCHEDULE, seed=0)


def test_progress_keeps_the_later_of_two_equal_epochs() -> None:
    progress = Progress().after(0.5, 10).after(0.4, 20)
    assert progress == Progress(0.5, 10, 1)
    assert progress.after(0.5, 30) == Progress(0.5, 30, 0)


@pytest.mark.parametrize(
    ("name", "value"), [("epochs", 0), ("lr", 0.0), ("clip_norm", -1.0), ("evaluate_every", 0), ("edge_batch_size", -1)]
)
def test_impossible_schedules_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        TrainingConfig(**{name: value})


def test_optimizer_state_survives_a_checkpoint(tmp_path) -> None:
    weights = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2, 2))]
    optimizer = torch.optim.Adam(weights, fused=True)
    sum(weight.square().sum() for weight in weights).backward()
    optimizer.step()
    path = tmp_path / "state.safetensors"
    checkpoints.save(path, {"adam": checkpoints.optimizer_tensors(optimizer)}, {"epoch": 1})
    tensors, state = checkpoints.load(path)
    other = torch.optim.Adam(weights, fused=True)
    checkpoints.restore_optimizer(other, tensors["adam"])
    before, after = optimizer.state_dict()["state"], other.state_dict()["state"]
    assert state == {"epoch": 1}
    assert all(torch.equal(before[i][key], after[i][key]) for i in before for key in before[i])


def without(group: str) -> Callable[[Any, Any], None]:
    return lambda tensors, state: tensors.pop(group)


def changed(group: str, name: str, value: torch.Tensor) -> Callable[[Any, Any], None]:
    return lambda tensors, state: tensors[group].update({name: value})


DAMAGE: dict[str, Callable[[Any, Any], Any]] = {
    "no weights": without("now"),
    "no best weights": without("best"),
    "no optimiser": without("adam.main"),
    "weights of another width": changed("now", "encoder.weights.0", torch.ones(3, 3)),
    "best weights of another method": changed("best", "strange", torch.ones(1)),
    "an optimiser of another width": changed("adam.main", "0/exp_avg", torch.ones(3, 3)),
    "an optimiser of more weights": changed("adam.main", "99/exp_avg", torch.ones(3, 3)),
    "an optimiser without numbers": changed("adam.main", "first/exp_avg", torch.ones(3, 3)),
    "no progress": lambda tensors, state: state.pop("progress"),
    "a strange counter": lambda tensors, state: state.update(parsecs=12),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_checkpoint_that_does_not_fit_says_what_to_do(tmp_path: Path, damage: str) -> None:
    graph, path = toy_graph(), tmp_path / "checkpoint.safetensors"
    pretrain(fresh(graph), graph, SCHEDULE, seed=0, checkpoint=path)
    tensors, state = checkpoints.load(path)
    assert "encoder.weights.0" in tensors["now"]
    assert "0/exp_avg" in tensors["adam.main"]
    DAMAGE[damage](tensors, state)
    checkpoints.save(path, tensors, state)
    with pytest.raises(
        UserError, match=r"checkpoint.safetensors: not a readable checkpoint \(.+\). Delete it to start"
    ):
        pretrain(fresh(graph), graph, SCHEDULE, seed=0, checkpoint=path)


@given(
    epochs=st.integers(1, 40), warmup=st.integers(0, 50), cosine=st.booleans(), lr=st.floats(1e-5, 1, allow_nan=False)
)
def test_the_rate_climbs_and_then_stays_or_falls(epochs: int, warmup: int, cosine: bool, lr: float) -> None:
    config = TrainingConfig(epochs=epochs, lr=lr, warmup_epochs=warmup, schedule="cosine" if cosine else "constant")
    rates = [learning_rate(config, epoch) for epoch in range(1, epochs + 1)]
    climbing, after = rates[:warmup], rates[warmup:]
    assert climbing == pytest.approx([lr * done / warmup for done in range(len(climbing))])
    if cosine:
        assert after == pytest.approx([lr * math.cos(math.pi * k / len(after) / 2) ** 2 for k in range(len(after))])
    else:
        assert after == [lr] * len(after)


def test_the_first_epoch_of_a_warm_up_stands_still_and_a_cosine_ends_at_zero() -> None:
    config = TrainingConfig(epochs=10, lr=0.5, warmup_epochs=4, schedule="cosine")
    assert [learning_rate(config, epoch) for epoch in (1, 2, 3, 5)] == [0.0, 0.125, 0.25, 0.5]
    assert learning_rate(config, 8) == pytest.approx(0.25), "half way down"
    assert learning_rate(config, 11) == pytest.approx(0.0, abs=1e-12), "where an eleventh epoch would begin"
    assert learning_rate(replace(config, epochs=4), 4) == 0.375, "all of it warm-up"


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize("changes", [{}, {"warmup_epochs": 3}, {"warmup_epochs": 3, "schedule": "cosine"}])
def test_each_group_moves_by_its_own_multiple_of_the_rate(
    slope: Callable[[], Method], optimizer: str, changes: dict[str, Any]
) -> None:
    method, graph, places = slope(), toy_graph(), [(0.0, 0.0)]
    config = TrainingConfig(epochs=8, lr=0.5, optimizer=optimizer, edge_batch_size=0, **changes)

    def remember(state: TrainingState) -> None:
        places.append((method.fast.item(), method.slow.item()))

    pretrain(method, graph, config, seed=0, on_epoch=remember)
    for group, share in enumerate((1.0, 0.25)):
        moved = [before[group] - after[group] for before, after in pairwise(places)]
        assert moved == pytest.approx([share * learning_rate(config, epoch) for epoch in range(1, 9)], rel=1e-6)


@pytest.mark.usefixtures("float64")
def test_adamw_decays_the_weight_and_adam_the_gradient(slope: Callable[[float], Method]) -> None:
    """From 2 down a slope of one. A gradient with decay in it is only longer, and Adam's step no longer for that."""
    decoupled = coupled = 2.0
    for _ in range(3):
        decoupled = decoupled * (1 - 0.1 * 0.5) - 0.1
    coupled -= 0.1
    ends = {}
    for optimizer, epochs in (("adamw", 3), ("adam", 1)):
        method = slope(2.0)
        config = TrainingConfig(epochs=epochs, lr=0.1, weight_decay=0.5, optimizer=optimizer, edge_batch_size=0)
        pretrain(method, toy_graph(), config, seed=0)
        ends[optimizer] = float(method.fast.detach())
    assert ends == pytest.approx({"adamw": decoupled, "adam": coupled}, rel=1e-6)


@pytest.fixture
def precision_before() -> Iterator[str]:
    """Torch's precision of products, set to something that is not its default."""
    default = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield "high"
    torch.set_float32_matmul_precision(default)


@pytest.fixture
def watching(slope: type[Method]) -> type[Method]:
    """Notes the precision of products in force in each of its steps."""

    class Watching(slope):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def loss(self, batch: Any, clock: Any) -> torch.Tensor:
            self.seen.append(torch.get_float32_matmul_precision())
            return super().loss(batch, clock)

    return Watching


NAMES = {"float32": "highest", "tf32": "high", "bf16": "medium"}


@pytest.mark.parametrize("precision", NAMES)
def test_precision_holds_in_training_and_nowhere_else(
    watching: Callable[[], Any], precision_before: str, precision: Any
) -> None:
    method = watching()
    pretrain(method, toy_graph(), replace(SCHEDULE, epochs=2, edge_batch_size=0, precision=precision), seed=0)
    assert method.seen == [NAMES[precision]] * 2
    assert torch.get_float32_matmul_precision() == precision_before


def test_precision_is_put_back_when_training_fails(
    watching: Callable[[], Any], precision_before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, seen = watching(), []

    def fail(batch: Any, clock: Any) -> None:
        seen.append(torch.get_float32_matmul_precision())
        raise ArithmeticError

    monkeypatch.setattr(method, "loss", fail)
    with pytest.raises(ArithmeticError):
        pretrain(method, toy_graph(), replace(SCHEDULE, precision="bf16"), seed=0)
    assert seen == ["medium"]
    assert torch.get_float32_matmul_precision() == precision_before


def test_what_has_nothing_to_learn_is_prepared_and_not_trained(
    slope: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, graph, prepared = slope(), toy_graph(), []
    monkeypatch.setattr(method, "parameter_groups", dict)
    monkeypatch.setattr(method, "prepare", prepared.append)
    monkeypatch.setattr(method, "loss", lambda *_: pytest.fail("a step was taken"))
    state = pretrain(
        method,
        graph,
        SCHEDULE,
        seed=0,
        monitor=lambda: pytest.fail("there is nothing to choose"),
        checkpoint=tmp_path / "checkpoint.safetensors",
        on_epoch=lambda state: pytest.fail("there is no epoch"),
    )
    assert state == TrainingState()
    assert [id(each) for each in prepared] == [id(graph)]
    assert not method.training
    assert list(tmp_path.iterdir()) == []
