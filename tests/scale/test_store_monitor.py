"""What a run on a store takes over from the recipe: the held-out shares, and what chooses the weights."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from processes import clustered_store
from sklearn.metrics import roc_auc_score

from bandana.errors import UserError
from bandana.experiment import embed
from bandana.method import GraphSpec, Method
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.paper.cookbook import recipe
from bandana.parts.encoders import EncoderConfig
from bandana.scale import training
from bandana.scale.batches import Region, ShardConfig, read_region
from bandana.scale.distributed import World
from bandana.scale.store import Store
from bandana.scale.training import Job, train_on_store, validation_score
from bandana.store_experiment import StoreExperiment
from bandana.training.early_stopping import Monitor
from bandana.training.trainer import TrainingConfig

SHARDS = ShardConfig(parts_per_group=2, groups_per_step=2, valid_links=0.2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return clustered_store(tmp_path / "cora")


def job_of(store: Store, monitor: Monitor, method_class: type[Bandana] = Bandana) -> Job:
    torch.manual_seed(0)
    config = BandanaConfig(encoder=EncoderConfig(width=8), decoder_width=4)
    method = method_class(config, GraphSpec(store.num_nodes, store.num_features))
    schedule = TrainingConfig(epochs=6, evaluate_every=2, edge_batch_size=0, patience_evaluations=1)
    return Job(method, store, schedule, SHARDS, 0, World(0, 1, torch.device("cpu")), monitor)


@pytest.mark.parametrize("task", ["node", "link"])
def test_a_store_gets_the_shares_and_the_monitor_of_the_recipe(store: Store, task: str) -> None:
    experiment = StoreExperiment.of("bandana", store.folder, task, {}, named="cora")
    expected = recipe("bandana", "cora", task)  # type: ignore[arg-type]
    assert experiment.monitor == expected.monitor
    assert experiment.shards.valid_links == expected.split.valid_edges
    assert experiment.shards.test_links == expected.split.test_edges


def test_the_name_of_a_folder_says_nothing_about_the_graph_in_it(store: Store, tmp_path: Path) -> None:
    other = clustered_store(tmp_path / "mine")
    named, unnamed = (StoreExperiment.of("bandana", each.folder, "node", {}) for each in (store, other))
    assert replace(named, dataset="") == replace(unnamed, dataset="")


@pytest.mark.parametrize("monitor", ["dot_product", "decoder"])
def test_the_monitor_ranks_validation_pairs_by_what_it_is_named_for(store: Store, monitor: Monitor) -> None:
    job = job_of(store, monitor)
    region = read_region(store, torch.arange(8), SHARDS, 0)
    pairs = torch.cat([region.valid.positive, region.valid.negative], dim=1)
    z = embed(job.method, region.graph)
    logits = (z[pairs[0]] * z[pairs[1]]).sum(1) if monitor == "dot_product" else None
    with torch.no_grad():
        logits = job.method.score_edges(region.graph, pairs) if logits is None else logits
        found = validation_score(job, region)
    assert logits is not None
    truth = torch.arange(pairs.shape[1]) < region.valid.positive.shape[1]
    assert found == pytest.approx(roc_auc_score(truth, logits), abs=1e-6)


def test_without_a_monitor_the_last_weights_are_kept(store: Store) -> None:
    state = train_on_store(job_of(store, "none"))
    assert (state.epoch, state.progress.best_epoch) == (6, 6)
    assert all("monitor" not in row for row in state.history)


def test_a_decoder_that_is_not_there_cannot_choose(store: Store) -> None:
    class Silent(Bandana):
        score_edges = Method.score_edges  # type: ignore[assignment]

    with pytest.raises(UserError, match=r"monitor: .*no link decoder"):
        train_on_store(job_of(store, "decoder", Silent))


@pytest.mark.parametrize("score", [0.0, 1.0], ids=["rank worse", "rank no worse"])
def test_the_validation_links_decide_between_settled_statistics_and_those_of_training(
    store: Store, monkeypatch: pytest.MonkeyPatch, score: float
) -> None:
    settled, kept = False, dict[str, torch.Tensor]()

    def settle(job: Job, *_: object) -> None:
        nonlocal settled
        settled = True
        kept.update({name: buffer.clone() for name, buffer in job.method.named_buffers()})
        for norm in (module for module in job.method.modules() if isinstance(module, torch.nn.BatchNorm1d)):
            norm.reset_running_stats()

    def scored(job: Job, region: Region) -> float:
        return score if settled else 0.5

    monkeypatch.setattr(training, "settle_norms", settle)
    monkeypatch.setattr(training, "validation_score", scored)
    job = job_of(store, "dot_product")
    train_on_store(job)
    unchanged = [buffer.equal(kept[name]) for name, buffer in job.method.named_buffers()]
    assert len(unchanged) > 1
    assert all(unchanged) if score == 0 else not any(unchanged)
