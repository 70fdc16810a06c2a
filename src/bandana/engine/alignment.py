"""Matrices as tensor cores like them: rows whose length is no multiple of eight they multiply more slowly."""

from torch import Tensor
from torch.nn.functional import pad

MULTIPLE = 8


def aligned_rows(matrix: Tensor) -> Tensor:
    """``[rows, columns]`` with columns of zeros added, up to a multiple of eight."""
    return pad(matrix, (0, -matrix.shape[1] % MULTIPLE))


def aligned_columns(matrix: Tensor) -> Tensor:
    """``[rows, columns]`` with rows of zeros added, up to a multiple of eight."""
    return pad(matrix, (0, 0, 0, -matrix.shape[0] % MULTIPLE))
