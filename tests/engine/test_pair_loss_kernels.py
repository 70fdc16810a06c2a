"""The kernel of the loss of dot products against its plain twin in double precision.

Compiled where there is CUDA, elsewhere through triton's interpreter.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor

from bandana.engine import kernels, pair_loss

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")
HAS_TRITON = find_spec("triton") is not None
SINGLE = 2e-6
"""Relative error that single precision may have against double precision, over a whole tensor."""


@pytest.fixture
def device() -> Iterator[torch.device]:
    """Where the kernel runs. Fresh memory holds NaN, so that what it forgets to write is seen."""
    if not HAS_TRITON:
        pytest.skip("triton is not installed")
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(3, device=DEVICE).isnan().all()
    yield DEVICE
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def chosen(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of the kernel, which the public function may choose."""
    from bandana.engine.kernels import pair_loss as pair_kernels

    calls: list[str] = []
    original = pair_kernels.loss_and_gradient

    def watched(*args: Any) -> Any:
        calls.append("kernel")
        return original(*args)

    monkeypatch.setattr(pair_kernels, "loss_and_gradient", watched)
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: dtype is torch.float32)
    torch.use_deterministic_algorithms(False)
    return calls


def problem(nodes: int, width: int, num_pairs: int) -> tuple[Tensor, Tensor]:
    """Embeddings whose logits are about one, and random pairs; the last node is in none."""
    generator = torch.Generator().manual_seed(num_pairs)
    z = torch.randn(nodes, width, generator=generator) / width**0.25
    return z, torch.randint(nodes - 1, (2, num_pairs), generator=generator)


def exact(z: Tensor, pairs: Tensor, link: float, no_link: float) -> tuple[Tensor, Tensor]:
    return pair_loss._loss_and_gradient(z.cpu().double(), pairs.cpu(), link, no_link, 1 << 16)


def relative_error(actual: Tensor, expected: Tensor, scale: float) -> float:
    """In the norm of the tensor; NaN and infinity are errors too."""
    return float((actual.cpu().double() - expected).norm()) / scale


def assert_same_loss_and_gradient(z: Tensor, pairs: Tensor, link: float = 0.7, no_link: float = 0.4) -> None:
    from bandana.engine.kernels.pair_loss import loss_and_gradient

    loss, grad = loss_and_gradient(z, pairs, link, no_link)
    expected_loss, expected_grad = exact(z, pairs, link, no_link)
    assert (loss.shape, loss.dtype) == ((), torch.float32)
    assert (grad.shape, grad.dtype) == (z.shape, torch.float32)
    if not pairs.numel():
        assert float(loss) == 0
        assert not bool(grad.any())
        return
    added = float(exact(z, pairs, abs(link), abs(no_link))[0])  # terms of both signs may leave nearly nothing
    assert relative_error(loss, expected_loss, added) < SINGLE
    assert relative_error(grad, expected_grad, float(expected_grad.norm())) < SINGLE


@pytest.mark.parametrize("num_pairs", [0, 1, 1000])
@pytest.mark.parametrize("width", [1, 16, 32, 100, 512])
def test_loss_and_gradient(device: torch.device, width: int, num_pairs: int) -> None:
    z, pairs = problem(60, width, num_pairs)
    assert_same_loss_and_gradient(z.to(device), pairs.to(device))


