"""Checkpoints that execute nothing when loaded: one safetensors file, with the plain state as JSON in its header.

One file means one atomic rename: there is no moment at which weights and counters disagree.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bandana.errors import UserError, first_line, wants_memory
from bandana.files import write_atomically

_SIGNS_OF_DAMAGE = (OSError, SafetensorError, LookupError, ValueError, TypeError, AttributeError, RuntimeError)


def save(path: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
    """Write groups of named tensors and a JSON-able state.

    Raises:
        UserError: The place cannot be written to.
    """
    flat = {
        f"{group}/{name}": tensor.detach().cpu().contiguous().clone()
        for group, named in tensors.items()
        for name, tensor in named.items()
    }

    def write(temporary: Path) -> None:
        try:
            save_file(flat, temporary, metadata={"state": json.dumps(state)})
        except SafetensorError as problem:  # its writer has an error of its own, for a full disk too
            raise OSError(str(problem)) from None

    write_atomically(path, write)


def load(path: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Read what `save` wrote.

    Raises:
        UserError: The file is not a checkpoint of ours, or is damaged.
    """
    groups: dict[str, dict[str, Tensor]] = {}
    with told_of(path), safe_open(path, framework="pt") as file:
        state = json.loads((file.metadata() or {})["state"])
        for key in file.keys():  # noqa: SIM118 (not a dict)
            group, _, name = key.partition("/")
            groups.setdefault(group, {})[name] = file.get_tensor(key)
    return groups, state


@contextmanager
def told_of(path: Path) -> Iterator[None]:
    """Whatever does not fit while a checkpoint is taken apart is told of it, for the user cannot mend it inside.

    Raises:
        UserError: The file is not a checkpoint of ours, is damaged, or is another training's.
    """
    try:
        yield
    except _SIGNS_OF_DAMAGE as problem:
        if wants_memory(problem):
            raise
        reason = first_line(problem) or type(problem).__name__
        raise UserError(f"{path}: not a readable checkpoint ({reason}). Delete it to start this seed anew.") from None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's per-parameter state as flat named tensors."""
    return {
        f"{index}/{name}": value
        for index, slots in optimizer.state_dict()["state"].items()
        for name, value in slots.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` took."""
    state: dict[int, dict[str, Tensor]] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for key, value in tensors.items():
        index, _, name = key.partition("/")
        if value.dim() and value.shape != parameters[int(index)].shape:
            raise ValueError(f"{key} has the shape {list(value.shape)} of another optimiser's")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
