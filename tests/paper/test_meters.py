"""Memory of a call on a CPU against allocations whose sizes are known, byte by byte."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bandana.paper.meters import measure

CPU = torch.device("cpu")


def block(kilobytes: int) -> Tensor:
    return torch.empty(1000 * kilobytes, dtype=torch.uint8)


def peak_kb(function: Callable[[], object]) -> float:
    return 1000 * measure(function, CPU, repeats=1).peak_mb


def three_one_freed_between() -> None:
    first, second = block(10), block(30)
    del first
    third = block(5)
    del second, third


def three_after_one_was_freed() -> None:
    first = block(10)
    del first
    second, third = block(30), block(5)
    del second, third


def one_after_another() -> None:
    for size in (7, 20, 11):
        block(size)


@pytest.mark.parametrize(
    ("function", "kilobytes"),
    [
        (lambda: None, 0),
        (lambda: block(40), 40),
        (lambda: [block(10), block(30), block(5)], 45),
        (three_one_freed_between, 40),
        (three_after_one_was_freed, 35),
        (one_after_another, 20),
    ],
)
def test_memory_counts_while_it_is_alive(function: Callable[[], object], kilobytes: int) -> None:
    assert peak_kb(function) == pytest.approx(kilobytes, abs=1e-9)


def test_what_the_way_back_needs_counts() -> None:
    leaf, weight = torch.ones(250_000, requires_grad=True), torch.ones(250_000)  # 1 MB each
    scalars = 0.1
    # A product with a constant keeps nothing: first it is alive, and later the gradient. An exponential keeps itself.
    assert peak_kb(lambda: (leaf * weight).sum().backward()) == pytest.approx(1000, abs=scalars)
    assert peak_kb(lambda: (leaf.exp() + weight).sum().backward()) == pytest.approx(2000, abs=scalars)


def test_what_was_alive_before_does_not_count() -> None:
    held = block(500)
    assert peak_kb(lambda: held.clone()) == pytest.approx(500)
    assert peak_kb(lambda: held.zero_()) == 0


def test_what_a_call_leaves_and_the_next_replaces_counts_once() -> None:
    left = [block(20)]

    def replace_it() -> None:
        left.clear()
        left.append(block(20))

    def replace_it_late() -> None:
        left[0] = block(20)

    assert peak_kb(replace_it) == 0
    assert peak_kb(replace_it_late) == pytest.approx(20)


def test_no_call_that_is_timed_is_watched() -> None:
    watched = []

    def function() -> None:
        watched.append(torch.autograd._profiler_enabled())

    assert measure(function, CPU, repeats=3).seconds >= 0
    assert watched == [True, True, False, False, False]
