"""The profile counts what an epoch does, and its shares are shares."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from bandana.experiment import profile
from bandana.graph import Graph
from bandana.paper.cookbook import recipe
from bandana.training import profile as profiling
from bandana.training.profile import Operation, profile_training
from bandana.training.trainer import TrainingConfig


def by_name(operations: list[Operation]) -> dict[str, Operation]:
    return {operation.name: operation for operation in operations}


@pytest.mark.parametrize("batch_size", [0, 60])
def test_calls_are_counted_per_epoch(
    slope: Callable[[], Any], random_graph: Callable[..., Graph], batch_size: int
) -> None:
    graph = random_graph()
    steps = -(-graph.num_edges // batch_size) if batch_size else 1
    operations = profile_training(slope(), graph, TrainingConfig(edge_batch_size=batch_size), seed=0)
    assert by_name(operations)["Optimizer.step#Adam.step"].calls == 2 * steps, "a step for each of the two turns"


def test_the_dearest_come_first_and_shares_add_up(slope: Callable[[], Any], random_graph: Callable[..., Graph]) -> None:
    operations = profile_training(slope(), random_graph(), TrainingConfig(), seed=0)
    costs = [operation.milliseconds for operation in operations]
    assert costs == sorted(costs, reverse=True)
    assert min(costs) > 0
    assert sum(operation.share for operation in operations) == pytest.approx(1)
    for operation in operations:
        assert operation.share == pytest.approx(operation.milliseconds / sum(costs))
    assert len(by_name(operations)) == len(operations)
    assert any(name.startswith("aten::") for name in by_name(operations))


def test_it_takes_the_epochs_it_says_whatever_the_schedule(
    slope: Callable[[], Any], random_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    method, epochs = slope(), []
    original = method.loss
    monkeypatch.setattr(method, "loss", lambda batch, clock: epochs.append(clock.epoch) or original(batch, clock))
    config = TrainingConfig(
        epochs=1, lr=0.1, warmup_epochs=500, evaluate_every=1, patience_evaluations=1, edge_batch_size=0
    )
    profile_training(method, random_graph(), config, seed=0)
    assert epochs == list(range(1, profiling.WARM_UP_EPOCHS + profiling.TIMED_EPOCHS + profiling.PROFILED_EPOCHS + 1))
    moved = float(method.fast.detach())
    assert moved == pytest.approx(-0.1 * len(epochs)), "a warm-up would have it stand still at first"


def test_an_epoch_bears_its_part_of_a_look_at_the_validation_data(
    slope: Callable[[], Any], random_graph: Callable[..., Graph]
) -> None:
    seen = []

    def monitor() -> float:
        seen.append(method.training)
        time.sleep(0.05)
        return 0.0

    method = slope()
    operations = profile_training(method, random_graph(), TrainingConfig(evaluate_every=5), seed=0, monitor=monitor)
    look = by_name(operations)[profiling.LOOKS]
    assert look.calls == pytest.approx(1 / 5)
    assert 50 / 5 <= look.milliseconds < 2 * 50 / 5
    assert seen == [False] * (profiling.WARM_UP_LOOKS + 1)
    assert sum(operation.share for operation in operations) == pytest.approx(1)
    assert profiling.BETWEEN not in by_name(operations), "on a CPU watching takes longer than the gaps"


@pytest.mark.cuda
@pytest.mark.parametrize("task", ["node", "link"])
def test_on_a_gpu_looks_are_recorded_and_the_gaps_between_kernels_told(task: Any) -> None:
    operations = by_name(profile(recipe("bandana", "karate", task), device="cuda"))
    assert {profiling.LOOKS, profiling.BETWEEN} <= set(operations)
    assert any("_row_parts" in name for name in operations)
    assert sum(operation.share for operation in operations.values()) == pytest.approx(1)
