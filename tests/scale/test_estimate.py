"""Estimates against what the works really take, to a factor of two, and their arithmetic against slow references.

Seconds are those of the processor: a machine that others use too would make any comparison of clocks on the wall a
matter of luck.
"""

import gzip
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import call
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import CLEAN_PROCESSES, clustered_store

from bandana import store_estimate
from bandana.errors import UserError
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.own.trained import TrainedModel
from bandana.scale import estimate, pieces
from bandana.scale.batches import ShardConfig, plan_epoch, read_excerpt
from bandana.scale.build import build_store
from bandana.scale.plan import BuildPlan
from bandana.scale.store import Store
from bandana.store_experiment import StoreExperiment, run_store
from bandana.training.trainer import TrainingConfig
from bandana.use.infer import encoder_of, infer

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
power_law = import_module("power_law")
sys.path.pop(0)

CHANGES = {
    "training.epochs": 8,
    "training.evaluate_every": 4,
    "training.patience_evaluations": 0,
    "model.encoder.width": 32,
    "probe.repeats": 2,
}
SHARDS = ShardConfig()
MEMORY = estimate.Memory(fixed=1e5, growing=1e6)
PIECE = estimate.TrainingPiece(1.0, 2.0, 0.5, MEMORY, 1000, 0.1, 0.2, 0.3, MEMORY, 1e8)


def within_a_factor_of_two(estimated: float, measured: float) -> bool:
    return 0.5 <= measured / estimated <= 2


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_a_process_sends_what_a_ring_of_messages_takes(processes: int) -> None:
    numbers = 24 * (1000 + 2 * (2 * 16 + 1))
    sent, chunk = 0, numbers // processes
    for _ in ("every chunk is added up along the ring", "every sum is passed on along the ring"):
        for _ in range(processes - 1):
            sent += 4 * chunk
    model = estimate.Model(parameters=24 * 1000, norms=[])
    assert estimate._sent(model._replace(parameters=numbers), processes) == pytest.approx(sent)
    with_norm = estimate._sent(model._replace(norms=[16]), processes)
    # A norm adds up its sums and its squares, and the gradients of both.
    assert with_norm - estimate._sent(model, processes) == pytest.approx(
        2 * (processes - 1) / processes * 4 * 2 * (17 + 16)
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.sampled_from([1, 2, 4]))
def test_a_graph_beyond_the_evaluated_region_costs_time_but_no_memory(times: int, processes: int) -> None:
    sizes = estimate.Sizes(nodes=10_000_000, entries=100_000_000, features=64, parts=160)
    larger = sizes._replace(nodes=times * sizes.nodes, entries=times * sizes.entries, parts=times * sizes.parts)
    model = estimate.Model(10_000, [64, 64])
    one, many = (
        estimate.training_costs(size, PIECE, model, TrainingConfig(), SHARDS, processes=processes)
        for size in (sizes, larger)
    )
    assert many.memory == pytest.approx(one.memory)
    assert many.sent_per_step == one.sent_per_step
    for phase, growth in (("training", times), ("batch-norm statistics", times), ("validation", 1), ("evaluation", 1)):
        assert many.seconds[phase] == pytest.approx(growth * one.seconds[phase]), phase


@given(st.floats(0, 1e9), st.floats(1, 1e4), st.integers(1, 10**6), st.integers(1, 10**6))
def test_memory_is_extrapolated_along_a_line(fixed: float, per_entry: float, small: int, more: int) -> None:
    points = [(entries, fixed + per_entry * entries) for entries in (small, small + more)]
    measured = estimate.Memory.between(*points)
    assert measured.times(10) == pytest.approx(fixed + 10 * per_entry * (small + more), rel=1e-3)