def test_the_widths_are_cut_into_blocks_and_the_pairs_into_tiles() -> None:
    """What the sizes above were chosen for: one block and several, the last of them full or not, and several tiles."""
    if not HAS_TRITON:
        pytest.skip("triton is not installed")
    from bandana.engine.kernels import pair_loss as pair_kernels

    assert 100 < pair_kernels._COLUMNS < 512
    assert pair_kernels._TILE < 1000 * 16
    assert 1000 % (pair_kernels._TILE // 32)


def test_a_last_block_of_columns_that_is_not_full(device: torch.device) -> None:
    z, pairs = problem(9, 130, 40)
    assert_same_loss_and_gradient(z.to(device), pairs.to(device))


@pytest.mark.parametrize("ends", [(3, 5), (4, 4)], ids=["one pair", "a node with itself"])
def test_a_pair_that_comes_again_and_again(device: torch.device, ends: tuple[int, int]) -> None:
    z, _ = problem(9, 16, 0)
    pairs = torch.tensor(ends).unsqueeze(1).expand(2, 40)
    assert_same_loss_and_gradient(z.to(device), pairs.to(device))


@pytest.mark.parametrize(("link", "no_link"), [(0.5, -2.0), (0.0, -1e-6), (1 / 3, 0.0), (0.0, 1 / 3)])
def test_costs(device: torch.device, link: float, no_link: float) -> None:
    z, pairs = problem(20, 16, 200)
    assert_same_loss_and_gradient(z.to(device), pairs.to(device), link, no_link)


@pytest.mark.parametrize("logit", [80.0, -80.0, 1e4, -1e4])
@pytest.mark.parametrize(("link", "no_link"), [(1.0, 0.0), (0.0, 1.0), (0.5, -2.0)])
def test_sure_logits_keep_their_small_losses(device: torch.device, logit: float, link: float, no_link: float) -> None:
    """Far beyond where one plus a small number is one; the last bit of an exponent of 80 counts eighty times."""
    from bandana.engine.kernels.pair_loss import loss_and_gradient

    z, pairs = torch.tensor([[logit], [1.0]]), torch.tensor([[0], [1]])
    loss, grad = loss_and_gradient(z.to(device), pairs.to(device), link, no_link)
    expected_loss, expected_grad = exact(z, pairs, link, no_link)
    torch.testing.assert_close(loss.cpu().double(), expected_loss, rtol=80 * 2.0**-23, atol=0)
    torch.testing.assert_close(grad.cpu().double(), expected_grad, rtol=80 * 2.0**-23, atol=0)


def test_tensors_that_are_laid_out_otherwise(device: torch.device) -> None:
    z, pairs = problem(20, 16, 100)
    z = z.to(device).T.contiguous().T
    strided = pairs.to(device).repeat_interleave(2, dim=1)[:, ::2]
    transposed = pairs.to(device).T.contiguous().T
    for given in (strided, transposed, pairs.to(device).int()):
        assert_same_loss_and_gradient(z, given)


def test_a_diverged_embedding_is_not_hidden(device: torch.device) -> None:
    from bandana.engine.kernels.pair_loss import loss_and_gradient

    z, pairs = problem(9, 5, 20)
    z[pairs[0, 1], 2] = torch.nan
    loss, grad = loss_and_gradient(z.to(device), pairs.to(device), 0.0, 1.0)
    assert loss.isnan()
    assert bool(grad[pairs[1, 1]].isnan().all())
    assert not bool(grad[-1].any())


def test_the_public_function_takes_the_kernel_where_it_can(device: torch.device, chosen: list[str]) -> None:
    z, pairs = problem(20, 16, 100)
    leaf, twin = z.to(device).requires_grad_(), z.double().requires_grad_()
    loss = pair_loss.dot_product_loss(leaf, pairs.to(device), 0.7, 0.4)
    assert chosen == ["kernel"]
    expected = pair_loss.dot_product_loss(twin, pairs, 0.7, 0.4)
    assert chosen == ["kernel"]  # not in double precision
    (gradient,), (wanted,) = torch.autograd.grad(loss * 3, leaf), torch.autograd.grad(expected * 3, twin)
    assert relative_error(loss.detach(), expected.detach(), float(expected.detach())) < SINGLE
    assert relative_error(gradient, wanted, float(wanted.norm())) < SINGLE


def test_repeatable_results_are_left_to_the_plain_function(device: torch.device, chosen: list[str]) -> None:
    z, pairs = problem(20, 16, 100)
    torch.use_deterministic_algorithms(True)
    assert pair_loss.dot_product_loss(z.to(device), pairs.to(device), 0.7, 0.4).isfinite()
    assert chosen == []


@pytest.mark.cuda
@pytest.mark.parametrize("width", [1, 16, 32, 100, 128, 130, 512])
def test_on_cuda_loss_and_gradient(device: torch.device, width: int) -> None:
    """As many nodes and links as a large graph has; links come sorted by their first node, one of them a hub."""
    z, pairs = problem(13_752, width, 400_001)
    pairs[0, :3000] = 7
    pairs[0] = pairs[0].sort().values
    assert_same_loss_and_gradient(z.to(device), pairs.to(device))


@pytest.mark.cuda
def test_on_cuda_it_can_be_recorded(device: torch.device, chosen: list[str]) -> None:
    z, pairs = (tensor.to(device) for tensor in problem(300, 32, 5000))
    z.requires_grad_()

    def step() -> tuple[Tensor, Tensor]:
        loss = pair_loss.pair_loss(z, pairs[:, :3000], pairs[:, 3000:])
        return loss.detach(), torch.autograd.grad(loss, z)[0]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
        recording = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recording, stream=stream):
            recorded = step()
    assert chosen == ["kernel"] * 4
    torch.cuda.current_stream().wait_stream(stream)
    with torch.no_grad():
        z.mul_(0.5)
    pairs.copy_(pairs.flip(1))
    recording.replay()
    twin, ends = z.detach().cpu().double().requires_grad_(), pairs.cpu()
    expected = pair_loss.pair_loss(twin, ends[:, :3000], ends[:, 3000:])
    (wanted,) = torch.autograd.grad(expected, twin)
    assert relative_error(recorded[0], expected.detach(), float(expected.detach())) < SINGLE
    assert relative_error(recorded[1], wanted, float(wanted.norm())) < SINGLE
