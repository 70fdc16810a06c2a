"""From somebody's own graph to a folder of vectors: learn, judge, write. The pipeline of ``bandana embed``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bandana import __version__, model_folder
from bandana.config import to_table
from bandana.data.tables import OwnGraph
from bandana.estimator import Learned, OnEpoch, learn
from bandana.evaluation.clusters import find_clusters
from bandana.evaluation.graph_facts import GraphFacts, describe_graph
from bandana.evaluation.quality import Quality, judge
from bandana.evaluation.verdicts import Verdict, verdicts
from bandana.files import json_text, write_text
from bandana.method import GraphSpec
from bandana.own import outputs
from bandana.own.automatic import Choice, build
from bandana.own.card import figures, model_card
from bandana.reporting.html import write_report
from bandana.reporting.own_report import own_report
from bandana.reporting.record import environment


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
    learned = learn(own.graph, choice, seed=seed, device=device, feature_names=own.feature_names, on_epoch=on_epoch)
    return judged(own, choice, learned, seed=seed)


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
    found = (*verdicts(quality, facts), *(Verdict("note", f"{reason[0].upper()}{reason[1:]}.") for reason in decided))
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
        **{name: value for name, value in environment().items() if name in ("bandana", "python", "torch")},
    }
    record = {
        "bandana": __version__,
        "title": title,
        "method": done.choice.method,
        "model": to_table(done.choice.model),
        "training": to_table(done.choice.training),
        "features": done.choice.features,
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


def _floors(own: OwnGraph, choice: Choice, learned: Learned, seed: int) -> dict[str, Tensor]:
    """The vectors of the same encoder before it learned anything, on the graph without the held-out links."""
    if learned.split is None:
        return {}
    graph = learned.model.prepare(learned.split.test_graph)
    untrained = build(choice, GraphSpec.of(own.graph), seed=seed).eval()
    return {"untrained encoder": untrained.embed(graph).detach()}