def test_training_takes_its_steps(tmp_path: Path) -> None:
    sizes = estimate.Sizes(nodes=1000, entries=10_000, features=4, parts=100)
    training = TrainingConfig(epochs=10, patience_evaluations=0)
    steps = sum(plan_epoch(100, SHARDS, 0, epoch).shape[0] for epoch in range(10))
    costs = estimate.training_costs(sizes, PIECE, estimate.Model(10, []), training, SHARDS)
    assert costs.seconds["training"] == pytest.approx(2.0 * steps)


def apart(work: Callable[[Path, Path], None], folder: Path, out: Path) -> dict[str, float]:
    """Run `work` in a process of its own, and read what it wrote."""
    process = CLEAN_PROCESSES.Process(target=work, args=(folder, out))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    answer: dict[str, float] = json.loads(out.read_text())
    return answer


def estimated_run(folder: Path, out: Path) -> None:
    torch.set_num_threads(1)
    time.perf_counter = time.process_time
    experiment = StoreExperiment.of("bandana", folder, "node", CHANGES)
    costs = store_estimate.estimate_run(experiment, device=torch.device("cpu"))
    out.write_text(json.dumps({"seconds": sum(costs.seconds.values()), "memory": costs.memory}))


def measured_run(folder: Path, out: Path) -> None:
    torch.set_num_threads(1)
    started = time.process_time()
    experiment = StoreExperiment.of("bandana", folder, "node", CHANGES)
    run_store(experiment, device="cpu", folder=out.parent / "run")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    out.write_text(json.dumps({"seconds": time.process_time() - started, "memory": peak}))


@pytest.mark.slow  # times of a busy machine are not to be trusted
def test_a_run_takes_what_was_estimated(tmp_path: Path) -> None:
    clustered_store(tmp_path / "store", num_parts=16, nodes_per_part=150)
    before = apart(estimated_run, tmp_path / "store", tmp_path / "estimated.json")
    after = apart(measured_run, tmp_path / "store", tmp_path / "measured.json")
    for cost, estimated in before.items():
        assert within_a_factor_of_two(estimated, after[cost]), (cost, estimated, after[cost])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> BuildPlan:
    graph = power_law.PowerLaw(300_000, features=16)
    edges, features, _ = power_law.write(graph, tmp_path_factory.mktemp("tables"))
    return BuildPlan(edges=edges, features=features, parts=64, partitioner="stream")


