# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""Random bits inside kernels: functions of a seed and a counter, so that nothing random is ever stored."""

import torch
import triton
from torch import Tensor
from triton import language as tl

GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
_FIRST = tl.constexpr(0xBF58476D1CE4E5B9)
_SECOND = tl.constexpr(0x94D049BB133111EB)
_GOLDEN_32 = tl.constexpr(0x9E3779B9)
_FIRST_32 = tl.constexpr(0x7FEB352D)
_SECOND_32 = tl.constexpr(0x846CA68B)
LEVELS = 1 << 16  # of a probability


def draw_seed(generator: torch.Generator) -> Tensor:
    """``[1]`` the next seed of a generator. It stays on the device: reading it would make the host wait."""
    return torch.randint(1 << 62, (1,), generator=generator, device=generator.device)


@triton.jit
def mix(bits):
    """splitmix64, as `engine.streams.hash_keys` does it. Unsigned words shift zeros in."""
    bits = (bits ^ (bits >> 30)) * _FIRST
    bits = (bits ^ (bits >> 27)) * _SECOND
    return bits ^ (bits >> 31)


@triton.jit
def absorb(state, word):
    """One more word of a stream, as `engine.streams.stream` takes it in."""
    return mix((state + word + 1) * GOLDEN)


@triton.jit
def row_key(seed, row):
    """32 bits for each row, from which those of its elements follow."""
    return mix(row.to(tl.uint64) * GOLDEN + tl.load(seed).to(tl.uint64)).to(tl.uint32)


@triton.jit
def keeps(key, column, kept):
    """Whether elements survive a dropout that keeps `kept` of 65,536. Two multiplications each: this is the inner loop.

    Every bit of the input flips about half of those of the result (the mixer and its constants are Chris Wellons'
    "lowbias32").
    """
    bits = key ^ (column.to(tl.uint32) * _GOLDEN_32)
    bits = (bits ^ (bits >> 16)) * _FIRST_32
    bits = (bits ^ (bits >> 15)) * _SECOND_32
    return ((bits ^ (bits >> 16)) >> 16).to(tl.int32) < kept


@triton.jit
def keeps_entry(seed, entry, kept):
    """The same for single entries of a list, each with a whole mix of its own."""
    return (mix(entry.to(tl.uint64) * GOLDEN + tl.load(seed).to(tl.uint64)) >> 48).to(tl.int32) < kept
