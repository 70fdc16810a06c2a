"""A step that is recorded on a GPU must not ask the device for a number. Watched here without one.

Recording fails where an operation waits for a result, such as a shape that depends on values. Which operations those
are is known, so one step under every setting of the shipped recipes shows them on a CPU as well.
"""

import inspect
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bandana.data.datasets import DATASETS
from bandana.errors import UserError
from bandana.graph import Graph
from bandana.method import Batch, Clock, Method
from bandana.paper.cookbook import recipe
from bandana.registry import all_methods

REPLAYABLE = sorted(name for name, method in all_methods().items() if method.replayable)
ASKING = {
    *("_local_scalar_dense", "_unique2", "bincount", "equal", "is_nonzero", "masked_select", "nonzero"),
    *("repeat_interleave", "unique_consecutive", "unique_dim"),
}
"""Operations of torch that wait for the device, by their names in its library."""
ONLY_ON_A_CPU = {"CrossDecoder.loss", "_PropagateKept.forward", "_PropagateKept.backward"}
"""Functions that leave out what has no weight, which on a GPU would make the host wait."""


def callers() -> Iterator[str]:
    """The functions that are being carried out, with their classes."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame.f_code.co_qualname
        frame = frame.f_back


class Refusal(TorchDispatchMode):
    """Stops at the first operation that a recording would stop at."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ASKING and not ONLY_ON_A_CPU.intersection(callers()):
            raise AssertionError(f"{name} waits for the device")
        if name in ("index", "index_put_", "index_put"):
            assert all(index is None or index.dtype is not torch.bool for index in args[1]), f"{name} by a mask waits"
        return func(*args, **(kwargs or {}))


def settings_of(method: str) -> Iterator[tuple[str, str, object]]:
    """Every distinct configuration of a method's recipes, with a data set and task that has it."""
    seen = []
    for dataset, task in product(DATASETS, ("node", "link")):
        try:
            model = recipe(method, dataset, task).model  # type: ignore[arg-type]
        except UserError:
            continue
        if model not in seen:
            seen.append(model)
            yield dataset, task, model


def test_a_waiting_operation_is_refused() -> None:
    x = torch.arange(4)
    for waiting in (lambda: x.bincount(), lambda: x[x > 1], lambda: x.sum().item(), lambda: x.nonzero()):
        with pytest.raises(AssertionError, match="waits"), Refusal():
            waiting()


@pytest.mark.parametrize("name", REPLAYABLE)
def test_no_recorded_step_waits_for_the_device(
    name: str, random_graph: Callable[..., Graph], build: Callable[..., Method]
) -> None:
    graph = random_graph(40, 100, isolated=2)
    batch, clock = Batch(graph, graph.links), Clock(0, epoch=1, step=0, num_epochs=10)
    tried = 0
    for dataset, task, model in settings_of(name):
        method = build(all_methods()[name], graph, config=model)
        method.train()
        try:
            with Refusal():
                for _, loss in method.turns(batch, clock):
                    loss.backward()
                method.after_step(clock)
        except AssertionError as problem:
            raise AssertionError(f"{name}, {dataset}, {task}: {problem}") from problem
        tried += 1
    assert tried
