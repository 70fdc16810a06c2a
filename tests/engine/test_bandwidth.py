"""Noise with the distribution it claims and nothing else in it, and the softmax over each receiving node."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from bandana.engine import bandwidth
from bandana.engine.bandwidth import boltzmann_gibbs, gaussian_noise, segment_softmax, uniform_noise
from bandana.engine.propagate import gcn_weights
from bandana.engine.structure import Structure, build_structure
from bandana.graph import Graph

MANY = 40_000
NOISES = [gaussian_noise, uniform_noise]
KEYS = {"consecutive": torch.arange(MANY), "strided": torch.arange(MANY) * 2709, "huge": torch.arange(MANY) + 2**50}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS.keys())
@pytest.mark.parametrize(("noise", "distribution"), [(gaussian_noise, "norm"), (uniform_noise, "uniform")])
def test_noise_has_its_distribution(noise: Callable[..., Tensor], distribution: str, keys: Tensor) -> None:
    """Of a hundred streams none may stand out, and their p-values must be spread evenly: no lucky seed is picked."""
    streams = [noise(keys[:5000], seed=seed, step=5, layer=1).double().numpy() for seed in range(100)]
    p_values = [stats.kstest(stream, distribution, method="asymp").pvalue for stream in streams]
    assert min(p_values) > 1e-3 / len(p_values)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def test_moments() -> None:
    keys = torch.arange(MANY)
    normal = gaussian_noise(keys, seed=0, step=5, layer=1).double()
    assert abs(float(normal.mean())) < 4 / math.sqrt(MANY)
    assert abs(float(normal.var()) - 1) < 4 * math.sqrt(2 / MANY)
    assert abs(float(normal.pow(3).mean())) < 4 * math.sqrt(15 / MANY)
    assert abs(float(normal.pow(4).mean()) - 3) < 4 * math.sqrt(96 / MANY)
    uniform = uniform_noise(keys, seed=0, step=5, layer=1).double()
    assert abs(float(uniform.mean()) - 1 / 2) < 4 * math.sqrt(1 / 12 / MANY)
    assert 0 < float(uniform.min()) < 1e-3
    assert 1 - 1e-3 < float(uniform.max()) <= 1


@pytest.mark.parametrize("noise", NOISES)
def test_noise_belongs_to_the_key_and_not_to_its_place(noise: Callable[..., Tensor]) -> None:
    keys = torch.randperm(1000, generator=torch.Generator().manual_seed(0)) * 17
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(1))
    drawn = noise(keys, seed=1, step=2, layer=3)
    assert noise(keys[order], seed=1, step=2, layer=3).equal(drawn[order])
    assert noise(keys[:10], seed=1, step=2, layer=3).equal(drawn[:10])


@pytest.mark.parametrize("noise", NOISES)
def test_noise_of_other_seeds_steps_layers_and_neighbours_is_unrelated(noise: Callable[..., Tensor]) -> None:
    where = {"seed": 3, "step": 3, "layer": 3}
    keys = torch.arange(MANY)
    drawn = noise(keys, **where)
    others = [noise(keys, **{**where, name: 4}) for name in where]
    others += [noise(keys + lag, **where) for lag in (1, 2, 100)]
    for other in others:
        correlation = float(torch.corrcoef(torch.stack([drawn, other]))[0, 1])
        assert abs(correlation) < 4 / math.sqrt(MANY)
    assert noise(keys, **where).equal(drawn)


def test_noise_is_finite_for_every_pattern_of_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    extremes = torch.tensor([0, -1, 2**63 - 1, -(2**63), 0xFFFFFFFF, -(1 << 32)])
    monkeypatch.setattr(bandwidth, "hash_keys", lambda keys, *words: extremes.clone())
    assert bool(gaussian_noise(extremes, seed=0, step=0, layer=0).isfinite().all())
    uniform = uniform_noise(extremes, seed=0, step=0, layer=0)
    assert bool(((uniform > 0) & (uniform <= 1)).all())


def test_noise_is_the_same_in_both_precisions(float64: None) -> None:
    double = gaussian_noise(torch.arange(1000), seed=0, step=0, layer=0)
    torch.set_default_dtype(torch.float32)
    single = gaussian_noise(torch.arange(1000), seed=0, step=0, layer=0)
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(single.double(), double, rtol=0, atol=2e-6)


def naive_softmax(structure: Structure, logits: Tensor, loops: Tensor | None) -> tuple[list[float], list[float]]:
    """Row by row with the standard library; a loop outside the softmax has share 1."""
    shares: list[float] = []
    own: list[float] = []
    for row in range(structure.num_rows):
        start, end = int(structure.rowptr[row]), int(structure.rowptr[row + 1])
        group = logits[start:end].tolist() + ([] if loops is None else [float(loops[row])])
        highest = max(group, default=0.0)
        powers = [math.exp(value - highest) for value in group]
        normal = [power / math.fsum(powers) for power in powers]
        own.append(1.0 if loops is None else normal.pop())
        shares += normal
    return shares, own


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("inside", [False, True])
@given(seed=st.integers(0, 1000), scale=st.sampled_from([0.1, 1.0, 30.0, 1e6]))
def test_softmax_is_that_of_a_plain_loop(inside: bool, seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    row, col = (torch.rand(6, 9, generator=generator) < 0.4).nonzero().T
    structure, _ = build_structure(row, col, 6, 9)
    logits = torch.randn(structure.num_entries, generator=generator) * scale
    loops = torch.randn(6, generator=generator) * scale if inside else None
    shares, own = segment_softmax(structure, logits, loops)
    expected, expected_own = naive_softmax(structure, logits, loops)
    torch.testing.assert_close(shares, torch.tensor(expected), rtol=1e-12, atol=1e-300)
    torch.testing.assert_close(own, torch.tensor(expected_own), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("temperature", [1e-6, 0.2, 1.0, 1e6])
@pytest.mark.parametrize("inside", [False, True])
def test_shares_of_a_row_sum_to_one(random_graph: Callable[..., Graph], temperature: float, inside: bool) -> None:
    structure = random_graph(200, 2000, isolated=20).structure
    logits = torch.randn(structure.num_entries, generator=torch.Generator().manual_seed(0)) / temperature
    loops = torch.zeros(200) if inside else None
    shares, own = segment_softmax(structure, logits, loops)
    total = torch.zeros(200).index_add(0, structure.row, shares)
    isolated = structure.row_sizes == 0
    assert isolated.sum() == 20
    torch.testing.assert_close(total + own, torch.where(isolated, 1.0, 1.0 if inside else 2.0))
    assert bool((own[isolated] == 1).all())
    assert bool(((shares >= 0) & (shares <= 1)).all())


@pytest.mark.parametrize("temperature", [1e-6, 0.4, 100.0])
def test_boltzmann_gibbs_is_the_softmax_of_its_noise(random_graph: Callable[..., Graph], temperature: float) -> None:
    graph = random_graph(isolated=3)
    where = {"seed": 1, "step": 2, "layer": 3}
    shares, messages = boltzmann_gibbs(graph.structure, graph.edge_keys, temperature, **where)
    noise = gaussian_noise(graph.edge_keys, **where).double()
    expected, _ = naive_softmax(graph.structure, noise / temperature, None)
    torch.testing.assert_close(shares, torch.tensor(expected), rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(messages.values, gcn_weights(graph.structure, shares).values)
    torch.testing.assert_close(messages.loop, torch.where(graph.structure.row_sizes > 0, 0.5, 1.0))


@pytest.mark.parametrize("noise", NOISES)
def test_a_step_on_the_device_draws_the_same_noise(noise: Callable[..., Tensor]) -> None:
    for step in (0, 3, 10**9):
        drawn = noise(torch.arange(50), seed=1, step=torch.tensor(step), layer=2)
        assert drawn.equal(noise(torch.arange(50), seed=1, step=step, layer=2))


def test_a_temperature_near_zero_lets_one_neighbour_speak(random_graph: Callable[..., Graph]) -> None:
    structure = random_graph(50, 400).structure
    noise = torch.randn(structure.num_entries, generator=torch.Generator().manual_seed(0))
    shares, _ = segment_softmax(structure, noise / 1e-6)
    loudest = torch.zeros(structure.num_entries)
    for row in range(50):
        start, end = structure.rowptr[row : row + 2].tolist()
        loudest[start + int(noise[start:end].argmax())] = 1
    assert shares.equal(loudest)


def test_a_high_temperature_makes_all_neighbours_equal(random_graph: Callable[..., Graph]) -> None:
    structure = random_graph(50, 400).structure
    noise = torch.randn(structure.num_entries, generator=torch.Generator().manual_seed(0))
    shares, _ = segment_softmax(structure, noise / 1e9)
    torch.testing.assert_close(shares, 1 / structure.row_sizes[structure.row])


@pytest.mark.parametrize("inside", [False, True])
def test_without_any_entry_only_the_loops_remain(inside: bool) -> None:
    none = torch.empty(0, dtype=torch.long)
    structure, _ = build_structure(none, none, 4, 4)
    shares, own = segment_softmax(structure, torch.empty(0), torch.randn(4) if inside else None)
    assert shares.shape == (0,)
    assert own.equal(torch.ones(4))


def test_logits_are_left_alone(random_graph: Callable[..., Graph]) -> None:
    structure = random_graph().structure
    logits, loops = torch.randn(structure.num_entries), torch.randn(structure.num_rows)
    before = logits.clone(), loops.clone()
    segment_softmax(structure, logits, loops)
    assert logits.equal(before[0])
    assert loops.equal(before[1])
