"""How the rows of a store are cut into blocks, and which blocks of which pass are done."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bandana.files import write_text
from bandana.scale.seal import DESCRIPTION, digest_of
from bandana.scale.store import Array, Store, release

OUTPUT, PLAN = "embeddings.npy", "plan.json"
ALIGNED = 64
"""Rows that are never cut apart; see `bandana.scale.inference`."""
ENTRY_BYTES = 96
"""Memory that an entry takes while its block is computed, beside the row it points to."""


@dataclass(frozen=True)
class Plan:
    """A cut of the rows into blocks.

    Attributes:
        starts: First row of every block, and the number of rows in the end.
        identity: Whatever else decides the result.
    """

    starts: tuple[int, ...]
    identity: str

    @property
    def num_blocks(self) -> int:
        return len(self.starts) - 1

    def rows(self, block: int) -> tuple[int, int]:
        """First row of a block, and the first behind it."""
        return self.starts[block], self.starts[block + 1]

    def prepare_folder(self, work: Path, widths: Sequence[int], output_width: int) -> None:
        """Make the folder and its arrays, unless an interrupted attempt at the same has left all of them."""
        table = {"starts": list(self.starts), "identity": self.identity}
        files = {projected(layer): width for layer, width in enumerate(widths)} | {OUTPUT: output_width}
        try:
            same = json.loads((work / PLAN).read_text(encoding="utf-8")) == table
        except (OSError, ValueError):
            same = False
        if same and all((work / name).exists() for name in files):
            return
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        for name, width in files.items():
            np.lib.format.open_memmap(work / name, "w+", np.dtype(np.float32), (self.starts[-1], width))
        write_text(work / PLAN, json.dumps(table))


def projected(layer: int) -> str:
    """The file of the multiplied rows that a layer is about to mix."""
    return f"projected-{layer}.npy"


def open_array(path: Path) -> Array:
    """A map of an array that may be written to."""
    array: Array = np.load(path, mmap_mode="r+", allow_pickle=False)
    return array


def plan_blocks(store: Store, widest: int, memory: int, fingerprint: str) -> Plan:
    """Cut rows so that a block with all of its neighbours fits into memory.

    A block is at least `ALIGNED` rows, whatever they weigh: the neighbours of so few nodes have to fit.

    Args:
        store: The graph.
        widest: Numbers per row of the widest layer.
        memory: Bytes that a block may take.
        fingerprint: Of the encoder.
    """
    row_bytes = 4 * (4 * widest + 2 * store.num_features)
    entry_bytes = ENTRY_BYTES + 4 * widest
    starts, start = [0], 0
    while start < store.num_nodes:
        room = max(memory // row_bytes // ALIGNED, 1) * ALIGNED
        ends = np.arange(start + ALIGNED, min(start + room, store.num_nodes) + 1, ALIGNED)
        entries = store.rowptr[ends] - store.rowptr[start]
        fitting = int(np.searchsorted(entries * entry_bytes + (ends - start) * row_bytes, memory, "right"))
        start = int(ends[max(fitting, 1) - 1]) if len(ends) else store.num_nodes
        start = store.num_nodes if store.num_nodes - start < ALIGNED else start
        starts.append(start)
    release(store.rowptr)
    sealed = digest_of((store.folder / DESCRIPTION).read_bytes())
    return Plan(tuple(starts), f"{sealed} {fingerprint}")


class BlockLog:
    """Finished blocks. Every rank appends to a file of its own; all files are read, whoever wrote them."""

    def __init__(self, work: Path, rank: int) -> None:
        self._path, self._done = work / f"done-{rank}.txt", set[tuple[int, int]]()
        for path in work.glob("done-*.txt"):
            # A line that was cut off by the interruption has no end, and its block is done again.
            lines = re.findall(r"^(\d+) (\d+);$", path.read_text(encoding="utf-8"), re.MULTILINE)
            self._done |= {(int(stage), int(block)) for stage, block in lines}

    def is_done(self, stage: int, block: int) -> bool:
        """Whether a pass is through with a block."""
        return (stage, block) in self._done

    def finish(self, stage: int, block: int, *arrays: Array | None) -> None:
        """Note that a block is done, once what it wrote is on disk."""
        for array in arrays:
            if isinstance(array, np.memmap):
                array.flush()
                release(array)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"\n{stage} {block};\n")
