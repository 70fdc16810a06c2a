"""Embeddings as files that other tools read, each row under its own id: Parquet, npz, word2vec's text, safetensors."""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bandana.errors import UserError
from bandana.files import write_atomically

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
LINE_BREAKERS = "\t\n\r"
TEXT_BLOCK = 10_000
"""Rows that are turned into text at a time."""
READ_PROBLEMS = (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, SafetensorError, pa.ArrowException)
"""What damaged or foreign files make the readers raise."""


class Embeddings(NamedTuple):
    """``vectors [nodes, width]`` in float32, and the id of each row: all strings or all whole numbers."""

    node_ids: list[str] | list[int]
    vectors: Tensor


def write_embeddings(path: Path, embedding: Tensor, node_ids: Sequence[Any] | None = None) -> None:
    """Write a file in the form that its ending names: ``.parquet``, ``.npz``, ``.tsv`` or ``.safetensors``.

    Args:
        path: File to write, replaced in one step.
        embedding: ``[nodes, width]``.
        node_ids: Names of the rows, all strings or all whole numbers; 0, 1, 2, … when None.

    Raises:
        UserError: The ending is unknown, an id cannot be kept as it is, or the place cannot be written to.
    """
    write, _ = _form(path)
    vectors = embedding.detach().float().cpu().contiguous()
    ids = list(range(len(vectors))) if node_ids is None else _plain_ids(path, node_ids)
    if len(ids) != len(vectors):
        raise UserError(f"{path}: {len(ids)} ids for {len(vectors)} vectors; give one id per row.")
    write(path, Embeddings(ids, vectors))


def read_embeddings(path: Path) -> Embeddings:
    """Read what `write_embeddings` wrote; nothing in the file is executed.

    Raises:
        UserError: The file is missing, damaged, or holds something else.
    """
    _, read = _form(path)
    try:
        node_ids, vectors = read(path)
        if vectors.ndim != 2 or vectors.dtype != torch.float32 or len(node_ids) != len(vectors):
            raise ValueError(f"{len(node_ids)} ids for a {vectors.dtype} array of shape {list(vectors.shape)}")
    except READ_PROBLEMS as problem:
        reason = " ".join(str(problem).split())
        raise UserError(f"{path}: cannot be read as embeddings ({reason}). Write the file anew.") from None
    return Embeddings(node_ids, vectors)


def write_parquet(path: Path, embedding: Tensor, node_ids: Sequence[Any] | None = None) -> None:
    """Write ``node_id`` and ``embedding`` (a float32 list of fixed size) columns, whatever the ending of `path`."""
    vectors = embedding.detach().float().cpu().contiguous()
    _write_parquet(path, Embeddings(list(range(len(vectors))) if node_ids is None else list(node_ids), vectors))


def _write_parquet(path: Path, rows: Embeddings) -> None:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.vectors.view(-1).numpy()), rows.vectors.shape[1])
    table = pa.table({"node_id": _id_column(rows.node_ids), "embedding": lists})
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def _read_parquet(path: Path) -> Embeddings:
    with pq.ParquetFile(path) as file:
        kind = file.schema_arrow.field("embedding").type
        if not pa.types.is_fixed_size_list(kind):
            raise ValueError(f"column 'embedding' holds {kind}, not lists of a fixed size")
        table = file.read(["node_id", "embedding"])
    ids, lists = table["node_id"], table["embedding"].combine_chunks()
    if ids.null_count or lists.null_count or lists.values.null_count:
        raise ValueError("it has empty cells")
    values = lists.flatten().to_numpy(zero_copy_only=False)
    return Embeddings(_checked(ids.to_pylist()), _tensor(values.reshape(len(ids), kind.list_size)))


def _write_npz(path: Path, rows: Embeddings) -> None:
    for name in rows.node_ids:
        if isinstance(name, str) and name.endswith("\0"):
            raise UserError(f"{path}: npz would cut the NUL character off the id {name!r}. Write .parquet instead.")
    ids = np.array(rows.node_ids, dtype=np.int64 if _are_numbers(rows.node_ids) else np.str_)
    write_atomically(
        path, lambda temporary: np.savez_compressed(temporary, node_id=ids, embedding=rows.vectors.numpy())
    )


def _read_npz(path: Path) -> Embeddings:
    with np.load(path, allow_pickle=False) as file:
        return Embeddings(_checked(file["node_id"].tolist()), _tensor(file["embedding"]))


def _write_tsv(path: Path, rows: Embeddings) -> None:
    """Write word2vec's text form, with tabs so that ids may hold spaces: a line of sizes, then id and numbers."""
    for name in rows.node_ids:
        if isinstance(name, str) and any(breaker in name for breaker in LINE_BREAKERS):
            raise UserError(
                f"{path}: a text line cannot hold the id {name!r} with its tab or line break. Use .parquet."
            )
    count, width = rows.vectors.shape

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(f"{count}\t{width}\n")
            for start in range(0, count, TEXT_BLOCK):
                numbers = _as_text(rows.vectors[start : start + TEXT_BLOCK].numpy())
                names = rows.node_ids[start : start + TEXT_BLOCK]
                file.writelines(f"{name}\t{line}\n" for name, line in zip(names, numbers, strict=True))

    write_atomically(path, write)


