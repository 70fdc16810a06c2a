"""The Triton kernels against their plain twins in double precision.

On a machine with CUDA the kernels are compiled. Elsewhere triton's interpreter runs them on CPU tensors:
tests/conftest.py switches it on before anything imports triton.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from bandana.engine import bandwidth, edge_loss, kernels
from bandana.engine.dropout import dropout, dropped_product, keep_scale
from bandana.engine.edge_loss import DecoderWeights
from bandana.engine.negatives import sample_negatives
from bandana.engine.propagate import gcn_weights, propagate_with_dropout
from bandana.engine.structure import Structure, build_structure

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")
HAS_TRITON = find_spec("triton") is not None
SINGLE = 2e-6
"""Relative error that single precision may have against double precision, over a whole tensor."""


@pytest.fixture
def device() -> torch.device:
    if not HAS_TRITON:
        pytest.skip("triton is not installed")
    return DEVICE


@pytest.fixture
def poison() -> Iterator[None]:
    """Fresh memory holds NaN, so that what a kernel forgets to write is seen."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(3, device=DEVICE).isnan().all()
    assert torch.ones(1, device=DEVICE).new_empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def relative_error(actual: Tensor, expected: Tensor, scale: Tensor | None = None) -> float:
    """In the norm of the tensor, or of what was added up to it; NaN and infinity are errors too."""
    size = float((expected if scale is None else scale).norm())
    return float((actual.double() - expected.double()).norm()) / max(size, 1e-30)


def rows_of_sizes(sizes: list[int], device: torch.device) -> tuple[Structure, Tensor]:
    """A square pattern whose first rows have these sizes; those that follow are empty."""
    columns = max([len(sizes), *sizes])
    row = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long))
    col = torch.cat([torch.arange(size) for size in sizes]) if sizes else torch.empty(0, dtype=torch.long)
    structure, _ = build_structure(row, col, columns, columns)
    return structure.to(device), (row * columns + col).to(device)


