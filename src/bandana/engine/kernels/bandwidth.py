# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""Boltzmann-Gibbs bandwidths in one kernel: hash, noise and softmax of a row never leave the registers."""

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.streams import stream
from bandana.engine.structure import Structure

_SHORT, _LONG = 32, 256  # entries at once: most rows fit one warp, long ones need many entries in flight

_GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
_FIRST = tl.constexpr(0xBF58476D1CE4E5B9)
_SECOND = tl.constexpr(0x94D049BB133111EB)
_TURN = tl.constexpr(2 * torch.pi)
_LOWEST = tl.constexpr(-3.0e38)  # of no entry: has no share beside any real one, and being finite makes no NaN


def boltzmann_gibbs(
    structure: Structure, keys: Tensor, temperature: float, *, seed: int, step: int, layer: int
) -> Tensor:
    """``[entries]`` shares; the twin of the plain path in `engine.bandwidth`."""
    shares = torch.empty(keys.shape, dtype=torch.float32, device=keys.device)
    word = stream(seed, step, layer)
    signed = word - (1 << 64) if word >> 63 else word
    if structure.num_rows:
        with torch.cuda.device_of(keys):
            _row_shares[(structure.num_rows,)](
                structure.rowptr, keys, shares, signed, float(temperature), SHORT=_SHORT, LONG=_LONG, num_warps=1
            )
    return shares


@triton.jit(do_not_specialize=["word"])  # another number in every step: none may compile a kernel of its own
def _row_shares(rowptr, keys, shares, word, temperature, SHORT: tl.constexpr, LONG: tl.constexpr):
    row = tl.program_id(0)
    start = tl.load(rowptr + row)
    end = tl.load(rowptr + row + 1)
    if end - start <= SHORT:
        entry = start + tl.arange(0, SHORT)
        logits = _logits(keys, entry, end, word, temperature)
        power = tl.exp(logits - tl.max(logits, 0))
        tl.store(shares + entry, power / tl.sum(power, 0), mask=entry < end)
    else:
        highest = tl.full([LONG], _LOWEST, tl.float32)
        total = tl.zeros([LONG], tl.float32)
        for first in range(start, end, LONG):
            entry = first + tl.arange(0, LONG)
            logits = _logits(keys, entry, end, word, temperature)
            top = tl.maximum(highest, logits)
            total = total * tl.exp(highest - top) + tl.exp(logits - top)
            highest = top
        row_top = tl.max(highest, 0)
        row_total = tl.sum(total * tl.exp(highest - row_top), 0)
        for first in range(start, end, LONG):  # drawing the noise again costs less than writing and reading it
            entry = first + tl.arange(0, LONG)
            power = tl.exp(_logits(keys, entry, end, word, temperature) - row_top)
            tl.store(shares + entry, power / row_total, mask=entry < end)


@triton.jit
def _logits(keys, entry, end, word, temperature):
    """Gaussian noise over the temperature, as `engine.bandwidth.gaussian_noise` draws it."""
    inside = entry < end
    bits = _mix(tl.load(keys + entry, mask=inside, other=0).to(tl.uint64), word.to(tl.uint64))
    radius = tl.sqrt(-2.0 * tl.log(_unit(bits >> 32)))
    noise = radius * tl.cos(_unit(bits) * _TURN)
    return tl.where(inside, noise / temperature, _LOWEST)


@triton.jit
def _mix(key, word):
    """splitmix64, as `engine.streams.hash_keys` does it. Unsigned words shift zeros in."""
    bits = key * _GOLDEN + word
    bits = (bits ^ (bits >> 30)) * _FIRST
    bits = (bits ^ (bits >> 27)) * _SECOND
    return bits ^ (bits >> 31)


@triton.jit
def _unit(bits):
    """The low 32 bits as a number in (0, 1]."""
    return (bits.to(tl.uint32).to(tl.float32) + 0.5) * 2.0**-32
