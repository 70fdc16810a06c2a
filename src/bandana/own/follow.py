"""New nodes and links for a graph that has vectors: the model stays, and only rows that the change reaches are redone.

The pipeline of ``bandana embed --model``. Nothing is trained, and the folder that it starts from is only read.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bandana import __version__, model_folder
from bandana.data.own_additions import Addition
from bandana.data.tables import OwnGraph
from bandana.devices import resolve_device
from bandana.errors import UserError
from bandana.evaluation.clusters import find_clusters
from bandana.evaluation.graph_facts import GraphFacts, describe_graph
from bandana.evaluation.quality import Quality, judge
from bandana.evaluation.verdicts import Verdict, verdicts
from bandana.files import json_text, write_text
from bandana.own import outputs
from bandana.own.card import model_card
from bandana.own.outputs import Output, open_output
from bandana.own.trained import TrainedModel
from bandana.reporting.changes_report import changes_report
from bandana.reporting.html import Report, write_report
from bandana.reporting.own_report import own_report
from bandana.reporting.record import environment
from bandana.use.merge import merge
from bandana.use.update import Changes, changes_of, check_inductive, update


@dataclass(frozen=True, eq=False)
class Followed:
    """The vectors of a graph that has grown, and what changed."""

    parent: Output
    own: OwnGraph
    model: TrainedModel
    embedding: Tensor
    changes: Changes
    facts: GraphFacts
    quality: Quality
    clusters: Tensor
    verdicts: tuple[Verdict, ...]


def open_parent(model: Path) -> Output:
    """The output folder that a model belongs to; it may be named itself or by the ``model`` in it.

    Raises:
        UserError: The graph and the vectors that the model was trained for are not beside it.
    """
    folder = model if (model / outputs.RECORD).is_file() else model.absolute().parent
    if not (folder / outputs.RECORD).is_file() or (folder != model and model.name != outputs.MODEL):
        raise UserError(
            f"{model}: is not the model folder inside a folder that bandana embed wrote, and what is to be updated "
            f"stands beside the model; name OUT/{outputs.MODEL}."
        )
    return open_output(model if folder == model else model.parent)


def follow(parent: Output, addition: Addition, *, seed: int = 0, device: str = "auto") -> Followed:
    """Embed the graph with what has come to it.

    Args:
        parent: What there is.
        addition: What has come.
        seed: Of the samples that quality is measured on.
        device: ``auto``, ``cpu`` or ``cuda``.

    Raises:
        UserError: The model cannot embed new nodes, or features are missing.
    """
    model, where = parent.model(), resolve_device(device)
    before = parent.graph
    known = before if addition.nodes is None else merge(before, addition.nodes)
    after = merge(known, addition.links)
    check_inductive(model.method, before, after)
    old, new = model.prepare(before).to(where), model.prepare(after).to(where)
    outcome = update(model.method.to(where), old, parent.embedding.to(where), new)
    z, changes = outcome.z.cpu(), changes_of(parent.embedding.to(where), outcome, before, after)
    facts, clusters = describe_graph(after, seed=seed), find_clusters(after, z, seed=seed)
    quality = judge(after, z, clusters=clusters, seed=seed)
    # Nothing is trained here, so what could be done better in a training is no use to anybody.
    found = tuple(replace(verdict, advice="") for verdict in verdicts(quality, facts))
    own = OwnGraph(after, addition.notes, parent.label_names, None, model.feature_names)
    return Followed(parent, own, model, z, changes, facts, quality, clusters, found)


def write_followed(folder: Path, done: Followed, title: str, *, formats: Sequence[str] = ()) -> None:
    """Write a whole new folder, as `write_embedded` does, and in it the list of what changed.

    Raises:
        UserError: It is the folder that the model came from, or cannot be written.
    """
    graph, ids, changes = done.own.graph, done.own.graph.node_ids or (), done.changes
    rows: list[tuple[Any, ...]] = [(ids[row], "new", "") for row in changes.new.tolist()]
    rows += [
        (ids[row], "changed", f"{far:.6g}")
        for row, far in zip(changes.moved.tolist(), changes.distance.tolist(), strict=True)
    ]
    record = {
        "bandana": __version__,
        "title": title,
        "method": done.model.name,
        "parent": _named(done.parent),
        "changes": {
            "new": len(changes.new),
            "changed": len(changes.moved),
            "unchanged": changes.unchanged,
            "recomputed": changes.recomputed,
        },
        "notes": done.own.notes,
        "verdicts": [asdict(verdict) for verdict in done.verdicts],
        "label_names": done.own.label_names,
        "facts": asdict(done.facts),
        "quality": asdict(done.quality),
        "environment": environment(),
    }

    def fill(place: Path) -> None:
        outputs.write_vectors(place, done.embedding, graph.node_ids, formats)
        outputs.save_graph(place / outputs.GRAPH, graph)
        model_folder.save(place / outputs.MODEL, done.model, model_card(done.model))
        outputs.write_csv(place / outputs.CHANGES, outputs.TABLES[outputs.CHANGES], rows)
        write_report(place / outputs.REPORT, _page(folder, done, title))
        write_text(place / outputs.RECORD, json_text(record, indent=1))

    outputs.write_output(folder, fill)


def _page(folder: Path, done: Followed, title: str) -> Report:
    made_with = {"method": done.model.name, "model of": str(done.parent.folder), "bandana": __version__}
    page = own_report(
        title,
        done.own,
        done.embedding,
        done.facts,
        done.quality,
        done.clusters,
        done.verdicts,
        (),
        made_with,
        str(folder),
    )
    return changes_report(page, done.changes, done.own.graph.node_ids or (), str(done.parent.folder), str(folder))


def check_not_parent(folder: Path, parent: Output) -> None:
    """Make sure that what is started from is not overwritten.

    Raises:
        UserError: It would be.
    """
    if folder.resolve() == parent.folder.resolve():
        raise UserError(f"{folder}: is where the model comes from, and stays as it is; choose another folder with -o.")


def _named(parent: Output) -> dict[str, str]:
    digest = hashlib.sha256((parent.folder / outputs.RECORD).read_bytes()).hexdigest()
    return {"folder": str(parent.folder), "title": str(parent.record.get("title", "")), "run_sha256": digest}
