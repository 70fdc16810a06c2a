"""Named streams of randomness: from (seed, step, layer, …) to one well-mixed 64-bit number."""

import torch
from torch import Tensor

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31


def stream(*words: int) -> int:
    """A 64-bit number that depends on every word and on their order."""
    state = 0
    for word in words:
        state = (state + word + 1) * _GOLDEN & _WORD
        for shift, factor in _ROUNDS:
            state = (state ^ (state >> shift)) * factor & _WORD
        state ^= state >> _LAST_SHIFT
    return state


def generator(device: torch.device, *words: int) -> torch.Generator:
    """A generator at the start of a stream.

    A CPU generator reads only the low 32 bits of its seed, so the words must be mixed, not laid side by side.
    """
    return torch.Generator(device).manual_seed(stream(*words) >> 1)


def hash_keys(keys: Tensor, *words: int) -> Tensor:
    """``[n]`` 64 random bits for each key within a stream (the mixing of splitmix64)."""
    bits = keys * _signed(_GOLDEN)
    bits += _signed(stream(*words))
    for shift, factor in _ROUNDS:
        bits ^= _shift_right(bits, shift)
        bits *= _signed(factor)
    bits ^= _shift_right(bits, _LAST_SHIFT)
    return bits


def _shift_right(bits: Tensor, shift: int) -> Tensor:
    return (bits >> shift) & ((1 << (64 - shift)) - 1)  # torch shifts the sign in; the mask takes it out


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
