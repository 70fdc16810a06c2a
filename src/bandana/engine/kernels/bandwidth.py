# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""Boltzmann-Gibbs bandwidths in one kernel: hash, noise and softmax of a row never leave the registers."""

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.kernels.hashing import GOLDEN, absorb, mix
from bandana.engine.propagate import EdgeWeights
from bandana.engine.streams import signed, stream
from bandana.engine.structure import Structure

_SHORT, _LONG = 32, 256  # entries at once: most rows fit one warp, long ones need many entries in flight

_TURN = tl.constexpr(2 * torch.pi)
_HALF_ROOT = tl.constexpr(0.5**0.5)
_LOWEST = tl.constexpr(-3.0e38)  # of no entry: has no share beside any real one, and being finite makes no NaN


def boltzmann_gibbs(
    structure: Structure, keys: Tensor, temperature: float, *, seed: int, step: int | Tensor, layer: int
) -> tuple[Tensor, EdgeWeights]:
    """Shares ``[entries]`` and the GCN weights that they make; the twin is in `engine.bandwidth`.

    The shares of a row sum to one, so with its self-loop a row that has entries sums to two, and any other row to one:
    the degrees that a GCN normalises with are known before anything is drawn.
    """
    shares, messages = (torch.empty(keys.shape, dtype=torch.float32, device=keys.device) for _ in range(2))
    loop = shares.new_empty(structure.num_rows)
    word = signed(stream(seed, step, layer) if isinstance(step, int) else stream(seed))
    if structure.num_rows:
        with torch.cuda.device_of(keys):
            _row_shares[(structure.num_rows,)](
                structure.rowptr,
                structure.col,
                keys,
                shares,
                messages,
                loop,
                word,
                None if isinstance(step, int) else step,
                layer,
                float(temperature),
                WHOLE_WORD=isinstance(step, int),
                SHORT=_SHORT,
                LONG=_LONG,
                num_warps=1,
            )
    return shares, EdgeWeights(messages, loop)


@triton.jit(do_not_specialize=["word"])  # another number in every step: none may compile a kernel of its own
def _row_shares(
    rowptr,
    col,
    keys,
    shares,
    messages,
    loop,
    word,
    step,
    layer,
    temperature,
    WHOLE_WORD: tl.constexpr,
    SHORT: tl.constexpr,
    LONG: tl.constexpr,
):
    word = word.to(tl.uint64)
    if not WHOLE_WORD:
        word = absorb(absorb(word, tl.load(step).to(tl.uint64)), tl.cast(layer, tl.uint64))
    row = tl.program_id(0)
    start = tl.load(rowptr + row)
    end = tl.load(rowptr + row + 1)
    tl.store(loop + row, tl.where(start < end, 0.5, 1.0))
    if end - start <= SHORT:
        entry = start + tl.arange(0, SHORT)
        logits = _logits(keys, entry, end, word, temperature)
        power = tl.exp(logits - tl.max(logits, 0))
        _store(shares, messages, rowptr, col, entry, end, power / tl.sum(power, 0))
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
            _store(shares, messages, rowptr, col, entry, end, power / row_total)


@triton.jit
def _store(shares, messages, rowptr, col, entry, end, share):
    """Write shares, and with them what a GCN multiplies the messages with."""
    inside = entry < end
    sender = tl.load(col + entry, mask=inside, other=0)
    heard = tl.load(rowptr + sender, mask=inside, other=0) < tl.load(rowptr + sender + 1, mask=inside, other=0)
    tl.store(shares + entry, share, mask=inside)
    tl.store(messages + entry, share * _HALF_ROOT * tl.where(heard, _HALF_ROOT, 1.0), mask=inside)


@triton.jit
def _logits(keys, entry, end, word, temperature):
    """Gaussian noise over the temperature, as `engine.bandwidth.gaussian_noise` draws it."""
    inside = entry < end
    bits = mix(tl.load(keys + entry, mask=inside, other=0).to(tl.uint64) * GOLDEN + word)
    radius = tl.sqrt(-2.0 * tl.log(_unit(bits >> 32)))
    noise = radius * tl.cos(_unit(bits) * _TURN)
    return tl.where(inside, noise / temperature, _LOWEST)


@triton.jit
def _unit(bits):
    """The low 32 bits as a number in (0, 1]."""
    return (bits.to(tl.uint32).to(tl.float32) + 0.5) * 2.0**-32
