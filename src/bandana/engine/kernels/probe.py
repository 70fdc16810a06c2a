# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""The smallest kernel: whether triton compiles and runs on a device."""

import torch
import triton
from triton import language as tl


def probe(device: torch.device) -> None:
    """Raise whatever goes wrong."""
    with torch.cuda.device(device):
        _one[(1,)](torch.empty(1, device=device))


@triton.jit
def _one(out):
    tl.store(out, 1.0)
