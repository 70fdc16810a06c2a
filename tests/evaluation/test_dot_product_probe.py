import pytest
import torch

from bandana.data.splits import Pairs
from bandana.evaluation.dot_product_probe import dot_product_auc, dot_product_probe, pair_scores
from bandana.evaluation.metrics import logit_metrics


def random_pairs(num_pairs: int, num_nodes: int, seed: int) -> torch.Tensor:
    return torch.randint(num_nodes, (2, num_pairs), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("num_pairs", [0, 1, 6, 7, 8, 100])
def test_pair_scores_are_dot_products_whatever_the_chunk(num_pairs: int) -> None:
    z = torch.randn(20, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    pairs = random_pairs(num_pairs, 20, seed=2)
    expected = [(z[u] @ z[v]).item() for u, v in pairs.T.tolist()]
    scores = pair_scores(z, pairs, chunk=7)
    assert scores.tolist() == pytest.approx(expected, abs=1e-12)
    assert not scores.requires_grad
    assert torch.equal(scores, pair_scores(z, pairs))


def test_never_more_rows_than_a_chunk_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = []
    original = torch.Tensor.__getitem__

    def watched(self: torch.Tensor, index: object) -> torch.Tensor:
        result = original(self, index)
        if isinstance(index, torch.Tensor):
            gathered.append(result.shape[0])
        return result

    monkeypatch.setattr(torch.Tensor, "__getitem__", watched)
    pair_scores(torch.ones(9, 4), random_pairs(23, 9, seed=0), chunk=10)
    assert gathered == [10, 10, 10, 10, 3, 3]


def test_probe_ranks_the_raw_products() -> None:
    z = torch.randn(30, 8, generator=torch.Generator().manual_seed(3)) * 4
    pairs = Pairs(random_pairs(50, 30, seed=4), random_pairs(60, 30, seed=5))
    expected = logit_metrics(pair_scores(z, pairs.positive), pair_scores(z, pairs.negative))
    assert dot_product_probe(z, pairs) == expected
    assert expected["tied_share"] > 0


def test_saturated_embeddings_lose_only_under_the_sigmoid() -> None:
    # Nodes 0..3 lie on one ray: every product is above 16.64, yet the links have the larger ones.
    z = torch.tensor([[10.0], [9.0], [5.0], [4.0]])
    metrics = dot_product_probe(z, Pairs(torch.tensor([[0, 0], [1, 2]]), torch.tensor([[1, 2], [3, 3]])))
    assert metrics["auc"] == 1.0
    assert metrics["auc_sigmoid32"] == 0.5
    assert metrics["tied_share"] == 1.0
    assert set(metrics) >= {"ap", "mrr", "hits@20", "hits@50", "hits@100", "ap_sigmoid32"}


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_the_auc_alone_is_that_of_the_probe(scale: float) -> None:
    z = scale * torch.randn(40, 6, generator=torch.Generator().manual_seed(3))
    pairs = Pairs(random_pairs(50, 40, seed=4), random_pairs(60, 40, seed=5))
    probe = dot_product_probe(z, pairs)
    assert float(dot_product_auc(z, pairs)) == probe["auc"]
    assert float(dot_product_auc(z, pairs, as_published=True)) == probe["auc_sigmoid32"]


def test_a_common_rotation_of_all_embeddings_changes_no_score() -> None:
    generator = torch.Generator().manual_seed(6)
    z = torch.randn(40, 6, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64)).Q
    turned = z @ rotation
    assert not torch.allclose(turned, z)
    pairs = Pairs(random_pairs(50, 40, seed=4), random_pairs(60, 40, seed=5))
    torch.testing.assert_close(pair_scores(turned, pairs.positive), pair_scores(z, pairs.positive))
    assert dot_product_probe(turned, pairs) == pytest.approx(dot_product_probe(z, pairs))
    assert float(dot_product_auc(turned, pairs)) == float(dot_product_auc(z, pairs))
