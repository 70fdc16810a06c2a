# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,unused-ignore"
"""What the losses over all pairs of rows share: operands as tensor cores take them, and how the pairs are cut.

A program owns a tile of rows and walks over a range of keys. It multiplies, looks at the products and multiplies back,
all on the chip: of the pairs nothing is ever written.

Products are as precise as torch's are set to be. Single precision ("highest") is made of bfloat16: three parts of eight
bits each add up to a number, and of the nine products of parts the six that matter are taken. That is as fast as three
TF32 products, needs less room, and tensor cores read a bfloat16 matrix along either side. A TF32 matrix they read only
along the sum ("high"), so that one is laid out twice. One bfloat16 part is "medium".

Tensor cores cut off what a sum cannot hold instead of rounding it (Fasi et al., "Numerical behavior of NVIDIA tensor
cores", PeerJ Computer Science 2021), a bias that grows with the number of keys. In single precision they therefore add
up only within a tile.
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor
from torch.nn.functional import pad
from triton import language as tl

_LONGEST_TILE = 128
_EXACT_PARTS = 3
_FULL_ENOUGH = 0.9  # share of the last wave of programs below which keys are cut further
_MOST_RANGES = 16
_INTERPRETED_CORES = 2
_NEWEST = 9  # major compute capability: later cards multiply by instructions that need more room than counted here
_BYTES = {"highest": 2 * _EXACT_PARTS, "high": 4, "medium": 2}
_MOST_ELEMENTS = 1 << 30  # two parts of them are numbered with 31 bits


class Tiling(NamedTuple):
    """How a kernel cuts its work.

    Attributes:
        rows: Of a tile.
        keys: Of a tile.
        warps: Of a program.
        stages: Tiles of keys in flight.
        returns: Whether the keys are multiplied a second time, into a gradient.
    """

    rows: int
    keys: int
    warps: int
    stages: int
    returns: bool = True

    @property
    def options(self) -> dict[str, int]:
        """As a kernel takes them."""
        return {"ROWS": self.rows, "KEYS": self.keys, "num_warps": self.warps, "num_stages": self.stages}


Tilings = dict[str, dict[int, Tiling]]
"""By torch's matmul precision, and by the widest rows they hold without spilling registers, in rising order."""


class Operand(NamedTuple):
    """Matrices ``[batch, rows, width]``, padded with zeros.

    Attributes:
        parts: ``[parts, batch, padded rows, padded width]``, which add up to the matrices.
        transposed: ``[batch, padded width, padded rows]``, where tensor cores cannot transpose by themselves.
    """

    parts: Tensor
    transposed: Tensor | None


def operand(z: Tensor) -> Operand:
    """``[batch, rows, width]`` matrices as torch's matmul precision wants them multiplied."""
    precision = torch.get_float32_matmul_precision()
    _, rows, width = z.shape
    rest = pad(z, (0, padded_width(width) - width, 0, padded_length(rows) - rows))
    if precision == "high":
        rounded = _round_to_tf32(rest)
        return Operand(rounded.unsqueeze(0), rounded.mT.contiguous())
    parts = []
    for _ in range(_EXACT_PARTS if precision == "highest" else 1):
        parts.append(rest.to(torch.bfloat16))
        rest = rest - parts[-1]
    return Operand(torch.stack(parts), None)


