"""One run of `deviating.py`: a training that is looked at on its way, and what each way to judge it makes of that."""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from deviating_pieces import KEYS, Piece
from torch import Tensor
from torch.nn.functional import normalize

from bandana.config import patch
from bandana.data.datasets import Dataset, load
from bandana.data.features import preprocess
from bandana.data.splits import NodeSplit, Pairs, split_nodes
from bandana.devices import resolve_device
from bandana.evaluation.dot_product_probe import pair_scores
from bandana.evaluation.linear_probe import linear_probe
from bandana.evaluation.metrics import auc, average_precision
from bandana.experiment import Experiment, build, edges_of, embed, monitor_of
from bandana.graph import Graph
from bandana.method import GraphSpec, Method
from bandana.paper.cookbook import recipe
from bandana.training.trainer import TrainingState, pretrain

SCORES = ("auc", "ap", "auc_sigmoid32", "ap_sigmoid32", "tied_share")
F1 = ("micro_f1", "macro_f1", "macro_f1_own_epoch")
FIELDS = [
    *("label", "method", "dataset", "task", "protocol", "overrides", "seed", "readout", "choice", "split", "probe"),
    *("best_epoch", "epochs", *SCORES, *F1, "seconds", "precision", "failed"),
]
TRACE = ["label", "method", "dataset", "seed", "readout", "epoch", "loss", "valid_auc", "valid_auc_sigmoid32", *SCORES]
FIRST = 1, 2, 3
"""Epochs that are looked at too, but never chosen."""
HEADS = {"grace": "contrast.head", "gca": "contrast.head", "t_bgrl": "predictor"}
LOSS_STOP = {"cora": 50, "citeseer": 50, "photo": 61, "computers": 115}
"""T-BGRL: epochs without a loss lower by 0.01 after which its authors stop."""
GCA = {"lr": 0.01, "weight_decay": 0.0, "epochs": 3000, "batch_size": 65536, "normalize": False}
"""The probe of GCA's authors."""
OWN, SAME_SIZE, TENTH = "own", "random, public size", "random tenth"
STUDIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "own": ("recipe", OWN, {}),
    "unit": ("recipe, other rows", OWN, {}),
    "half decay": ("recipe, no decay", OWN, {"weight_decay": 0.0}),
    "gca": ("gca", OWN, GCA),
    "gca unit": ("gca unit", OWN, {**GCA, "normalize": True}),
    "same size": ("recipe", SAME_SIZE, {"repeats": 3}),
    "tenth": ("recipe", TENTH, {"repeats": 3}),
    "tenth gca": ("gca", TENTH, {**GCA, "repeats": 3}),
}
"""Title, split and changed settings of a probe; "unit" scales rows where the recipe does not, and the other way."""

Row = dict[str, Any]


class CutOffError(Exception):
    """A training was ended where it was."""


