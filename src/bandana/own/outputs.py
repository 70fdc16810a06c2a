"""The folder that ``bandana embed`` writes and the other verbs read: vectors, graph, model, report, record.

It is written in a hidden folder beside its place (`bandana.own.unfinished`) and moved there whole, so that an earlier
one stays until the new one is complete.
"""

import csv
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bandana import model_folder
from bandana.data.prepared import Prepared, flatten, restore
from bandana.errors import UserError, did_you_mean
from bandana.files import check_writable, json_text, real_place, refuse_fixed, unwritable, write_atomically, write_text
from bandana.graph import Graph
from bandana.own import unfinished
from bandana.own.trained import TrainedModel
from bandana.reporting.embeddings import SUFFIXES, Embeddings, read_embeddings, write_embeddings

EMBEDDINGS, GRAPH, MODEL, REPORT, RECORD = "embeddings.parquet", "graph.safetensors", "model", "report.html", "run.json"
CHANGES, LABELS = "changed.csv", "labels.csv"
OURS = {GRAPH, MODEL, REPORT, RECORD, CHANGES, LABELS, *(f"embeddings{suffix}" for suffix in SUFFIXES)}
"""All that a folder of ours may hold; with anything else in it, it is not replaced."""
TABLES = {CHANGES: ("id", "status", "distance"), LABELS: ("id", "label", "probability")}
"""The first lines of those that are tables. People name tables so, too."""
GRAPH_DIGEST = "graph_sha256"
"""Where the record has the digest of the graph; folders that an earlier version wrote have none."""
READ_AGAIN = (EMBEDDINGS, GRAPH, MODEL, REPORT, RECORD)
"""What other verbs read of it, or people."""
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Output:
    """What was made of a graph.

    Attributes:
        graph: With the user's ids.
        embedding: ``[nodes, width]``.
        ids: Of the rows.
        label_names: What the labels are called, or None.
        record: The rest, in plain values.
    """

    folder: Path
    graph: Graph
    embedding: Tensor
    ids: Sequence[Any]
    label_names: tuple[str, ...] | None
    record: dict[str, Any]

    def model(self) -> TrainedModel:
        """The trained model."""
        return model_folder.load(self.folder / MODEL)

    def model_digest(self) -> str:
        """Tells models apart: two outputs with one digest have vectors of one model, and the same axes."""
        return model_folder.digest(self.folder / MODEL)


def check_place(folder: Path) -> None:
    """Make sure, before any work is done for it, that `write_output` may write there.

    Raises:
        UserError: There is something else in that place, or nobody may write there.
    """
    try:
        held = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as problem:
        raise UserError(f"{folder}: {problem.strerror or problem}; choose a folder with -o.") from None
    if held and not _is_record(folder / RECORD):
        raise UserError(f"{folder}: exists and was not made by bandana embed. Choose another folder with -o.")
    foreign = {name for name, header in TABLES.items() if name in held and not _begins_with(folder / name, header)}
    strange = sorted([*(folder / name for name in (held - OURS) | foreign), *_strange_in(folder / MODEL)])
    if strange:
        raise UserError(
            f"{strange[0]}: was not written by bandana embed, which would replace the whole folder; "
            f"move the file away, or choose another folder with -o."
        )
    refuse_fixed(folder)
    check_writable(real_place(folder))


