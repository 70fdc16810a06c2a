"""The probe against a plain loop with nn.Linear and Adam, and the meaning of its choices."""

from dataclasses import replace
from statistics import mean, stdev
from typing import NamedTuple

import pytest
import torch
from sklearn.metrics import f1_score
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, one_hot

from bandana.config import patch
from bandana.data.splits import NodeSplit
from bandana.engine.streams import generator as stream_generator
from bandana.errors import UserError
from bandana.evaluation.linear_probe import (
    Labelled,
    LinearProbeConfig,
    as_published,
    linear_probe,
    train_probes,
)

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
SHORT = LinearProbeConfig(lr=0.05, epochs=15, batch_size=12, repeats=3, weight_decay=1e-3)


class Problem(NamedTuple):
    z: Tensor
    y: Tensor
    split: NodeSplit

    def labelled(self, nodes: Tensor) -> Labelled:
        return Labelled(self.z[nodes], self.y[nodes])

    def to(self, device: str) -> "Problem":
        parts = (getattr(self.split, name).to(device) for name in ("train", "valid", "test"))
        return Problem(self.z.to(device), self.y.to(device), NodeSplit(*parts))


def thirds(num_nodes: int, seed: int) -> NodeSplit:
    order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed))
    return NodeSplit(*(part.sort().values for part in order.chunk(3)))


