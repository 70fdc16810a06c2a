"""The checks of the paper's theory, against enumeration, finite differences and numerical integration."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.graph import Graph
from bandana.paper.artifact import Artifact, Claim, Result, Scope
from bandana.paper.theory import denoising, dirichlet, noise_mean, score
from bandana.paper.work import kind_of
from bandana.parts.masks import MaskConfig
from bandana.reporting.marks import CLAIM_MARKS, mark_of_claim

GraphFactory = Callable[..., Graph]

DOCS = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8").partition("\n## 1.")[2]
ARTIFACTS = [module.ARTIFACT for module in (dirichlet, noise_mean, denoising, score)]


def claims(artifact: Artifact) -> list[Claim]:
    pieces = artifact.pieces(Scope(quick=True))
    done = [kind_of(piece.work).function(piece.arguments, torch.device("cpu"), None) for piece in pieces]
    return list(
        artifact.show([(piece, Result(json.loads(json.dumps(one)))) for piece, one in zip(pieces, done, strict=True)])
    )


@pytest.mark.slow
def test_every_claim_comes_out_as_derived_by_hand_and_as_the_docs_have_it() -> None:
    """On small graphs: what the appendix proves is true, what its printed form leaves out is found missing."""
    shown = {artifact.name: claims(artifact) for artifact in ARTIFACTS}
    for name, own in shown.items():
        table = DOCS.partition(f"`{name}`")[2].partition("|---|---|---|\n")[2].partition("\n\n")[0]
        marks = [line.replace("\\|", "").split(" | ")[1] for line in table.splitlines()]
        assert marks == [mark_of_claim(claim).word for claim in own], name
    assert {name: [claim.holds for claim in own] for name, own in shown.items()} == {
        "theory-dirichlet": [True, False, True, False, False, True],
        "theory-noise-mean": [True, False, False, False],
        "theory-denoising": [True, True, False, False, False],
        "theory-score": [True, True, True, False],
    }


def test_the_docs_name_every_mark() -> None:
    """Italic in the introduction, with the verbs of sentences."""
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
    said = " ".join(page.partition("## 1.")[0].split())
    assert "one of five marks" in said
    assert len(CLAIM_MARKS) == 5
    assert all(f"*{mark.word}*" in said for mark in CLAIM_MARKS)


@pytest.mark.parametrize("artifact", ARTIFACTS, ids=lambda artifact: artifact.name)
def test_a_check_that_could_not_run_claims_nothing(artifact: Artifact) -> None:
    pieces = artifact.pieces(Scope(quick=True))
    shown = artifact.show([(piece, Result(None, "not run: data set missing")) for piece in pieces])
    assert [claim.holds for claim in shown if isinstance(claim, Claim)] == [None]


# Ego Dirichlet energy


@given(degree=st.integers(1, 7), kept=st.floats(0.01, 1))
def test_expected_energy_against_all_subsets(degree: int, kept: float) -> None:
    expected = 0.0
    for stays in product((0, 1), repeat=degree):
        k = sum(stays)
        expected += kept**k * (1 - kept) ** (degree - k) * k / (k + 1)
    assert dirichlet.expected_share(degree, kept) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert expected <= dirichlet.proof_share(degree, kept) + 1e-12
    assert dirichlet.expected_share(degree, 0) == 0


def test_energies_against_loops(random_graph: GraphFactory) -> None:
    graph = random_graph(isolated=3)
    differences = dirichlet.squared_differences(graph)
    kept = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1)) < 0.5
    energies = dirichlet.ego_energies(graph.structure, differences, kept)
    sender, receiver = graph.edge_index
    for node in range(graph.num_nodes):
        mine = [int(sender[e]) for e in range(graph.num_edges) if receiver[e] == node and kept[e]]
        total = sum(float((graph.x[node].double() - graph.x[j].double()).square().sum()) for j in mine)  # type: ignore[index]
        assert float(energies[node]) == pytest.approx(total / (1 + len(mine)))


def test_links_between_neighbours_only_lower_the_energy() -> None:
    """Every mask of a small ego-graph: the centre's component never has more energy than the star that is left."""
    spokes, rim = [(0, j) for j in (1, 2, 3)], [(1, 2), (2, 3)]
    for stays in product((False, True), repeat=5):
        links = [link for link, stay in zip(spokes + rim, stays, strict=True) if stay]
        reached, size = {0}, 0
        while len(reached) > size:
            size = len(reached)
            reached |= {b for pair in links for a, b in (pair, pair[::-1]) if a in reached}
        star = sum(stays[:3])
        assert star / len(reached) <= star / (star + 1) <= 3 / 4


@given(st.lists(st.floats(0, 10), min_size=1, max_size=6), st.floats(0.05, 0.95))
def test_on_average_only_the_sum_of_differences_matters(differences: list[float], kept: float) -> None:
    expected = 0.0
    for stays in product((0, 1), repeat=len(differences)):
        k = sum(stays)
        energy = sum(d for d, stay in zip(differences, stays, strict=True) if stay) / (k + 1)
        expected += kept**k * (1 - kept) ** (len(differences) - k) * energy
    mean = sum(differences) / len(differences)
    assert expected == pytest.approx(mean * dirichlet.expected_share(len(differences), kept), rel=1e-8, abs=1e-9)