def study(piece: Piece, root: str | None, ends: float) -> tuple[list[Row], list[Row]]:
    """The rows of one piece, and its trace; at the time `ends` its training is cut off."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    experiment, device, data = piece.experiment, resolve_device("auto"), load(piece.dataset, root)
    graph = preprocess(data.graph, experiment.features).to(device)
    rows, trace = (_links if piece.task == "link" else _nodes)(piece, experiment, data, graph, ends)
    facts = {"precision": experiment.training.precision, "seconds": round(time.perf_counter() - started, 1)}
    known = {**{name: getattr(piece, name) for name in KEYS}, **facts}
    gc.collect()
    torch.cuda.empty_cache()
    return [{**known, **row} for row in rows], [{**known, **row} for row in trace]


def _trained(train: Callable[[], TrainingState], device: torch.device) -> TrainingState | None:
    """The end of a training; None where it was cut off."""
    try:
        return train()
    except CutOffError:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return None


def _links(piece: Piece, experiment: Experiment, data: Dataset, graph: Graph, ends: float) -> tuple[list[Row], ...]:
    edges = edges_of(experiment, data, graph, piece.seed)
    seen = one_way(edges.train) if piece.one_way else edges.train
    method = build(experiment, GraphSpec.of(graph), piece.seed).to(graph.device)
    whole, trace = replace(experiment.training, patience_evaluations=0), list[Row]()
    history: list[dict[str, float]] = []

    def look(epoch: int) -> None:
        loss = history[-1]["loss"] if history else ""
        for readout, z in _readouts(piece.method, method, seen):
            trace.append({"readout": readout, "epoch": epoch, "loss": loss, **_scores(z, edges.valid, edges.test)})

    def after_epoch(state: TrainingState) -> None:
        history[:] = state.history
        cut_off = state.epoch >= piece.stop or time.time() > ends
        if state.epoch % piece.every == 0 or state.epoch in FIRST or cut_off or state.epoch == whole.epochs:
            look(state.epoch)
        if cut_off:
            raise CutOffError

    look(0)
    _trained(lambda: pretrain(method, seen, whole, seed=piece.seed, on_epoch=after_epoch), graph.device)
    return _chosen(piece, trace, history), trace


def _chosen(piece: Piece, trace: Sequence[Row], history: Sequence[Mapping[str, float]]) -> list[Row]:
    usual = recipe(piece.method, piece.dataset, "link").training
    waits = usual.patience_evaluations * usual.evaluate_every / piece.every
    rows = []
    for readout in dict.fromkeys(row["readout"] for row in trace):
        looks = [row for row in trace if row["readout"] == readout]
        chosen = choices(looks, piece.every, waits)
        if piece.method == "t_bgrl" and piece.dataset in LOSS_STOP:
            end = loss_stop(history, LOSS_STOP[piece.dataset])
            chosen["clean", f"loss stops at {end}"] = [row for row in looks if row["epoch"] <= end][-1]
        for (protocol, choice), row in chosen.items():
            found = {"readout": readout, "protocol": protocol, "choice": choice, "epochs": trace[-1]["epoch"]}
            rows.append({**found, "best_epoch": row["epoch"], **{name: row[name] for name in SCORES}})
    return rows


def one_way(graph: Graph) -> Graph:
    """Every link from its lower to its higher node only."""
    entries = (graph.structure.col < graph.structure.row).nonzero().squeeze(1)
    return replace(graph, directed=True).keep_edges(entries)


@torch.no_grad()
def _readouts(name: str, method: Method, graph: Graph) -> list[tuple[str, Tensor]]:
    z = embed(method, graph)
    found = [("embedding", z), ("unit rows", normalize(z))]
    if name in HEADS:
        projected = method.get_submodule(HEADS[name])(z)
        found += [("head", projected), ("head, unit rows", normalize(projected))]
    return found


@torch.no_grad()
def _scores(z: Tensor, valid: Pairs, test: Pairs) -> dict[str, float]:
    valid_logits, logits = (
        [pair_scores(z, part) for part in (pairs.positive, pairs.negative)] for pairs in (valid, test)
    )
    valid_squashed, squashed = ([part.float().sigmoid() for part in both] for both in (valid_logits, logits))
    return {
        "valid_auc": auc(*valid_logits),
        "valid_auc_sigmoid32": auc(*valid_squashed),
        "auc": auc(*logits),
        "ap": average_precision(*logits),
        "auc_sigmoid32": auc(*squashed),
        "ap_sigmoid32": average_precision(*squashed),
        "tied_share": float(torch.cat(squashed).eq(1).float().mean()),
    }


def choices(looks: Sequence[Row], every: int, waits: float) -> dict[tuple[str, str], Row]:
    """By protocol and rule, the look whose weights would have been kept; the first is that of untrained ones."""
    own = [row for row in looks if row["epoch"] and (row["epoch"] % every == 0 or row is looks[-1])]
    return {
        ("clean", "untrained"): looks[0],
        ("clean", "patience"): best(own, "valid_auc", waits),
        ("clean", "whole"): best(own, "valid_auc"),
        ("paper", "patience"): best(own, "valid_auc_sigmoid32", waits),
        ("paper", "whole"): best(own, "valid_auc_sigmoid32"),
        ("clean", "last"): own[-1],
    }


def best(looks: Sequence[Row], by: str, waits: float = 0) -> Row:
    """What the trainer would have kept: later ones win ties, and it ends after so many looks without a new best."""
    kept, waited = looks[0], 0
    for row in looks[1:]:
        kept, waited = (row, 0) if row[by] >= kept[by] else (kept, waited + 1)
        if 0 < waits <= waited:
            break
    return kept


def loss_stop(history: Sequence[Mapping[str, float]], patience: int) -> int:
    """The epoch at which the loss has not become lower by 0.01 for so many rows, or the last one."""
    least, waited = float("inf"), 0
    for row in history:
        least, waited = (row["loss"], 0) if row["loss"] < least - 0.01 else (least, waited + 1)
        if waited >= patience:
            return int(row["epoch"])
    return int(history[-1]["epoch"]) if history else 0


def _nodes(piece: Piece, experiment: Experiment, data: Dataset, graph: Graph, ends: float) -> tuple[list[Row], ...]:
    edges = edges_of(experiment, data, graph, piece.seed)
    method = build(experiment, GraphSpec.of(graph), piece.seed).to(graph.device)
    kept: dict[tuple[int, str], dict[str, Tensor]] = {}

    def look(state: TrainingState) -> None:
        if state.epoch in piece.looks:
            kept[state.epoch, "look"] = _embeddings(piece.method, method, graph)
        if time.time() > ends or state.epoch >= piece.stop:
            kept[state.epoch, "cut off"] = _embeddings(piece.method, method, graph)
            raise CutOffError

    run = {"seed": piece.seed, "monitor": monitor_of(experiment, method, edges), "on_epoch": look}
    state = _trained(lambda: pretrain(method, edges.train, experiment.training, **run), graph.device)
    if state is not None:
        kept[state.progress.best_epoch, "recipe"] = _embeddings(piece.method, method, graph)
    epochs = max(epoch for epoch, _ in kept) if state is None else state.epoch
    rows = [
        {"readout": readout, "choice": choice, "best_epoch": epoch, "epochs": epochs, **found}
        for epoch, choice in sorted(kept, reverse=True)
        for readout, z in kept[epoch, choice].items()
        for found in _probed(piece.studies[: 1 if choice == "look" else None], z, graph, data, experiment, piece.seed)
    ]
    history = state.history if state is not None else []
    return rows, [{**row, "readout": "monitor", "valid_auc": row.get("monitor", "")} for row in history]


@torch.no_grad()
def _embeddings(name: str, method: Method, graph: Graph) -> dict[str, Tensor]:
    found = {"embedding": embed(method, graph).clone()}
    if name == "s2gae":
        own, method.config = method.config, replace(method.config, readout="concat")
        found["all layers"] = embed(method, graph).clone()
        method.config = own
    return found


def _probed(
    names: Iterable[str], z: Tensor, graph: Graph, data: Dataset, experiment: Experiment, seed: int
) -> Iterator[Row]:
    labels = graph.y
    assert labels is not None
    splits = {
        OWN: [data.node_split or split_nodes(labels, experiment.split.nodes, seed=seed)],
        SAME_SIZE: [public_size(labels, each) for each in range(6)],
        TENTH: [split_nodes(labels, (0.1, 0.1, 0.8), seed=each) for each in range(3)],
    }
    for name in names:
        title, kind, changes = STUDIES[name]
        other = {"normalize": not experiment.probe.normalize} if name == "unit" else {}
        probe = patch(experiment.probe, changes | other)
        scores = [linear_probe(z, labels, split, probe, seed) for split in splits[kind]]
        means = {metric: sum(each[metric] for each in scores) / len(scores) for metric in F1}
        yield {"protocol": "clean", "probe": title, "split": f"{kind} x{len(scores)}", **means}


def public_size(labels: Tensor, seed: int) -> NodeSplit:
    """20 random nodes of each class, 500 for validation and 1,000 to test, as many as public splits have."""
    order = torch.randperm(labels.numel(), generator=torch.Generator().manual_seed(seed)).to(labels.device)
    train = torch.cat([order[labels[order] == label][:20] for label in labels.unique()])
    rest = order[~torch.isin(order, train)]
    return NodeSplit(*(part.sort().values for part in (train, rest[:500], rest[500:1500])))
