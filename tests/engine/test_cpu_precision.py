"""Rows of pairs in bfloat16 on a CPU: how far the edge loss then is from double precision, and when they are used."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, relu

from bandana.engine import edge_loss as engine
from bandana.engine.dropout import keep_mask, keep_scale
from bandana.engine.edge_loss import DecoderWeights, edge_loss
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.training.trainer import TrainingConfig, pretrain

NODES, WIDTH, HIDDEN, PAIRS = 60, 32, 24, 3000
ROUNDING = 2.0**-9
"""Largest relative error of a number put into bfloat16, which has eight significant bits."""
FEW_ROUNDINGS = 4 * ROUNDING
"""On the way to a gradient a number is rounded up to eight times, independently: √8 < 4 of the largest error."""


class Given(NamedTuple):
    z: Tensor
    decoder: DecoderWeights
    pairs: Tensor
    weight: Tensor


@pytest.fixture
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `training.precision = "bf16"` sets, on a processor that has the instructions (any other imitates them)."""
    monkeypatch.setattr(engine, "_cpu_multiplies_bfloat16", lambda: True)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


def problem(*, bias: float = 0.0, pairs: int = PAIRS) -> Given:
    """Embeddings and a decoder as at the start of training. A large bias lets every hidden unit through its ReLU."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return torch.randn(*shape, generator=generator) * scale

    decoder = DecoderWeights(
        normal(HIDDEN, WIDTH, scale=WIDTH**-0.5),
        normal(HIDDEN, scale=0.1) + bias,
        normal(2, HIDDEN, scale=HIDDEN**-0.5),
        normal(2, scale=0.1),
    )
    ends = torch.randint(NODES, (2, pairs), generator=generator)
    return Given(normal(NODES, WIDTH), decoder, ends, normal(pairs, scale=1 / pairs))


def loss_and_gradients(given: Given, dropout: float = 0.0, chunk: int | None = None) -> tuple[Tensor, ...]:
    """The loss in single precision, and its gradients with respect to the embeddings and the decoder."""
    leaves = [tensor.clone().requires_grad_() for tensor in (given.z, *given.decoder)]
    randomness = torch.Generator().manual_seed(1)
    loss = edge_loss(
        leaves[0], DecoderWeights(*leaves[1:]), given.pairs, given.weight, dropout, randomness, chunk=chunk
    )
    return loss.detach(), *torch.autograd.grad(loss, leaves)


def plainly(given: Given, dropout: float = 0.0) -> tuple[Tensor, ...]:
    """The same in double precision: the equation as it is written, differentiated by torch."""
    leaves = [tensor.double().requires_grad_() for tensor in (given.z, *given.decoder)]
    z, hidden_weight, hidden_bias, out_weight, out_bias = leaves
    product = z[given.pairs[0]] * z[given.pairs[1]]
    if dropout:
        product = product * keep_mask(product.shape, dropout, torch.Generator().manual_seed(1)) * keep_scale(dropout)
    logits = relu(product @ hidden_weight.T + hidden_bias) @ out_weight.T + out_bias
    meant = (given.weight < 0).long()
    loss = (given.weight.abs() * cross_entropy(logits, meant, reduction="none")).sum()
    return loss.detach(), *torch.autograd.grad(loss, leaves)


def errors(given: Given, dropout: float = 0.0, chunk: int | None = None) -> list[float]:
    """Relative error in norm of the loss and of each gradient."""
    ours, exact = loss_and_gradients(given, dropout, chunk), plainly(given, dropout)
    assert all(tensor.dtype is torch.float32 for tensor in ours)
    return [float((a - b).norm() / b.norm()) for a, b in zip(ours, exact, strict=True)]


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("options", [{}, {"chunk": 100}, {"dropout": 0.3}], ids=["one chunk", "chunks", "dropout"])
def test_gradients_are_wrong_by_a_few_roundings(options: dict[str, Any]) -> None:
    """Without units near the kink of their ReLU, which a rounding can carry to its other side."""
    found = errors(problem(bias=20.0), **options)
    assert max(found) < FEW_ROUNDINGS
    assert max(found) > ROUNDING / 8, "nothing was rounded"


@pytest.mark.usefixtures("bfloat16")
def test_a_unit_near_its_kink_may_fall_on_the_other_side() -> None:
    """One in a few hundred units does; its share of a pair's gradient is then wrong altogether."""
    loss, *gradients = errors(problem())
    assert loss < ROUNDING / 8  # over so many pairs and units, roundings up and down even out
    assert max(gradients) < 2 * ROUNDING**0.5


@pytest.mark.usefixtures("bfloat16")
def test_sums_over_pairs_do_not_stall() -> None:
    """Equal terms added up in bfloat16 would stop growing at 256 of them."""
    given = problem(bias=20.0, pairs=20_000)
    same = given._replace(pairs=given.pairs[:, :1].expand(2, 20_000), weight=torch.ones(20_000))
    assert max(errors(same, chunk=64)) < FEW_ROUNDINGS


@pytest.mark.usefixtures("bfloat16")
def test_the_same_again_is_the_same() -> None:
    first, second = (loss_and_gradients(problem(), dropout=0.2) for _ in range(2))
    assert all(a.equal(b) for a, b in zip(first, second, strict=True))


@pytest.mark.usefixtures("bfloat16")
def test_rows_are_as_precise_as_allowed_and_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    single = torch.zeros(1, 1)
    assert engine._row_type(single) is torch.bfloat16
    assert engine._row_type(single.double()) is torch.float64
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        assert engine._row_type(single) is torch.float32
    torch.set_float32_matmul_precision("medium")
    monkeypatch.setattr(engine, "_cpu_multiplies_bfloat16", lambda: False)
    assert engine._row_type(single) is torch.float32


@pytest.mark.parametrize(
    ("has", "answer"),
    [({"avx512_bf16": True}, True), ({"amx_bf16": True}, True), ({"avx512_f": True, "avx512_bf16": False}, False)],
)
def test_instructions_are_asked_for(has: dict[str, bool], answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has, raising=False)
    assert engine._cpu_multiplies_bfloat16.__wrapped__() is answer


def test_a_torch_that_does_not_tell_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not engine._cpu_multiplies_bfloat16.__wrapped__()


def test_training_reaches_it_by_its_option(monkeypatch: pytest.MonkeyPatch, random_graph: Any) -> None:
    """The first losses differ by roundings, and by something; `tf32` is float32 here."""
    monkeypatch.setattr(engine, "_cpu_multiplies_bfloat16", lambda: True)
    graph: Graph = random_graph(num_nodes=40, num_edges=120)
    losses = {}
    for precision in ("float32", "tf32", "bf16"):
        torch.manual_seed(0)
        method = Bandana(BandanaConfig(), GraphSpec.of(graph))
        state = pretrain(method, graph, TrainingConfig(epochs=1, precision=precision), seed=0)
        losses[precision] = state.history[0]["loss"]
    assert losses["bf16"] != losses["float32"]
    assert losses["bf16"] == pytest.approx(losses["float32"], rel=FEW_ROUNDINGS)
    assert losses["tf32"] == pytest.approx(losses["float32"], rel=1e-3)
