"""What a run that was cut off leaves beside its output, so that the same command can go on from there.

Everything lies in one hidden folder beside the output: the checkpoint of a training, under a digest of all that decides
its weights, and the output while it is being written. A finished run leaves nothing. This module loads no torch, so
that the command line can look at it first.
"""

import hashlib
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bandana import __version__
from bandana.files import alone, real_place

if TYPE_CHECKING:
    from torch import Tensor

    from bandana.graph import Graph
    from bandana.own.automatic import Plan


def scratch_folder(out: Path) -> Path:
    """Where a run keeps what is not finished yet."""
    place = real_place(out)
    return place.parent / f".{place.name}.unfinished"


def checkpoint_path(out: Path, digest: str) -> Path:
    """Where the checkpoint of a training lies."""
    return scratch_folder(out) / f"{digest}.safetensors"


def checkpoints(out: Path) -> dict[str, int]:
    """The checkpoints that are there, with the time of their last change; hidden ones are not whole yet."""
    return {path.name: path.stat().st_mtime_ns for path in scratch_folder(out).glob("[!.]*.safetensors")}


def training_digest(graph: "Graph", made: "Plan", *, seed: int, device: str, times: "Tensor | None" = None) -> str:
    """Tells apart all that decides the weights of a training: two with one digest go through the same steps.

    Args:
        graph: What is learned from. Ids and labels are not: they do not reach the training.
        made: How.
        seed: Of everything random.
        device: The kind, as resolved: a GPU rounds differently.
        times: When each edge appeared, where that decides which links are held out.
    """
    import torch

    from bandana.config import to_table
    from bandana.data.prepared import Prepared, flatten

    settings = {
        "method": made.method,
        "model": to_table(made.model),
        "training": to_table(made.training),
        "features": made.features,
        "held_out": made.held_out,
        "readout_open": made.readout_open,
        "directed": graph.directed,
        "seed": seed,
        "device": device,
        "versions": [__version__, torch.__version__],
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    dated = {} if times is None else {"times": times}
    for name, tensor in sorted({**flatten(Prepared(graph)), **dated}.items()):
        if name != "y":
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:32]


def epochs_done(checkpoint: Path) -> int:
    """Epochs that a checkpoint stands after; 0 where there is none, or none that can be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(checkpoint, framework="pt") as file:
            return int(json.loads((file.metadata() or {})["state"])["epoch"])
    except (OSError, SafetensorError, KeyError, ValueError, TypeError):
        return 0


def keep_only(checkpoint: Path) -> None:
    """Remove the checkpoints of other inputs and settings from the folder, and one that cannot be read."""
    for path in checkpoint.parent.glob("*.safetensors"):
        if path != checkpoint or not epochs_done(path):
            path.unlink(missing_ok=True)


def put_back(out: Path) -> None:
    """Undo half an exchange: a process that is killed between the two moves leaves the earlier output in the folder.

    Raises:
        UserError: What is in the folder is no leftover, as another command is at work.
    """
    if not scratch_folder(out).exists():
        return
    with alone(out):
        kept = next(scratch_folder(out).glob("*/old"), None)
        if kept is not None and not out.exists():
            kept.replace(real_place(out))


def discard(out: Path) -> None:
    """Remove all that is not finished; the run is."""
    with suppress(FileNotFoundError):
        shutil.rmtree(scratch_folder(out))


def discard_if_empty(out: Path) -> None:
    """Remove the folder unless something is worth keeping in it."""
    with suppress(OSError):
        scratch_folder(out).rmdir()
