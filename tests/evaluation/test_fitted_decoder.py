"""A decoder that is fitted afterwards learns what dot products cannot say, and from nothing that tests it."""

import pytest
import torch

from bandana.data.splits import split_edges
from bandana.evaluation import fitted_decoder
from bandana.evaluation.dot_product_probe import dot_product_auc
from bandana.evaluation.end_to_end import end_to_end
from bandana.evaluation.fitted_decoder import fit_decoder
from bandana.evaluation.metrics import auc
from bandana.graph import Graph


@pytest.fixture
def two_sides() -> tuple[Graph, torch.Tensor]:
    """Links run between two sides, whose vectors point apart: the larger a dot product, the less likely a link."""
    draw = torch.Generator().manual_seed(0)
    side = torch.arange(40) % 2
    z = (2.0 * side - 1)[:, None] + 0.1 * torch.randn(40, 4, generator=draw)
    pairs = torch.combinations(torch.arange(40)).T
    across = pairs[:, side[pairs[0]] != side[pairs[1]]]
    chosen = across[:, torch.randperm(across.shape[1], generator=draw)[:200]]
    return Graph.from_edges(chosen, num_nodes=40), z


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitted_decoder, "EPOCHS", 60)
    monkeypatch.setattr(fitted_decoder, "HITS_AT", 3)


@pytest.mark.usefixtures("quick")
def test_it_learns_what_dot_products_cannot_say(two_sides: tuple[Graph, torch.Tensor]) -> None:
    graph, z = two_sides
    edges = split_edges(graph, 0.1, 0.2, seed=0)
    decoder = fit_decoder(z, edges.train, edges.valid, lr=0.01, seed=0)
    assert float(dot_product_auc(z, edges.test)) < 0.4
    assert end_to_end(lambda pairs: decoder.logits(z, pairs), edges.test)["auc"] > 0.7


@pytest.mark.usefixtures("quick")
def test_the_epoch_that_validates_best_is_kept(
    two_sides: tuple[Graph, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, z = two_sides
    seen: list[torch.Tensor] = []

    def hits(positive: torch.Tensor, negative: torch.Tensor, k: int) -> float:
        seen.append(positive)
        return 0.9 if len(seen) == 3 else 0.5

    monkeypatch.setattr(fitted_decoder, "hits_at_k", hits)
    monkeypatch.setattr(fitted_decoder, "PATIENCE", 5)
    edges = split_edges(graph, 0.1, 0.2, seed=0)
    decoder = fit_decoder(z, edges.train, edges.valid, lr=0.01, seed=0)
    assert len(seen) == 3 + 5 + 1
    torch.testing.assert_close(decoder.logits(z, edges.valid.positive), seen[2])


def test_few_non_links_choose_the_epoch_by_auc(
    two_sides: tuple[Graph, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hits@50 would be 1.0 from the first epoch on, which would be kept."""
    graph, z = two_sides
    seen: list[float] = []

    def watched(positive: torch.Tensor, negative: torch.Tensor) -> float:
        seen.append(auc(positive, negative))
        return seen[-1]

    monkeypatch.setattr(fitted_decoder, "auc", watched)
    edges = split_edges(graph, 0.1, 0.2, seed=0)
    assert edges.valid.negative.shape[1] < fitted_decoder.HITS_AT
    decoder = fit_decoder(z, edges.train, edges.valid, lr=0.001, seed=1)
    kept = auc(decoder.logits(z, edges.valid.positive), decoder.logits(z, edges.valid.negative))
    assert kept == max(seen) > seen[0]


@pytest.mark.usefixtures("quick")
def test_the_same_seed_gives_the_same_decoder_and_leaves_the_embedding_alone(
    two_sides: tuple[Graph, torch.Tensor],
) -> None:
    graph, z = two_sides
    edges = split_edges(graph, 0.1, 0.2, seed=0)
    embedding = z.clone().requires_grad_()
    first, again, other = (fit_decoder(embedding, edges.train, edges.valid, lr=0.01, seed=seed) for seed in (0, 0, 1))
    logits = [decoder.logits(z, edges.test.positive) for decoder in (first, again, other)]
    assert logits[0].equal(logits[1])
    assert not logits[0].equal(logits[2])
    assert embedding.grad is None
    assert embedding.equal(z)
