"""Labels of a few nodes from a file, by the rules and with the messages of ``bandana embed --labels``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from torch import Tensor

from bandana.data.own_files import read_source
from bandana.data.own_values import NodeBook
from bandana.data.tables import choose_labels, labels_of_nodes


class FewLabels(NamedTuple):
    """What a file says about nodes.

    Attributes:
        numbers: ``[nodes]`` the label of each node, -1 for none.
        names: What the labels 0, 1, 2, … are called.
        notes: What was understood of the file, one sentence each.
    """

    numbers: Tensor
    names: tuple[str, ...]
    notes: tuple[str, ...]


def read_labels(path: Path, ids: Sequence[Any]) -> FewLabels:
    """Read labels of the nodes that have these ids: CSV, TSV, gzip of these, Parquet or Arrow.

    Raises:
        UserError: Something is wrong with the file; the sentence names the row and what to do.
    """
    source = read_source(path, lambda names: choose_labels(names, str(path)))
    book = NodeBook(list(ids), pa.array([str(name) for name in ids]))
    numbers, names, notes = labels_of_nodes(source, book)
    return FewLabels(numbers, names, tuple(notes))