def _as_text(vectors: Array) -> list[str]:
    """One line of tab-separated numbers per row; arrow writes the fewest digits that read back as the same float32."""
    table = pa.table([pa.array(column) for column in vectors.T.copy()], names=[str(i) for i in range(vectors.shape[1])])
    text = pa.BufferOutputStream()
    pc.write_csv(table, text, pc.WriteOptions(include_header=False, delimiter="\t", quoting_style="none"))
    lines: bytes = text.getvalue().to_pybytes()
    return lines.decode().splitlines()


def _read_tsv(path: Path) -> Embeddings:
    with path.open("rb") as file:
        count, width = map(int, file.readline(100).split())
    table = pc.read_csv(
        path,
        pc.ReadOptions(skip_rows=1, column_names=["id", *map(str, range(width))]),
        pc.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
        pc.ConvertOptions(
            column_types={"id": pa.string()} | {str(column): pa.float32() for column in range(width)},
            strings_can_be_null=False,
        ),
    )
    if len(table) != count:
        raise ValueError(f"its first line names {count} rows and {len(table)} follow")
    names = table["id"].to_pylist()
    vectors = np.stack([column.to_numpy() for column in table.columns[1:]], axis=1)
    return Embeddings([int(name) for name in names] if _look_like_numbers(names) else names, _tensor(vectors))


def _write_safetensors(path: Path, rows: Embeddings) -> None:
    tensors = {"embedding": rows.vectors}
    if _are_numbers(rows.node_ids):
        tensors["node_id"] = torch.tensor(rows.node_ids, dtype=torch.int64)
    else:
        encoded = [str(name).encode() for name in rows.node_ids]
        tensors["node_id.utf8"] = torch.frombuffer(bytearray(b"".join(encoded) or b"\0"), dtype=torch.uint8)
        tensors["node_id.ends"] = torch.tensor([len(name) for name in encoded], dtype=torch.int64).cumsum(0)
    write_atomically(path, lambda temporary: save_file(tensors, temporary))


def _read_safetensors(path: Path) -> Embeddings:
    with safe_open(path, framework="pt") as file:
        vectors = file.get_tensor("embedding")
        if "node_id" in file.keys():  # noqa: SIM118 (not a dict)
            return Embeddings(_checked(file.get_tensor("node_id").tolist()), vectors)
        text, ends = file.get_tensor("node_id.utf8").numpy().tobytes(), file.get_tensor("node_id.ends").tolist()
    return Embeddings([text[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)], vectors)


def _plain_ids(path: Path, node_ids: Sequence[Any]) -> list[Any]:
    """The ids as Python's own strings or numbers, which is how they come back."""
    ids = [name.item() if isinstance(name, np.generic | Tensor) else name for name in node_ids]
    kinds = {type(name) for name in ids}
    if kinds - {int} and kinds - {str}:
        spoken = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise UserError(
            f"{path}: node ids must be all strings or all whole numbers, got {spoken}; turn them into strings."
        )
    if kinds == {int} and not all(-(2**63) <= name < 2**63 for name in ids):
        raise UserError(f"{path}: a node id does not fit into 64 bits; turn the ids into strings.")
    return ids


def _id_column(ids: Sequence[Any]) -> Any:
    return pa.array(ids, pa.int64() if _are_numbers(ids) else pa.string())


def _are_numbers(ids: Sequence[Any]) -> bool:
    return bool(len(ids)) and isinstance(ids[0], int)


def _look_like_numbers(names: Sequence[str]) -> bool:
    """Whether every name is how Python writes a 64-bit integer; a text file cannot tell "7" from 7, but 07 from 7."""
    digits = (name.removeprefix("-") for name in names)
    if not all(digit.isascii() and digit.isdigit() and len(digit) < 20 for digit in digits):
        return False
    return bool(names) and all(str(int(name)) == name and -(2**63) <= int(name) < 2**63 for name in names)


def _checked(ids: list[Any]) -> list[Any]:
    if {type(name) for name in ids} - {int} and {type(name) for name in ids} - {str}:
        raise ValueError("node_id holds neither strings nor whole numbers")
    return ids


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.array(values, order="C"))  # a copy, because what arrow hands out is read-only


Write: TypeAlias = Callable[[Path, Embeddings], None]
Read: TypeAlias = Callable[[Path], Embeddings]
_FORMS: dict[str, tuple[Write, Read]] = {
    ".parquet": (_write_parquet, _read_parquet),
    ".npz": (_write_npz, _read_npz),
    ".tsv": (_write_tsv, _read_tsv),
    ".safetensors": (_write_safetensors, _read_safetensors),
}
SUFFIXES = tuple(_FORMS)


def _form(path: Path) -> tuple[Write, Read]:
    if path.suffix not in _FORMS:
        raise UserError(f"{path}: embeddings are kept in files that end in {', '.join(SUFFIXES)}; choose one of them.")
    return _FORMS[path.suffix]
