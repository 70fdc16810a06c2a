"""The benchmark of large graphs: one split for both ways of training, rows as they come, a budget that holds."""

import csv
import resource
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

from bandana.graph import Graph
from bandana.method import Method
from bandana.scale.store import Store, write_store
from bandana.store_experiment import Judge, StoreExperiment, run_store
from bandana.training.trainer import TrainingState, pretrain

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
scale, scale_ogb, scale_runs = map(import_module, ("scale", "scale_ogb", "scale_runs"))
sys.path.pop(0)

QUICK = {"training.epochs": 2, "training.evaluate_every": 2, "model.encoder.width": 8, "probe.epochs": 2}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    random = torch.Generator().manual_seed(0)
    part = torch.arange(160) // 10
    ends = torch.randint(160, (2, 900), generator=random)
    graph = Graph.from_edges(ends, num_nodes=160, x=torch.randn(160, 5, generator=random), y=part % 3)
    return write_store(tmp_path / "store", graph, part)


def test_both_ways_of_training_are_asked_about_the_same_links_and_nodes(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Judge] = []
    judge_of = Judge.of.__func__

    def noted(cls: type[Judge], *arguments: object) -> Judge:
        asked.append(judge_of(cls, *arguments))
        return asked[-1]

    monkeypatch.setattr(Judge, "of", classmethod(noted))
    trained_on: list[Graph] = []

    def spy(method: Method, graph: Graph, *arguments: object, **more: object) -> TrainingState:
        trained_on.append(graph)
        return pretrain(method, graph, *arguments, **more)

    monkeypatch.setattr(scale_runs, "pretrain", spy)
    experiment = StoreExperiment.of("bandana", store.folder, "node", QUICK)
    record = run_store(experiment, device="cpu", folder=tmp_path / "run")
    full = scale_runs.train_on_the_full_graph(experiment, seed=0, edge_batch_size=64)
    assert record is not None
    assert record.seeds[0].metrics.keys() <= full.keys()
    one, other = asked
    assert torch.equal(one.region.test.positive, other.region.test.positive)
    assert torch.equal(one.region.test.negative, other.region.test.negative)
    assert torch.equal(one.region.graph.edge_index, other.region.graph.edge_index)
    assert torch.equal(one.whole.edge_index, other.whole.edge_index)
    assert torch.equal(one.region.graph.edge_index, trained_on[0].edge_index)
    assert one.labels is not None
    assert other.labels is not None
    assert torch.equal(one.labels, other.labels)


def test_rows_are_in_the_file_as_soon_as_they_are_known(tmp_path: Path) -> None:
    rows = scale.Rows(tmp_path / "rows.csv")
    rows.add(what="store", edges=10)
    rows.add(what="full graph", auc=0.5)
    with (tmp_path / "rows.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert table == [{"what": "store", "edges": "10", "auc": ""}, {"what": "full graph", "edges": "", "auc": "0.5"}]
    assert list(rows.where(what="store")) == [{"what": "store", "edges": 10}]


def test_the_budget_ends_what_takes_too_long_and_starts_nothing_after() -> None:
    budget = scale_runs.Budget(0.5)
    with pytest.raises(scale_runs.OutOfBudgetError):
        budget.measure(["sleep", "60"])
    with pytest.raises(scale_runs.OutOfBudgetError):
        budget.measure(["true"])


def test_what_a_command_takes_is_that_of_the_command() -> None:
    work = "x = bytearray(300_000_000); [i * i for i in range(1_000_000)]"
    taken = scale_runs.Budget(60).measure([sys.executable, "-c", work])
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6  # a child begins as a copy of its parent
    assert 300 < taken.peak_mb < max(400, ours + 50)
    assert 0 < taken.cpu_s <= 2 * taken.seconds


def test_a_command_that_fails_ends_the_benchmark_with_what_it_said() -> None:
    with pytest.raises(SystemExit, match="no such thing"):
        scale_runs.Budget(60).measure([sys.executable, "-c", "raise ValueError('no such thing')"])


def test_growth_and_efficiency_are_told_as_they_are(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(scale.os, "cpu_count", lambda: 2)
    rows = scale.Rows(None)
    for edges in (1_000, 10_000):
        for processes, cores, seconds in ((1, 2, edges / 1000), (1, 1, edges / 500), (2, 2, edges / 800)):
            costs = {"epoch_s": seconds, "peak_mb": 100.0, "seconds": 3.0, "cpu_s": 2.0}
            expected = {"estimated_s": 1.5, "estimated_mb": 200.0}
            rows.add(what="store", edges=edges, processes=processes, cores=cores, **costs, **expected)
    capsys.readouterr()
    scale.summary(rows)
    said = capsys.readouterr().out
    assert "power 1.00 of the edges; memory goes from 100 to 100 MB" in said
    assert "1.60 times as fast as one on one core (efficiency 80%), 0.80 times as fast as one on all cores" in said
    assert "time 2.00, memory 0.50" in said


def test_every_published_graph_has_a_recipe_that_a_store_can_run() -> None:
    for name, (task, sizes) in scale_ogb.PUBLISHED.items():
        experiment = scale_ogb.published(name, task)
        assert experiment.model.encoder.node_embedding == 0
        steps = experiment.shards.parts_per_group * experiment.shards.groups_per_step
        assert sizes.parts >= steps, name
