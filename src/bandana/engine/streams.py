"""Named streams of randomness: from (seed, step, layer, …) to one well-mixed 64-bit number."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

LARGEST_SEED = (1 << 32) - 1
"""A CPU generator reads only the low 32 bits of its seed: a larger one would repeat a smaller."""
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


@contextmanager
def initial_weights(seed: int) -> Iterator[None]:
    """Let a seed decide the weights of what is built here, and nothing else in the process.

    They are drawn on the CPU, so that they are the same wherever training happens. `torch.manual_seed` would start the
    generators of all GPUs anew, whoever uses them.
    """
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def generator(device: torch.device, *words: int) -> torch.Generator:
    """A generator at the start of a stream."""
    return torch.Generator(device).manual_seed(generator_seed(*words))


def generator_seed(*words: int) -> int:
    """The seed of a stream's generator.

    As a CPU generator reads so few bits (`LARGEST_SEED`), the words must be mixed, not laid side by side.
    """
    return stream(*words) >> 1


def hash_keys(keys: Tensor, *words: int | Tensor) -> Tensor:
    """``[n]`` 64 random bits for each key within a stream (the mixing of splitmix64).

    A word may be a scalar tensor on the device of the keys, read when the hash is computed: the same bits follow.
    """
    return hash_within(_stream_of(words), keys)


def hash_within(stream: int | Tensor, keys: Tensor) -> Tensor:
    """The same for a stream whose number is known."""
    bits = keys * signed(_GOLDEN)
    bits += stream
    return _mix(bits)


def stream_on(device: torch.device, *words: int | Tensor) -> Tensor:
    """The number of a stream as a scalar on a device, for those who hash within it many times."""
    number = _stream_of(words)
    return number if isinstance(number, Tensor) else torch.full((), number, device=device)


def signed(word: int) -> int:
    """An unsigned 64-bit word as the signed number that torch stores for the same bits."""
    return word - (1 << 64) if word >> 63 else word


def _stream_of(words: Sequence[int | Tensor]) -> int | Tensor:
    fixed = [word for word in words if isinstance(word, int)]
    if len(fixed) == len(words):
        return signed(stream(*fixed))
    first = next(place for place, word in enumerate(words) if not isinstance(word, int))
    state: int | Tensor = signed(stream(*fixed[:first]))
    for word in words[first:]:
        state = _mix((word + (state + 1)) * signed(_GOLDEN))  # type: ignore[arg-type]  # the first of them is a tensor
    return state


def _mix(bits: Tensor) -> Tensor:
    """Mix in place."""
    for shift, factor in _ROUNDS:
        bits ^= _shift_right(bits, shift)
        bits *= signed(factor)
    bits ^= _shift_right(bits, _LAST_SHIFT)
    return bits


def _shift_right(bits: Tensor, shift: int) -> Tensor:
    return (bits >> shift) & ((1 << (64 - shift)) - 1)  # torch shifts the sign in; the mask takes it out


def unit(bits: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The low 32 bits of each word as a number in (0, 1], by default of torch's default type."""
    return (bits & 0xFFFFFFFF).to(dtype or torch.get_default_dtype()).add_(0.5).mul_(2.0**-32)
