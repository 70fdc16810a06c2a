"""Where to compute."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from bandana.errors import UserError


def resolve_device(name: str) -> torch.device:
    """``auto`` takes the GPU when there is one.

    Raises:
        UserError: CUDA was asked for and is not there.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise UserError(f"--device: {name!r} is not a choice. Choose from: auto, cpu, cuda.")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("--device cuda: torch sees no CUDA device here. Use --device cpu, or auto.")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use so many threads on the CPU meanwhile, also for each thread that is begun in here."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
