"""Embeddings as files that other tools read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from bandana.files import write_atomically


def write_parquet(path: Path, embedding: Tensor, node_ids: Sequence[Any] | None = None) -> None:
    """Write ``node_id`` and ``embedding`` (a float32 list of fixed size) columns.

    Args:
        path: File to write.
        embedding: ``[nodes, width]``.
        node_ids: Names of the rows; 0, 1, 2, … when None.
    """
    values = embedding.detach().float().cpu().contiguous()
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.view(-1).numpy()), values.shape[1])
    names = pa.array(range(len(values)) if node_ids is None else node_ids)
    table = pa.table({"node_id": names, "embedding": vectors})
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))
