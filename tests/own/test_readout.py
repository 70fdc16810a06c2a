"""Validation links choose between all layers and the last, and whatever is kept afterwards embeds by the choice."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bandana import model_folder
from bandana.data.splits import Pairs
from bandana.data.tables import OwnGraph
from bandana.estimator import GraphEmbedder, learn
from bandana.evaluation.dot_product_probe import dot_product_auc
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.own import embed as own
from bandana.own.automatic import Choice, Plan, build, plan
from bandana.own.calibration import Estimate
from bandana.own.embed import judged, write_embedded
from bandana.own.outputs import open_output
from bandana.own.readout import link_aucs, monitor, settle
from bandana.own.unfinished import training_digest

WIDTHS = {"concat": 16, "last": 8}
SMALL = {"model.encoder.width": 8, "training.epochs": 3}


@pytest.fixture
def graph(random_graph: Any) -> Graph:
    """With just enough links to choose by."""
    return random_graph(120, 2_600, num_features=5)


def small(graph: Graph, **changes: Any) -> Plan:
    return plan(graph, changes={**SMALL, **changes})


def vectors(made: Plan, graph: Graph, readout: str) -> torch.Tensor:
    """What a method that was never anything but of this readout gives."""
    fixed = replace(made, model=replace(made.model, readout=readout))
    with torch.no_grad():
        return build(fixed, GraphSpec.of(graph), seed=0).eval().embed(graph)


def ranked_by(z: torch.Tensor) -> Pairs:
    """Pairs that these vectors tell apart without an error: the higher half of their dot products, and the lower."""
    pairs = torch.combinations(torch.arange(len(z))).T
    order = (z[pairs[0]] * z[pairs[1]]).sum(1).argsort()
    lower, higher = order.chunk(2)
    return Pairs(positive=pairs[:, higher], negative=pairs[:, lower])


@pytest.mark.parametrize("winner", WIDTHS)
def test_the_readout_that_ranks_validation_links_better_is_taken(graph: Graph, winner: str) -> None:
    made = small(graph)
    assert made.readout_open
    method, valid = build(made, GraphSpec.of(graph), seed=0).eval(), ranked_by(vectors(made, graph, winner))
    expected = {name: float(dot_product_auc(vectors(made, graph, name), valid)) for name in WIDTHS}
    assert link_aucs(made, method, graph, valid) == pytest.approx(expected, abs=1e-6)
    assert expected[winner] == 1 > min(expected.values())
    assert monitor(made, method, graph, valid)() == 1
    settled = settle(made, method, graph, valid)
    assert (settled.model.readout, settled.readout_open) == (winner, False)
    assert method.embed(graph).equal(vectors(made, graph, winner))
    assert f"{WIDTHS[winner]} numbers per node: AUC of the validation links 1.000" in settled.reasons[-1]
    assert f"{min(expected.values()):.3f}" in settled.reasons[-1]


@pytest.mark.parametrize("readout", WIDTHS)
def test_a_readout_that_was_asked_for_stays(graph: Graph, readout: str) -> None:
    made = small(graph, **{"model.readout": readout})
    assert not made.readout_open
    other = next(name for name in WIDTHS if name != readout)
    method, valid = build(made, GraphSpec.of(graph), seed=0).eval(), ranked_by(vectors(made, graph, other))
    assert settle(made, method, graph, valid) is made
    assert monitor(made, method, graph, valid)() == float(dot_product_auc(vectors(made, graph, readout), valid)) < 1


def test_what_leaves_nothing_to_choose_closes_the_readout(graph: Graph, hand_graph: Any, random_graph: Any) -> None:
    assert not plan(graph, dimensions=16).readout_open
    assert not plan(graph, changes={"model.encoder.num_layers": 1}).readout_open
    assert not plan(hand_graph()).readout_open
    assert not plan(random_graph(120, 1_800)).readout_open
    assert not plan(graph, method="maskgae_edge").readout_open
    assert plan(graph, method="bandana").readout_open


def test_an_open_readout_is_another_training(graph: Graph) -> None:
    """It is watched by other figures, so a checkpoint of one may not be gone on from by the other."""
    digests = {
        training_digest(graph, made, seed=0, device="cpu")
        for made in (small(graph), small(graph, **{"model.readout": "concat"}))
    }
    assert len(digests) == 2


@pytest.mark.parametrize("readout", WIDTHS)
def test_model_record_and_report_know_what_was_chosen(
    graph: Graph, readout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scores are made up here, so that either readout is chosen; all that follows is real."""
    made = {name: float(name == readout) for name in WIDTHS}
    monkeypatch.setattr("bandana.own.readout.link_aucs", lambda *given: made)
    choice = Choice(**vars(small(graph)), estimate=Estimate(seconds=1.0, bytes=1))
    learned = learn(graph, choice, device="cpu")
    assert learned.embedding.shape == (120, WIDTHS[readout])
    named = replace(graph, node_ids=[f"node {row}" for row in range(120)])
    done = judged(OwnGraph(named, (), None, None, ()), choice, learned)
    monkeypatch.setattr(own, "own_report", lambda *given: given)
    monkeypatch.setattr(own, "write_report", lambda path, given: path.write_text(str(given)))
    write_embedded(tmp_path / "out", done, "graph")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["model"]["readout"] == readout
    assert "AUC of the validation links 1.000" in record["reasons"][-1]
    assert done.verdicts[-1].text.lower() == f"{record['reasons'][-1]}.".lower()
    assert "AUC of the validation links 1.000" in (tmp_path / "out" / "report.html").read_text()
    opened = open_output(tmp_path / "out")
    assert opened.model().config.readout == readout
    torch.testing.assert_close(opened.model().embed(opened.graph), learned.embedding)


def test_the_weights_are_those_that_the_chosen_readout_was_best_with(graph: Graph, tmp_path: Path) -> None:
    embedder = GraphEmbedder(settings={**SMALL, "training.epochs": 12}, device="cpu").fit(graph)
    best = max(row["monitor"] for row in embedder.history_)
    kept = torch.from_numpy(embedder.model_.embed(embedder.split_.train).numpy())
    assert float(dot_product_auc(kept, embedder.split_.valid)) == pytest.approx(best, abs=1e-6)
    assert "AUC of the validation links" in embedder.plan_.reasons[-1]
    embedder.save_pretrained(tmp_path)
    assert model_folder.load(tmp_path).embed(graph).numpy().tobytes() == embedder.embedding_.tobytes()
