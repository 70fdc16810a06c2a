"""Trainings side by side: each to its end, in order, no more at a time than asked for, and with the same bits."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.experiment import run
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.paper.cookbook import recipe
from bandana.parts.encoders import EncoderConfig
from bandana.reporting.record import SeedRecord
from bandana.training.together import carry_out
from bandana.training.trainer import TrainingConfig, pretraining

CPU = torch.device("cpu")
GRAPH = Graph.from_edges(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, x=torch.eye(4))
Log = list[tuple[str, int]]


@pytest.fixture(scope="module")
def trained(slope: Callable[[], Any]) -> Callable[..., Iterator[Any]]:
    """A training of some epochs, one step each, that tells the log how it goes and returns its name."""

    def train(name: int, epochs: int, log: Log, fail_at: int = 0, problem: type[BaseException] = OSError) -> Any:
        def on_epoch(state: Any) -> None:
            log.append(("step", name))
            if state.epoch == fail_at:
                raise problem(f"training {name}")

        log.append(("begin", name))
        if epochs:
            config = TrainingConfig(epochs=epochs, evaluate_every=10, edge_batch_size=0)
            yield from pretraining(slope(), GRAPH, config, seed=0, on_epoch=on_epoch)
        log.append(("end", name))
        return name

    return train


@given(lengths=st.lists(st.integers(0, 4), max_size=7), jobs=st.integers(1, 4))
def test_every_training_runs_once_and_results_keep_their_order(
    trained: Callable[..., Any], lengths: list[int], jobs: int
) -> None:
    log: Log = []
    begun_lazily = (trained(name, epochs, log) for name, epochs in enumerate(lengths))
    assert carry_out(begun_lazily, CPU, jobs) == list(range(len(lengths)))
    for name, epochs in enumerate(lengths):
        assert [what for what, who in log if who == name] == ["begin", *["step"] * epochs, "end"]


@given(lengths=st.lists(st.integers(1, 4), max_size=7), jobs=st.integers(1, 4))
def test_as_many_run_at_a_time_as_were_asked_for(trained: Callable[..., Any], lengths: list[int], jobs: int) -> None:
    """Never more, and never fewer while others wait."""
    log: Log = []
    carry_out((trained(name, epochs, log) for name, epochs in enumerate(lengths)), CPU, jobs)
    running, waiting = 0, len(lengths)
    for what, _ in log:
        if what == "step":
            assert running == jobs or not waiting
        running += {"begin": 1, "step": 0, "end": -1}[what]
        waiting -= what == "begin"
        assert running <= jobs
    assert (running, waiting) == (0, 0)


def test_steps_are_taken_in_turn(trained: Callable[..., Any]) -> None:
    log: Log = []
    carry_out([trained(name, 3, log) for name in range(3)], CPU, jobs=3)
    assert [who for what, who in log if what == "step"] == [0, 1, 2] * 3


def test_one_at_a_time_ends_before_the_next_begins(trained: Callable[..., Any]) -> None:
    log: Log = []
    carry_out((trained(name, 2, log) for name in range(3)), CPU)
    assert [what for what, _ in log] == ["begin", "step", "step", "end"] * 3


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("problem", [OSError, KeyboardInterrupt])
def test_a_failure_comes_out_and_stops_the_others(
    trained: Callable[..., Any], failing: int, jobs: int, problem: type[BaseException]
) -> None:
    log: Log = []
    runs = (trained(name, 50, log, fail_at=3 * (name == failing), problem=problem) for name in range(3))
    with pytest.raises(problem, match=f"training {failing}"):
        carry_out(runs, CPU, jobs)
    assert log.count(("step", failing)) == 3
    assert log[-1] == ("step", failing), "nobody goes on"
    assert ("begin", 2) not in log
    if jobs == 2:
        assert log.count(("step", 1 - failing)) <= 3


def test_weights_do_not_depend_on_the_company(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph()
    model = BandanaConfig(encoder=EncoderConfig(num_layers=2, width=8, dropout=0.3), decoder_width=4)
    config = TrainingConfig(epochs=4, lr=0.01, edge_batch_size=64)

    def weights(jobs: int) -> list[list[torch.Tensor]]:
        methods = []
        for seed in range(3):
            torch.manual_seed(seed)
            methods.append(Bandana(model, GraphSpec.of(graph)))
        runs = [
            pretraining(method, graph, replace(config, epochs=4 + seed), seed=seed)
            for seed, method in enumerate(methods)
        ]
        carry_out(runs, CPU, jobs)
        return [list(method.parameters()) for method in methods]

    alone, together = weights(1), weights(3)
    for one, other in zip(alone, together, strict=True):
        assert all(a.equal(b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("task", ["node", "link"])
def test_a_run_has_the_same_records_whatever_the_number_of_jobs(task: str) -> None:
    changes = {"training.epochs": 4, "training.evaluate_every": 2, "probe.repeats": 2, "model.encoder.width": 16}
    experiment = recipe("bandana", "karate", task, changes)  # type: ignore[arg-type]
    alone, together = (run(experiment, seeds=range(3), device="cpu", jobs=jobs).seeds for jobs in (1, 2))
    assert [record.seed for record in together] == [0, 1, 2]
    assert [timeless(record) for record in together] == [timeless(record) for record in alone]


def timeless(record: SeedRecord) -> SeedRecord:
    history = [{**row, "seconds": 0.0} for row in record.history]
    return replace(record, seconds={}, history=history)


def test_seeds_that_are_done_take_no_place(tmp_path: Any) -> None:
    changes = {"training.epochs": 2, "probe.repeats": 1, "model.encoder.width": 8}
    experiment = recipe("bandana", "karate", "link", changes)
    first = run(experiment, seeds=[1], device="cpu", folder=tmp_path)
    whole = run(experiment, seeds=range(3), device="cpu", folder=tmp_path, jobs=2)
    assert [record.seed for record in whole.seeds] == [0, 1, 2]
    assert whole.seeds[1].seconds == first.seeds[0].seconds, "it was read, not run"
