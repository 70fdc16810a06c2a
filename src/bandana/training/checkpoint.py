"""Checkpoints that execute nothing when loaded: one safetensors file, with the plain state as JSON in its header.

One file means one atomic rename: there is no moment at which weights and counters disagree.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bandana.errors import UserError
from bandana.files import write_atomically


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
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads((file.metadata() or {})["state"])
            for key in file.keys():  # noqa: SIM118 (not a dict)
                group, _, name = key.partition("/")
                groups.setdefault(group, {})[name] = file.get_tensor(key)
    except (OSError, SafetensorError, KeyError, json.JSONDecodeError) as problem:
        raise UserError(f"{path}: not a readable checkpoint ({problem}). Delete it to start this seed anew.") from None
    return groups, state


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
    for key, value in tensors.items():
        index, _, name = key.partition("/")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