@pytest.fixture(scope="module")
def store(tables: BuildPlan, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return build_store(tables, tmp_path_factory.mktemp("stores") / "store")


@pytest.mark.slow  # times of a busy machine are not to be trusted
def test_partitioning_takes_what_was_estimated(
    tables: BuildPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    monkeypatch.setattr(pieces, "EDGE_ROWS", 75_000)
    monkeypatch.setattr(pieces, "FEATURE_ROWS", 5_000)
    sizes, rows, metis, piece = pieces.time_partition(tables)
    costs = estimate.partition_costs(sizes, rows, piece, memory=tables.memory, metis=metis)
    started = time.process_time()
    store = build_store(tables, tmp_path / "store")
    measured = time.process_time() - started
    assert (sizes.nodes, sizes.features, rows) == (store.num_nodes, store.num_features, 300_000)
    assert within_a_factor_of_two(sum(costs.seconds.values()), measured), (costs.seconds, measured)
    files = sum(path.stat().st_size for path in store.folder.iterdir())
    assert within_a_factor_of_two(sizes.store_bytes, files)


def test_nodes_are_reckoned_from_a_few_rows(tables: BuildPlan, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "EDGE_ROWS", 75_000)
    sizes = pieces.time_partition(replace(tables, features=None)).sizes
    assert within_a_factor_of_two(sizes.nodes, store.num_nodes)
    assert within_a_factor_of_two(sizes.entries, store.num_edges)


@pytest.mark.slow  # times of a busy machine are not to be trusted
def test_inference_takes_what_was_estimated(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    monkeypatch.setattr(pieces, "ENTRIES", 40_000)
    config, spec = BandanaConfig(), GraphSpec(store.num_nodes, store.num_features)
    torch.manual_seed(0)
    model = TrainedModel(name="bandana", config=config, spec=spec, method=Bandana(config, spec))
    encoder = encoder_of(model, store)
    piece = pieces.time_inference(encoder, store)
    output = pieces.output_width(encoder)
    costs = estimate.inference_costs(estimate.Sizes.of(store), piece, encoder.widths, output, memory=1 << 30)
    started = time.process_time()
    infer(model, store, tmp_path / "vectors")
    measured = time.process_time() - started
    assert within_a_factor_of_two(sum(costs.seconds.values()), measured), (costs.seconds, measured)


def test_a_stand_in_has_the_degrees_and_the_groups_of_what_it_stands_for(tmp_path: Path) -> None:
    sizes = estimate.Sizes(nodes=50_000_000, entries=600_000_000, features=8, parts=4096, inside=0.4)
    store = store_estimate.stand_in(sizes, SHARDS, tmp_path / "store")
    assert store.num_edges / store.num_nodes == pytest.approx(12, rel=0.1)
    assert store.num_features == 8
    excerpt = read_excerpt(store, torch.arange(4), SHARDS, 0)
    assert float((excerpt.col >= 0).float().mean()) == pytest.approx(0.4 + 0.6 * 3 / 4095, abs=0.05)


def share_inside(store: Store) -> float:
    part = np.searchsorted(store.part_starts.numpy(), np.arange(store.num_nodes), "right")
    row = np.repeat(np.arange(store.num_nodes), np.diff(store.rowptr))
    return float((part[row] == part[store.col]).mean())


@pytest.mark.slow  # times of a busy machine are not to be trusted
def test_a_graph_that_is_not_here_costs_like_one_that_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    store = clustered_store(tmp_path / "store", num_parts=16, nodes_per_part=150)
    experiment = StoreExperiment.of("bandana", store.folder, "link", CHANGES)
    device = torch.device("cpu")
    here = store_estimate.estimate_run(experiment, device=device)
    sizes = estimate.Sizes.of(store)._replace(inside=share_inside(store))
    absent = store_estimate.estimate_run_of_size(sizes, replace(experiment, dataset="nowhere"), device=device)
    for phase in ("training", "batch-norm statistics"):
        assert within_a_factor_of_two(absent.seconds[phase], here.seconds[phase]), phase


def test_the_command_says_it_all_and_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    clustered_store(tmp_path / "store", num_parts=16)
    words = ("run", "bandana", "store", "--device", "cpu", "--estimate")
    assert call(monkeypatch, *words, "--processes", "2", "--set", "probe.epochs=2") == 0
    said = capsys.readouterr().out
    for cost in ("time", "memory of each process", "disk", "sent by each process in a step", "in all"):
        assert cost in said
    assert [path.name for path in tmp_path.iterdir()] == ["store"]

    assert call(monkeypatch, *words, "--processes", "3") == 2
    assert "multiple of 3" in " ".join(capsys.readouterr().err.split())
    assert call(monkeypatch, "run", "bandana", "cora", "--estimate") == 2
    assert "--estimate" in capsys.readouterr().err
    assert call(monkeypatch, "run", "bandana", "store", "--processes", "2") == 2
    assert "torchrun" in capsys.readouterr().err


def test_text_is_counted_by_its_lines_unless_it_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_HEAD", 1 << 12)
    lines = "source,target\n" + "".join(f"{10_000 + row},{20_000 + row}\n" for row in range(5_000))
    (tmp_path / "edges.csv").write_text(lines)
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(lines.encode()))
    sample = pieces.time_partition(BuildPlan(edges=tmp_path / "edges.csv", parts=4, partitioner="stream"))
    assert sample.rows == pytest.approx(5_000, rel=0.01)
    assert sample.sizes.nodes == pytest.approx(10_000, rel=0.01)
    with pytest.raises(UserError, match="unpack it"):
        pieces.time_partition(BuildPlan(edges=tmp_path / "edges.csv.gz"))
