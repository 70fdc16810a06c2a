"""An experiment and its run: load, split, build, pre-train, embed, probe, record. The pipeline, and nothing else."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from bandana.config import patch, to_table
from bandana.data.datasets import Dataset, load
from bandana.data.features import Preprocessing, preprocess
from bandana.data.splits import EdgeSplit, SplitConfig, split_edges, split_nodes
from bandana.devices import resolve_device
from bandana.engine.streams import initial_weights
from bandana.errors import UserError
from bandana.evaluation.dot_product_probe import dot_product_auc, dot_product_probe
from bandana.evaluation.end_to_end import end_to_end
from bandana.evaluation.heuristics import heuristic_floors
from bandana.evaluation.linear_probe import LinearProbeConfig, as_published, linear_probe
from bandana.evaluation.metrics import checked_score, exact_auc
from bandana.files import alone
from bandana.graph import Graph, dense
from bandana.method import GraphSpec, Method
from bandana.parts.copies import Copies
from bandana.parts.floor import smoothed
from bandana.parts.readout import AS_IT_IS, ReadoutConfig, read_out
from bandana.registry import get_method
from bandana.reporting.record import Metrics, RunFolder, RunRecord, SeedRecord
from bandana.seeds import OnSeed, checked, load_once, side_by_side, telling
from bandana.training.early_stopping import Monitor
from bandana.training.profile import Operation, profile_training
from bandana.training.steps import Recorded
from bandana.training.trainer import OnEpoch, TrainingConfig, pretrain

Task = Literal["node", "link"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """Everything that decides a result, except the seed. Written to the run folder, and runnable from there."""

    method: str
    dataset: str
    task: Task
    protocol: Literal["clean", "paper"] = "clean"
    """`clean`: one epoch of the probe serves all metrics, and raw logits are ranked. `paper`: as the authors' scripts
    do, each metric has its own epoch and links are ranked after a float32 sigmoid. See docs/protocols.md."""
    monitor: Monitor = "dot_product"
    features: Preprocessing = "raw"
    """What is done to the features first; see `bandana.data.features`."""
    model: Any
    copies: int | None = None
    """Copies of the method whose embeddings stand side by side (see `bandana.parts.copies`). One counts as not set."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    readout: ReadoutConfig = AS_IT_IS
    probe: LinearProbeConfig = field(default_factory=LinearProbeConfig)

    def __post_init__(self) -> None:
        if not isinstance(self.model, get_method(self.method).Config):
            raise ValueError(f"model: must be the settings of {self.method}, got {type(self.model).__name__}")
        if self.copies is not None and self.copies < 1:
            raise ValueError(f"copies: must be at least 1, got {self.copies}")
        object.__setattr__(self, "copies", None if self.copies == 1 else self.copies)
        if not self.split.valid_edges and (self.task == "link" or self.monitor != "none"):
            raise ValueError("split.valid_edges: must be positive where links are predicted or choose weights, got 0")

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "Experiment":
        """Read the ``config.toml`` of a run folder.

        Raises:
            UserError: A key is missing, unknown, or has a wrong value.
        """
        for key in ("method", "dataset", "task"):
            if not isinstance(table.get(key), str):
                raise UserError(f'{key}: a configuration must name it, for example {key} = "…".')
        model = get_method(table["method"]).Config()
        return patch(cls(method=table["method"], dataset=table["dataset"], task="node", model=model), table)


class SeedResult(NamedTuple):
    """One pre-training: its record, the trained method and ``embedding [nodes, width]``."""

    record: SeedRecord
    method: Method
    embedding: Tensor


class Evaluation(NamedTuple):
    """The graph to embed, the way to score an embedding of it, and what was certified of the nodes that serve."""

    graph: Graph
    score: Callable[[Tensor], Metrics]
    certified: Mapping[str, Any] = MappingProxyType({})


