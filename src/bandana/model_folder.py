"""A trained model as a folder: ``weights.safetensors`` and ``model.json``. Loading one executes nothing."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from bandana import __version__
from bandana.config import patch, to_table
from bandana.data.features import Preprocessing, Scaling
from bandana.errors import UserError, first_line
from bandana.files import write_atomically, write_text
from bandana.method import GraphSpec
from bandana.own.trained import TrainedModel, weight_shapes
from bandana.registry import get_method

FORMAT, FORMAT_VERSION = "bandana-model", 1
DESCRIPTION, WEIGHTS, CARD = "model.json", "weights.safetensors", "README.md"
KNOWN_FILES = {DESCRIPTION, WEIGHTS, CARD}
LARGEST_DESCRIPTION = 16 << 20
"""Bytes of a ``model.json`` that is read at all; ours have a few thousand."""
WEIGHTS_SLACK = 2
"""Times as many as there are: a method may lay out a weight and then put another in its place."""
KINDS: dict[str, Any] = {
    "method": str,
    "config": dict,
    "spec": dict,
    "features": str,
    "feature_names": list,
    "nodes": str | None,
    "weights_sha256": str,
    "facts": dict,
}
"""What stands in a description, besides the versions."""
PREPROCESSINGS: tuple[Preprocessing, ...] = ("raw", "row_normalised", "standardised")


def save(folder: Path, model: TrainedModel, card: str = "") -> None:
    """Write a model; the description comes last and names the weights' digest, so that two halves never pass for one.

    Args:
        folder: Where to; files of an earlier model are replaced.
        model: What to keep.
        card: Markdown about it for a reader, if there is any.

    Raises:
        UserError: The folder cannot be written to, or holds something else.
    """
    held = {path.name for path in folder.glob("[!.]*")}
    foreign = held if held == {CARD} else held - KNOWN_FILES
    if foreign:
        raise UserError(f"{folder / min(foreign)}: is no part of a model; choose an empty folder.")
    tensors = {f"method/{name}": _kept(tensor) for name, tensor in model.method.state_dict().items()}
    if model.scaling is not None:
        tensors |= {f"scaling/{name}": _kept(tensor) for name, tensor in model.scaling._asdict().items()}
    try:
        write_atomically(folder / WEIGHTS, lambda temporary: save_file(tensors, temporary, {"format": FORMAT}))
    except SafetensorError as problem:
        raise UserError(
            f"{folder / WEIGHTS}: cannot be written ({problem}). Free space or choose another folder."
        ) from None
    if card:
        write_text(folder / CARD, card)
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "bandana_version": __version__,
        "method": model.name,
        "config": to_table(model.config),
        "spec": to_table(model.spec),
        "features": model.features,
        "feature_names": model.feature_names,
        "nodes": model.nodes,
        "weights_sha256": file_digest(folder / WEIGHTS),
        "facts": dict(model.facts),
    }
    write_text(folder / DESCRIPTION, json.dumps(description, indent=2, ensure_ascii=False) + "\n")


def load(folder: Path) -> TrainedModel:
    """Read what `save` wrote.

    Raises:
        UserError: The folder is not a model, is damaged, comes from a newer version, or holds files of other kinds.
    """
    _check_files(folder)
    table = _description(folder / DESCRIPTION)
    method_class = get_method(table["method"])
    try:
        config = patch(method_class.Config(), table["config"], "config.")
        spec = patch(GraphSpec(1, 1), table["spec"], "spec.")
    except UserError as problem:
        raise UserError(f"{folder / DESCRIPTION}: {problem}") from None
    weights, scaling = _weights(folder / WEIGHTS, table, config, spec)
    method = method_class(config, spec)
    method.load_state_dict(weights)
    return TrainedModel(
        name=table["method"],
        config=config,
        spec=spec,
        method=method.eval(),
        features=table["features"],
        scaling=scaling,
        feature_names=tuple(table["feature_names"]),
        nodes=table["nodes"],
        facts=table["facts"],
    )


def digest(folder: Path) -> str:
    """What the weights of a model are told apart by.

    Raises:
        UserError: The folder is not a model.
    """
    _check_files(folder)
    return str(_description(folder / DESCRIPTION)["weights_sha256"])


def _check_files(folder: Path) -> None:
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; give the model folder that a training wrote.")
    names = {path.name for path in folder.iterdir()}
    for name in (DESCRIPTION, WEIGHTS):
        if name not in names:
            raise UserError(f"{folder}: {name} is missing, so this is not a whole model; give the folder of a model.")
    if strange := sorted(name for name in names - KNOWN_FILES if not name.startswith(".")):
        raise UserError(
            f"{folder / strange[0]}: does not belong to a model, and files that could hold code, such as pickles, are "
            f"never opened; remove it if you trust the rest."
        )
    for name in sorted(names & KNOWN_FILES):
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{folder / name}: is a link that leads out of the folder; put the file itself there.")


def _description(path: Path) -> dict[str, Any]:
    """The checked content of ``model.json``."""
    if path.stat().st_size > LARGEST_DESCRIPTION:
        raise UserError(f"{path}: has {path.stat().st_size:,} bytes, far more than a model's description; not read.")
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise UserError(f"{path}: cannot be read as JSON ({problem}). Save the model anew.") from None
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise UserError(f"{path}: does not describe a model of this package; give a folder that a training wrote.")
    version = table.get("format_version")
    if version != FORMAT_VERSION:
        raise UserError(
            f"{path}: has the format version {version!r}, and this bandana {__version__} reads {FORMAT_VERSION}. "
            f"It was written by bandana {table.get('bandana_version')}; install that one, or train anew."
        )
    for key, kind in KINDS.items():
        if not isinstance(table.get(key), kind):
            raise UserError(f"{path}: {key} is {table.get(key)!r}, which is not what a model has there; save it anew.")
    if table["features"] not in PREPROCESSINGS:
        raise UserError(f"{path}: features is {table['features']!r}. Choose from: {', '.join(PREPROCESSINGS)}.")
    return table


def _shapes(method: str, config: Any, spec: GraphSpec, path: Path, found: int) -> dict[str, tuple[int, ...]]:
    """The shapes of a method's weights, without going on far beyond as many as were found in their file."""
    left = WEIGHTS_SLACK * found

    def count(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal left
        left -= parameter.numel()
        if left < 0:
            raise UserError(
                f"{path}: holds {found:,} numbers, and {DESCRIPTION} asks for more; the two files are not of one model."
            )

    counting = register_module_parameter_registration_hook(count)
    try:
        return weight_shapes(method, config, spec)
    except UserError:
        raise
    except Exception as problem:
        raise UserError(
            f"{path.parent / DESCRIPTION}: no model can be built of these settings ({first_line(problem)}); save it "
            f"anew."
        ) from None
    finally:
        counting.remove()


def _weights(
    path: Path, table: Mapping[str, Any], config: Any, spec: GraphSpec
) -> tuple[dict[str, Tensor], Scaling | None]:
    """The tensors, after their names and sizes in the file's header were found to be the expected ones."""
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            shapes = _shapes(table["method"], config, spec, path, sum(map(math.prod, found.values())))
            expected = {f"method/{name}": shape for name, shape in shapes.items()}
            if table["features"] == "standardised":
                expected |= {f"scaling/{name}": (spec.num_features,) for name in Scaling._fields}
            for name in sorted(expected.keys() | found.keys()):
                if expected.get(name) != found.get(name):
                    raise UserError(
                        f"{path}: {name} has the shape {_spoken(found.get(name))}, where {DESCRIPTION} asks for "
                        f"{_spoken(expected.get(name))}; the two files are not of one model."
                    )
            if file_digest(path) != table["weights_sha256"]:
                raise UserError(f"{path}: is not the file that {DESCRIPTION} was written for; save the model anew.")
            tensors = {name: file.get_tensor(name) for name in found}
    except (OSError, SafetensorError) as problem:
        raise UserError(
            f"{path}: is not a readable safetensors file ({problem}); other kinds, such as pickles, are never opened."
        ) from None
    method = {name: tensors[f"method/{name}"] for name in shapes}
    scaled = table["features"] == "standardised"
    return method, Scaling(*(tensors[f"scaling/{name}"] for name in Scaling._fields)) if scaled else None


def _spoken(shape: tuple[int, ...] | None) -> str:
    return "nothing" if shape is None else str(list(shape))


def _kept(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().clone()


def file_digest(path: Path) -> str:
    """What the content of a file is told apart by."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
