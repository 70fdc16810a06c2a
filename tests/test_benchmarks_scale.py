"""The benchmark of large graphs: one split for both ways of training, rows that are kept, a budget that holds."""

import csv
import resource
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.graph import Graph
from bandana.method import Method
from bandana.scale.store import Store, write_store
from bandana.store_experiment import StoreExperiment, run_store
from bandana.store_judge import Judge
from bandana.training.trainer import TrainingState, pretrain

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
scale, scale_commands, scale_ogb, scale_runs, scale_summary = map(
    import_module, ("scale", "scale_commands", "scale_ogb", "scale_runs", "scale_summary")
)
power_law = import_module("power_law")
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
    rows = scale_commands.Rows(tmp_path / "rows.csv")
    rows.add(what="store", edges=10)
    rows.add(what="full graph", auc=0.5)
    with (tmp_path / "rows.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert table == [{"what": "store", "edges": "10", "auc": ""}, {"what": "full graph", "edges": "", "auc": "0.5"}]
    assert list(rows.where(what="store")) == [{"what": "store", "edges": 10}]
    again = scale_commands.Rows(tmp_path / "rows.csv")
    assert again.all == rows.all
    assert again.has(what="full graph", auc=0.5)
    assert not again.has(what="full graph", edges=10)


class Recorded:
    """In place of a budget: notes commands, and leaves behind what they would."""

    left = 60.0

    def __init__(self, place: Path) -> None:
        self.place, self.done = place, list[str]()

    def run(self, *words: object, **more: int) -> object:
        self.done.append(str(words[0]))
        assert not (self.place / ".store.building").exists(), "an interrupted one would be continued"
        (self.place / "store").mkdir(parents=True, exist_ok=True)
        (self.place / "store" / "store.json").write_text('{"num_edges": 90, "num_nodes": 9}')
        if words[0] == "run":
            out = Path(str(words[words.index("--out") + 1]))
            out.mkdir()
            scores = '{"auc": 0.5, "micro_f1": 0.25}'
            seed = f'{{"metrics": {scores}, "floors": {{"untrained encoder": {scores}}}, '
            (out / "record.json").write_text(f'{{"seeds": [{seed}"seconds": {{"pretrain": 8, "evaluate": 2}}}}]}}')
        if words[0] == "infer":
            (self.place / "vectors").mkdir()
        return scale_commands.Taken(3.0, 2.0, 100.0)

    def measure(self, command: list[str], *cores: int, out: Path | None = None, **more: int) -> object:
        self.done.append(command[2] if out else Path(command[1]).name)
        if not self.place.exists():
            (self.place / ".store.building").mkdir(parents=True)
        (self.place / "labels.parquet").touch()
        if out:
            out.write_text(
                '{"nmi": 0.5, "estimated_s": 1, "estimated_mb": 200, "seconds": 4, "epochs": 4, "auc": 0.75}'
            )
        return scale_commands.Taken(1.0, 1.0, 50.0)


def test_what_the_rows_know_is_not_done_again(tmp_path: Path) -> None:
    size, path = scale.Size.of(1_000_000, 4, tmp_path), tmp_path / "rows.csv"
    first, second, third = (Recorded(size.place) for _ in range(3))
    scale.measure_size(scale.Bench(first, scale_commands.Rows(path), False), size, ["1x2"])
    learned = ["-c", "estimate", "run", "recovery"]
    assert first.done == ["power_law.py", "partition", *learned, "infer", "recovery"]
    scale.measure_size(scale.Bench(second, scale_commands.Rows(path), False), size, ["1x2", "2x2", "full"])
    assert second.done == [*learned, "full"]
    rows = scale_commands.Rows(path)
    scale.measure_size(scale.Bench(third, rows, False), size, scale.WAYS[::2])
    assert third.done == []
    assert Counter(row["what"] for row in rows.all) == {
        **dict.fromkeys(("draw", "partition", "infer", "full graph"), 1),
        "store": 2,
    }
    assert [row["epoch_s"] for row in rows.where(edges=1_000_000, epochs=4)] == [2.0, 2.0, 1.0]


def test_nothing_heavy_is_loaded_by_the_one_who_measures() -> None:
    """Its own memory would be counted as that of every small command it starts."""
    program = "import sys, scale; print(*sorted({'torch', 'numpy', 'bandana'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_budget_ends_what_takes_too_long_and_starts_nothing_after() -> None:
    budget = scale_commands.Budget(0.5)
    with pytest.raises(scale_commands.OutOfBudgetError):
        budget.measure(["sleep", "60"])
    with pytest.raises(scale_commands.OutOfBudgetError):
        budget.measure(["true"])


def test_what_a_command_takes_is_that_of_the_command() -> None:
    work = "x = bytearray(300_000_000); [i * i for i in range(1_000_000)]"
    taken = scale_commands.Budget(60).measure([sys.executable, "-c", work])
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6  # a child begins as a copy of its parent
    assert 300 < taken.peak_mb < max(400, ours + 50)
    assert 0 < taken.cpu_s <= 2 * taken.seconds


def test_a_command_has_the_cores_and_threads_that_it_is_given(tmp_path: Path) -> None:
    program = "import os; print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
    scale_commands.Budget(60).measure([sys.executable, "-c", program], 1, threads=3, out=tmp_path / "said")
    assert (tmp_path / "said").read_text().split() == ["1", "3"]


def test_a_command_that_fails_ends_the_benchmark_with_what_it_said() -> None:
    with pytest.raises(SystemExit, match="no such thing"):
        scale_commands.Budget(60).measure([sys.executable, "-c", "raise ValueError('no such thing')"])


def test_growth_and_efficiency_are_told_as_they_are() -> None:
    rows = []
    for edges in (1_000, 10_000):
        for way, seconds in (("1x2", edges / 1000), ("1x1", edges / 500), ("2x2", edges / 800)):
            costs = {"epoch_s": seconds, "peak_mb": 100.0, "seconds": 3.0, "cpu_s": 2.0}
            expected = {"estimated_s": 1.5, "estimated_mb": 200.0, "clock": "cpu" if way == "2x2" else "wall"}
            rows.append({"what": "store", "way": way, "edges": edges, "entries": edges, **costs, **expected})
        rows.append({"what": "partition", "edges": edges, "entries": edges, "seconds": edges**2, "peak_mb": edges})
    said = "\n".join(scale_summary.summary(rows))
    flat = "an epoch grows with the power 1.00 of the edges (last step 1.00); memory with 0.00 (last step 0.00)"
    assert f"store 1x2, 1,000 to 10,000 edges: {flat}, from 100 to 100 MB" in said
    assert "partition, 1,000 to 10,000 edges: time grows with the power 2.00" in said
    assert "1.60 times as fast as one on one core (efficiency 80%), 0.80 times as fast as one on two cores" in said
    assert "10,000 edges, 1x2: measured over estimated: time 2.00, memory 0.50" in said
    assert "10,000 edges, 2x2: measured over estimated: memory 0.50" in said


def test_communities_are_recovered_where_vectors_show_them_and_only_there() -> None:
    labels = torch.arange(3000) % 4
    noise = torch.randn(3000, 8, generator=torch.Generator().manual_seed(0))
    assert scale_runs.recovery(torch.eye(8)[labels] * 20 + noise, labels, seed=0) > 0.95
    assert scale_runs.recovery(noise, labels, seed=0) < 0.05


def test_recovery_reads_a_run_and_vectors_of_an_inference(store: Store, tmp_path: Path) -> None:
    experiment = StoreExperiment.of("bandana", store.folder, "node", QUICK)
    run_store(experiment, device="cpu", folder=tmp_path / "run")
    assert 0 <= scale_runs.recovery_of_run(experiment, tmp_path / "run") <= 1
    (tmp_path / "vectors").mkdir()
    np.save(tmp_path / "vectors" / "embeddings.npy", np.eye(3, dtype=np.float32)[np.array(store.labels)])
    assert scale_runs.recovery_of_vectors(store, tmp_path / "vectors") == pytest.approx(1)


@given(st.integers(100, 40_000), st.integers(1, 40), st.integers(1, 300))
def test_circles_lie_in_communities_and_keep_their_size(rows: int, communities: int, circle: int) -> None:
    graph = power_law.PowerLaw(rows, communities=communities, circle=circle)
    nodes = np.arange(graph.num_nodes)
    community, own = graph.community(nodes), graph.circle_of(nodes)
    assert (own // graph.circles == community).all()
    sizes = np.bincount(own, minlength=communities * graph.circles)
    assert sizes.max() - sizes.min() <= 2
    if graph.num_nodes / communities > circle:
        assert circle / 2 <= graph.num_nodes / len(sizes) <= 2 * circle


def test_links_stay_in_circles_and_communities_as_often_as_asked() -> None:
    graph = power_law.PowerLaw(200_000, communities=10, circle=400, mixing=0.3, roaming=0.2, exponent=50.0)
    source, target = (np.concatenate(ends) for ends in zip(*power_law.edge_batches(graph), strict=True))
    assert len(source) == graph.rows
    assert 0 <= min(source.min(), target.min()) <= max(source.max(), target.max()) < graph.num_nodes
    shares = [(of(source) == of(target)).mean() for of in (graph.circle_of, graph.community)]
    circles, communities = 10 * graph.circles, 10
    expected = [0.5 + 0.2 / graph.circles + 0.3 / circles, 0.7 + 0.3 / communities]
    assert shares == pytest.approx(expected, abs=0.01)


def test_every_published_graph_has_a_recipe_that_a_store_can_run() -> None:
    for name, (task, sizes) in scale_ogb.PUBLISHED.items():
        experiment = scale_ogb.published(name, task)
        assert experiment.model.encoder.node_embedding == 0
        steps = experiment.shards.parts_per_group * experiment.shards.groups_per_step
        assert sizes.parts >= steps, name
