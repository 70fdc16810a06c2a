"""An experiment on a store: the pipeline of `bandana.experiment` for graphs that need not fit into memory.

Under ``torchrun`` every process trains; the leading one alone evaluates and writes.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import torch

from bandana import model_folder
from bandana.config import nest, patch, read_toml, to_table
from bandana.data.splits import SplitConfig
from bandana.devices import resolve_device
from bandana.errors import UserError
from bandana.evaluation.linear_probe import LinearProbeConfig
from bandana.experiment import Experiment, Task, build, embed
from bandana.files import alone
from bandana.graph import Graph
from bandana.method import GraphSpec, Method
from bandana.own.trained import TrainedModel, nodes_fingerprint, weight_shapes
from bandana.paper.cookbook import UNNAMED, recipe
from bandana.registry import all_methods, get_method
from bandana.reporting.record import RunFolder, RunRecord, SeedRecord
from bandana.scale.batches import ShardConfig, plan_epoch
from bandana.scale.distributed import World, joined, leading, started_processes
from bandana.scale.seal import DESCRIPTION
from bandana.scale.store import Store
from bandana.scale.training import Job, train_on_store
from bandana.seeds import OnSeed, checked
from bandana.store_judge import Judge, check_labels
from bandana.training.early_stopping import Monitor
from bandana.training.trainer import OnEpoch, TrainingConfig, TrainingState


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreExperiment:
    """Everything that decides a result, except the seed. The number of processes is not among it."""

    method: str
    dataset: str
    """Folder of the store."""
    contents: str = ""
    """Digest of the store: what was learned from one graph never counts for another that has taken its place."""
    task: Task
    protocol: Literal["clean"] = "clean"
    monitor: Monitor = "dot_product"
    model: Any
    training: TrainingConfig = field(default_factory=TrainingConfig)
    shards: ShardConfig = field(default_factory=ShardConfig)
    probe: LinearProbeConfig = field(default_factory=LinearProbeConfig)

    def __post_init__(self) -> None:
        if self.training.edge_batch_size:
            raise ValueError(
                f"training.edge_batch_size: must be 0 with a store, whose steps take all links of their groups; got "
                f"{self.training.edge_batch_size}"
            )

    @classmethod
    def of(
        cls, method: str, folder: Path, task: str | None, changes: Mapping[str, Any], *, named: str = UNNAMED
    ) -> "StoreExperiment":
        """The method's recipe for graphs of no particular name, or for a data set, with dotted changes on top.

        Raises:
            UserError: An unknown method, option or value, or a method that cannot learn from parts.
        """
        _check_shardable(method)
        store = Store.open(folder)
        base = recipe(method, named, task or ("link" if store.labels is None else "node"))  # type: ignore[arg-type]
        default = cls(
            method=method,
            dataset=str(folder),
            contents=store.digest,
            task=base.task,
            monitor=base.monitor,
            model=base.model,
            training=replace(base.training, edge_batch_size=0),
            shards=_shards_of(base.split, store.num_parts),
            probe=base.probe,
        )
        return patch(default, nest(changes))

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "StoreExperiment":
        """Read the ``config.toml`` of a run folder.

        Raises:
            UserError: A key is missing, unknown, or has a wrong value.
        """
        default = cls.of(str(table.get("method")), Path(str(table.get("dataset"))), table.get("task"), {})
        return patch(default, table)


class Trained(NamedTuple):
    """One seed after training: the method, its course, and the method as it was before."""

    seed: int
    method: Method
    untrained: Method
    state: TrainingState


def _shards_of(split: SplitConfig, parts: int) -> ShardConfig:
    """Batches that a store has parts for, with the recipe's shares of held-out links; the usual ones if it has none."""
    usual = ShardConfig()
    groups = min(usual.groups_per_step, parts)
    fitting = replace(usual, groups_per_step=groups, parts_per_group=min(usual.parts_per_group, parts // groups))
    if not split.valid_edges:
        return fitting
    return replace(fitting, valid_links=split.valid_edges, test_links=split.test_edges)


def is_store(name: str | None) -> bool:
    """Whether a name is the folder of a store."""
    try:
        return name is not None and (Path(name) / DESCRIPTION).is_file()
    except OSError:  # no file could have such a name
        return False


def run_store(
    experiment: StoreExperiment,
    *,
    seeds: Sequence[int] = (0,),
    device: str = "auto",
    folder: Path,
    on_seed: OnSeed = lambda seed: lambda state: None,
) -> RunRecord | None:
    """Run an experiment for every seed, together with the other processes that ``torchrun`` started.

    Args:
        experiment: What to do.
        seeds: Each one holds out other links and starts from other weights.
        device: ``auto``, ``cpu`` or ``cuda``.
        folder: Run folder, the same for all processes. Seeds finished in it are kept, an interrupted one is continued.
        on_seed: Gives the epoch callback of each seed.

    Returns:
        The record, in the leading process; None in all others.

    Raises:
        UserError: The settings do not fit, or another process was lost.
    """
    store = Store.open(Path(experiment.dataset))
    check_contents(experiment, store, folder)
    seeds, spec, where = checked(seeds), spec_of(experiment, store), resolve_device(device)
    check_groups(experiment.shards, store, started_processes())
    for seed in seeds:
        check_labels(experiment, store, seed)
    with alone(folder) if leading() else nullcontext():
        target = RunFolder.open(folder, to_table(experiment)) if leading() else RunFolder(folder)
        with joined(where, experiment.shards.patience_seconds) as world:
            finished = [world.agree(float(world.leads and target.finished(seed) is not None)) for seed in seeds]
            trained = [
                _train(experiment, store, spec, seed, world, target, on_seed(seed))
                for seed, done in zip(seeds, finished, strict=True)
                if not done
            ]
        if not world.leads:
            return None
        for result in trained:
            _finish(experiment, store, spec, result, target, world.device)
        records = [known for seed in seeds if (known := target.finished(seed)) is not None]
        record = RunRecord(experiment=to_table(experiment), seeds=records, device=where.type)
        target.write(record)
        return record


def _train(
    experiment: StoreExperiment,
    store: Store,
    spec: GraphSpec,
    seed: int,
    world: World,
    target: RunFolder,
    on_epoch: OnEpoch,
) -> Trained:
    named = Experiment(
        method=experiment.method, dataset=experiment.dataset, task=experiment.task, model=experiment.model
    )
    untrained, method = (build(named, spec, seed) for _ in range(2))
    settings = experiment.training, experiment.shards, seed, world, experiment.monitor
    job = Job(method.to(world.device), store, *settings)
    state = train_on_store(job, checkpoint=target.checkpoint(seed), on_epoch=on_epoch)
    return Trained(seed, method, untrained, state)


def _finish(
    experiment: StoreExperiment,
    store: Store,
    spec: GraphSpec,
    trained: Trained,
    target: RunFolder,
    device: torch.device,
) -> None:
    """Judge one seed and write its record, weights and model."""
    started = time.perf_counter()
    judge = Judge.of(experiment, store, trained.seed, device)
    state = trained.state
    record = SeedRecord(
        seed=trained.seed,
        device=device.type,
        metrics=judge.score(lambda graph: embed(trained.method, graph)),
        floors=judge.floors(lambda graph: embed(trained.untrained.to(device), graph)),
        best_epoch=state.progress.best_epoch,
        epochs=state.epoch,
        seconds={"pretrain": state.seconds, "evaluate": time.perf_counter() - started},
        diagnostics={name: fmean(row[name] for row in state.history) for name in trained.method.diagnostics()},
        history=state.history,
        split=judge.facts,
    )
    model = TrainedModel(
        name=experiment.method,
        config=experiment.model,
        spec=spec,
        method=trained.method,
        feature_names=store.feature_names,
        nodes=None if store.features is not None else _fingerprint(judge.whole, store),
        facts={"store": experiment.dataset, "seed": trained.seed},
    )
    model_folder.save(target.checkpoint(trained.seed).parent / "model", model)
    target.finish(record, trained.method.state_dict())


def _fingerprint(graph: Graph, store: Store) -> str:
    """Of all nodes of the store, which a model without features belongs to."""
    return nodes_fingerprint(replace(graph, node_ids=store.node_ids.to_pylist()))


def check_groups(shards: ShardConfig, store: Store, processes: int) -> None:
    """Refuse what would be refused in training, while nothing is written and every setting can still be changed.

    Raises:
        UserError: The processes cannot share out the groups of a step, or the store has too few parts for one.
    """
    World(0, processes, torch.device("cpu")).divide(shards.groups_per_step)
    plan_epoch(store.num_parts, shards, seed=0, epoch=1)


def check_contents(experiment: StoreExperiment, store: Store, folder: Path) -> None:
    """Refuse to go on with what was begun on another graph in the same place.

    Raises:
        UserError: The configuration is of another graph, or the run that the folder holds.
    """
    if experiment.contents and experiment.contents != store.digest:
        raise UserError(
            f"{experiment.dataset}: holds another graph than when this configuration was written; name the method and "
            f"the store instead of the file."
        )
    config = folder / "config.toml"
    begun = read_toml(config).get("contents", store.digest) if config.is_file() else store.digest
    if begun != store.digest:
        raise UserError(
            f"{folder}: holds a run on another graph, which was in {experiment.dataset} before; choose another folder "
            f"with --out."
        )


def spec_of(experiment: StoreExperiment, store: Store) -> GraphSpec:
    """The shape to build for.

    Raises:
        UserError: The method would keep a vector per node beside the features.
    """
    spec = GraphSpec(store.num_nodes, store.num_features or store.num_nodes)
    one_more = replace(spec, num_nodes=spec.num_nodes + 1)
    if weight_shapes(experiment.method, experiment.model, spec) != weight_shapes(
        experiment.method, experiment.model, one_more
    ):
        raise UserError(
            "model: these settings learn a vector for every node beside the features, which parts of a graph cannot "
            "share; set the width of node embeddings to 0."
        )
    return spec


def _check_shardable(method: str) -> None:
    if not get_method(method).shardable:
        able = ", ".join(name for name, cls in all_methods().items() if cls.shardable)
        raise UserError(f"{method}: cannot learn from the parts of a store. Use one of these methods: {able}.")