def run(
    experiment: Experiment,
    *,
    seeds: Iterable[int] = (0,),
    device: str = "auto",
    data_root: Path | None = None,
    folder: Path | None = None,
    jobs: int = 1,
    on_seed: OnSeed = lambda seed: lambda state: None,
) -> RunRecord:
    """Run an experiment for every seed and record it.

    Args:
        experiment: What to do.
        seeds: Each one is a new split, a new initialisation and a new pre-training.
        device: ``auto``, ``cpu`` or ``cuda``.
        data_root: Where raw data lie, read-only.
        folder: Run folder. Seeds finished in it are kept, an interrupted one is continued.
        jobs: Seeds that run at the same time, each in a process of its own: a small graph leaves a GPU nearly idle.
        on_seed: Gives the epoch callback of each seed, for progress bars.

    Raises:
        UserError: A seed is none, the data are not there, or the folder belongs to another run.
    """
    numbers, where = checked(seeds), resolve_device(device)
    data = load(experiment.dataset, data_root)
    target = None if folder is None else RunFolder.open(folder, to_table(experiment))
    if jobs == 1:
        records = [_kept_run(seed, experiment, data, where, target, on_seed(seed)) for seed in numbers]
    else:
        pieces = [(seed, experiment, where, data_root, target) for seed in numbers]
        with side_by_side(where, min(jobs, len(pieces))) as carry_out:
            records = carry_out(run_apart, pieces, on_seed)
    record = RunRecord(experiment=to_table(experiment), seeds=records, device=where.type)
    if target is not None:
        target.write(record)
    return record


def run_apart(
    seed: int, experiment: Experiment, device: torch.device, data_root: Path | None, target: RunFolder | None
) -> SeedRecord:
    """One seed of `run`, in a process of its own."""
    with telling() as on_epoch:
        return _kept_run(seed, experiment, load_once(experiment.dataset, data_root), device, target, on_epoch)


def _kept_run(
    seed: int, experiment: Experiment, data: Dataset, device: torch.device, target: RunFolder | None, on_epoch: OnEpoch
) -> SeedRecord:
    """A seed's record: from the run folder if the seed is finished there, else from a run whose results go there."""
    if target is None:
        return run_seed(experiment, data, seed, device, on_epoch=on_epoch).record
    checkpoint = target.checkpoint(seed)
    with alone(checkpoint.parent):
        done = target.finished(seed)
        if done is None:
            done, method, _ = run_seed(experiment, data, seed, device, checkpoint=checkpoint, on_epoch=on_epoch)
            target.finish(done, method.state_dict())
    return done


def run_seed(
    experiment: Experiment,
    data: Dataset,
    seed: int,
    device: torch.device,
    *,
    floors: bool = True,
    checkpoint: Path | None = None,
    on_epoch: OnEpoch = lambda state: None,
) -> SeedResult:
    """One seed: split, build, take the floors unless they are not wanted, pre-train, embed, score.

    Raises:
        UserError: The data cannot serve the task.
    """
    graph = preprocess(data.graph, experiment.features).to(device)
    edges = edges_of(experiment, data, graph, seed)
    evaluation = _evaluation(experiment, data, graph, edges, seed)
    method = build(experiment, GraphSpec.of(graph), seed).to(device)
    beaten = _floors(experiment, evaluation, method, edges) if floors else {}
    monitor = monitor_of(experiment, method, edges)
    state = pretrain(
        method, edges.train, experiment.training, seed=seed, monitor=monitor, checkpoint=checkpoint, on_epoch=on_epoch
    )
    started = time.perf_counter()
    embedding = embed(method, evaluation.graph, experiment.readout)
    metrics = evaluation.score(embedding)
    if experiment.task == "link" and (decoder := _decoder(method, edges.test_graph)) is not None:
        metrics |= {f"decoder_{name}": value for name, value in end_to_end(decoder, edges.test).items()}
    record = SeedRecord(
        seed=seed,
        metrics=metrics,
        floors=beaten,
        best_epoch=state.progress.best_epoch,
        epochs=state.epoch,
        seconds={"pretrain": state.seconds, "evaluate": time.perf_counter() - started},
        diagnostics={name: fmean(row[name] for row in state.history) for name in method.diagnostics()},
        history=state.history,
        split={**asdict(edges.certificate), **evaluation.certified},
        device=device.type,
    )
    return SeedResult(record, method, embedding)


