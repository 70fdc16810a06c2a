"""The pipeline: what reaches training, what floors are, and how protocols differ."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bandana import experiment as pipeline
from bandana.config import read_toml, to_table, to_toml
from bandana.data.datasets import Dataset, load
from bandana.data.splits import split_edges
from bandana.errors import UserError
from bandana.experiment import Experiment, run, run_seed
from bandana.paper.cookbook import recipe
from bandana.paper.pieces import digest_of
from bandana.reporting.record import NOT_KEPT_BY_OLDER_VERSIONS

SHORT = {"training.epochs": 4, "training.evaluate_every": 2, "probe.repeats": 2}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def karate() -> Dataset:
    return load("karate")


def test_training_sees_neither_held_out_links_nor_the_whole_graph(karate: Dataset, monkeypatch) -> None:
    seen = {}

    def spy(method, graph, config, **rest):
        seen["graph"] = graph
        return original(method, graph, config, **rest)

    original = pipeline.pretrain
    monkeypatch.setattr(pipeline, "pretrain", spy)
    experiment = recipe("bandana", "karate", "link", SHORT)
    run_seed(experiment, karate, 0, CPU)
    split = pipeline.split_edges(karate.graph, 0.05, 0.10, seed=0)
    trained = {tuple(pair) for pair in seen["graph"].edge_index.T.tolist()}
    held_out = {tuple(pair) for part in (split.valid, split.test) for pair in part.positive.T.tolist()}
    assert held_out
    assert not trained & (held_out | {pair[::-1] for pair in held_out})
    assert len(trained) == karate.graph.num_edges - 2 * len(held_out)


def test_labels_change_only_the_probe(karate: Dataset) -> None:
    experiment = recipe("bandana", "karate", "node", SHORT)
    shuffled = karate.graph.y[torch.randperm(34, generator=torch.Generator().manual_seed(0))]
    one = run_seed(experiment, karate, 0, CPU)
    other = run_seed(experiment, replace(karate, graph=replace(karate.graph, y=shuffled)), 0, CPU)
    assert torch.equal(one.embedding, other.embedding)
    assert one.record.metrics != other.record.metrics


def test_seeds_repeat_bit_for_bit_and_differ_from_each_other(karate: Dataset) -> None:
    experiment = recipe("bandana", "karate", "link", SHORT)
    first, again, other = (run_seed(experiment, karate, seed, CPU) for seed in (0, 0, 1))
    assert torch.equal(first.embedding, again.embedding)
    assert first.record.metrics == again.record.metrics
    assert first.record.split != other.record.split
    assert not torch.equal(first.embedding, other.embedding)


def test_a_finished_seed_is_not_run_again(tmp_path, monkeypatch) -> None:
    experiment = recipe("bandana", "karate", "node", SHORT)
    first = run(experiment, seeds=[0], device="cpu", folder=tmp_path)
    monkeypatch.setattr(pipeline, "pretrain", lambda *_, **__: pytest.fail("trained again"))
    again = run(experiment, seeds=[0], device="cpu", folder=tmp_path)
    assert again.seeds[0].metrics == first.seeds[0].metrics


def test_floors_are_the_untrained_method_and_the_features() -> None:
    data = load("digits")
    experiment = recipe("bandana", "digits", "link", SHORT)
    floors = run_seed(experiment, data, 0, CPU).record.floors
    assert set(floors) == {
        "raw features",
        "smoothed features",
        "untrained encoder",
        "common neighbours",
        "Adamic-Adar",
        "resource allocation",
    }
    assert all(0.5 < metrics["auc"] <= 1 for metrics in floors.values())


def test_protocols_differ_in_what_chooses_and_what_is_ranked(karate: Dataset, monkeypatch) -> None:
    asked = []
    original = pipeline.dot_product_auc

    def spy(z, pairs, *, as_published):
        asked.append(as_published)
        return original(z, pairs, as_published=as_published)

    monkeypatch.setattr(pipeline, "dot_product_auc", spy)
    for protocol in ("clean", "paper"):
        asked.clear()
        run_seed(recipe("bandana", "karate", "link", {**SHORT, "protocol": protocol}), karate, 0, CPU)
        assert set(asked) == {protocol == "paper"}


def test_a_set_without_labels_cannot_be_classified(karate: Dataset) -> None:
    unlabelled = replace(karate, graph=replace(karate.graph, y=None))
    with pytest.raises(UserError, match=r"has no labels.*--task link"):
        run_seed(recipe("bandana", "karate", "node", SHORT), unlabelled, 0, CPU)


def test_configurations_survive_a_file(tmp_path) -> None:
    experiment = recipe("bandana", "cora", "link", {"model.mask.temperature": [0.5, 0.25], "protocol": "paper"})
    path = tmp_path / "config.toml"
    path.write_text(to_toml(to_table(experiment)))
    assert Experiment.from_table(read_toml(path)) == experiment


def test_a_readout_is_what_chooses_and_what_is_scored(karate: Dataset, monkeypatch) -> None:
    judged = {"dot_product_auc": [], "dot_product_probe": []}
    for name, seen in judged.items():
        original = getattr(pipeline, name)

        def spy(z, *rest, original=original, seen=seen, **options):
            seen.append(z.shape[1])
            return original(z, *rest, **options)

        monkeypatch.setattr(pipeline, name, spy)
    data = replace(karate, graph=replace(karate.graph, x=torch.eye(34)[:, :7]))
    experiment = recipe("bandana", "karate", "link", {**SHORT, "readout.skip": 0.5, "readout.smoothing": 1})
    result = run_seed(experiment, data, 0, CPU, floors=False)
    width = result.method.embed(data.graph).shape[1] + 7
    assert judged == {"dot_product_auc": [width, width], "dot_product_probe": [width]}
    assert result.embedding.shape[1] == width


def test_a_readout_that_does_nothing_is_not_written_down() -> None:
    """Settings are told apart by their text: that of all earlier runs stays what it was."""
    table = to_table(recipe("bandana", "cora", "node"))
    assert "readout" not in table
    assert digest_of(table) == "88a8c542"
    changed = recipe("bandana", "cora", "node", {"readout.smoothing": 2})
    assert to_table(changed)["readout"] == {"smoothing": 2}
    assert to_table(recipe("bandana", "cora", "node", {"readout.smoothing": 0, "readout.skip": 0.0})) == table
    assert Experiment.from_table(to_table(changed)) == changed


def test_a_configuration_must_name_its_method() -> None:
    with pytest.raises(UserError, match="method: a configuration must name it"):
        Experiment.from_table({"dataset": "cora", "task": "node"})


@pytest.mark.parametrize("ratio", [0.05, 0.01])
def test_scarce_labels(ratio: float) -> None:
    changes = {**SHORT, "split.nodes": [ratio, 0.1, 0.9 - ratio]}
    result = run_seed(recipe("bandana", "digits", "node", changes), load("digits"), 0, CPU)
    assert 0.05 < result.record.metrics["micro_f1"] <= 1


# Appendix A.4, the column of measured mask ratios.
MASK_RATIOS = {
    "cora": 0.7077,
    "citeseer": 0.6048,
    "pubmed": 0.7571,
    "photo": 0.9630,
    "computers": 0.9679,
    "cs": 0.8697,
    "physics": 0.9185,
}


@pytest.mark.real_data
@pytest.mark.parametrize("name", MASK_RATIOS)
def test_the_mask_ratio_measured_in_training_is_the_papers(name: str) -> None:
    graph = load(name).graph
    data = Dataset(name, replace(graph, x=torch.ones(graph.num_nodes, 1)))  # the mask ratio does not depend on features
    changes = {"training.epochs": 1, "model.encoder.width": 2, "model.decoder_width": 1, "training.edge_batch_size": 0}
    result = run_seed(recipe("bandana", name, "link", changes), data, 0, CPU)
    assert result.record.diagnostics["mask_ratio"] == pytest.approx(MASK_RATIOS[name], abs=0.005)


def test_features_are_prepared_in_an_official_split_too(karate: Dataset, monkeypatch) -> None:
    features = torch.rand(karate.graph.num_nodes, 5, generator=torch.Generator().manual_seed(0)) + 0.1
    graph = replace(karate.graph, x=features)
    official = replace(karate, graph=graph, edge_split=split_edges(graph, 0.1, 0.1, seed=0))
    seen = []
    original = pipeline.pretrain

    def spy(method, graph, config, **rest):
        seen.append(graph.x)
        return original(method, graph, config, **rest)

    monkeypatch.setattr(pipeline, "pretrain", spy)
    run_seed(recipe("bandana", "karate", "link", {**SHORT, "features": "row_normalised"}), official, 0, CPU)
    torch.testing.assert_close(seen[0], features / features.sum(1, keepdim=True))


def test_each_seed_keeps_what_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = recipe("bandana", "karate", "link", SHORT)
    for version, seeds in (("1.0", (0,)), ("2.0", (1,)), ("3.0", (0, 1))):
        facts = {"bandana": version, "system": "Linux"}
        monkeypatch.setattr("bandana.reporting.record.environment", lambda facts=facts: facts)
        told = run(experiment, seeds=seeds, device="cpu", folder=tmp_path)
    kept = json.loads((tmp_path / "record.json").read_text())
    assert [seed["environment"]["bandana"] for seed in kept["seeds"]] == ["1.0", "2.0"]
    assert all(seed["device"] == "cpu" and seed["created"] for seed in kept["seeds"])
    assert (kept["device"], kept["environment"]) == ("cpu", {"system": "Linux"})
    assert [seed.environment["bandana"] for seed in told.seeds] == ["1.0", "2.0"]


def test_a_record_of_an_older_version_is_not_labelled_with_this_one(tmp_path: Path) -> None:
    experiment = recipe("bandana", "karate", "link", SHORT)
    run(experiment, device="cpu", folder=tmp_path)
    path = tmp_path / "seed-0" / "record.json"
    old = {key: value for key, value in json.loads(path.read_text()).items() if key not in NOT_KEPT_BY_OLDER_VERSIONS}
    path.write_text(json.dumps(old))
    (seed,) = run(experiment, device="cpu", folder=tmp_path).seeds
    assert (seed.device, seed.environment, seed.created) == ("", {}, "")
    assert json.loads((tmp_path / "record.json").read_text())["environment"] == {}
