"""The attribute loss against the dense formula, entry by entry, with its gradients."""

from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import softplus

from bandana.engine.attribute_loss import attribute_balance, attribute_loss, row_blocks
from bandana.engine.structure import Structure, build_structure

Kind = Literal["bce", "mse"]


def example(nodes: int, features: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden layer, weight and mostly empty targets; all logits are far from zero, where a ReLU has its kink."""
    generator = torch.Generator().manual_seed(seed)
    hidden, weight = torch.randn(nodes, 4, generator=generator), torch.randn(4, features, generator=generator)
    values = torch.rand(nodes, features, generator=generator)
    targets = values * (torch.rand(nodes, features, generator=generator) < 0.3)
    return hidden.requires_grad_(), weight.requires_grad_(), targets


def stored(targets: Tensor) -> tuple[Tensor, Structure]:
    row, col = targets.nonzero().unbind(1)
    pattern, order = build_structure(row, col, *targets.shape)
    return targets[row, col][order], pattern


def naive_loss(hidden: Tensor, weight: Tensor, targets: Tensor, kind: Kind, rectify: bool, ones: float) -> Tensor:
    terms = []
    for i in range(hidden.shape[0]):
        for j in range(weight.shape[1]):
            s, y = hidden[i] @ weight[:, j], targets[i, j]
            s = s.relu() if rectify else s
            bce = ones * y * softplus(-s, threshold=50) + (1 - y) * softplus(s, threshold=50)
            terms.append((s - y) ** 2 if kind == "mse" else bce)
    return torch.stack(terms).mean()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rectify", [False, True])
@pytest.mark.parametrize("kind", ["bce", "mse"])
def test_loss_and_gradients_are_those_of_every_single_entry(kind: Kind, rectify: bool, sparse: bool) -> None:
    hidden, weight, targets = example(7, 5)
    expected = naive_loss(hidden, weight, targets, kind, rectify, 3.5)
    expected_grads = torch.autograd.grad(2 * expected, [hidden, weight])
    y, pattern = stored(targets) if sparse else (targets, None)
    for block in (None, 1, 3, 100):
        loss = attribute_loss(hidden, weight, y, pattern, kind=kind, rectify=rectify, positive_weight=3.5, block=block)
        torch.testing.assert_close(loss, expected)
        for grad, wanted in zip(torch.autograd.grad(2 * loss, [hidden, weight]), expected_grads, strict=True):
            torch.testing.assert_close(grad, wanted)


@pytest.mark.usefixtures("float64")
def test_large_logits_neither_overflow_nor_lose_their_gradient() -> None:
    hidden, weight = torch.tensor([[1e3], [-1e3]], requires_grad=True), torch.ones(1, 2, requires_grad=True)
    targets = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    loss = attribute_loss(hidden, weight, targets, kind="bce", positive_weight=2.0)
    torch.testing.assert_close(loss, torch.tensor((0 + 1e3 + 2e3 + 0) / 4))
    loss.backward()
    assert hidden.grad is not None
    torch.testing.assert_close(hidden.grad, torch.tensor([[0.25], [-0.5]]))


@given(nodes=st.integers(1, 6), features=st.integers(1, 6), block=st.integers(1, 7), seed=st.integers(0, 99))
def test_blocks_and_storage_do_not_matter(nodes: int, features: int, block: int, seed: int) -> None:
    hidden, weight, targets = (tensor.detach().double() for tensor in example(nodes, features, seed))
    y, pattern = stored(targets)
    for kind in ("bce", "mse"):
        dense = attribute_loss(hidden, weight, targets, kind=kind, rectify=True)
        blocked = attribute_loss(hidden, weight, y, pattern, kind=kind, rectify=True, block=block)
        torch.testing.assert_close(blocked, dense)


def test_balanced_ones_and_zeros_count_the_same() -> None:
    """With all logits zero both halves are ln 2 / 2, however rare the ones are."""
    targets = torch.zeros(10, 6)
    targets.view(-1)[[3, 17, 40]] = 1.0
    weight_of_ones, scale = attribute_balance(targets, targets.numel())
    assert float(weight_of_ones) == pytest.approx(57 / 3)
    assert float(scale) == pytest.approx(60 / (2 * 57))
    hidden, weight = torch.zeros(10, 2), torch.zeros(2, 6)
    loss = scale * attribute_loss(hidden, weight, targets, kind="bce", positive_weight=weight_of_ones)
    assert float(loss) == pytest.approx(0.6931472)


@pytest.mark.parametrize("total", [-5.0, 0.0, 6.0, 100.0])
def test_balance_is_finite_for_any_features(total: float) -> None:
    for value in attribute_balance(torch.tensor([total]), 6):
        assert 0 < float(value) < 100


@pytest.mark.parametrize("block", [None, 1, 3, 100])
def test_blocks_that_are_known_need_no_look_at_the_pattern(block: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, targets = example(7, 5)
    y, pattern = stored(targets)
    expected = attribute_loss(hidden, weight, y, pattern, kind="bce", block=block)
    blocks = row_blocks(pattern, block)
    assert blocks.bounds[-1] == y.numel()
    monkeypatch.setattr("bandana.engine.attribute_loss.row_blocks", None)
    assert attribute_loss(hidden, weight, y, pattern, kind="bce", blocks=blocks).equal(expected)
