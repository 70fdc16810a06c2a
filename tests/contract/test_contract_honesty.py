"""What no method may be shown: links that are held out from it. Watched through a whole run, hook by hook."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from bandana.data.datasets import Dataset
from bandana.data.splits import split_edges
from bandana.engine.structure import entry_keys
from bandana.evaluation.linear_probe import LinearProbeConfig
from bandana.experiment import Experiment, run_seed
from bandana.graph import Graph
from bandana.method import Batch, Method
from bandana.registry import all_methods
from bandana.training.trainer import TrainingConfig

GraphFactory = Callable[..., Graph]
HOOKS = ("prepare", "loss", "turns", "embed", "score_edges")


@pytest.fixture
def shown(cls: type[Method], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Graph]]:
    """Every graph that the method is handed, with the hook through which it came."""
    seen: list[tuple[str, Graph]] = []

    def watched(hook: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Method, given: Graph | Batch, *rest: Any) -> Any:
            seen.append((hook, given.graph if isinstance(given, Batch) else given))
            return original(self, given, *rest)

        return call

    for hook in HOOKS:
        original = getattr(cls, hook)
        if original is not Method.score_edges:  # a decoder is recognised by its override
            monkeypatch.setattr(cls, hook, watched(hook, original))
    return seen


@pytest.mark.parametrize("task", ["link", "node"])
def test_held_out_links_are_never_shown(
    cls: type[Method], shown: list[tuple[str, Graph]], random_graph: GraphFactory, task: str
) -> None:
    """Nodes are classified from the whole graph, so there only `embed` may see it, and only after the training."""
    graph = random_graph(50, 150)
    (name,) = (name for name, method in all_methods().items() if method is cls)
    experiment = Experiment(
        method=name,
        dataset="mine",
        task=task,  # type: ignore[arg-type]
        model=cls.Config(),
        training=TrainingConfig(epochs=2, evaluate_every=1),
        probe=LinearProbeConfig(epochs=2),
    )
    run_seed(experiment, Dataset("mine", graph), 0, torch.device("cpu"))
    split = split_edges(graph, experiment.split.valid_edges, experiment.split.test_edges, seed=0)
    first, second = torch.cat([split.valid.positive, split.test.positive], dim=1)
    held_out = torch.cat([entry_keys(first, second, 50), entry_keys(second, first, 50)])
    assert held_out.numel() >= 20
    assert {"prepare", "embed"} <= {hook for hook, _ in shown}
    leaks = [hook for hook, given in shown if bool(torch.isin(given.edge_keys, held_out).any())]
    assert set(leaks) <= ({"embed"} if task == "node" else set())
    assert len(leaks) <= 2, "the floor before the training, and the embedding after it"
