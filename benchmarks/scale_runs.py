"""What `scale.py` measures: commands in processes of their own, and full-graph training on the split of a store."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bandana.data.datasets import load
from bandana.data.features import preprocess
from bandana.evaluation.dot_product_probe import dot_product_auc
from bandana.evaluation.metrics import checked_score
from bandana.experiment import Experiment, build, embed
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.paper.cookbook import recipe
from bandana.scale.batches import read_excerpt, training_graph
from bandana.scale.partitioning import metis_parts
from bandana.scale.store import Store, write_store
from bandana.store_experiment import Judge, StoreExperiment
from bandana.training.trainer import pretrain

CPU = torch.device("cpu")


class Taken(NamedTuple):
    """What a command took: seconds on the wall, of the processor, and megabytes of its largest process."""

    seconds: float
    cpu_s: float
    peak_mb: float


class OutOfBudgetError(Exception):
    """There is no time left for what is to be done next."""


class Budget:
    """Time that a benchmark may take."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._ends - time.monotonic()

    def run(self, *words: str | Path, processes: int = 0, cores: int | None = None) -> Taken:
        """Run a command of bandana in a process of its own, or in several that ``torchrun`` starts.

        Args:
            words: Behind ``bandana``.
            processes: Of ``torchrun``; 0 does without.
            cores: How many of the machine's may be used; None for all.

        Raises:
            OutOfBudgetError: It would not end in time, or had not.
        """
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(launcher if processes else []), "-m", "bandana", *map(str, words)]
        return self.measure(command, cores)

    def measure(self, command: Sequence[str], cores: int | None = None) -> Taken:
        if self.left <= 0:
            raise OutOfBudgetError
        allowed = sorted(os.sched_getaffinity(0))[:cores]
        started = time.monotonic()
        child = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: os.sched_setaffinity(0, allowed),
        )
        said = _wait(child, self.left)
        _, status, usage = os.wait4(child.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"{' '.join(command)} failed:\n{said}")
        return Taken(time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)


def start_up(budget: Budget) -> Taken:
    """What every training takes before its work begins: loading torch, and what an optimiser loads on top."""
    return budget.measure([sys.executable, "-c", "import bandana.terminal.research, torch._dynamo"])


def _wait(child: subprocess.Popen[bytes], seconds: float) -> str:
    """Read what a child says until it ends; end it when time is up."""
    assert child.stderr is not None
    os.set_blocking(child.stderr.fileno(), False)
    ends, said = time.monotonic() + seconds, b""
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        said = (said + (child.stderr.read() or b""))[-4000:]
        if time.monotonic() > ends:
            child.terminate()
            child.wait()
            raise OutOfBudgetError
        time.sleep(0.05)
    return (said + (child.stderr.read() or b"")).decode(errors="replace")


def settings(changes: Mapping[str, Any]) -> list[str]:
    """Changes as a command line has them."""
    return [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]


def record_of(folder: Path) -> dict[str, Any]:
    """The first seed of a run: its figures, and how long it took."""
    seed: dict[str, Any] = json.loads((folder / "record.json").read_text())["seeds"][0]
    return seed


def train_on_the_full_graph(experiment: StoreExperiment, seed: int, edge_batch_size: int) -> dict[str, float]:
    """Train as one does without a store, on the very split that a run on the store has, and be judged by the same.

    Returns:
        Scores, and the seconds and epochs of training.
    """
    store, shards = Store.open(Path(experiment.dataset)), experiment.shards
    judge = Judge.of(experiment, store, seed, CPU)
    region = judge.region
    graph = training_graph(store, read_excerpt(store, torch.arange(store.num_parts), shards, seed), shards)
    spec = GraphSpec(store.num_nodes, store.num_features or store.num_nodes)
    named = Experiment(
        method=experiment.method, dataset=experiment.dataset, task=experiment.task, model=experiment.model
    )
    method = build(named, spec, seed)
    state = pretrain(
        method,
        graph,
        replace(experiment.training, edge_batch_size=edge_batch_size),
        seed=seed,
        monitor=lambda: checked_score(dot_product_auc(method.embed(region.graph), region.valid)),
    )
    return judge.score(lambda graph: embed(method, graph)) | {"seconds": state.seconds, "epochs": state.epoch}


def store_of(dataset: str, task: str, parts: int, folder: Path) -> tuple[Path, int]:
    """A data set as a store that bears its name, by METIS, and the batch size of its recipe."""
    base = recipe("bandana", dataset, task)  # type: ignore[arg-type]
    graph: Graph = preprocess(load(dataset).graph, base.features)
    if not (folder / dataset / "store.json").exists():
        structure = graph.structure
        part = metis_parts(structure.rowptr.numpy(), structure.col.numpy(), parts, graph.directed, 0)
        write_store(folder / dataset, graph, torch.from_numpy(part))
    return folder / dataset, base.training.edge_batch_size
