"""Where edges have times, the latest are held out, so that the report says how well it would have predicted them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from bandana.data.splits import EdgeSplit, split_edges
from bandana.data.tables import OwnGraph, read_graph
from bandana.engine.structure import entry_keys
from bandana.errors import UserError
from bandana.estimator import GraphEmbedder, learn
from bandana.graph import Graph
from bandana.own import automatic, tuning
from bandana.own.automatic import Choice, choose, plan
from bandana.own.calibration import Estimate
from bandana.own.embed import Embedded, embed_own, write_embedded
from bandana.own.unfinished import training_digest
from bandana.reporting import own_report

ROWS = 220


def edge_rows() -> list[tuple[int, int, int]]:
    """Random pairs of sixty nodes, some of them repeated in either direction, with few different times."""
    draw = np.random.default_rng(0)
    return [(int(a), int(b), int(t)) for a, b, t in draw.integers(0, (60, 60, 40), (ROWS, 3)) if a != b]


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("timed") / "edges.csv"
    path.write_text("source,target,t\n" + "".join(f"{a},{b},{t}\n" for a, b, t in edge_rows()))
    return path


def times_of(own: OwnGraph, pairs: Tensor) -> Tensor:
    """When each of ``[2, P]`` links first appeared, from the rows themselves."""
    first: dict[frozenset[int], int] = {}
    for a, b, t in edge_rows():
        first[frozenset((a, b))] = min(t, first.get(frozenset((a, b)), t))
    ids = own.graph.node_ids or ()
    return torch.tensor([first[frozenset((ids[a], ids[b]))] for a, b in pairs.T.tolist()])


def check_latest(own: OwnGraph, split: EdgeSplit) -> None:
    train = split.train.edge_index[:, split.train.links]
    seen, chosen, judged = (times_of(own, pairs) for pairs in (train, split.valid.positive, split.test.positive))
    assert seen.max() <= chosen.min() <= chosen.max() <= judged.min()
    assert seen.min() < judged.min()
    graph = split.train
    for pairs in (split.valid.positive, split.test.positive):
        for ends in (pairs, pairs.flip(0)):
            assert not torch.isin(entry_keys(ends[1], ends[0], graph.num_nodes), graph.edge_keys).any()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_latest_links_are_held_out_by_the_earliest_time_of_each(edges: Path, seed: int) -> None:
    own = read_graph(edges, time="t")
    assert own.times is not None
    split = split_edges(own.graph, 0.1, 0.1, seed=seed, times=own.times)
    check_latest(own, split)
    assert split.test.positive.shape[1] == int(0.1 * own.graph.links.numel())


def test_ties_are_broken_by_the_seed(edges: Path) -> None:
    graph = read_graph(edges, time="t").graph
    at_once = torch.zeros(graph.num_edges)
    one, again, other = (split_edges(graph, seed=seed, times=at_once) for seed in (0, 0, 1))
    assert one.certificate.digest == again.certificate.digest != other.certificate.digest


@pytest.mark.parametrize("directed", [False, True])
def test_without_times_the_split_is_the_random_one(edges: Path, directed: bool) -> None:
    graph = read_graph(edges, directed=directed).graph
    split = split_edges(graph, 0.05, 0.05, seed=4)
    count = int(0.05 * graph.links.numel())
    order = torch.randperm(graph.links.numel(), generator=torch.Generator().manual_seed(4))
    held_out = graph.links[order[: 2 * count]]
    expected = torch.stack([graph.structure.col[held_out], graph.structure.row[held_out]])
    assert torch.cat([split.valid.positive, split.test.positive], dim=1).equal(expected)


def test_the_plan_says_it_and_learning_needs_the_times(edges: Path) -> None:
    own = read_graph(edges, time="t")
    made = plan(own.graph, epochs=2, timed=True)
    assert made.latest
    assert "the latest 5% of the links measure the vectors and the 5% before them choose" in made.reasons[-1]
    assert plan(own.graph, epochs=2, timed=False).latest is False
    few = Graph.from_edges(torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    assert not plan(few, timed=True).latest
    with pytest.raises(ValueError, match="needs their times"):
        learn(own.graph, made, device="cpu")
    times = own.times
    assert times is not None
    digest = training_digest(own.graph, made, seed=0, device="cpu", times=times)
    assert digest != training_digest(own.graph, made, seed=0, device="cpu", times=times.flip(0))


@pytest.fixture(scope="module")
def done(edges: Path) -> Embedded:
    own = read_graph(edges, time="t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
        choice = choose(own.graph, epochs=2, dimensions=8, device="cpu", timed=True)
    return embed_own(own, choice, device="cpu")


def test_what_is_judged_came_after_all_that_was_seen(done: Embedded) -> None:
    assert done.learned.split is not None
    check_latest(done.own, done.learned.split)


def test_record_and_report_say_which_links_were_held_out(
    done: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_report, "_tsne", lambda z, seed: z[:, :2].numpy())
    write_embedded(tmp_path / "out", done, title="timed")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    split = done.learned.split
    assert split is not None
    assert record["held_out"] == {
        "share": 0.05,
        "chosen": "the latest",
        "validation_since": float(times_of(done.own, split.valid.positive).min()),
        "test_since": float(times_of(done.own, split.test.positive).min()),
    }
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "how well it would have predicted what came next" in page
    plain = replace(done, choice=Choice(**{**vars(done.choice), "latest": False}))
    write_embedded(tmp_path / "plain", plain, title="plain")
    assert json.loads((tmp_path / "plain" / "run.json").read_text())["held_out"] == {
        "share": 0.05,
        "chosen": "at random",
    }


def test_a_search_is_judged_by_the_same_links_as_the_training(done: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna", reason="the extra tune is not installed")
    monkeypatch.setattr(tuning, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
    told: list[float] = []
    choice = done.choice
    tuning.tune_own(done.own, choice, trials=1, seed=0, device="cpu", on_trial=lambda made, best: told.append(best))
    assert told == [done.learned.state.progress.best_value]


def test_an_embedder_holds_out_the_latest_of_a_table_with_times() -> None:
    source, target, time = zip(*edge_rows(), strict=True)
    quick = {"epochs": 2, "dimensions": 8, "device": "cpu"}
    embedder = GraphEmbedder(**quick).fit(pa.table({"source": source, "target": target, "time": time}))
    assert embedder.plan_.latest
    check_latest(OwnGraph(embedder.graph_, (), None, None, ()), embedder.split_)
    plain = GraphEmbedder(**quick).fit(pa.table({"source": source, "target": target, "other": time}))
    assert not plain.plan_.latest
    assert plain.split_.certificate.digest == split_edges(plain.graph_, 0.05, 0.05, seed=0).certificate.digest


def test_times_have_no_use_without_training(tmp_path: Path) -> None:
    from bandana.terminal.own import Input, Wishes, follow_and_show

    columns = {"source": None, "target": None, "weight": None, "time": "t"}
    given = Input(tmp_path / "new.csv", None, None, columns, False, "refuse", "guess")
    with pytest.raises(UserError, match="--time-column: belongs to a training"):
        follow_and_show(tmp_path, given, Wishes(None, None, None, [], 0), 0, "cpu", tmp_path / "out", [])