def profile(
    experiment: Experiment, *, seed: int = 0, device: str = "auto", data_root: Path | None = None
) -> list[Operation]:
    """Where the time of an epoch of pre-training goes."""
    where, data = resolve_device(device), load(experiment.dataset, data_root)
    graph = preprocess(data.graph, experiment.features).to(where)
    edges, method = edges_of(experiment, data, graph, seed), build(experiment, GraphSpec.of(graph), seed).to(where)
    monitor = monitor_of(experiment, method, edges)
    return profile_training(method, edges.train, experiment.training, seed=seed, monitor=monitor)


def build(experiment: Experiment, spec: GraphSpec, seed: int) -> Method:
    """A freshly initialised method; the seed decides its weights and nothing else in the process."""
    with initial_weights(seed):
        copies = [get_method(experiment.method)(experiment.model, spec) for _ in range(experiment.copies or 1)]
    return copies[0] if len(copies) == 1 else Copies(copies)


@torch.no_grad()
def embed(method: Method, graph: Graph, readout: ReadoutConfig = AS_IT_IS) -> Tensor:
    """``[nodes, width]`` embeddings in evaluation mode."""
    method.eval()
    return read_out(method.embed(graph), graph, readout)


def edges_of(experiment: Experiment, data: Dataset, graph: Graph, seed: int) -> EdgeSplit:
    """The links that are held out, and the graph without them; an official split comes before one of ours."""
    if data.edge_split is not None:
        official = data.edge_split
        train, test_graph = (preprocess(seen, experiment.features) for seen in (official.train, official.test_graph))
        return replace(official, train=train, test_graph=test_graph).to(graph.device)
    return split_edges(graph, experiment.split.valid_edges, experiment.split.test_edges, seed=seed)


def _evaluation(experiment: Experiment, data: Dataset, graph: Graph, edges: EdgeSplit, seed: int) -> Evaluation:
    """Nodes are classified from the whole graph; links are predicted from the graph that does not hold them."""
    if experiment.task == "link":
        return Evaluation(edges.test_graph, lambda z: dot_product_probe(z, edges.test))
    labels = graph.y
    if labels is None:
        raise UserError(f"{data.name}: has no labels, so its nodes cannot be classified. Use --task link.")
    nodes = data.node_split or split_nodes(labels, experiment.split.nodes, seed=seed)

    def score(z: Tensor) -> Metrics:
        scores = linear_probe(z, labels, nodes, experiment.probe, seed)
        return scores if experiment.protocol == "clean" else as_published(scores)

    return Evaluation(graph, score, {"nodes": asdict(nodes.certificate)})


def _floors(experiment: Experiment, evaluation: Evaluation, method: Method, edges: EdgeSplit) -> dict[str, Metrics]:
    """What any training must beat: features, as they are and smoothed, the untrained encoder, and shared neighbours."""
    floors: dict[str, Metrics] = {}
    if evaluation.graph.has_features:
        floors["raw features"] = evaluation.score(dense(evaluation.graph.x))
        floors["smoothed features"] = evaluation.score(smoothed(evaluation.graph))
    floors["untrained encoder"] = evaluation.score(embed(method, evaluation.graph, experiment.readout))
    if experiment.task == "link":
        floors |= heuristic_floors(edges.test_graph, edges.test)
    return floors


def monitor_of(experiment: Experiment, method: Method, edges: EdgeSplit) -> Callable[[], float] | None:
    """The validation score that chooses the weights; test pairs are out of its reach."""
    if experiment.monitor == "none":
        return None
    decoder, sigmoid = _decoder(method, edges.train), experiment.protocol == "paper"
    if experiment.monitor == "decoder" and decoder is None:
        raise UserError(f"monitor: {experiment.method} has no link decoder. Use --set monitor=dot_product.")

    def score() -> Tensor:
        if experiment.monitor == "decoder" and decoder is not None:
            return exact_auc(decoder(edges.valid.positive), decoder(edges.valid.negative))
        return dot_product_auc(embed(method, edges.train, experiment.readout), edges.valid, as_published=sigmoid)

    scored = Recorded(score) if edges.train.device.type == "cuda" and method.replayable else score
    return lambda: checked_score(scored())


def _decoder(method: Method, graph: Graph) -> Callable[[Tensor], Tensor] | None:
    """The method's own link decoder over the embeddings of `graph`, if it has one."""
    if not method.has_decoder():
        return None

    def score(pairs: Tensor) -> Tensor:
        logits = method.score_edges(graph, pairs)
        assert logits is not None
        return logits

    return score
