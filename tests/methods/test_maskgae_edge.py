"""MaskGAE with edge-wise masking: what it hides. Its step is tested in tests/parts/test_edge_reconstruction.py."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.maskgae_edge import MaskGAEEdge, MaskGAEEdgeConfig
from bandana.parts.edge_masks import hide_entries

GraphFactory = Callable[..., Graph]
CLOCK = Clock(seed=3, epoch=2, step=7)


def test_hides_directed_entries_one_by_one(random_graph: GraphFactory) -> None:
    graph = random_graph(200, 5000)
    method = MaskGAEEdge(MaskGAEEdgeConfig(mask_rate=0.6), GraphSpec.of(graph))
    mask = method.hide(graph, torch.Generator().manual_seed(0))
    expected = hide_entries(graph, 0.6, torch.Generator().manual_seed(0))
    assert all(mine.equal(theirs) for mine, theirs in zip(mask, expected, strict=True))
    method.loss(Batch(graph, graph.links), CLOCK)
    assert method.diagnostics()["mask_ratio"] == pytest.approx(0.6, abs=0.03)


def test_all_steps_of_an_epoch_hide_the_same(random_graph: GraphFactory) -> None:
    graph = random_graph(200, 5000)
    method = MaskGAEEdge(MaskGAEEdgeConfig(), GraphSpec.of(graph))
    ratios = []
    for clock in (CLOCK, replace(CLOCK, step=8), replace(CLOCK, epoch=3)):
        method.loss(Batch(graph, graph.links[:20]), clock)
        ratios.append(method.diagnostics()["mask_ratio"])
    assert ratios[0] == ratios[1] != ratios[2]


def test_rules() -> None:
    for rate in (0.0, 1.1):
        with pytest.raises(ValueError, match=r"^mask_rate: must lie in \(0, 1\]"):
            MaskGAEEdgeConfig(mask_rate=rate)
    with pytest.raises(ValueError, match=r"^width: must be at least 1"):
        MaskGAEEdgeConfig(width=0)
