"""Finding texts in a long list of them again and again, without going through the list every time."""

from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bandana.data.own_values import LONGEST_ID, Indices

Keys = npt.NDArray[np.uint64]
TOGETHER = 1 << 13
"""Texts whose letters are looked at together, which takes two dozen bytes for each letter."""


class TextIndex:
    """The place of each of many different texts, by a key of 64 bits that is the sum of its weighted letters.

    It takes 16 bytes for each text. A key only says where to look; what is found there is compared letter by letter.
    """

    def __init__(self, texts: pa.Array) -> None:
        """Take down the keys of different texts, none of them empty or over `LONGEST_ID` bytes long."""
        self._texts = texts
        for seed in count():  # until no two texts share a key, which is the first time
            self._weights = np.random.default_rng(seed).integers(1 << 64, size=LONGEST_ID, dtype=np.uint64)
            keys = _keys(texts, self._weights)
            self._order = keys.argsort()
            self._ascending = keys[self._order]
            if (self._ascending[1:] != self._ascending[:-1]).all():
                return

    def find(self, texts: pa.Array) -> Indices:
        """``[texts]`` the place of each, -1 for those that are not among them."""
        place = self._ascending.searchsorted(_keys(texts, self._weights)).clip(max=len(self._order) - 1)
        found = self._order[place]
        same = pc.equal(self._texts.take(pa.array(found)), texts)
        return np.where(same.to_numpy(zero_copy_only=False), found, -1)


def _keys(texts: pa.Array, weights: Keys) -> Keys:
    blocks = (texts.slice(start, TOGETHER) for start in range(0, len(texts), TOGETHER))
    return np.concatenate([np.empty(0, np.uint64), *(_keys_of_block(block, weights) for block in blocks)])


def _keys_of_block(texts: pa.Array, weights: Keys) -> Keys:
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    letters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    place = np.arange(len(letters)) - np.repeat(ends[:-1] - ends[0], np.diff(ends))
    sums = np.zeros(len(letters) + 1, np.uint64)
    np.cumsum(weights[place] * (letters + np.uint64(1)), out=sums[1:])
    keys: Keys = sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]
    return keys
