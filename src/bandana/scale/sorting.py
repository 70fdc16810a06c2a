"""Sorting more numbers than memory holds: spread over buckets on disk, then sorted bucket by bucket."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
BYTES = 8
WORKSPACE = 6
"""Times the size of a bucket that reading, sorting and using it takes."""
MOST_BUCKETS = 256
"""Files that are open at the same time."""


def sorted_distinct(
    batches: Iterable[Keys],
    bound: int,
    expected: int,
    folder: Path,
    memory: int,
    on_sorted: Callable[[int], None] = lambda count: None,
) -> Iterator[Keys]:
    """The different ones of many numbers, ascending, a bucket at a time.

    Args:
        batches: The numbers, in any order, each in ``[0, bound)``.
        bound: What all of them are below.
        expected: About how many there are.
        folder: Where buckets are kept meanwhile; made here, and removed in the end.
        memory: Bytes that a bucket may take while it is sorted.
        on_sorted: Told how many numbers were sorted, for progress bars.
    """
    folder.mkdir(parents=True)
    most = max(memory // (BYTES * WORKSPACE), 1)
    yield from _sort(batches, 0, bound, expected, folder, most, on_sorted)
    folder.rmdir()


def _sort(
    batches: Iterable[Keys],
    low: int,
    high: int,
    expected: int,
    folder: Path,
    most: int,
    on_sorted: Callable[[int], None],
) -> Iterator[Keys]:
    """Sort what lies in ``[low, high)``. A bucket that turns out too large is spread once more over its own range."""
    count = min(max(-(-2 * expected // most), 1), MOST_BUCKETS, high - low)
    width = -(-(high - low) // count)
    paths = [folder / f"{low}-{width}-{number}" for number in range(count)]
    _spread(batches, low, width, paths)
    for number, path in enumerate(paths):
        start, size = low + number * width, path.stat().st_size // BYTES
        if size <= most:
            keys = np.fromfile(path, dtype=np.int64)
            path.unlink()
            on_sorted(size)
            if size:
                yield distinct(keys)
        elif width == 1:
            path.unlink()
            on_sorted(size)
            yield np.array([start])
        else:
            yield from _sort(_pieces(path, most), start, min(start + width, high), size, folder, most, on_sorted)
            path.unlink()


def distinct(keys: Keys) -> Keys:
    """The different ones, ascending; sorts in place."""
    keys.sort()
    new = np.empty(len(keys), dtype=bool)
    new[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new]


def _spread(batches: Iterable[Keys], low: int, width: int, paths: list[Path]) -> None:
    files = [path.open("wb") for path in paths]
    try:
        for keys in batches:
            bucket = ((keys - low) // width).astype(np.uint8)  # few enough for a radix sort
            order = bucket.argsort(kind="stable")
            ends = np.bincount(bucket, minlength=len(paths)).cumsum()
            for file, chunk in zip(files, np.split(keys[order], ends[:-1]), strict=True):
                if len(chunk):
                    chunk.tofile(file)
    finally:
        for file in files:
            file.close()


def _pieces(path: Path, most: int) -> Iterator[Keys]:
    with path.open("rb") as file:
        while len(keys := np.fromfile(file, dtype=np.int64, count=most)):
            yield keys
