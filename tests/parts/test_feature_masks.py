"""Who is hidden, counted; and what the others see of them, node by node."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.parts.feature_masks import cover, draw_feature_mask, hide

shares = st.floats(0, 1, exclude_max=True)


@given(num_nodes=st.integers(1, 60), rate=shares, replace_rate=shares, seed=st.integers(0, 99))
def test_masks_hide_exactly_as_many_as_they_should(num_nodes: int, rate: float, replace_rate: float, seed: int) -> None:
    mask = draw_feature_mask(num_nodes, rate, replace_rate, torch.Generator().manual_seed(seed))
    hidden, covered, replaced = (set(nodes.tolist()) for nodes in (mask.nodes, mask.covered, mask.replaced))
    assert len(hidden) == mask.nodes.numel() == max(int(rate * num_nodes), 1)
    assert len(covered) == mask.covered.numel() == int((1 - replace_rate) * len(hidden))
    assert len(replaced) == mask.replaced.numel() == int(replace_rate * len(hidden))
    assert covered | replaced <= hidden <= set(range(num_nodes))
    assert not covered & replaced
    assert len(hidden - covered - replaced) <= 1
    assert len(set(mask.donors.tolist())) == mask.donors.numel() == len(replaced)


def test_a_replace_rate_that_rounds_to_nobody_replaces_nobody() -> None:
    mask = draw_feature_mask(10, 0.5, 0.1, torch.Generator().manual_seed(0))
    assert mask.replaced.numel() == mask.donors.numel() == 0
    assert mask.covered.numel() == 4


def test_donors_come_from_the_whole_graph() -> None:
    generator = torch.Generator().manual_seed(0)
    masks = [draw_feature_mask(10, 0.5, 0.5, generator) for _ in range(60)]
    assert set(torch.cat([mask.donors for mask in masks]).tolist()) == set(range(10))
    assert any(set(mask.donors.tolist()) & set(mask.nodes.tolist()) for mask in masks)
    assert any(set(mask.donors.tolist()) - set(mask.nodes.tolist()) for mask in masks)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("replace_rate", [0.0, 0.4])
def test_cover_shows_tokens_and_other_nodes(replace_rate: float) -> None:
    mask = draw_feature_mask(12, 0.7, replace_rate, torch.Generator().manual_seed(1))
    rows, token = torch.randn(12, 3, requires_grad=True), torch.randn(1, 3, requires_grad=True)
    shown = list(rows)
    for node in mask.covered.tolist():
        shown[node] = token[0]
    for node, donor in zip(mask.replaced.tolist(), mask.donors.tolist(), strict=True):
        shown[node] = rows[donor]
    out, expected = cover(rows, token, mask), torch.stack(shown)
    assert out.equal(expected)
    gradients = torch.autograd.grad(out.pow(3).sum(), (rows, token))
    for gradient, wanted in zip(gradients, torch.autograd.grad(expected.pow(3).sum(), (rows, token)), strict=True):
        torch.testing.assert_close(gradient, wanted)


def test_hidden_rows_are_zero_or_the_token_and_get_no_gradient() -> None:
    nodes = torch.tensor([4, 1])
    for token in (None, torch.randn(1, 3, requires_grad=True)):
        rows = torch.randn(6, 3, requires_grad=True)
        out = hide(rows, nodes, token)
        assert out[nodes].equal(torch.zeros(2, 3) if token is None else token.expand(2, 3))
        others = torch.tensor([0, 2, 3, 5])
        assert out[others].equal(rows[others])
        out.sum().backward()
        assert rows.grad is not None
        assert rows.grad.sum(1).tolist() == [3, 0, 3, 3, 0, 3]
        if token is not None:
            assert token.grad is not None
            assert token.grad.tolist() == [[2, 2, 2]]
