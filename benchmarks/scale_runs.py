"""What `scale.py` starts beside the commands of bandana: each in a process of its own, which prints figures as JSON.

    python benchmarks/scale_runs.py estimate STORE CHANGES --processes 2
    python benchmarks/scale_runs.py full STORE CHANGES --steps 32
    python benchmarks/scale_runs.py recovery STORE CHANGES --run RUN
    python benchmarks/scale_runs.py recovery STORE CHANGES --vectors FOLDER

Changes are a JSON object, from option to value.
"""

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bandana import model_folder
from bandana.evaluation.dot_product_probe import dot_product_auc
from bandana.evaluation.metrics import checked_score
from bandana.evaluation.samples import sample
from bandana.experiment import Experiment, build, embed
from bandana.method import GraphSpec
from bandana.scale.batches import read_excerpt, training_graph
from bandana.scale.blocks import OUTPUT
from bandana.scale.store import Store
from bandana.store_estimate import estimate_run
from bandana.store_experiment import StoreExperiment
from bandana.store_judge import Judge
from bandana.training.trainer import pretrain

CPU = torch.device("cpu")
CLUSTERED_ROWS, STARTS = 20_000, 3
"""Nodes whose vectors are clustered, and from how many beginnings."""


def recovery(vectors: Tensor, labels: Tensor, seed: int) -> float:
    """How much clusters of vectors say about communities: their normalised mutual information.

    Vectors are clustered by direction, into as many clusters as there are communities among them.

    Args:
        vectors: ``[nodes, width]``, of which some are taken if there are many.
        labels: ``[nodes]`` communities.
        seed: Of the choice and of the clusters.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import normalized_mutual_info_score

    rows = sample(vectors.shape[0], CLUSTERED_ROWS, seed)
    chosen, truth = torch.nn.functional.normalize(vectors[rows]).numpy(), labels[rows].numpy()
    clusters = MiniBatchKMeans(len(np.unique(truth)), n_init=STARTS, random_state=seed).fit_predict(chosen)
    return float(normalized_mutual_info_score(truth, clusters))


def recovery_of_run(experiment: StoreExperiment, run: Path, seed: int = 0) -> float:
    """By the vectors of the nodes that the run was judged by."""
    judge = Judge.of(experiment, Store.open(Path(experiment.dataset)), seed, CPU)
    assert judge.labels is not None
    method = model_folder.load(run / f"seed-{seed}" / "model").method
    return recovery(embed(method, judge.whole), judge.labels, seed)


def recovery_of_vectors(store: Store, folder: Path, seed: int = 0) -> float:
    """By vectors that ``bandana infer`` wrote, of nodes from all over the graph."""
    vectors = np.load(folder / OUTPUT, mmap_mode="r", allow_pickle=False)
    assert store.labels is not None
    rows = sample(store.num_nodes, CLUSTERED_ROWS, seed).numpy()
    chosen, labels = (torch.from_numpy(np.array(array[rows])) for array in (vectors, store.labels))
    return recovery(chosen, labels, seed)


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
    found = judge.score(lambda graph: embed(method, graph)) | {"seconds": state.seconds, "epochs": state.epoch}
    if judge.labels is not None:
        found["nmi"] = recovery(embed(method, judge.whole), judge.labels, seed)
    return found


def batch_size(store: Store, experiment: StoreExperiment, steps: int) -> int:
    """Directed edges of a batch, if all that are learned from are to come in so many steps; 0 for all at once."""
    learned = 1 - experiment.shards.valid_links - experiment.shards.test_links
    return 0 if steps == 1 else int(store.num_edges * learned) // steps


def figures(given: argparse.Namespace) -> Mapping[str, Any]:
    """What was asked for on the command line."""
    store = Store.open(given.store)
    experiment = StoreExperiment.of("bandana", given.store, "node", json.loads(given.changes))
    if given.what == "estimate":
        costs = estimate_run(experiment, processes=given.processes, device=CPU)
        return {"estimated_s": sum(costs.seconds.values()), "estimated_mb": costs.memory / 1e6}
    if given.what == "full":
        return train_on_the_full_graph(experiment, 0, batch_size(store, experiment, given.steps))
    if given.vectors is not None:
        return {"nmi": recovery_of_vectors(store, given.vectors)}
    return {"nmi": recovery_of_run(experiment, given.run)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=("estimate", "full", "recovery"))
    parser.add_argument("store", type=Path)
    parser.add_argument("changes", help="a JSON object")
    parser.add_argument("--processes", type=int, default=1, help="of the run to estimate")
    parser.add_argument("--cpu-time", action="store_true", help="estimate seconds of the processor")
    parser.add_argument("--steps", type=int, default=1, help="of an epoch on the full graph")
    parser.add_argument("--run", type=Path, help="folder of a run")
    parser.add_argument("--vectors", type=Path, help="folder of an inference")
    given = parser.parse_args()
    if given.cpu_time:
        time.perf_counter = time.process_time
    print(json.dumps(dict(figures(given))))


if __name__ == "__main__":
    main()