def exact_shares(structure: Structure, keys: Tensor, temperature: float, **where: int) -> Tensor:
    """The plain twin on the CPU in double precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    shares, _ = bandwidth.boltzmann_gibbs(structure.to("cpu"), keys.cpu(), temperature, **where)
    torch.set_default_dtype(before)
    return shares


SHORT, LONG = (32, 256) if DEVICE.type == "cuda" else (2, 8)
"""Blocks of entries. The interpreter takes milliseconds for a row, and a long one needs as many rows as columns."""

SIZES = [
    pytest.param(
        [0, 1, 0, 2, SHORT - 1, SHORT, SHORT + 1, LONG - 1, LONG, LONG + 1, LONG + LONG // 4, 0], id="around the blocks"
    ),
    pytest.param([0, 0, 0], id="only empty rows"),
    pytest.param([], id="no rows"),
    pytest.param([2 * LONG + SHORT + 1], id="one long row"),
]


@pytest.fixture
def small_blocks(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    from bandana.engine.kernels import bandwidth as row_kernels

    if device.type == "cuda":
        assert (row_kernels._SHORT, row_kernels._LONG) == (SHORT, LONG)
    monkeypatch.setattr(row_kernels, "_SHORT", SHORT)
    monkeypatch.setattr(row_kernels, "_LONG", LONG)


@pytest.mark.usefixtures("poison", "small_blocks")
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("temperature", [0.2, 1.0, 1e6])
def test_shares(device: torch.device, sizes: list[int], temperature: float) -> None:
    from bandana.engine.kernels.bandwidth import boltzmann_gibbs

    structure, keys = rows_of_sizes(sizes, device)
    shares, (messages, loop) = boltzmann_gibbs(structure, keys, temperature, seed=4, step=5, layer=6)
    shares, messages, loop = (tensor.cpu() for tensor in (shares, messages, loop))
    expected = exact_shares(structure, keys, temperature, seed=4, step=5, layer=6)
    assert shares.dtype is torch.float32
    # The noise is rounded before the temperature divides it.
    assert relative_error(shares, expected) < SINGLE / min(temperature, 1)
    totals = torch.zeros(structure.num_rows).double().index_add(0, structure.row.cpu(), shares.double())
    torch.testing.assert_close(totals, (structure.row_sizes.cpu() > 0).double(), rtol=SINGLE, atol=0)
    normalised = gcn_weights(structure.to("cpu"), expected)
    assert relative_error(messages, normalised.values) < SINGLE / min(temperature, 1)
    assert relative_error(loop, normalised.loop) < SINGLE


@pytest.mark.usefixtures("small_blocks")
def test_shares_when_one_entry_takes_all(device: torch.device) -> None:
    from bandana.engine.kernels.bandwidth import boltzmann_gibbs

    structure, keys = rows_of_sizes([SHORT, SHORT + 1, LONG + SHORT], device)
    shares = boltzmann_gibbs(structure, keys, 1e-6, seed=0, step=0, layer=0)[0].cpu()
    assert shares.equal(exact_shares(structure, keys, 1e-6, seed=0, step=0, layer=0).float())
    assert int((shares == 1).sum()) == 3


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("where", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**62, 10**6, 40)])
def test_each_stream_draws_the_noise_of_the_plain_function(device: torch.device, where: tuple[int, int, int]) -> None:
    """The logarithm of shares is the noise, up to a constant of the row. Keys fill all 64 bits."""
    from bandana.engine.kernels.bandwidth import boltzmann_gibbs

    words = dict(zip(("seed", "step", "layer"), where, strict=True))
    length = SHORT + 4
    structure, _ = rows_of_sizes([length] * 3, device)
    keys = torch.randint(-(2**63), 2**63 - 1, (3 * length,), generator=torch.Generator().manual_seed(0))
    shares, *_ = boltzmann_gibbs(structure, keys.to(device), 1.0, **words)
    on_device = {**words, "step": torch.tensor(words["step"], device=device)}
    assert boltzmann_gibbs(structure, keys.to(device), 1.0, **on_device)[0].equal(shares)
    noise, expected = (each.view(3, length) for each in (shares.cpu().log(), bandwidth.gaussian_noise(keys, **words)))
    torch.testing.assert_close(noise - noise.mean(1, True), expected - expected.mean(1, True), rtol=0, atol=1e-5)


class Problem(NamedTuple):
    z: Tensor
    decoder: DecoderWeights
    pairs: Tensor
    weight: Tensor

    def double(self) -> "Problem":
        weights = DecoderWeights(*(tensor.double().cpu() for tensor in self.decoder))
        return Problem(self.z.double().cpu(), weights, self.pairs.cpu(), self.weight.double().cpu())


def problem(device: torch.device, nodes: int, width: int, hidden: int, pairs: int) -> Problem:
    """Positive, negative and weightless pairs; with few nodes, many pairs of a node with itself."""
    generator = torch.Generator().manual_seed(pairs)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(device)

    z = normal(nodes, width)
    decoder = DecoderWeights(normal(hidden, width) / width**0.5, normal(hidden), normal(2, hidden), normal(2))
    weight, ends = normal(pairs), torch.randint(nodes, (2, pairs), generator=generator).to(device)
    weight[::7] = 0
    before_relu = (z[ends[0]] * z[ends[1]]).double() @ decoder.hidden_weight.double().T + decoder.hidden_bias.double()
    weight[(before_relu.abs() < 1e-5).any(1)] = 0  # rounding decides on which side of the kink these are
    return Problem(z, decoder, ends, weight)


SHAPES = [
    pytest.param((9, 5, 4, 20), id="small"),
    pytest.param((5, 1, 1, 7), id="width one"),
    pytest.param((30, 256, 128, 90), id="usual widths"),
    pytest.param((20, 33, 100, 50), id="odd widths"),
    pytest.param((3, 600, 64, 9), id="as many hidden units as are few"),
    pytest.param((3, 300, 400, 9), id="many hidden units"),
    pytest.param((40, 16, 8, 700), id="more tiles than programs"),
    pytest.param((40, 70, 90, 700), id="more tiles than programs, many hidden units"),
    pytest.param((4, 8, 8, 0), id="no pairs"),
    pytest.param((4, 8, 80, 0), id="no pairs, many hidden units"),
]
NAMES = ("loss", "grad_z", "grad_hidden_weight", "grad_hidden_bias", "grad_out_weight", "grad_out_bias")


def assert_same_loss_and_gradients(given: Problem) -> None:
    total, gradients = edge_loss._kernel_for(given.decoder)(*given, 0.0, None)
    exact_total, exact_gradients = edge_loss._loss_and_gradients(*given.double(), 0.0, None, 4096)
    for name, actual, expected in zip(NAMES, (total, *gradients), (exact_total, *exact_gradients), strict=True):
        assert actual.shape == expected.shape, name
        assert relative_error(actual.cpu(), expected) < SINGLE, name


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize("shape", SHAPES)
def test_loss_and_gradients(device: torch.device, shape: tuple[int, ...]) -> None:
    assert_same_loss_and_gradients(problem(device, *shape))


@pytest.mark.usefixtures("poison")
def test_pairs_are_taken_chunk_by_chunk(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three chunks, of which the last is smaller, make of loss and gradients what one does, with dropout too."""
    from bandana.engine.kernels import edge_loss as narrow

    given = problem(device, 20, 24, 8, 230)
    generator = torch.Generator(device)
    at_once = narrow.loss_and_gradients(*given, 0.3, generator.manual_seed(0))
    monkeypatch.setattr(narrow, "_CHUNK_BYTES", 8 * 100)
    assert_same_loss_and_gradients(given)
    total, gradients = narrow.loss_and_gradients(*given, 0.3, generator.manual_seed(0))
    assert relative_error(total, at_once[0]) < SINGLE
    for actual, expected in zip(gradients, at_once[1], strict=True):
        assert relative_error(actual, expected) < SINGLE


