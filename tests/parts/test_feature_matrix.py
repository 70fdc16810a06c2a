"""Features as a matrix: exact shares are hidden, and sparse ones behave like dense ones."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.graph import SparseFeatures, dense
from bandana.parts.feature_matrix import hide_features, hide_share, in_shares, transposed


@given(size=st.integers(0, 40), rate=st.floats(0, 0.99), seed=st.integers(0, 99))
def test_exactly_a_share_of_the_non_zero_entries_is_hidden(size: int, rate: float, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(size, generator=draw) * (torch.rand(size, generator=draw) < 0.6)
    shown = hide_share(values, rate, draw)
    count = int((values != 0).sum())
    assert int((shown != 0).sum()) == count - int(count * rate)
    assert bool(((shown == values) | (shown == 0)).all())


def test_every_entry_is_hidden_as_often_as_another() -> None:
    draw = torch.Generator().manual_seed(0)
    shown = torch.stack([hide_share(torch.tensor([3.0, 0.0, 1.0, 2.0]), 0.4, draw) != 0 for _ in range(3000)])
    torch.testing.assert_close(
        shown.double().mean(0), torch.tensor([2, 0, 2, 2]) / 3.0, rtol=0, atol=0.04, check_dtype=False
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_hidden_features_keep_their_form_and_the_other_values(sparse: bool) -> None:
    x = torch.arange(1.0, 21.0).view(4, 5)
    hidden = hide_features(SparseFeatures.of(x) if sparse else x, 0.3, torch.Generator().manual_seed(0))
    assert isinstance(hidden, SparseFeatures) == sparse
    shown = dense(hidden)
    assert int((shown == 0).sum()) == 6
    assert shown.equal(x.where(shown != 0, 0))


@pytest.mark.usefixtures("float64")
def test_sparse_features_are_turned_and_shared_like_dense_ones() -> None:
    pattern = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)) * pattern
    stored = SparseFeatures.of(x)
    for turn in (lambda x: x, transposed):
        torch.testing.assert_close(dense(in_shares(turn(stored))), in_shares(turn(x)))
    twice = transposed(transposed(stored))
    assert isinstance(twice, SparseFeatures)
    assert twice.dense().equal(x)
    assert twice.structure.transposed_entry.equal(stored.structure.transposed_entry)
