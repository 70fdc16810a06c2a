"""The attention kernels against their plain twins in double precision.

On a machine with CUDA the kernels are compiled. Elsewhere triton's interpreter runs them on CPU tensors:
tests/conftest.py switches it on before anything imports triton.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bandana.engine import kernels
from bandana.engine.attention import Shares, attend, attend_plainly, attention_shares, attention_shares_plainly
from bandana.engine.dropout import keep_scale
from bandana.engine.structure import Structure, build_structure

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")
HAS_TRITON = find_spec("triton") is not None
SINGLE = 2e-6
"""Relative error that single precision may have against double precision, over a whole tensor."""


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Where kernels run. The interpreter takes milliseconds per program, so there long rows and blocks begin early."""
    if not HAS_TRITON:
        pytest.skip("triton is not installed")
    if INTERPRETED:
        from bandana.engine.kernels import attention as mixing
        from bandana.engine.kernels import attention_shares as softmax
        from bandana.engine.kernels import row_parts

        monkeypatch.setattr(row_parts, "_LONGEST", 4)
        monkeypatch.setattr(softmax, "_LONG_TILE", 8)
        monkeypatch.setattr(mixing, "_MOST_COLUMNS", 16)
        monkeypatch.setattr(kernels, "usable", lambda device, dtype: dtype is torch.float32)
    return DEVICE


