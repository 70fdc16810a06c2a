"""Triton versions of engine functions, each with a plain twin in the engine that says what it computes.

The plain twins choose them for single precision on CUDA. Nothing here is imported, and triton is not needed, elsewhere.
"""

import warnings
from functools import cache
from importlib.util import find_spec

import torch

FEW_HIDDEN_UNITS = 64
"""Up to here two edge-loss kernels do everything; more units do not fit their registers, and others share the work."""
_OLDEST = (8, 0)  # compute capability: the first with the tensor-core precisions that the kernels ask for


def usable(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernels can take the place of the plain functions."""
    return device.type == "cuda" and dtype is torch.float32 and _compiles(device)


@cache
def _compiles(device: torch.device) -> bool:
    if find_spec("triton") is None or torch.cuda.get_device_capability(device) < _OLDEST:
        return False
    from bandana.engine.kernels.probe import probe

    try:
        probe(device)
    except Exception as problem:  # triton needs a C compiler, headers and a driver, and each fails in its own way
        warnings.warn(f"Triton is installed but does not work here, so plain torch is used: {problem}", stacklevel=2)
        return False
    return True
