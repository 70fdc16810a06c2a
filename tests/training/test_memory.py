"""Tensors that are alive at the same time count together, and only then."""

import pytest
import torch

from bandana.training.memory import tensor_bytes


def test_tensor_memory_is_counted_at_its_highest() -> None:
    def work() -> float:
        first = torch.ones(1 << 20)
        second = first + 1
        del first
        return float((second + 1).sum())

    assert tensor_bytes(work, torch.device("cpu")) == pytest.approx(2 * 4 * (1 << 20), rel=0.01)