def _is_record(path: Path) -> bool:
    """Whether a file is the record of an embedding; others may have the name."""
    try:
        return "bandana" in json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _begins_with(path: Path, header: Sequence[str]) -> bool:
    """Whether a file is a table of ours; others may have the name."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline().rstrip("\n") == ",".join(header)
    except (OSError, ValueError):
        return False


def _strange_in(model: Path) -> list[Path]:
    """What lies in the folder of a model and is no part of one."""
    names = {path.name for path in model.iterdir()} if model.is_dir() else set()
    return [model / name for name in names - model_folder.KNOWN_FILES]


def check_inputs_stay(target: Path, inputs: Iterable[Path | None]) -> None:
    """Make sure, before any work is done, that an output does not take the place of what it is made from.

    Raises:
        UserError: An input is the output, or lies in the folder that the output replaces.
    """
    goal = target.resolve()
    for path in inputs:
        if path is not None and goal in ((place := path.resolve()), *place.parents):
            raise UserError(f"{path}: is read, and writing {target} would destroy it; choose another place with -o.")


def check_formats(formats: Sequence[str], ids: Sequence[Any] | None, folder: Path) -> None:
    """Make sure, before any work is done, that the vectors can be written in these formats under these ids.

    Raises:
        UserError: There is no such format, or it cannot hold an id.
    """
    known = [suffix.removeprefix(".") for suffix in SUFFIXES]
    for name in formats:
        if name not in known:
            raise UserError(f"--format: {name!r} is not a choice. {did_you_mean(name, known)}")
    if ids is None or not formats:
        return
    with tempfile.TemporaryDirectory() as scratch:
        try:
            write_vectors(Path(scratch), torch.zeros(len(ids), 1), ids, formats)
        except UserError as problem:
            raise UserError(str(problem).replace(scratch, str(folder))) from None


def write_vectors(folder: Path, embedding: Tensor, ids: Sequence[Any] | None, formats: Sequence[str] = ()) -> None:
    """Write the vectors as Parquet, which the other verbs read, and in further formats beside."""
    for name in dict.fromkeys([EMBEDDINGS, *(f"embeddings.{name}" for name in formats)]):
        write_embeddings(folder / name, embedding, ids)


def write_output(folder: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a new folder, then put it in the place of `folder`; nothing unfinished is left beside it.

    Where `folder` is a link, what it points to is exchanged.

    Raises:
        UserError: There is something else in that place, or it cannot be written.
    """
    check_place(folder)
    goal = real_place(folder)
    try:
        place = unfinished.scratch_folder(folder)
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as scratch:
            fresh, old = Path(scratch) / "new", Path(scratch) / "old"
            fresh.mkdir()
            try:
                fill(fresh)
            except UserError as problem:
                raise UserError(str(problem).replace(str(fresh), str(folder))) from None
            _seal(fresh)
            try:
                if goal.exists():
                    goal.replace(old)
                fresh.replace(goal)
            except BaseException:  # also when somebody presses Ctrl-C between the two
                if old.exists() and not goal.exists():
                    old.replace(goal)
                raise
        unfinished.discard(folder)
    except SafetensorError as problem:
        raise UserError(f"{folder}: cannot be written ({problem}). Free space or choose another folder.") from None
    except OSError as problem:
        raise unwritable(folder, problem) from None
    finally:
        unfinished.discard_if_empty(folder)


def _seal(fresh: Path) -> None:
    """Take down the digest of the graph: what points astray in a damaged one would be followed anywhere."""
    record = json.loads((fresh / RECORD).read_text(encoding="utf-8"))
    digest = model_folder.file_digest(fresh / GRAPH)
    write_text(fresh / RECORD, json_text({**record, GRAPH_DIGEST: digest}, indent=1))


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a table in one step."""
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    write_text(path, text.getvalue())


def save_graph(path: Path, graph: Graph) -> None:
    """Keep a graph without its ids, which stand beside the vectors."""
    tensors = {name: tensor.contiguous().clone() for name, tensor in flatten(Prepared(graph)).items()}
    metadata = {"format": str(_FORMAT), "directed": str(graph.directed)}
    write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata))


def open_vectors(folder: Path) -> Embeddings:
    """Ids and vectors of a folder that `bandana embed` wrote, or `bandana infer`, which keeps no graph beside them.

    Raises:
        UserError: It is no such folder, or something in it is damaged.
    """
    if not (folder / RECORD).is_file() and (folder / EMBEDDINGS).is_file():
        return read_embeddings(folder / EMBEDDINGS)
    output = open_output(folder)
    return Embeddings(list(output.ids), output.embedding)


def open_output(folder: Path) -> Output:
    """Read what `bandana embed` wrote.

    Raises:
        UserError: It is not such a folder, or something in it is damaged.
    """
    if not (folder / RECORD).is_file():
        held = "vectors without their graph" if (folder / EMBEDDINGS).is_file() else f"no {RECORD}"
        raise UserError(f"{folder}: holds {held}. Name a folder that bandana embed wrote.")
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        names, digest = record["label_names"], record.get(GRAPH_DIGEST)
        if digest is not None and digest != model_folder.file_digest(folder / GRAPH):
            raise ValueError(f"{GRAPH} is not the file that {RECORD} was written for")
        with safe_open(folder / GRAPH, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
        graph = restore(tensors, directed=metadata["directed"] == str(True)).graph
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{folder}: damaged ({problem}). Run bandana embed again.") from None
    rows = read_embeddings(folder / EMBEDDINGS)
    if rows.vectors.shape[0] != graph.num_nodes:
        raise UserError(
            f"{folder}: {rows.vectors.shape[0]} vectors for {graph.num_nodes} nodes. Run bandana embed again."
        )
    return Output(
        folder=folder,
        graph=replace(graph, node_ids=rows.node_ids),
        embedding=rows.vectors,
        ids=rows.node_ids,
        label_names=None if names is None else tuple(names),
        record=record,
    )
