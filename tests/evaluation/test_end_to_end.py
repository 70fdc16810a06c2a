import pytest
import torch
from torch import Tensor

from bandana.data.splits import Pairs
from bandana.evaluation.dot_product_probe import dot_product_probe, pair_scores
from bandana.evaluation.end_to_end import end_to_end

PAIRS = Pairs(torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([[0, 1], [3, 4]]))
Z = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


def test_a_dot_product_decoder_scores_as_the_probe_does() -> None:
    assert end_to_end(lambda pairs: pair_scores(Z, pairs), PAIRS) == dot_product_probe(Z, PAIRS)


def test_the_decoder_is_called_once_and_without_gradients() -> None:
    calls = []

    def decode(pairs: Tensor) -> Tensor:
        calls.append((pairs.shape, torch.is_grad_enabled()))
        return torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0])

    assert end_to_end(decode, PAIRS)["auc"] == 1.0
    assert calls == [((2, 5), False)]


def test_logits_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must give \[5\] logits, got \(5, 1\)"):
        end_to_end(lambda pairs: torch.zeros(5, 1), PAIRS)
