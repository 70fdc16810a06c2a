# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""Normal numbers as functions of a stream and of their place in a matrix, in one pass that only writes."""

import torch
import triton
from torch import Tensor
from triton import language as tl

from bandana.engine.kernels.hashing import GOLDEN, mix

_TILE = 1024  # pairs of entries
_UNIT = tl.constexpr(2.0**-32)
_TURN = tl.constexpr(6.283185307179586)


def normal_rows(start: int, num_rows: int, num_columns: int, stream: Tensor) -> Tensor:
    """``[num_rows, num_columns]`` rows of the matrix of a stream, `start` being the first of them.

    The twin of the plain function in `engine.sketch`.

    Args:
        start: Number of the first row.
        num_rows: How many.
        num_columns: Of the matrix.
        stream: Integer scalar on the device.
    """
    out = torch.empty(num_rows, num_columns, device=stream.device)
    half = (num_columns + 1) // 2
    if out.numel():
        with torch.cuda.device_of(out):
            _normal_rows[(num_rows, triton.cdiv(half, _TILE))](out, stream, start, half, num_columns, TILE=_TILE)
    return out


@triton.jit(do_not_specialize=["start"])  # or the first block of a matrix would compile a kernel of its own
def _normal_rows(out, stream, start, half, columns, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    key = ((start + row) * half + column).to(tl.uint64)
    bits = mix(key * GOLDEN + tl.load(stream).to(tl.uint64))
    radius = tl.sqrt(-2.0 * tl.log(((bits >> 32).to(tl.uint32).to(tl.float32) + 0.5) * _UNIT))
    angle = (bits.to(tl.uint32).to(tl.float32) + 0.5) * _UNIT * _TURN
    place = out + row * columns + column
    tl.store(place, radius * tl.cos(angle), mask=column < half)
    tl.store(place + half, radius * tl.sin(angle), mask=column + half < columns)
