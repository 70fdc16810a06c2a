"""From somebody's own graph to a folder of vectors: learn, judge, write. The pipeline of ``bandana embed``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bandana import __version__, model_folder
from bandana.config import to_table
from bandana.data.tables import OwnGraph
from bandana.engine.structure import entry_keys
from bandana.estimator import Learned, learn
from bandana.evaluation.clusters import find_clusters
from bandana.evaluation.graph_facts import GraphFacts, describe_graph
from bandana.evaluation.quality import Quality, judge
from bandana.evaluation.verdicts import Verdict, verdicts
from bandana.files import json_text, write_text
from bandana.graph import Features
from bandana.method import GraphSpec
from bandana.own import outputs
from bandana.own.automatic import Choice, build
from bandana.own.card import figures, model_card
from bandana.parts.floor import Floor
from bandana.registry import get_method
from bandana.reporting.html import write_report
from bandana.reporting.own_report import own_report
from bandana.reporting.record import environment
from bandana.training.trainer import OnEpoch

LATEST = (
    "the links held out are the latest, and training saw none that came after them: figures about links tell how well "
    "it would have predicted what came next"
)


@dataclass(frozen=True, eq=False)
class Embedded:
    """A graph's vectors and what is known about both."""

    own: OwnGraph
    choice: Choice
    learned: Learned
    facts: GraphFacts
    quality: Quality
    clusters: Tensor
    verdicts: tuple[Verdict, ...]
    seed: int


def embed_own(
    own: OwnGraph,
    choice: Choice,
    *,
    seed: int = 0,
    device: str = "auto",
    on_epoch: OnEpoch = lambda state: None,
) -> Embedded:
    """Learn vectors as chosen, and judge them on links that were held out."""
    return judged(own, choice, learn_own(own, choice, seed=seed, device=device, on_epoch=on_epoch), seed=seed)


def learn_own(
    own: OwnGraph,
    choice: Choice,
    *,
    seed: int,
    device: str,
    on_epoch: OnEpoch,
    checkpoint: Path | None = None,
) -> Learned:
    """Learn vectors as chosen, with all that the tables say: times of links and names of features."""
    return learn(
        own.graph,
        choice,
        seed=seed,
        device=device,
        times=own.times,
        feature_names=own.feature_names,
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )


def judged(own: OwnGraph, choice: Choice, learned: Learned, *, seed: int = 0) -> Embedded:
    """What was learned, with what the graph is and how good the vectors are."""
    decided = learned.made.reasons[len(choice.reasons) :]
    choice = replace(choice, model=learned.made.model, readout_open=False, reasons=learned.made.reasons)
    facts = describe_graph(own.graph, seed=seed)
    clusters = find_clusters(own.graph, learned.embedding, seed=seed)
    quality = judge(
        own.graph,
        learned.embedding,
        learned.split,
        learned.held_out_embedding,
        floors=_floors(own, choice, learned, seed),
        clusters=clusters,
        seed=seed,
    )
    told = (LATEST, *decided) if choice.latest else decided
    said = verdicts(quality, facts, trained=not issubclass(get_method(choice.method), Floor))
    found = (*said, *(Verdict("note", f"{reason[0].upper()}{reason[1:]}.") for reason in told))
    return Embedded(own, choice, learned, facts, quality, clusters, found, seed)


def write_embedded(
    folder: Path,
    done: Embedded,
    title: str,
    *,
    formats: Sequence[str] = (),
    search: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write vectors, graph, model, report and record into one folder, all or nothing.

    Args:
        folder: Where to; an earlier one of ours is replaced.
        done: What to write.
        title: Of the report.
        formats: For the vectors, besides Parquet.
        search: The trials that the choice was made by, for the record.
    """
    graph = done.own.graph
    settings = {
        "method": done.choice.method,
        "seed": str(done.seed),
        "epochs": str(done.learned.state.epoch),
        **({"links held out": "the latest"} if done.choice.latest else {}),
        **{name: value for name, value in environment().items() if name in ("bandana", "python", "torch")},
    }
    record = {
        "bandana": __version__,
        "title": title,
        "method": done.choice.method,
        "model": to_table(done.choice.model),
        "training": to_table(done.choice.training),
        "features": done.choice.features,
        "held_out": _held_out(done),
        "reasons": done.choice.reasons,
        "estimate": asdict(done.choice.estimate),
        "notes": done.own.notes,
        "search": list(search),
        "verdicts": [asdict(verdict) for verdict in done.verdicts],
        "label_names": done.own.label_names,
        "facts": asdict(done.facts),
        "quality": asdict(done.quality),
        "history": done.learned.history,
        "environment": environment(),
    }

    model = replace(done.learned.model, facts=figures(done.facts, done.quality))

    def fill(place: Path) -> None:
        outputs.write_vectors(place, done.learned.embedding, graph.node_ids, formats)
        outputs.save_graph(place / outputs.GRAPH, graph)
        model_folder.save(place / outputs.MODEL, model, model_card(model))
        page = own_report(
            title,
            done.own,
            done.learned.embedding,
            done.facts,
            done.quality,
            done.clusters,
            done.verdicts,
            done.learned.history,
            settings,
            str(folder),
        )
        write_report(place / outputs.REPORT, page)
        write_text(place / outputs.RECORD, json_text(record, indent=1))

    outputs.write_output(folder, fill)


def _held_out(done: Embedded) -> dict[str, Any]:
    """Which links were held out, for the record; with times, from when on those of each kind are."""
    split, share = done.learned.split, done.choice.held_out
    if split is None or done.own.times is None or not done.choice.latest:
        return {"share": share, "chosen": "at random" if share else "none"}
    graph, times = done.own.graph, done.own.times
    since = {}
    for name, (sender, receiver) in {"validation": split.valid.positive, "test": split.test.positive}.items():
        keys = entry_keys(receiver, sender, graph.num_nodes)
        since[f"{name}_since"] = float(times[torch.searchsorted(graph.edge_keys, keys)].min())
    return {"share": share, "chosen": "the latest", **since}


def _floors(own: OwnGraph, choice: Choice, learned: Learned, seed: int) -> dict[str, Features]:
    """What needs no training: the features as the encoder reads them, and what it makes of them untrained.

    The latter is taken on the graph without the held-out links.
    """
    graph = learned.model.prepare(own.graph if learned.split is None else learned.split.test_graph)
    floors: dict[str, Features] = {"raw features": graph.x} if own.graph.has_features else {}
    if learned.split is not None:
        with torch.no_grad():
            floors["untrained encoder"] = build(choice, GraphSpec.of(own.graph), seed=seed).eval().embed(graph)
    return floors