def noisy(seed: int = 3, num_nodes: int = 240, dtype: torch.dtype = torch.float64) -> Problem:
    """Overlapping classes of very different sizes: micro- and macro-F1 peak at different epochs."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), num_nodes, replacement=True, generator=generator)
    centres = torch.randn(3, 6, generator=generator, dtype=dtype)
    z = centres[y] + 1.5 * torch.randn(num_nodes, 6, generator=generator, dtype=dtype)
    return Problem(z, y, thirds(num_nodes, seed))


class History(NamedTuple):
    """One probe of the plain loop: at each epoch its weights and its scores as scikit-learn computes them."""

    weight: list[Tensor]
    valid: dict[str, list[float]]
    test: dict[str, list[float]]

    def latest_best(self, metric: str) -> int:
        values = self.valid[metric]
        return max(range(len(values)), key=lambda epoch: (values[epoch], epoch))


def plain_loop(problem: Problem, config: LinearProbeConfig, seed: int, repeat: int) -> History:
    z, y, split = problem
    z = normalize(z) if config.normalize else z
    generator = stream_generator(z.device, seed, repeat)
    layer = nn.Linear(z.shape[1], int(y.max()) + 1, dtype=z.dtype, device=z.device)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(layer.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    history = History([], {"micro": [], "macro": []}, {"micro": [], "macro": []})
    for _ in range(config.epochs):
        order = torch.randperm(split.train.numel(), generator=generator, device=z.device)
        for batch in split.train[order].split(config.batch_size):
            optimizer.zero_grad()
            cross_entropy(layer(z[batch]), y[batch]).backward()
            optimizer.step()
        history.weight.append(layer.weight.detach().clone())
        for scores, nodes in ((history.valid, split.valid), (history.test, split.test)):
            prediction = layer(z[nodes]).argmax(1)
            for metric, values in scores.items():
                values.append(f1_score(y[nodes].cpu(), prediction.cpu(), average=metric))
    return history


@pytest.mark.parametrize("normalize", [False, True])
def test_one_probe_is_the_plain_loop(normalize: bool) -> None:
    problem, config = noisy(), replace(SHORT, repeats=1, normalize=normalize)
    history = plain_loop(problem, config, seed=5, repeat=0)
    by_micro, by_macro = history.latest_best("micro"), history.latest_best("macro")
    expected = {
        "micro_f1": history.test["micro"][by_micro],
        "macro_f1": history.test["macro"][by_micro],
        "macro_f1_own_epoch": history.test["macro"][by_macro],
        "valid_micro_f1": history.valid["micro"][by_micro],
    }
    scores = linear_probe(*problem, config, seed=5)
    assert scores == pytest.approx(expected, abs=1e-12)
    assert as_published(scores) == {**scores, "macro_f1": scores["macro_f1_own_epoch"]}


@pytest.mark.parametrize("device", DEVICES)
def test_probes_side_by_side_are_the_probes_alone(device: str) -> None:
    problem = noisy().to(device)
    train, valid = problem.labelled(problem.split.train), problem.labelled(problem.split.valid)
    together, _ = train_probes(train, valid, SHORT, seed=5)
    for repeat in range(SHORT.repeats):
        history = plain_loop(problem, SHORT, seed=5, repeat=repeat)
        epoch = history.latest_best("micro")
        assert int(together.epoch[repeat]) == epoch
        assert float(together.valid[repeat]) == pytest.approx(history.valid["micro"][epoch], abs=1e-12)
        torch.testing.assert_close(together.weight[repeat], history.weight[epoch], rtol=1e-9, atol=1e-9)
    first_two, _ = train_probes(train, valid, replace(SHORT, repeats=2), seed=5)
    torch.testing.assert_close(first_two.weight, together.weight[:2], rtol=1e-9, atol=1e-9)


def test_mean_and_spread_over_the_probes() -> None:
    problem = noisy()
    histories = [plain_loop(problem, SHORT, seed=5, repeat=repeat) for repeat in range(3)]
    result = linear_probe(*problem, SHORT, seed=5)
    for metric in ("micro", "macro"):
        values = [each.test[metric][each.latest_best("micro")] for each in histories]
        assert result[f"{metric}_f1"] == pytest.approx(mean(values), abs=1e-12)
        assert result[f"{metric}_f1_std"] == pytest.approx(stdev(values), abs=1e-12)
        assert result[f"{metric}_f1_std"] > 0
    own = [each.test["macro"][each.latest_best("macro")] for each in histories]
    published = as_published(result)
    assert (published["macro_f1"], published["macro_f1_std"]) == pytest.approx((mean(own), stdev(own)), abs=1e-12)
    spread = {"micro_f1", "macro_f1", "macro_f1_own_epoch"}
    assert set(published) == set(result) == {*spread, *(f"{name}_std" for name in spread), "valid_micro_f1"}


def test_each_metric_has_its_own_epoch_where_the_two_peak_apart() -> None:
    problem, one = noisy(), replace(SHORT, repeats=1)
    history = plain_loop(problem, one, seed=5, repeat=0)
    assert history.latest_best("micro") != history.latest_best("macro"), "the case must tell the epochs apart"
    train, valid = problem.labelled(problem.split.train), problem.labelled(problem.split.valid)
    by_micro, by_macro = train_probes(train, valid, one, seed=5)
    assert int(by_micro.epoch) == history.latest_best("micro")
    assert int(by_macro.epoch) == history.latest_best("macro")
    assert float(by_macro.valid) == pytest.approx(max(history.valid["macro"]), abs=1e-12)


def separable() -> Problem:
    y = torch.arange(90) % 3
    noise = torch.randn(90, 3, generator=torch.Generator().manual_seed(0))
    return Problem(one_hot(y, 3) * 10 + noise.clamp(-1, 1), y, thirds(90, seed=1))


def test_separable_classes_are_separated_and_ties_go_to_the_latest_epoch() -> None:
    problem, config = separable(), LinearProbeConfig(lr=0.1, epochs=60, repeats=4)
    result = linear_probe(*problem, config, seed=0)
    assert result == {name: 0.0 if name.endswith("_std") else 1.0 for name in result}
    train, valid = problem.labelled(problem.split.train), problem.labelled(problem.split.valid)
    for probes in train_probes(train, valid, config, seed=0):
        assert probes.epoch.tolist() == [59] * 4


@pytest.mark.parametrize("device", DEVICES)
def test_same_seed_same_bits_other_seed_other_probes(device: str) -> None:
    problem = noisy(dtype=torch.float32).to(device)
    train, valid = problem.labelled(problem.split.train), problem.labelled(problem.split.valid)
    first, again, other = (train_probes(train, valid, SHORT, seed=seed)[0] for seed in (3, 3, 3 + 2**32))
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not torch.equal(first.weight, other.weight)
    assert not torch.equal(first.weight[0], first.weight[1])
    assert linear_probe(*problem, SHORT, seed=3) == linear_probe(*problem, SHORT, seed=3)


def test_test_labels_change_the_test_score_and_nothing_else() -> None:
    problem, config = noisy(), SHORT
    wrong = problem.y.clone()
    wrong[problem.split.test] = 7 - problem.y[problem.split.test]
    honest, fooled = (linear_probe(problem.z, y, problem.split, config, seed=2) for y in (problem.y, wrong))
    assert fooled["valid_micro_f1"] == honest["valid_micro_f1"]
    assert honest["micro_f1"] > fooled["micro_f1"] == fooled["macro_f1"] == fooled["macro_f1_own_epoch"] == 0.0
    relabelled = problem.y.clone()
    relabelled[problem.split.test] = 2
    predictions_of_class_two = linear_probe(problem.z, relabelled, problem.split, config, seed=2)["micro_f1"]
    train, valid = problem.labelled(problem.split.train), problem.labelled(problem.split.valid)
    by_micro, _ = train_probes(train, valid, config, seed=2)
    share = (by_micro.predict(problem.z[problem.split.test]) == 2).double().mean()
    assert predictions_of_class_two == pytest.approx(float(share), abs=1e-12)


def test_embeddings_are_detached_and_left_alone() -> None:
    problem = noisy(dtype=torch.float32)
    z = problem.z.clone().requires_grad_()
    with torch.no_grad():
        linear_probe(z, problem.y, problem.split, SHORT, seed=0)
    assert z.grad is None
    assert torch.equal(z.detach(), problem.z)


def test_half_precision_embeddings_are_read_in_float32() -> None:
    problem = noisy(dtype=torch.float32)
    half = problem.z.bfloat16()
    assert linear_probe(half, problem.y, problem.split, SHORT, seed=0) == linear_probe(
        half.float(), problem.y, problem.split, SHORT, seed=0
    )


def test_normalizing_makes_the_scale_of_a_row_irrelevant() -> None:
    problem, config = noisy(), replace(SHORT, normalize=True)
    stretched = problem.z * torch.logspace(-3, 3, len(problem.z), dtype=torch.float64).unsqueeze(1)
    plain = linear_probe(*problem, config, seed=0)
    assert linear_probe(stretched, problem.y, problem.split, config, seed=0) == plain
    assert linear_probe(stretched, problem.y, problem.split, SHORT, seed=0) != plain


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("lr", 0.0, "must be a positive number, got 0.0"),
        ("lr", float("nan"), "must be a positive number, got nan"),
        ("weight_decay", -1.0, "must be zero or a positive number, got -1.0"),
        ("epochs", 0, "must be at least 1, got 0"),
        ("batch_size", -3, "must be at least 1, got -3"),
        ("repeats", 0, "must be at least 1, got 0"),
    ],
)
def test_broken_rules_name_the_field(field: str, value: object, rule: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: {rule}"):
        LinearProbeConfig(**{field: value})
    with pytest.raises(UserError, match=f"^probe.{field}: {rule}"):
        patch(LinearProbeConfig(), {field: value}, "probe.")


def test_unusable_inputs_are_refused_with_the_part_named() -> None:
    z, y, split = noisy()
    with pytest.raises(UserError, match="valid part of the node split is empty"):
        linear_probe(z, y, replace(split, valid=split.valid[:0]), SHORT, seed=0)
    with pytest.raises(UserError, match="a test node has the label -1"):
        linear_probe(z, y.index_fill(0, split.test[:1], -1), split, SHORT, seed=0)
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(UserError, match="embeddings of train nodes must be finite"):
            linear_probe(z.index_fill(0, split.train[3:4], value), y, split, SHORT, seed=0)
