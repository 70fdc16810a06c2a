"""MaskGAE with path-wise masking: what it hides. Its step is tested in tests/parts/test_edge_reconstruction.py."""

from collections.abc import Callable

import pytest
import torch

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.maskgae_path import MaskGAEPath, MaskGAEPathConfig

GraphFactory = Callable[..., Graph]


@pytest.mark.parametrize("num_layers", [1, 3])
def test_walks_are_one_step_longer_than_the_encoder_is_deep(num_layers: int) -> None:
    """On a one-way ring a single walk hides as many edges as it has steps."""
    ring = Graph.from_edges(torch.stack([torch.arange(40), (torch.arange(40) + 1) % 40]), num_nodes=40, directed=True)
    config = MaskGAEPathConfig(num_layers=num_layers, start_rate=1 / 40)
    mask = MaskGAEPath(config, GraphSpec.of(ring)).hide(ring, torch.Generator().manual_seed(0))
    assert int(mask.hidden.sum()) == num_layers + 1


@pytest.mark.parametrize(("start", "share"), [("node", 0.07), ("edge", 0.75)])
def test_walks_from_edges_hide_far_more_of_a_dense_graph(random_graph: GraphFactory, start: str, share: float) -> None:
    """Each entry is passed as often as walks have steps per entry, as good as independently."""
    graph = random_graph(600, 6000)
    config = MaskGAEPathConfig(num_layers=1, start=start, start_rate=0.7)  # type: ignore[arg-type]
    method = MaskGAEPath(config, GraphSpec.of(graph))
    method.loss(Batch(graph, graph.links), Clock(seed=0))
    assert method.diagnostics()["mask_ratio"] == pytest.approx(share, abs=0.02)


def test_rules() -> None:
    for rate in (0.0, 1.1):
        with pytest.raises(ValueError, match=r"^start_rate: must lie in \(0, 1\]"):
            MaskGAEPathConfig(start_rate=rate)
    with pytest.raises(ValueError, match=r"^decoder_width: must be at least 1"):
        MaskGAEPathConfig(decoder_width=0)