# Mean bandwidth


def test_the_mean_counts_only_nodes_with_neighbours(hand_graph: GraphFactory) -> None:
    graph = hand_graph()
    assert noise_mean.nodes_over_edges(graph) == 5 / 8
    assert noise_mean.measured_mean(graph, MaskConfig(), 0, 3) == pytest.approx(4 / 8)


def test_a_node_in_its_own_softmax_takes_one_share_of_degree_plus_one(random_graph: GraphFactory) -> None:
    graph = random_graph(isolated=2)
    expected = sum(d / (d + 1) for d in graph.structure.row_sizes.tolist()) / graph.num_edges
    assert noise_mean.inside_expectation(graph) == pytest.approx(expected)
    assert noise_mean.measured_mean(graph, MaskConfig(self_loop="inside"), 0, 300) == pytest.approx(expected, rel=0.02)


def test_held_out_links_go_in_both_directions(random_graph: GraphFactory) -> None:
    graph = random_graph()
    less = noise_mean.without(graph, 0.25, 0)
    assert less.num_edges == 2 * (graph.links.numel() - int(0.25 * graph.links.numel()))
    assert set(less.edge_keys.tolist()) < set(graph.edge_keys.tolist())
    assert sorted(map(tuple, less.edge_index.t().tolist())) == sorted(map(tuple, less.edge_index.flip(0).t().tolist()))


# Denoising


def test_corners_are_isotropic_noise() -> None:
    noise = denoising.corners(4)
    assert noise.shape == (16, 4)
    assert noise.mean(0).abs().max() == 0
    assert torch.equal(noise.T @ noise / 16, torch.eye(4, dtype=torch.float64))


def test_loss_and_terms_against_loops_and_finite_differences() -> None:
    encoding, step = denoising.encodings(), 1e-4
    r = denoising.reconstructors(3)["curved"](0.1)
    cube, identity = denoising.corners(8), step * torch.eye(8, dtype=torch.float64)
    clean = np.mean([float((r(t + 0.1 * e) - t).square().sum()) for t in encoding for e in cube])
    noisy = np.mean([float((r(t + 0.1 * e) - t - 0.1 * e).square().sum()) for t in encoding for e in cube])
    assert denoising.loss(r, encoding, 0.1, "clean") == pytest.approx(clean)
    assert denoising.loss(r, encoding, 0.1, "noisy") == pytest.approx(noisy)

    terms = denoising.expansion(r, encoding)
    gradient = trace = curvature = 0.0
    for t in encoding:
        columns = torch.stack([(r(t + move) - r(t - move)) / (2 * step) for move in identity], dim=1)
        bends = sum((r(t + move) + r(t - move) - 2 * r(t)) / step**2 for move in identity)
        gradient += float(columns.square().sum()) / 8
        trace += float(columns.trace()) / 8
        curvature += float(((r(t) - t) * bends).sum()) / 8
    assert (terms.gradient, terms.trace) == pytest.approx((gradient, trace), rel=1e-6)
    assert terms.curvature == pytest.approx(curvature, rel=1e-4)


def test_slope_is_the_power() -> None:
    assert denoising.slope((0.4, 0.2, 0.1), [-3 * s**4 for s in (0.4, 0.2, 0.1)]) == pytest.approx(4)


# Score


def test_score_is_the_gradient_of_the_density() -> None:
    x = torch.randn(20, 2, dtype=torch.float64, requires_grad=True)
    for noise in (0.0, 0.3):
        (gradient,) = torch.autograd.grad(score.log_density(score.PLANE, x, noise).sum(), x)
        assert torch.allclose(score.score(score.PLANE, x, noise), gradient)


def test_density_sums_to_one_and_the_best_denoiser_is_the_posterior_mean() -> None:
    clean = torch.linspace(-7, 7, 4_001, dtype=torch.float64)
    density = score.log_density(score.LINE, clean.unsqueeze(1)).exp()
    assert float(torch.trapezoid(density, clean)) == pytest.approx(1)
    for noisy in (-1.3, 0.1, 2.0):
        joint = density * torch.exp(-((noisy - clean) ** 2) / (2 * 0.3**2))
        mean = torch.trapezoid(joint * clean, clean) / torch.trapezoid(joint, clean)
        x = torch.tensor([[noisy]], dtype=torch.float64)
        assert float(score.best_denoiser(score.LINE, x, 0.3)) == pytest.approx(float(mean), rel=1e-9)


def test_the_functional_is_minimised_by_shrinking_a_single_gaussian() -> None:
    """For variance s² the Euler-Lagrange equation has the solution x s² / (s² + σ²)."""
    one, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    x, best = score.regularised_optimum(score.Mixture(one, zero, 0.49 * one), 0.2)
    near = x.abs() < 2
    assert torch.allclose(best[near], x[near] * 0.49 / (0.49 + 0.04), atol=1e-4)
