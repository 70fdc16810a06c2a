"""Reads the pickles that data sets are published in, and lets them make nothing but numbers.

A pickle can name any function and have it called. Here only the few that build arrays are found by their names.
"""

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bandana.data.raw_files import reading

_REBUILD = np.empty(0).__reduce__()[0]
_REBUILD_NAMES = ("numpy.core.multiarray", "numpy._core.multiarray")  # of numpy 1 and numpy 2


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a torch file that holds a dictionary of tensors or numpy arrays, and nothing else.

    Raises:
        UserError: The file is broken, or wants anything but numbers to be made.
    """
    kinds = {type(np.dtype(code)) for code in np.typecodes["AllInteger"] + "fd"}
    permitted: list[Any] = [np.ndarray, np.dtype, *kinds]
    permitted += [(_REBUILD, f"{module}._reconstruct") for module in _REBUILD_NAMES]
    with reading(path), torch.serialization.safe_globals(permitted):
        content = torch.load(path, map_location="cpu", weights_only=True)
        return {key: torch.as_tensor(value) for key, value in content.items()}


def read_pickle(path: Path) -> Any:
    """Read a pickle of dense or sparse arrays, lists and dictionaries, as Python 2 wrote them.

    Raises:
        UserError: The file is broken, or wants anything else to be made.
    """
    with reading(path), path.open("rb") as file:
        return _ArraysOnly(file, encoding="latin1").load()


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        from scipy.sparse import csr_matrix

        permitted: dict[tuple[str, str], Any] = {(core, "_reconstruct"): _REBUILD for core in _REBUILD_NAMES}
        permitted |= {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}
        permitted |= {("__builtin__", "list"): list, ("collections", "defaultdict"): defaultdict}
        permitted |= {("scipy.sparse.csr", "csr_matrix"): csr_matrix, ("scipy.sparse._csr", "csr_matrix"): csr_matrix}
        if (module, name) not in permitted:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return permitted[module, name]
