"""Where to compute."""

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