@pytest.fixture
def poison() -> Iterator[None]:
    """Fresh memory holds NaN, so that what a kernel forgets to write is seen."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(3, device=DEVICE).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """In the norm of the tensor; NaN and infinity are errors too."""
    actual, expected = actual.detach().double().cpu(), expected.detach()
    return float((actual - expected).norm()) / max(float(expected.norm()), 1e-30)


class Problem(NamedTuple):
    structure: Structure
    h: Tensor
    sender: Tensor
    receiver: Tensor
    weight: Tensor | None

    def double(self) -> "Problem":
        tensors = (None if tensor is None else tensor.detach().double().cpu() for tensor in self[1:])
        return Problem(self.structure.to("cpu"), *tensors)  # type: ignore[arg-type]

    def leaves(self) -> tuple[Tensor, ...]:
        return tuple(tensor.requires_grad_() for tensor in (self.h, self.sender, self.receiver))


def problem(
    nodes: int, edges: int, heads: int, width: int, *, hub: int = 0, weighted: bool = False, isolated: int = 0
) -> Problem:
    """A directed graph. Node 0 hears, and node 1 is heard by, the first `hub` nodes; the last ones stand alone."""
    generator = torch.Generator().manual_seed(nodes + edges)
    ends = torch.randint(max(nodes - isolated, 1), (2, edges), generator=generator)
    hubs = torch.arange(hub), torch.arange(hub) * nodes + min(1, nodes - 1)
    keys = torch.cat([ends[0] * nodes + ends[1], *hubs]).unique()
    structure, _ = build_structure(keys // nodes, keys % nodes, nodes, nodes)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(DEVICE)

    # Sums of scores are exact and never zero: rounding must not decide on which side of the kink they are.
    sender, receiver = (normal(heads, nodes).mul(256).round().add(shift).div(256) for shift in (0.5, 0.0))
    counted = (torch.arange(keys.numel()) % 3 > 0).to(DEVICE)
    weight = normal(keys.numel()).square().clamp(max=4) * counted if weighted else None
    return Problem(structure.to(DEVICE), normal(nodes, heads * width), sender, receiver, weight)


SHAPES = [
    pytest.param({"nodes": 7, "edges": 8, "heads": 3, "width": 5, "hub": 5, "isolated": 1}, id="several heads"),
    pytest.param({"nodes": 9, "edges": 14, "heads": 1, "width": 8, "hub": 9, "weighted": True}, id="masked edges"),
    pytest.param({"nodes": 5, "edges": 4, "heads": 2, "width": 37, "hub": 5}, id="heads wider than a block"),
    pytest.param({"nodes": 3, "edges": 0, "heads": 2, "width": 4}, id="no edges"),
    pytest.param({"nodes": 1, "edges": 1, "heads": 1, "width": 1}, id="one node that hears itself"),
]
NAMES = ("output", "grad_h", "grad_sender", "grad_receiver", "grad_edges", "grad_loop")


def assert_as_in_double_precision(given: Problem) -> None:
    outcomes, plain = [], (attention_shares_plainly, attend_plainly)
    for each, score, mix in ((given, attention_shares, attend), (given.double(), *plain)):
        shares = score(each.structure, *each.leaves()[1:], each.weight)
        out = mix(each.structure, each.h, shares)
        pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
        outcomes.append((out, *torch.autograd.grad(out, (*each.leaves(), *shares), pull)))
    for name, actual, expected in zip(NAMES, *outcomes, strict=True):
        assert actual.shape == expected.shape, name
        assert relative_error(actual, expected) < SINGLE, name


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients(device: torch.device, shape: dict[str, Any]) -> None:
    assert_as_in_double_precision(problem(**shape))


def test_shares_survive_large_scores(device: torch.device) -> None:
    """Far beyond where exponentials overflow; the highest score of all belongs to an edge that does not count."""
    given = problem(9, 20, 2, 1, hub=9, weighted=True)
    assert given.weight is not None
    sender = given.sender * 1e4
    sender[:, given.structure.col[given.weight == 0][0]] = 1e6
    exact = given._replace(sender=sender).double()
    shares = attention_shares(given.structure, sender, given.receiver, given.weight)
    expected = attention_shares_plainly(exact.structure, exact.sender, exact.receiver, exact.weight)
    assert all(relative_error(one, other) < SINGLE for one, other in zip(shares, expected, strict=True))


def kept(first: int, count: int, rate: float, seed: int) -> Tensor:
    """What the shares of these numbers are multiplied with, in plain integer arithmetic: splitmix64 of a counter."""
    word, factors = (1 << 64) - 1, []
    for number in range(first, first + count):
        bits = (number * 0x9E3779B97F4A7C15 + seed) & word
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & word
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & word
        factors.append(keep_scale(rate) * (((bits ^ (bits >> 31)) >> 48) < round(65536 / keep_scale(rate))))
    return torch.tensor(factors, dtype=torch.float64)


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_dropout_keeps_its_share_independently(rate: float) -> None:
    factors = kept(0, 16_000, rate, 7).view(-1, 4) > 0
    five_sigma = 5 * (rate * (1 - rate) / factors.shape[0]) ** 0.5
    assert float((factors.double().mean(0) - 1 / keep_scale(rate)).abs().max()) < five_sigma
    centred = (factors.double() - (1 - rate)) / (rate * (1 - rate)) ** 0.5
    for lagged in (centred[1:] * centred[:-1], centred[:, 1:] * centred[:, :-1]):
        assert abs(float(lagged.mean())) < 5 / lagged.numel() ** 0.5


@pytest.mark.parametrize(("heads", "width"), [(2, 5), (1, 20)])
def test_the_same_shares_are_dropped_on_the_way_back(device: torch.device, heads: int, width: int) -> None:
    from bandana.engine.kernels.hashing import draw_seed

    rate, given = 0.4, problem(6, 9, heads, width, hub=6)
    shares = attention_shares(given.structure, *given.leaves()[1:])
    out = attend(given.structure, given.h, shares, rate, torch.Generator(device).manual_seed(5))
    pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    actual = out, *torch.autograd.grad(out, (*given.leaves(), *shares), pull.to(device))

    exact, seed = given.double(), int(draw_seed(torch.Generator(device).manual_seed(5)))
    whole = attention_shares_plainly(exact.structure, *exact.leaves()[1:])
    entries = given.structure.num_entries
    edges = kept(0, entries * heads, rate, seed).view(-1, heads).t()
    loop = kept(entries * heads, whole.loop.numel(), rate, seed).view(-1, heads).t()
    assert 0 < int((loop == 0).sum()) < loop.numel()
    wanted = attend_plainly(exact.structure, exact.h, Shares(whole.edges * edges, whole.loop * loop))
    expected = wanted, *torch.autograd.grad(wanted, (*exact.leaves(), *whole), pull.double())
    for name, one, other in zip(NAMES, actual, expected, strict=True):
        assert relative_error(one, other) < SINGLE, name


def test_two_calls_with_one_generator_drop_differently(device: torch.device) -> None:
    given, generator = problem(6, 15, 2, 3), torch.Generator(device).manual_seed(0)
    shares = attention_shares(given.structure, given.sender, given.receiver)
    first, second = (attend(given.structure, given.h, shares, 0.5, generator) for _ in range(2))
    assert not first.equal(second)
    assert attend(given.structure, given.h, shares, 0.5, generator.manual_seed(0)).equal(first)
    assert not attend(given.structure, given.h, shares, 0.5).equal(first)


def test_inputs_may_lie_anyhow_and_are_left_alone(device: torch.device) -> None:
    given = problem(6, 15, 2, 3)
    beside, sender = torch.cat([given.h, given.h], dim=1)[:, :6], given.sender.t().contiguous().t()
    assert not any(tensor.is_contiguous() for tensor in (beside, sender))
    copies = given.h.clone(), given.sender.clone(), given.receiver.clone()
    out = attend(given.structure, given.h, attention_shares(given.structure, given.sender, given.receiver))
    shares = attention_shares(given.structure, sender, given.receiver)
    dense = Shares(shares.edges.contiguous(), shares.loop.contiguous())
    assert attend(given.structure, beside, dense).equal(out)
    assert all(tensor.equal(copy) for tensor, copy in zip((given.h, given.sender, given.receiver), copies, strict=True))


class LargestResult(TorchDispatchMode):
    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.is_floating_point():  # the interpreter copies bytes
            self.elements = max(self.elements, result.numel())
        return result


def test_no_tensor_holds_a_vector_per_edge(device: torch.device) -> None:
    given = problem(5, 60, 2, 16)
    leaves, entries = given.leaves(), given.structure.num_entries
    with LargestResult() as largest:
        shares = attention_shares(given.structure, given.sender, given.receiver)
        attend(given.structure, given.h, shares, 0.2, torch.Generator(device).manual_seed(0)).sum().backward()
    assert all(leaf.grad is not None for leaf in leaves)
    parts_of_cut_rows = sum(-(-int(size) // 4) for size in given.structure.row_sizes)
    assert largest.elements <= max(parts_of_cut_rows * 32, (entries + 5) * 2) < entries * 32


def test_rows_are_cut_and_added_up(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    from bandana.engine.kernels import row_parts

    monkeypatch.setattr(row_parts, "_LONGEST", 4)
    rowptr = torch.tensor([0, 3, 3, 13, 17, 22], device=device)
    parts = row_parts.cut_rows(rowptr)
    assert parts.row.tolist() == [0, 1, 2, 2, 2, 3, 4, 4]
    assert parts.start.tolist() == [0, 3, 3, 7, 11, 13, 17, 21]
    assert parts.slot.tolist() == [-1, -1, 0, 1, 2, -1, 3, 4]
    assert (parts.cut_row.tolist(), parts.cut_slot.tolist(), parts.slots) == ([2, 4], [0, 3, 5], 5)
    assert row_parts.cut_rows(rowptr) is parts
    out, partial = torch.zeros(5, 2, device=device), torch.arange(10.0, device=device).view(5, 2)
    row_parts.add_up(parts, partial, out)
    assert out.tolist() == [[0, 0], [0, 0], [0 + 2 + 4, 1 + 3 + 5], [0, 0], [6 + 8, 7 + 9]]


@pytest.mark.usefixtures("poison")
def test_rows_of_a_structure_made_within_a_recording_may_be_long(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can wait for their sizes there, so none is cut."""
    from bandana.engine.kernels import attention as mixing
    from bandana.engine.kernels import attention_shares as softmax
    from bandana.engine.kernels import row_parts

    for module in (mixing, softmax):
        monkeypatch.setattr(module, "cut_rows", row_parts._whole_rows)
    assert_as_in_double_precision(problem(nodes=9, edges=14, heads=2, width=5, hub=9, isolated=1, weighted=True))


