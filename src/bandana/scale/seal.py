"""The description of a store, ``store.json``: what is in which file, and digests that no flipped byte gets past."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bandana import __version__
from bandana.errors import UserError
from bandana.files import write_text

FORMAT, FORMAT_VERSION = "bandana-store", 1
DESCRIPTION = "store.json"
ROWPTR, COL, FEATURES, LABELS, NODES = "rowptr.npy", "col.npy", "features.npy", "labels.npy", "nodes.parquet"
ALWAYS, KNOWN_FILES = {ROWPTR, COL, NODES}, {ROWPTR, COL, FEATURES, LABELS, NODES}
BLOCK_BYTES = 16 << 20
"""A digest is taken of so many bytes, which is how closely a damage can be located."""
LARGEST_DESCRIPTION = 256 << 20
KINDS: dict[str, Any] = {
    "num_nodes": int,
    "num_edges": int,
    "num_features": int,
    "num_values": int,
    "directed": bool,
    "part_starts": list,
    "feature_names": list,
    "label_names": list | None,
    "notes": list,
    "block_bytes": int,
    "files": dict,
    "digest": str,
}
"""What stands in a description, besides the versions."""


def seal(folder: Path, facts: Mapping[str, Any], on_bytes: Callable[[int], None] = lambda count: None) -> None:
    """Write the description of finished files. It comes last: a folder without it is no store.

    Args:
        folder: With the files of a store.
        facts: The entries of `KINDS` that only the builder knows.
        on_bytes: Told of every block that was read, for progress bars.

    Raises:
        UserError: A file is missing that these facts speak of.
    """
    _check_whole(folder, facts)
    files = {}
    for path in sorted(folder / name for name in KNOWN_FILES if (folder / name).exists()):
        blocks = []
        for block in _blocks(path, BLOCK_BYTES):
            blocks.append(digest_of(block))
            on_bytes(len(block))
        files[path.name] = {"bytes": path.stat().st_size, "blocks": blocks}
    versions = {"format": FORMAT, "format_version": FORMAT_VERSION, "bandana_version": __version__}
    table = {**versions, **facts, "block_bytes": BLOCK_BYTES, "files": files}
    write_text(folder / DESCRIPTION, _text({**table, "digest": digest_of(_text(table).encode())}))


def read_description(folder: Path) -> dict[str, Any]:
    """The checked content of ``store.json``.

    Raises:
        UserError: The folder is no store, comes from another version, or its description is not as it was written.
    """
    path = folder / DESCRIPTION
    if not path.is_file():
        raise UserError(f"{folder}: holds no {DESCRIPTION}, so it is no store; make one with bandana partition.")
    if path.stat().st_size > LARGEST_DESCRIPTION:
        raise UserError(
            f"{path}: has {path.stat().st_size:,} bytes, far more than a description; build the store anew."
        )
    try:
        text = path.read_text(encoding="utf-8")
        table = json.loads(text)
    except (OSError, ValueError, RecursionError) as problem:
        raise UserError(f"{path}: cannot be read as JSON ({problem}). Build the store anew.") from None
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise UserError(f"{path}: does not describe a store; give a folder that bandana partition wrote.")
    if table.get("format_version") != FORMAT_VERSION:
        raise UserError(
            f"{path}: has the format version {table.get('format_version')!r}, and this bandana {__version__} reads "
            f"{FORMAT_VERSION}. It was written by bandana {table.get('bandana_version')}; build the store anew."
        )
    unsealed = {key: value for key, value in table.items() if key != "digest"}
    if text != _text(table) or table.get("digest") != digest_of(_text(unsealed).encode()):
        raise UserError(f"{path}: is not as it was written; its own digest differs. Build the store anew.")
    for key, kind in KINDS.items():
        if not isinstance(table.get(key), kind):
            raise UserError(f"{path}: {key} is {table.get(key)!r}, which no store has; build the store anew.")
    if table["block_bytes"] < 1:
        raise UserError(f"{path}: block_bytes is {table['block_bytes']}, which no store has; build the store anew.")
    if not all(type(start) is int for start in table["part_starts"]):
        raise UserError(f"{path}: part_starts holds more than whole numbers; build the store anew.")
    _check_files(folder, table["files"])
    return table


def damaged_blocks(folder: Path, on_bytes: Callable[[int], None] = lambda count: None) -> Iterator[tuple[str, int]]:
    """Name and block number, from 0, of whatever in a store is not as it was written.

    Raises:
        UserError: The description itself is damaged, or a file is missing or of another size.
    """
    table = read_description(folder)
    for name, entry in table["files"].items():
        for number, block in enumerate(_blocks(folder / name, table["block_bytes"])):
            if [digest_of(block)] != entry["blocks"][number : number + 1]:
                yield name, number
            on_bytes(len(block))


def digest_of(block: bytes) -> str:
    """A digest of 128 bits."""
    return hashlib.blake2b(block, digest_size=16).hexdigest()


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(size):
            yield block


def _text(table: Mapping[str, Any]) -> str:
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def _check_whole(folder: Path, facts: Mapping[str, Any]) -> None:
    """Every file is there that a store with these facts has."""
    spoken_of = {FEATURES: facts["num_features"] > 0, LABELS: facts["label_names"] is not None}
    for name in sorted(ALWAYS | {name for name, is_there in spoken_of.items() if is_there}):
        if not (folder / name).is_file():
            raise UserError(f"{folder / name}: is missing, so that this would be no store; build it anew.")


def _check_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Names are those of a store, nothing points out of the folder, and every file has its size."""
    if not ALWAYS <= set(files) <= KNOWN_FILES:
        raise UserError(f"{folder / DESCRIPTION}: lists the files {sorted(files)}, which no store has; build it anew.")
    for name, entry in files.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise UserError(f"{path}: is missing, or is no plain file; copy the store again or build it anew.")
        size, said = path.stat().st_size, entry.get("bytes") if isinstance(entry, dict) else None
        if size != said:
            raise UserError(f"{path}: has {size:,} bytes where {DESCRIPTION} says {said}; copy the store again.")
