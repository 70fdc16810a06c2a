"""A fixed sparsity pattern, sorted once, from which every weighted product and its backward pass are taken."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Structure:
    """The pattern of a sparse matrix in row order, and the way to its transpose.

    For a graph the rows are receiving nodes and the columns are sending nodes. Entry ``k`` of the transpose is entry
    ``transposed_entry[k]`` of the matrix; when the pattern is symmetric this is the position of each edge's reverse.

    Attributes:
        rowptr: ``[rows + 1]`` first entry of each row.
        row: ``[entries]`` row of each entry, ascending.
        col: ``[entries]`` column of each entry, ascending within its row.
        transposed_rowptr: ``[columns + 1]`` first entry of each row of the transpose.
        transposed_col: ``[entries]`` column of each entry of the transpose.
        transposed_entry: ``[entries]`` where each entry of the transpose stands in the matrix.
    """

    rowptr: Tensor
    row: Tensor
    col: Tensor
    transposed_rowptr: Tensor
    transposed_col: Tensor
    transposed_entry: Tensor

    @property
    def num_rows(self) -> int:
        return self.rowptr.numel() - 1

    @property
    def num_cols(self) -> int:
        return self.transposed_rowptr.numel() - 1

    @property
    def num_entries(self) -> int:
        return self.col.numel()

    @property
    def row_sizes(self) -> Tensor:
        """``[rows]`` number of entries in each row; for a graph, the in-degree."""
        return self.rowptr.diff()

    @property
    def is_symmetric(self) -> bool:
        """Whether the transpose has the same pattern; for a graph, whether every edge has its reverse."""
        return self.rowptr.equal(self.transposed_rowptr) and self.col.equal(self.transposed_col)

    def to(self, device: torch.device | str) -> "Structure":
        return Structure(*(getattr(self, field.name).to(device) for field in fields(self)))


def entry_keys(row: Tensor, col: Tensor, num_cols: int) -> Tensor:
    """One integer per entry, ascending exactly when the entries are in row order."""
    return row * num_cols + col


def build_structure(row: Tensor, col: Tensor, num_rows: int, num_cols: int) -> tuple[Structure, Tensor]:
    """Sort entries into a `Structure`.

    Args:
        row: ``[entries]`` row of each entry, in any order; no entry may occur twice.
        col: ``[entries]`` column of each entry.
        num_rows: Number of rows, empty ones included.
        num_cols: Number of columns, empty ones included.

    Returns:
        The structure, and ``order`` with ``values[order]`` the caller's values in the structure's order.
    """
    order = entry_keys(row, col, num_cols).argsort(stable=True)
    row, col = row[order].contiguous(), col[order].contiguous()
    transposed_entry = entry_keys(col, row, num_rows).argsort(stable=True)
    structure = Structure(
        rowptr=_pointers(row, num_rows),
        row=row,
        col=col,
        transposed_rowptr=_pointers(col[transposed_entry], num_cols),
        transposed_col=row[transposed_entry].contiguous(),
        transposed_entry=transposed_entry,
    )
    return structure, order


def _pointers(ascending: Tensor, size: int) -> Tensor:
    """``[size + 1]`` how many entries are smaller than 0, 1, …; found without asking the device for a number."""
    return torch.searchsorted(ascending, torch.arange(size + 1, device=ascending.device))