def padded_length(rows: int) -> int:
    """The number of rows that every tile divides."""
    return -(-rows // _LONGEST_TILE) * _LONGEST_TILE


def padded_width(width: int) -> int:
    """The power of two that a tile is wide; tensor cores take no fewer than sixteen."""
    return max(1 << (width - 1).bit_length(), 16)


def tiling_for(tilings: Tilings, z: Tensor) -> Tiling | None:
    """The tiling for matrices ``[batch, rows, width]``, or None where they or the card are too small or too large."""
    (batch, rows, width), precision = z.shape, torch.get_float32_matmul_precision()
    tiling = next((tiling for widest, tiling in tilings[precision].items() if width <= widest), None)
    if tiling is None or not z.numel() or batch * padded_length(rows) * padded_width(width) >= _MOST_ELEMENTS:
        return None
    return tiling if not z.is_cuda or _runs(z.device, _shared_bytes(tiling, width, precision)) else None


def _shared_bytes(tiling: Tiling, width: int, precision: str) -> int:
    """What a program keeps beside its registers: its rows, and the tiles of keys in flight in every form it has."""
    copies = 2 if precision == "high" and tiling.returns else 1
    return (tiling.rows + tiling.stages * tiling.keys * copies) * padded_width(width) * _BYTES[precision]


def _runs(device: torch.device, shared_bytes: int) -> bool:
    """Whether the card has enough shared memory, less what the driver and small vectors take, and is none too new."""
    card = torch.cuda.get_device_properties(device)
    return card.major <= _NEWEST and shared_bytes + 2048 <= card.shared_memory_per_multiprocessor


def key_ranges(row_tiles: int, key_tiles: int, device: torch.device) -> tuple[int, int]:
    """Cut the keys into ranges so that all cores have something to do until the end.

    Args:
        row_tiles: How many programs there would be without.
        key_tiles: Over how many each of them would walk.
        device: Where they run.

    Returns:
        The number of ranges and the key tiles in each; the last may have fewer.
    """
    on_card = device.type == "cuda"
    cores = torch.cuda.get_device_properties(device).multi_processor_count if on_card else _INTERPRETED_CORES
    most = max(min(key_tiles, _MOST_RANGES), 1)

    def fullness(count: int) -> float:
        return row_tiles * count / (-(-row_tiles * count // cores) * cores)

    count = next((count for count in range(1, most) if fullness(count) >= _FULL_ENOUGH), most)
    tiles = -(-key_tiles // count)
    return -(-key_tiles // tiles), tiles


def _round_to_tf32(x: Tensor) -> Tensor:
    """To the nearest number with ten bits after the point: tensor cores would cut the others off."""
    rounded = ((x.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
    return torch.where(x.isnan(), x, rounded)  # of the NaN that cards make, rounding would make a zero


@triton.jit
def load_tile(parts, stride, first, PARTS: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """The parts of ``[COUNT, WIDTH]`` some rows; the same one three times where there is but one."""
    place = tl.arange(0, COUNT)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    parts += first * WIDTH
    coarse = tl.load(parts + place)
    middle = coarse
    fine = coarse
    if PARTS == 3:
        middle = tl.load(parts + stride + place)
        fine = tl.load(parts + 2 * stride + place)
    return coarse, middle, fine


@triton.jit
def products(mine, mine_middle, mine_fine, keys, keys_middle, keys_fine, PARTS: tl.constexpr):
    """``[rows, keys]`` inner products, small terms first."""
    if PARTS == 3:
        total = tl.dot(mine_fine, tl.trans(keys))
        total = tl.dot(mine, tl.trans(keys_fine), total)
        total = tl.dot(mine_middle, tl.trans(keys_middle), total)
        total = tl.dot(mine_middle, tl.trans(keys), total)
        total = tl.dot(mine, tl.trans(keys_middle), total)
        total = tl.dot(mine, tl.trans(keys), total)
    else:
        total = tl.dot(mine, tl.trans(keys), input_precision="tf32")
    return total


@triton.jit
def add_weighted(
    total,
    weights,
    keys,
    keys_middle,
    keys_fine,
    transposed,
    length,
    first,
    PARTS: tl.constexpr,
    COUNT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """``total + weights @ keys``, with ``weights [rows, COUNT]``."""
    if keys.dtype == tl.float32:
        place = tl.arange(0, WIDTH)[:, None] * length + tl.arange(0, COUNT)[None, :]
        there = tl.trans(tl.load(transposed + first + place))
        total = tl.dot(_to_tf32(weights), there, total, input_precision="tf32")
    else:
        coarse = weights.to(tl.bfloat16)
        if PARTS == 3:
            rest = weights - coarse.to(tl.float32)
            middle = rest.to(tl.bfloat16)
            fine = (rest - middle.to(tl.float32)).to(tl.bfloat16)
            # A tile begins afresh, small terms first, and its sum is rounded into the total.
            tile = tl.dot(fine, keys)
            tile = tl.dot(coarse, keys_fine, tile)
            tile = tl.dot(middle, keys_middle, tile)
            tile = tl.dot(middle, keys, tile)
            tile = tl.dot(coarse, keys_middle, tile)
            total += tl.dot(coarse, keys, tile)
        else:
            total = tl.dot(coarse, keys, total)
    return total


@triton.jit
def _to_tf32(x):
    rounded = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return tl.where(x == x, rounded, x)
