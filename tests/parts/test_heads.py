"""Heads against their formulas, and contrast against its parts."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import elu

from bandana.engine.info_nce import info_nce
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.parts.heads import Contrast, ContrastConfig, predictor, projection_head
from bandana.parts.views import encode, whole_view


def test_heads_are_two_linear_layers_with_an_activation_between() -> None:
    x = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    head = projection_head(4, 6)
    torch.testing.assert_close(head(x), elu(x @ head[0].weight.T + head[0].bias) @ head[2].weight.T + head[2].bias)
    guess = predictor(4, 6)
    hidden = x @ guess[0].weight.T + guess[0].bias
    hidden = hidden.where(hidden > 0, 0.25 * hidden)  # PReLU starts at a quarter
    torch.testing.assert_close(guess(x), hidden @ guess[2].weight.T + guess[2].bias)


@pytest.mark.parametrize(("activation", "slope"), [("relu", 0.0), ("leaky", (1 / 8 + 1 / 3) / 2), ("prelu", 0.25)])
def test_contrast_activates_both_layers(random_graph: Callable[..., Graph], activation: str, slope: float) -> None:
    graph = random_graph()
    contrast = Contrast(ContrastConfig(width=5, activation=activation), GraphSpec.of(graph))  # type: ignore[arg-type]
    first, second = contrast.encoder.weights
    edges = whole_view(graph).edges
    adjacency = torch.zeros(30, 30)
    adjacency[graph.structure.row, graph.structure.col] = edges.values
    adjacency += edges.loop.diag()

    def act(x: torch.Tensor) -> torch.Tensor:
        return x.where(x > 0, slope * x)

    assert first.shape == (6, 10)
    expected = act(adjacency @ act(adjacency @ graph.x @ first) @ second)
    torch.testing.assert_close(encode(contrast.encoder, whole_view(graph)), expected)
    learned = [module for module in contrast.encoder.modules() if isinstance(module, nn.PReLU)]
    assert len(learned) == (activation == "prelu")


def test_contrast_compares_what_the_head_makes_of_two_views(random_graph: Callable[..., Graph]) -> None:
    one, other = (whole_view(random_graph(seed=seed)) for seed in (0, 1))
    contrast = Contrast(ContrastConfig(temperature=0.7), GraphSpec(30, 6))
    u, v = (contrast.head(encode(contrast.encoder, view)) for view in (one, other))
    torch.testing.assert_close(contrast(one, other), info_nce(u, v, 0.7, intra=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width: must be at least 1, got 0"),
        ({"projection_width": 0}, "projection_width: must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature: must be at least"),
    ],
)
def test_rules(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        ContrastConfig(**changes)  # type: ignore[arg-type]
