"""Sparse propagation against the same product with dense matrices, whose entries are set one by one."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from bandana.engine.dropout import dropout
from bandana.engine.propagate import gcn_weights, propagate, propagate_with_dropout, row_sums
from bandana.engine.structure import Structure, build_structure
from bandana.graph import Graph

pytestmark = pytest.mark.usefixtures("float64")

SHAPES = ["undirected", "directed", "wide", "tall"]


def structure_of(shape: str) -> Structure:
    """Eleven rows or columns at most; row 2 and column 3 are empty, so are the backward pass's rows."""
    num_rows, num_cols = {"wide": (5, 11), "tall": (11, 5)}.get(shape, (7, 7))
    entries = torch.rand(num_rows, num_cols, generator=torch.Generator().manual_seed(1)) < 0.4
    entries[2], entries[:, 3] = False, False
    if shape == "undirected":
        entries |= entries.T.clone()
        entries[2], entries[:, 2], entries.diagonal()[:] = False, False, False
    row, col = entries.nonzero().T
    return build_structure(row, col, num_rows, num_cols)[0]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def dense_matrix(structure: Structure, values: Tensor, loop: Tensor | None = None) -> Tensor:
    matrix = torch.zeros(structure.num_rows, structure.num_cols)
    for row, col, value in zip(structure.row.tolist(), structure.col.tolist(), values.tolist(), strict=True):
        matrix[row, col] = value
    for node, value in enumerate([] if loop is None else loop.tolist()):
        matrix[node, node] += value
    return matrix


@pytest.mark.parametrize(
    ("shape", "with_loop"), [*((shape, False) for shape in SHAPES), ("undirected", True), ("directed", True)]
)
def test_value_and_gradient_are_those_of_the_dense_product(shape: str, with_loop: bool) -> None:
    structure = structure_of(shape)
    values = random(structure.num_entries)
    loop = random(structure.num_rows, seed=1) if with_loop else None
    dense = random(structure.num_cols, 4, seed=2).requires_grad_()
    upstream = random(structure.num_rows, 4, seed=3)

    out = propagate(structure, values, dense, loop)
    expected = dense_matrix(structure, values, loop) @ dense
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(out, dense, upstream)
    (expected_gradient,) = torch.autograd.grad(expected, dense, upstream)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradcheck(shape: str) -> None:
    structure = structure_of(shape)
    values = random(structure.num_entries)
    loop = random(structure.num_rows, seed=1) if structure.num_rows == structure.num_cols else None
    dense = random(structure.num_cols, 3, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda operand: propagate(structure, values, operand, loop), dense)


def test_layout_of_operand_and_gradient_does_not_matter() -> None:
    structure = structure_of("directed")
    values, loop = random(structure.num_entries), random(7, seed=1)
    transposed = random(4, 7, seed=2).T.requires_grad_()
    out = propagate(structure, values, transposed, loop)
    assert out.equal(propagate(structure, values, transposed.detach().contiguous(), loop))
    out.sum().backward()  # the gradient is one expanded number
    assert transposed.grad is not None
    column_sums = dense_matrix(structure, values, loop).sum(0)
    torch.testing.assert_close(transposed.grad, column_sums.unsqueeze(1).expand(7, 4))


def test_empty_rows_receive_nothing_and_values_get_no_gradient() -> None:
    structure = structure_of("directed")
    values = random(structure.num_entries).requires_grad_()
    out = propagate(structure, values, random(7, 3).requires_grad_())
    assert not out[2].any()
    out.sum().backward()
    assert values.grad is None


def test_a_pattern_without_entries_passes_only_the_loop() -> None:
    none = torch.empty(0, dtype=torch.long)
    structure, _ = build_structure(none, none, 3, 3)
    dense, loop = random(3, 2), random(3, seed=1)
    assert not propagate(structure, torch.empty(0), dense).any()
    assert propagate(structure, torch.empty(0), dense, loop).equal(loop.unsqueeze(1) * dense)


def test_inputs_are_left_alone() -> None:
    structure = structure_of("directed")
    values, loop, dense = random(structure.num_entries).abs(), random(7, seed=1).abs(), random(7, 2, seed=2)
    before = [tensor.clone() for tensor in (values, loop, dense)]
    propagate(structure, values, dense, loop)
    gcn_weights(structure, values, loop)
    assert all(tensor.equal(copy) for tensor, copy in zip((values, loop, dense), before, strict=True))


@pytest.mark.parametrize("shape", ["undirected", "directed"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("own_loop", [False, True])
def test_gcn_weights_are_the_normalised_matrix(shape: str, weighted: bool, own_loop: bool) -> None:
    structure = structure_of(shape)
    values = random(structure.num_entries).abs() if weighted else None
    loop = random(7, seed=1).abs() if own_loop else None
    weights = gcn_weights(structure, values, loop)

    entries = torch.ones(structure.num_entries) if values is None else values
    matrix = dense_matrix(structure, entries, torch.ones(7) if loop is None else loop)
    degree = matrix.sum(1)
    expected = torch.zeros(7, 7)
    for i in range(7):
        for j in range(7):
            expected[i, j] = matrix[i, j] / (degree[i].sqrt() * degree[j].sqrt())
    torch.testing.assert_close(dense_matrix(structure, *weights), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("directed", [False, True])
def test_gcn_weights_are_those_of_pyg(random_graph: Callable[..., Graph], directed: bool) -> None:
    graph = random_graph(isolated=3, directed=directed, weighted=True)
    edge_index, expected = gcn_norm(graph.edge_index, graph.weight, graph.num_nodes)
    weights = gcn_weights(graph.structure, graph.weight)
    ours = dense_matrix(graph.structure, *weights)
    theirs = torch.zeros_like(ours)
    theirs[edge_index[1], edge_index[0]] = expected
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_weights_without_any_mass_stay_finite() -> None:
    structure = structure_of("directed")
    weights = gcn_weights(structure, torch.zeros(structure.num_entries), torch.zeros(7))
    assert not weights.values.any()
    assert not weights.loop.any()


@pytest.mark.parametrize("shape", SHAPES)
def test_row_sums(shape: str) -> None:
    structure = structure_of(shape)
    values = random(structure.num_entries)
    torch.testing.assert_close(row_sums(structure, values), dense_matrix(structure, values).sum(1))
    assert row_sums(structure, values)[2] == 0


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8, 0.999])
def test_dropped_entries_are_as_if_multiplied_by_zero(random_graph, rate: float) -> None:
    structure = random_graph(num_nodes=12, num_edges=60, directed=True).structure
    random = torch.Generator().manual_seed(1)
    values, grad = torch.randn(structure.num_entries, generator=random), torch.randn(12, 4, generator=random)
    dense = torch.randn(12, 4, generator=random)
    results = []
    for multiply in (
        lambda x: propagate_with_dropout(structure, values, x, rate, torch.Generator().manual_seed(2)),
        lambda x: propagate(structure, dropout(values, rate, torch.Generator().manual_seed(2)), x),
    ):
        x = dense.clone().requires_grad_()
        out = multiply(x)
        out.backward(grad)
        results.append((out.detach(), x.grad))
    for mine, plain in zip(*results, strict=True):
        torch.testing.assert_close(mine, plain, rtol=0, atol=1e-10)
