"""Nearest neighbours against a full sort of all pairs, for any block size, and faiss where it is installed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bandana.errors import UserError
from bandana.evaluation import neighbours
from bandana.use import similar
from bandana.use.ids import row_of
from bandana.use.similar import Measure, nearest


def by_sorting(z: Tensor, query: int, k: int, measure: Measure) -> list[int]:
    def score(row: int) -> float:
        product = float(z[query] @ z[row])
        length = float(z[query].norm() * z[row].norm())
        return product if measure == "dot" else (product / length if length else 0.0)

    others = [row for row in range(len(z)) if row != query]
    return sorted(others, key=lambda row: (-round(score(row), 9), row))[:k]


@given(
    st.integers(2, 12), st.integers(1, 14), st.sampled_from(["cosine", "dot"]), st.integers(1, 60), st.integers(0, 999)
)
def test_neighbours_are_those_of_a_full_sort_whatever_the_block(
    nodes: int, k: int, measure: Measure, block: int, seed: int
) -> None:
    # Small integers make many ties, and exact products.
    z = torch.randint(-1, 2, (nodes, 3), generator=torch.Generator().manual_seed(seed)).double()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "SCORES_PER_BLOCK", block)
        patch.setattr(similar, "find_spec", lambda name: None)
        found = nearest(z, k=k, measure=measure)
    expected = [by_sorting(z, query, k, measure) for query in range(nodes)]
    if measure == "dot":
        assert found.rows.tolist() == expected
    else:  # rounding may split equal cosines, so only their values are the same
        unit = torch.nn.functional.normalize(z)
        scores = (unit @ unit.T).gather(1, torch.tensor(expected))
        assert found.scores.allclose(scores, atol=1e-12)


def test_equal_scores_go_to_the_lower_number_in_long_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar, "find_spec", lambda name: None)
    z = torch.randint(-1, 2, (400, 3), generator=torch.Generator().manual_seed(0)).double()
    found = nearest(z, torch.arange(20), 7, measure="dot")
    assert found.rows.tolist() == [by_sorting(z, query, 7, "dot") for query in range(20)]


def test_scores_fall_and_are_the_measure() -> None:
    z = torch.randn(50, 8, generator=torch.Generator().manual_seed(1))
    found = nearest(z, torch.tensor([3, 7]), 5, measure="cosine")
    assert (found.scores.diff(dim=1) <= 0).all()
    assert found.scores[1, 0].item() == pytest.approx(torch.cosine_similarity(z[7], z[found.rows[1, 0]], dim=0).item())
    assert found.rows.shape == (2, 5)
    assert 3 not in found.rows[0]


def test_more_neighbours_than_nodes_are_all_the_others() -> None:
    assert nearest(torch.eye(3), torch.tensor([1]), 10).rows.tolist() == [[0, 2]]


def test_faiss_finds_the_same() -> None:
    pytest.importorskip("faiss")
    z = torch.randn(300, 16, generator=torch.Generator().manual_seed(2))
    for measure in ("cosine", "dot"):
        ours = neighbours.nearest_by_blocks(similar.comparable(z, measure), torch.arange(300), 7)
        theirs = nearest(z, k=7, measure=measure)
        assert theirs.rows.equal(ours.rows)
        assert theirs.scores.allclose(ours.scores, atol=1e-5)


@pytest.mark.parametrize(("z", "k"), [(torch.eye(3), 0), (torch.eye(1), 1)])
def test_impossible_questions_are_refused(z: Tensor, k: int) -> None:
    with pytest.raises(UserError):
        nearest(z, k=k)


def test_ids_are_found_as_they_are_or_as_text() -> None:
    assert row_of(["ann", "bob"], "bob") == 1
    assert row_of([10, 20], "20") == row_of([10, 20], 20) == 1
    with pytest.raises(UserError, match="Did you mean 'bob'"):
        row_of(["ann", "bob"], "bobb")
    with pytest.raises(UserError, match="begin with n0, n1, n2"):
        row_of([f"n{i}" for i in range(30)], "Zürich")