@pytest.mark.parametrize("roomy", [True, False], ids=["roomy", "small"])
@pytest.mark.parametrize(("precision", "factor_bits"), [("high", 11), ("medium", 8)])
@pytest.mark.parametrize("hidden", [48, 200], ids=["few hidden units", "many"])
def test_less_precise_products_cost_what_their_bits_say(
    device: torch.device, precision: str, factor_bits: int, hidden: int, roomy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away from the kink of the ReLU, where a rounded product may fall on either side; on small cards too."""
    from bandana.engine.kernels import wide_edge_loss as wide

    if not roomy:
        monkeypatch.setattr(wide, "_tiling", lambda pairs: wide._SMALL)
    given = problem(device, 40, 96, hidden, 300)
    decoder = given.decoder._replace(hidden_bias=torch.where(given.decoder.hidden_bias > 0, 6.0, -6.0))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        total, gradients = edge_loss._kernel_for(decoder)(*given._replace(decoder=decoder), 0.0, None)
    finally:
        torch.set_float32_matmul_precision(before)
    exact = edge_loss._loss_and_gradients(*given._replace(decoder=decoder).double(), 0.0, None, 4096)
    for name, actual, expected in zip(NAMES, (total, *gradients), (exact[0], *exact[1]), strict=True):
        assert actual.dtype is torch.float32, name
        assert relative_error(actual.cpu(), expected) < 4 * 2.0**-factor_bits, name


def test_sure_predictions_keep_their_small_losses(device: torch.device) -> None:
    """Far beyond where one plus a small number is one, and where exponentials overflow."""
    given = problem(device, 9, 5, 4, 40)
    for scale in (32.0, 1e4):
        out_bias = torch.tensor([scale, 0.0], device=device)
        zero = torch.zeros_like(given.decoder.out_weight)
        for sign in (1, -1):
            decoder = given.decoder._replace(out_weight=zero, out_bias=out_bias)
            assert_same_loss_and_gradients(given._replace(decoder=decoder, weight=given.weight.abs() * sign))


@pytest.mark.parametrize("hidden", [4, 300], ids=["few hidden units", "many"])
def test_a_diverged_embedding_is_not_hidden(device: torch.device, hidden: int) -> None:
    given = problem(device, 9, 5, hidden, 20)
    given.z[given.pairs[0, 1]] = torch.nan
    total, gradients = edge_loss._kernel_for(given.decoder)(*given, 0.0, None)
    assert total.isnan()
    assert all(gradient.isnan().any() for gradient in gradients)


def kept(shape: tuple[int, int], rate: float, seed: int, first: int = 0) -> Tensor:
    """Which elements survive, in plain integer arithmetic: a 64-bit mix of the pair, then a 32-bit one per column."""
    word, half = (1 << 64) - 1, np.uint64(0xFFFFFFFF)
    keys = []
    for row in range(first, first + shape[0]):
        bits = (row * 0x9E3779B97F4A7C15 + seed) & word
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & word
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & word
        keys.append((bits ^ (bits >> 31)) & 0xFFFFFFFF)
    column = np.arange(shape[1], dtype=np.uint64) * np.uint64(0x9E3779B9) & half
    bits = np.array(keys, dtype=np.uint64)[:, None] ^ column[None, :]
    bits = (bits ^ (bits >> np.uint64(16))) * np.uint64(0x7FEB352D) & half
    bits = (bits ^ (bits >> np.uint64(15))) * np.uint64(0x846CA68B) & half
    level = (bits ^ (bits >> np.uint64(16))) >> np.uint64(16)
    return torch.from_numpy(level.astype(np.int64) < round(65536 / keep_scale(rate))).double()


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("width", [7, 64, 100])
def test_dropout_keeps_its_share_independently(rate: float, width: int) -> None:
    mask = kept((200, width), rate, 7)
    share, five_sigma = 1 / keep_scale(rate), 5 * (rate * (1 - rate)) ** 0.5
    assert abs(float(mask.mean()) - share) < five_sigma / mask.numel() ** 0.5
    assert float((mask.mean(0) - share).abs().max()) < five_sigma / mask.shape[0] ** 0.5
    centred = (mask - share) / (share * (1 - share)) ** 0.5
    for lagged in (centred[1:] * centred[:-1], centred[:, 1:] * centred[:, :-1], centred * centred.roll(width // 2, 1)):
        assert abs(float(lagged.mean())) < 5 / lagged.numel() ** 0.5


def test_dropout_belongs_to_the_seed_and_the_number_of_the_pair() -> None:
    whole = kept((50, 20), 0.5, 3)
    others = [kept((50, 20), 0.5, 4), kept((50, 20), 0.5, 3 + 2**40), kept((50, 20), 0.5, 3, first=2**32)]
    for other in others:
        assert 0.4 < float((other != whole).float().mean()) < 0.6


@pytest.mark.parametrize(
    "shape", [(9, 5, 4, 40), (20, 40, 16, 50), (20, 100, 16, 300), (20, 40, 70, 50), (20, 100, 300, 200)]
)
def test_dropout_of_the_gradient_is_that_of_the_product(device: torch.device, shape: tuple[int, ...]) -> None:
    """Against torch's own derivative of the plain equation under the same mask."""
    from bandana.engine.kernels.hashing import draw_seed

    rate, given = 0.4, problem(device, *shape)
    generator = torch.Generator(device).manual_seed(5)
    total, gradients = edge_loss._kernel_for(given.decoder)(*given, rate, generator)
    seed = int(draw_seed(generator.manual_seed(5)))
    mask = kept((shape[3], shape[1]), rate, seed) * keep_scale(rate)
    assert 0 < int((mask == 0).sum()) < mask.numel()

    exact = given.double()
    leaves = [tensor.requires_grad_() for tensor in (exact.z, *exact.decoder)]
    product = exact.z[exact.pairs[0]] * exact.z[exact.pairs[1]] * mask
    hidden = torch.relu(product @ exact.decoder.hidden_weight.T + exact.decoder.hidden_bias)
    log_p = torch.log_softmax(hidden @ exact.decoder.out_weight.T + exact.decoder.out_bias, dim=1)
    loss = -(exact.weight.clamp(min=0) * log_p[:, 0]).sum() + (exact.weight.clamp(max=0) * log_p[:, 1]).sum()
    assert relative_error(total.cpu(), loss.detach()) < SINGLE
    for name, actual, expected in zip(NAMES[1:], gradients, torch.autograd.grad(loss, leaves), strict=True):
        terms = exact.weight if name == "grad_out_bias" else None  # a sum of both signs: nearly nothing may be left
        assert relative_error(actual.cpu(), expected, terms) < SINGLE, name


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
def test_weights_are_split_into_addends_that_tensor_cores_hold(device: torch.device, size: float) -> None:
    from bandana.engine.kernels.wide_edge_loss import _split

    draw = torch.Generator().manual_seed(0)
    weight, slope = (torch.randn(*shape, generator=draw).to(device) for shape in ((70, 33), (70,)))
    weight *= size
    folded = (weight * 1.25 * slope.unsqueeze(1)).double()
    for precision, bits in (("tf32x3", 21), ("tf32", 14), ("bf16", 7)):
        there, back, powers = _split(weight, slope, 1.25, precision)
        assert powers.tolist() == [1 << bit for bit in range(31)] + [-(1 << 31)]
        error = (back.double().sum(0) - folded).abs()
        assert bool((error <= folded.abs() * 2.0**-bits).all())
        if precision == "bf16":
            assert there.dtype is torch.bfloat16
            continue
        assert not bool((there[0].view(torch.int32) & 0x1FFF).any())
        if precision == "tf32x3":
            assert (there[0] + there[1]).equal(weight * 1.25)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_hidden_units_that_pass_are_known_to_the_last(device: torch.device, precision: str) -> None:
    """Gradients in whole numbers, which every precision holds exactly: one bit astray would be seen."""
    hidden, width, pairs = 131, 40, 150
    generator = torch.Generator().manual_seed(0)
    z = torch.randint(0, 2, (30, width), generator=generator).float().to(device)
    signs = torch.randint(0, 2, (hidden, width), generator=generator).mul_(2).sub_(1).float()
    decoder = DecoderWeights(signs, torch.full((hidden,), 0.5), torch.zeros(2, hidden), torch.zeros(2))
    decoder.out_weight[0] = 2.0**-100  # the logit is zero, and the gradient of every hidden unit the same
    decoder = DecoderWeights(*(tensor.to(device) for tensor in decoder))
    ends = torch.randint(30, (2, pairs), generator=generator).to(device)
    given = Problem(z, decoder, ends, torch.full((pairs,), 2.0, device=device))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        _, gradients = edge_loss._kernel_for(decoder)(*given, 0.0, None)
    finally:
        torch.set_float32_matmul_precision(before)
    _, exact = edge_loss._loss_and_gradients(*given.double(), 0.0, None, 4096)
    for name, actual, expected in zip(NAMES[1:], gradients, exact, strict=True):
        assert actual.cpu().double().equal(expected), name


@pytest.mark.parametrize("hidden", [4, 80], ids=["few hidden units", "many"])
def test_two_calls_with_one_generator_drop_differently(device: torch.device, hidden: int) -> None:
    given, generator = problem(device, 9, 5, hidden, 20), torch.Generator(device).manual_seed(0)
    loss_and_gradients = edge_loss._kernel_for(given.decoder)
    first, second = (loss_and_gradients(*given, 0.5, generator)[0] for _ in range(2))
    again = loss_and_gradients(*given, 0.5, generator.manual_seed(0))[0]
    assert first != second
    torch.testing.assert_close(again, first)


@pytest.mark.parametrize("name", ["edge_loss", "wide_edge_loss"])
def test_inputs_are_left_alone_and_may_lie_anyhow(device: torch.device, name: str) -> None:
    loss_and_gradients = import_module(f"bandana.engine.kernels.{name}").loss_and_gradients
    given = problem(device, 9, 5, 4, 20)
    tensors = (given.z, *given.decoder, given.pairs, given.weight)
    before = [tensor.clone() for tensor in tensors]
    total, gradients = loss_and_gradients(*given, 0.0, None)
    decoder = given.decoder
    strided = given._replace(
        z=spread(given.z),
        decoder=decoder._replace(hidden_weight=spread(decoder.hidden_weight), hidden_bias=spread(decoder.hidden_bias)),
        pairs=spread(given.pairs),
        weight=spread(given.weight),
    )
    parts = (strided.z, *strided.decoder[:2], strided.pairs, strided.weight)
    assert not any(part.is_contiguous() for part in parts)
    torch.testing.assert_close(loss_and_gradients(*strided, 0.0, None)[0], total)
    turned_weight = decoder.hidden_weight.t().contiguous().t()
    turned = given._replace(z=given.z.t().contiguous().t(), decoder=decoder._replace(hidden_weight=turned_weight))
    for actual, expected in zip(loss_and_gradients(*turned, 0.0, None)[1], gradients, strict=True):
        torch.testing.assert_close(actual, expected)
    assert all(tensor.equal(copy) for tensor, copy in zip(tensors, before, strict=True))


def spread(tensor: Tensor) -> Tensor:
    """The same numbers, with others between them."""
    return torch.stack([tensor, tensor + 1], dim=-1)[..., 0]


def random_matrix(device: torch.device, rows: int, cols: int, entries: int) -> tuple[Structure, Tensor]:
    generator = torch.Generator().manual_seed(entries)
    keys = torch.randint(rows * cols, (entries,), generator=generator).unique()
    keys = torch.cat([keys, torch.arange(cols) + (rows // 2) * cols]).unique()  # one full row
    structure, _ = build_structure(keys // cols, keys % cols, rows, cols)
    return structure.to(device), torch.randn(structure.num_entries, generator=generator).to(device)


MATRICES = [(14, 14, 40, 7), (8, 40, 200, 64), (10, 10, 10, 300), (12, 20, 150, 1), (1, 1, 1, 1)]


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize(("rows", "cols", "entries", "width"), MATRICES)
def test_products(device: torch.device, rows: int, cols: int, entries: int, width: int) -> None:
    from bandana.engine.kernels.propagate import spmm

    structure, values = random_matrix(device, rows, cols, entries)
    generator = torch.Generator().manual_seed(1)
    dense, loop = torch.randn(cols, width, generator=generator), torch.randn(rows, generator=generator)
    matrix = torch.zeros(rows, cols).double()
    matrix[structure.row.cpu(), structure.col.cpu()] = values.double().cpu()
    product = spmm(structure.rowptr, structure.col, values, dense.to(device))
    assert relative_error(product.cpu(), matrix @ dense.double()) < SINGLE
    if rows == cols:
        looped = spmm(structure.rowptr, structure.col, values, dense.to(device), loop=loop.to(device))
        assert relative_error(looped.cpu(), (matrix + loop.double().diag()) @ dense.double()) < SINGLE
    back = torch.randn(rows, width, generator=generator)
    where = structure.transposed_rowptr, structure.transposed_col
    transposed = spmm(*where, values, back.to(device), entry=structure.transposed_entry)
    assert relative_error(transposed.cpu(), matrix.T @ back.double()) < SINGLE


def test_a_product_reads_operands_of_any_layout(device: torch.device) -> None:
    """The shares of one head of attention are a column of what was computed for all heads."""
    from bandana.engine.kernels.propagate import spmm

    structure, values = random_matrix(device, 9, 9, 30)
    dense, loop = torch.randn(9, 5, device=device), torch.randn(9, device=device)
    strided = [spread(operand) for operand in (values, dense, loop)]
    assert not any(operand.is_contiguous() for operand in strided)
    where = structure.rowptr, structure.col
    expected = spmm(*where, values, dense, loop=loop)
    assert spmm(*where, strided[0], strided[1], loop=strided[2]).equal(expected)


def test_long_rows_are_cut_and_added_up(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    from bandana.engine.kernels import row_parts
    from bandana.engine.kernels.propagate import spmm

    monkeypatch.setattr(row_parts, "_LONGEST", 10)  # more than a program loads at once, which is eight
    structure, _ = rows_of_sizes([3, 0, 23, 10, 11], device)
    parts = row_parts.cut_rows(structure.rowptr)
    assert parts.row[:9].tolist() == [0, 1, 2, 2, 2, 3, 4, 4, 5]
    assert parts.start[:9].tolist() == [0, 3, 3, 13, 23, 26, 36, 46, 47]
    assert parts.slot[:9].tolist() == [-1, -1, 0, 1, 2, -1, 3, 4, -1]
    values = torch.randn(structure.num_entries, generator=torch.Generator().manual_seed(0)).to(device)
    dense = torch.randn(23, 5, generator=torch.Generator().manual_seed(1)).to(device)
    loop = torch.randn(23, generator=torch.Generator().manual_seed(2)).to(device)
    matrix = torch.zeros(23, 23).double()
    matrix[structure.row.cpu(), structure.col.cpu()] = values.double().cpu()
    expected = (matrix + loop.double().cpu().diag()) @ dense.double().cpu()
    product = spmm(structure.rowptr, structure.col, values, dense, loop=loop)
    assert relative_error(product.cpu(), expected) < SINGLE
    assert spmm(structure.rowptr, structure.col, values, dense, loop=loop).equal(product)


def test_rows_stay_whole_where_nobody_may_wait_for_their_sizes(device: torch.device) -> None:
    from bandana.engine.kernels import row_parts

    structure, _ = rows_of_sizes([3, 0, 99, 10], device)
    parts = row_parts._whole_rows(structure.rowptr)
    assert parts.row.tolist() == list(range(structure.num_rows))
    assert parts.start.equal(structure.rowptr[:-1])
    assert parts.slot.eq(-1).all()
    assert parts.slots == parts.cut_row.numel() == 0
    assert parts.length >= 99


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, -1], ids=["torch's", "a card's", "negative"])
def test_rounding_keeps_what_is_not_a_number(device: torch.device, bits: int) -> None:
    from bandana.engine.kernels import all_pairs, wide_edge_loss

    weight = torch.ones(4, 8, device=device)
    weight[2, 3] = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    assert all_pairs._round_to_tf32(weight).isnan().equal(weight.isnan())
    there, _, _ = wide_edge_loss._split(weight, torch.ones(4, device=device), 1.0, "tf32")
    assert there[0].isnan().equal(weight.isnan())


def test_dropped_entries_are_the_same_on_the_way_back(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product is linear: its derivative must use the entries that it used itself, and drop the right share."""
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: True)
    rows, width, rate = 26, 30, 0.75
    structure, values = random_matrix(device, rows, width, 2000)  # nearly all of them, for a sharp look at the rate
    dense = torch.eye(width, device=device).requires_grad_()
    out = propagate_with_dropout(structure, values, dense, rate, torch.Generator(device).manual_seed(3))
    used = out[structure.row, structure.col].detach()
    assert bool(((used == 0) | torch.isclose(used, values * keep_scale(rate))).all())
    assert abs(float((used == 0).double().mean()) - rate) < 5 * (rate * (1 - rate) / used.numel()) ** 0.5
    back = torch.randn(rows, width, generator=torch.Generator().manual_seed(0)).to(device)
    (gradient,) = torch.autograd.grad(out, dense, back)
    assert relative_error(gradient, out.detach().double().T @ back.double()) < SINGLE


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize("shape", [(50, 20), (3, 700), (1, 1), (0, 4)])
def test_dropout_of_a_matrix(device: torch.device, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    from bandana.engine.kernels.hashing import draw_seed

    monkeypatch.setattr(kernels, "usable", lambda device, dtype: True)
    rate, generator = 0.4, torch.Generator(device).manual_seed(5)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
    out = dropout(x, rate, generator)
    mask = kept(shape, rate, int(draw_seed(generator.manual_seed(5)))).float() * keep_scale(rate)
    torch.testing.assert_close(out.detach().cpu(), x.detach().cpu() * mask)
    back = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    (gradient,) = torch.autograd.grad(out, x, back.to(device))
    torch.testing.assert_close(gradient.cpu(), back * mask)


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize("shape", [(50, 20, 6), (3, 700, 6), (70, 33, 130), (5, 1, 1), (0, 4, 6)])
@pytest.mark.parametrize("spread_out", [False, True], ids=["contiguous", "in every second column"])
def test_products_on_tensor_cores(device: torch.device, shape: tuple[int, int, int], spread_out: bool) -> None:
    from bandana.engine.kernels.matrix_product import multiply

    (rows, terms, columns), draw = shape, torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, generator=draw).to(device) for size in ((rows, terms), (terms, columns)))
    a = spread(a) if spread_out else a
    for other in (b, b.t().contiguous().t()):
        out = multiply(a, other)
        assert out.shape == (rows, columns)
        assert relative_error(out, a.double() @ b.double()) < SINGLE


def test_a_product_of_millions_of_rows_fits_a_grid(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its first axis a grid holds 65,535 programs."""
    from bandana.engine.kernels import matrix_product

    grids: list[tuple[int, ...]] = []

    class Launcher:
        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            grids.append(grid)
            return lambda *args, **kwargs: None

    monkeypatch.setattr(matrix_product, "_tile", Launcher())
    matrix_product.multiply(torch.zeros(1, 4, device=device).expand(5_000_000, -1), torch.zeros(4, 2, device=device))
    ((programs, *further),) = grids
    assert programs >= 5_000_000 // 128
    assert max(further, default=1) <= 65_535


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("shape", [(50, 20), (3, 700)])
def test_a_dropped_product_is_dropout_and_product(
    device: torch.device, shape: tuple[int, int], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generator that is set back drops the same elements, so the identity shows what was multiplied."""
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: True)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    draw, rate = torch.Generator().manual_seed(0), 0.4
    x, weight = (torch.randn(size, generator=draw).to(device).requires_grad_() for size in (shape, (shape[1], 6)))
    back = torch.randn(shape[0], 6, generator=draw).to(device)
    mask = dropout(torch.ones_like(x), rate, torch.Generator(device).manual_seed(5)).double()
    assert set(mask.unique().tolist()) == {0.0, float(torch.tensor(keep_scale(rate)))}

    out = dropped_product(x, weight, rate, torch.Generator(device).manual_seed(5))
    dropped, exact_weight, exact_back = mask * x.detach().double(), weight.detach().double(), back.double()
    exact = dropped @ exact_weight, mask * (exact_back @ exact_weight.T), dropped.T @ exact_back
    for actual, expected in zip((out.detach(), *torch.autograd.grad(out, (x, weight), back)), exact, strict=True):
        assert relative_error(actual, expected) < SINGLE


def test_a_dropped_product_takes_rows_that_share_memory(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: True)
    x, weight = torch.randn(1, 7, device=device), torch.randn(7, 6, device=device, requires_grad=True)
    outs = [dropped_product(rows, weight, 0.4, torch.Generator(device).manual_seed(5))
            for rows in (x.expand(9, -1), x.repeat(9, 1))]  # fmt: skip
    assert outs[0].equal(outs[1])
    assert outs[0].unique(dim=0).shape[0] > 1
    gradients = [torch.autograd.grad(out.square().sum(), weight)[0] for out in outs]
    assert gradients[0].equal(gradients[1])


def assert_public_functions_use_the_kernels(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    from bandana.engine.kernels import bandwidth as row_kernels
    from bandana.engine.kernels import edge_loss as pair_kernels

    calls: list[str] = []

    def watch(module: Any, name: str) -> None:
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **kwargs: calls.append(name) or original(*args, **kwargs))

    watch(row_kernels, "boltzmann_gibbs")
    watch(pair_kernels, "loss_and_gradients")
    structure, keys = rows_of_sizes([3, 0, 5], device)
    shares, _ = bandwidth.boltzmann_gibbs(structure, keys, 1.0, seed=0, step=0, layer=0)
    assert shares.shape == (8,)
    given = problem(device, 9, 5, 4, 20)
    leaves = [tensor.requires_grad_() for tensor in (given.z, *given.decoder)]
    loss = edge_loss.edge_loss(*given, dropout=0.3, generator=torch.Generator(device).manual_seed(0))
    loss *= 2
    gradients = torch.autograd.grad(loss, leaves)
    with torch.no_grad():
        _, expected = pair_kernels.loss_and_gradients(*given, 0.3, torch.Generator(device).manual_seed(0))
    assert calls == ["boltzmann_gibbs", "loss_and_gradients", "loss_and_gradients"]
    for gradient, half in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, half * 2)


def test_the_public_functions_use_the_kernels_where_they_can(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: True)
    assert_public_functions_use_the_kernels(device, monkeypatch)


def test_repeatable_results_are_left_to_the_plain_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: True)
    torch.use_deterministic_algorithms(True)
    given = problem(torch.device("cpu"), 9, 5, 4, 20)
    monkeypatch.setattr(edge_loss, "_kernel_for", lambda decoder: pytest.fail("a kernel was asked for"))
    try:
        assert edge_loss.edge_loss(*given).isfinite()
    finally:
        torch.use_deterministic_algorithms(False)


def test_without_triton_or_a_compiler_the_plain_functions_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    kernels._compiles.cache_clear()
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    assert not kernels.usable(cuda, torch.float32)

    def no_compiler(device: torch.device) -> None:
        raise RuntimeError("no C compiler")

    kernels._compiles.cache_clear()
    monkeypatch.setattr(kernels, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "bandana.engine.kernels.probe", SimpleNamespace(probe=no_compiler))
    with pytest.warns(UserWarning, match="no C compiler"):
        assert not kernels.usable(cuda, torch.float32)
    assert not kernels.usable(cuda, torch.float32)  # and it is said once
    kernels._compiles.cache_clear()
    assert not kernels.usable(torch.device("cpu"), torch.float32)


def test_importing_the_engine_does_not_import_triton() -> None:
    code = "import sys, bandana.engine.edge_loss, bandana.engine.bandwidth; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.cuda
@pytest.mark.usefixtures("poison")
def test_on_cuda_rows_of_every_length(device: torch.device) -> None:
    from bandana.engine.kernels.bandwidth import boltzmann_gibbs

    generator = torch.Generator().manual_seed(0)
    sizes = [*torch.randint(0, 60, (5000,), generator=generator).tolist(), 20_000, *range(300), 0]
    structure, keys = rows_of_sizes(sizes, device)
    shares, *_ = boltzmann_gibbs(structure, keys, 0.5, seed=1, step=2, layer=3)
    assert relative_error(shares.cpu(), exact_shares(structure, keys, 0.5, seed=1, step=2, layer=3)) < 2 * SINGLE


@pytest.mark.cuda
@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize(
    "shape",
    [
        (300, 256, 128, 5000),
        (300, 256, 256, 3000),
        (300, 100, 70, 5000),
        (300, 256, 600, 2000),
        (8000, 256, 256, 40_000),
        (50, 3, 2, 999),
        (20_000, 16, 8, 200_000),
    ],
)
def test_on_cuda_loss_and_gradients(device: torch.device, shape: tuple[int, ...]) -> None:
    assert_same_loss_and_gradients(problem(device, *shape))


@pytest.mark.cuda
def test_on_cuda_the_kernels_are_chosen(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.usable(torch.zeros(1, device=device).device, torch.float32)
    assert not kernels.usable(torch.zeros(1, device=device).device, torch.float64)
    assert_public_functions_use_the_kernels(device, monkeypatch)


@pytest.mark.cuda
def test_on_cuda_negatives_are_no_edges(device: torch.device) -> None:
    generator = torch.Generator(device).manual_seed(0)
    edge_keys = torch.randint(200 * 200, (4000,), generator=generator, device=device).unique()
    edge_keys = edge_keys[edge_keys // 200 != edge_keys % 200]
    first, second = sample_negatives(edge_keys, 200, 50_000, generator)
    assert first.shape == (50_000,)
    assert not bool((first == second).any())
    assert not bool(torch.isin(first * 200 + second, edge_keys).any())
