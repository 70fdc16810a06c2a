"""Preprocessing against loops over single entries, for dense and sparse features."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bandana.data.features import Preprocessing, preprocess
from bandana.engine.structure import build_structure
from bandana.graph import Features, Graph, SparseFeatures, identity_features

WAYS: tuple[Preprocessing, ...] = ("raw", "row_normalised", "standardised")


def graph_of(x: Features) -> Graph:
    return Graph.from_edges(torch.empty(2, 0, dtype=torch.long), num_nodes=x.shape[0], x=x)


def sparse(x: Tensor) -> SparseFeatures:
    """All non-zeros as entries, however many they are."""
    row, col = x.nonzero().unbind(1)
    structure, order = build_structure(row, col, *x.shape)
    return SparseFeatures(structure, x[row, col][order])


def dense(x: Features) -> Tensor:
    return x.dense() if isinstance(x, SparseFeatures) else x


def naive_row_normalised(x: list[list[float]]) -> Tensor:
    rows = []
    for row in x:
        total = sum(abs(value) for value in row)
        rows.append([value / total if total else 0.0 for value in row])
    return torch.tensor(rows)


def naive_standardised(x: list[list[float]]) -> Tensor:
    columns = []
    for column in zip(*x, strict=True):
        mean = sum(column) / len(column)
        deviation = (sum((value - mean) ** 2 for value in column) / len(column)) ** 0.5
        columns.append([(value - mean) / deviation if len(set(column)) > 1 else 0.0 for value in column])
    return torch.tensor(columns).T


NAIVE = {"raw": torch.tensor, "row_normalised": naive_row_normalised, "standardised": naive_standardised}
entries = st.sampled_from([0.0, 0.0, 0.0, 1.0, -1.0, 0.1, 2.5, -37.0])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("how", WAYS)
@given(
    x=st.integers(1, 5).flatmap(
        lambda width: st.lists(st.lists(entries, min_size=width, max_size=width), min_size=1, max_size=6)
    )
)
def test_dense_and_sparse_features_follow_the_loops(how: Preprocessing, x: list[list[float]]) -> None:
    expected = NAIVE[how](x)
    for features in (torch.tensor(x), sparse(torch.tensor(x))):
        found = dense(preprocess(replace(graph_of(torch.zeros(len(x), 1)), x=features), how).x)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_raw_features_are_not_even_copied(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph()
    assert preprocess(graph, "raw") is graph


@pytest.mark.parametrize("how", WAYS)
def test_all_else_of_the_graph_stays_and_the_given_features_are_left_alone(
    random_graph: Callable[..., Graph], how: Preprocessing
) -> None:
    graph = random_graph(weighted=True)
    before = graph.x.clone()
    done = preprocess(graph, how)
    assert graph.x.equal(before)
    assert (done.structure, done.y, done.weight) == (graph.structure, graph.y, graph.weight)


@pytest.mark.parametrize("kind", [dense, sparse])
def test_a_row_of_zeros_stays_zero(kind: Callable[[Tensor], Features]) -> None:
    x = torch.tensor([[0.0, 0.0, 0.0], [0.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    done = dense(preprocess(replace(graph_of(x), x=kind(x)), "row_normalised").x)
    assert done.tolist() == [[0, 0, 0], [0, 0.75, 0.25], [0, 0, 0]]


def test_rows_of_tiny_numbers_still_sum_to_one() -> None:
    x = torch.tensor([[1e-30, 3e-30], [2e-20, 0.0]])
    assert dense(preprocess(graph_of(x), "row_normalised").x).tolist() == [[0.25, 0.75], [1.0, 0.0]]


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3])
def test_a_constant_column_becomes_zero_and_no_noise(value: float) -> None:
    """Deviations that are nothing but rounding must not be blown up to one."""
    x = torch.stack([torch.full((1000,), value), torch.arange(1000.0)], dim=1)
    done = dense(preprocess(graph_of(x), "standardised").x)
    assert float(done[:, 0].abs().max()) < 1e-5
    assert float(done[:, 1].mean()) == pytest.approx(0, abs=1e-5)
    assert float(done[:, 1].square().mean()) == pytest.approx(1, abs=1e-5)


def test_row_normalised_features_stay_sparse_and_indicators_stay_indicators() -> None:
    graph = replace(graph_of(torch.zeros(9, 1)), x=identity_features(9))
    done = preprocess(graph, "row_normalised").x
    assert isinstance(done, SparseFeatures)
    assert done.is_identity
    assert done.values.equal(torch.ones(9))
    assert isinstance(preprocess(graph, "standardised").x, Tensor)