def test_double_precision_is_left_to_the_plain_functions(device: torch.device) -> None:
    exact = problem(6, 15, 2, 3).double()
    shares = attention_shares(exact.structure, exact.sender, exact.receiver)
    assert shares.edges.equal(attention_shares_plainly(exact.structure, exact.sender, exact.receiver).edges)
    assert attend(exact.structure, exact.h, shares).equal(attend_plainly(exact.structure, exact.h, shares))


@pytest.mark.cuda
@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize(("heads", "width"), [(4, 128), (1, 512), (8, 37), (3, 1), (2, 1100), (1, 24)])
def test_on_cuda_values_and_gradients(device: torch.device, heads: int, width: int) -> None:
    """Blocks of every size; hubs that are cut into dozens of parts, and weights of which a third is zero."""
    assert kernels.usable(torch.zeros(1, device=device).device, torch.float32)
    given = problem(4000, 30_000, heads, width, hub=3900, isolated=50, weighted=heads == 4)
    assert_as_in_double_precision(given)


@pytest.mark.cuda
def test_on_cuda_results_repeat_bit_for_bit(device: torch.device) -> None:
    given = problem(4000, 30_000, 4, 64, hub=3900)
    outcomes = []
    for _ in range(3):
        shares = attention_shares(given.structure, *given.leaves()[1:])
        out = attend(given.structure, given.h, shares, 0.3, torch.Generator(device).manual_seed(0))
        outcomes.append((out, *torch.autograd.grad(out.square().sum(), given.leaves())))
    assert all(one.equal(other) for later in outcomes[1:] for one, other in zip(outcomes[0], later, strict=True))


@pytest.mark.cuda
def test_on_cuda_a_recording_draws_anew_and_gives_what_the_step_would(device: torch.device) -> None:
    given, generator = problem(500, 5000, 4, 32, hub=400), torch.Generator(device)
    leaves = given.leaves()

    def step() -> tuple[Tensor, ...]:
        shares = attention_shares(given.structure, *leaves[1:])
        out = attend(given.structure, given.h, shares, 0.3, generator)
        return out.detach(), *torch.autograd.grad(out.square().sum(), leaves)

    with torch.cuda.stream(torch.cuda.Stream()):
        step()
    torch.cuda.synchronize()
    recording = torch.cuda.CUDAGraph()
    recording.register_generator_state(generator)
    with torch.cuda.graph(recording):
        recorded = step()
    for seed in (1, 2):
        generator.manual_seed(seed)
        expected = step()
        generator.manual_seed(seed)
        recording.replay()
        assert all(one.equal(other) for one, other in zip(recorded, expected, strict=True))
