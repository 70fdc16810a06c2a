"""Graphs small enough to check by hand, and what every test shares. Factories are pure: no test affects another.

Nothing here imports torch before a test or a worker needs it: pytest-xdist's first process loads this file too, and
all workers wait for it.
"""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # the workers share the cores already

import pytest

if TYPE_CHECKING:
    from bandana.graph import Graph

gc.disable()  # while collecting: half a million imported objects stay, and looking through them takes seconds

GraphFactory = Callable[..., "Graph"]


def pytest_configure(config: pytest.Config) -> None:
    """What must be settled before a test is imported; pytest-xdist's first process imports none."""
    if config.getoption("numprocesses", None):
        return
    import torch
    from hypothesis import settings

    settings.register_profile("local", deadline=None, max_examples=25, database=None)
    settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
    settings.load_profile("ci" if os.environ.get("CI") else "local")
    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"  # is read when triton is imported


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say why tests on real data or a GPU are left out."""
    import torch

    absent = {
        "real_data": (not os.environ.get("BANDANA_DATA"), "set BANDANA_DATA to the folder with the raw data sets"),
        "cuda": (not torch.cuda.is_available(), "needs a CUDA device"),
    }
    for item in items:
        for name, (missing, reason) in absent.items():
            if missing and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, among what the tests make and not among what collecting left."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # extensions count at the end what was never freed


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    """No test cuts the power: what a process has written is there for the next one, even if it was killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def float64() -> Iterator[None]:
    """References are compared in double precision, where a wrong term cannot hide behind rounding."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(scope="session")
def hand_graph() -> GraphFactory:
    """Five nodes: a triangle 0-1-2, a tail 2-3, and node 4 alone."""
    import torch

    from bandana.graph import Graph

    def make(*, directed: bool = False, weighted: bool = False) -> Graph:
        edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])
        weight = torch.tensor([0.5, 2.0, 1.25, 3.0], dtype=torch.get_default_dtype()) if weighted else None
        x = torch.linspace(-1, 1, 15, dtype=torch.get_default_dtype()).view(5, 3).sin()
        return Graph.from_edges(edge_index, num_nodes=5, x=x, weight=weight, directed=directed)

    return make


@pytest.fixture(scope="session")
def random_graph() -> GraphFactory:
    """Graphs with random edges, by default with features, undirected and unweighted."""
    import torch

    from bandana.graph import Graph

    def make(
        num_nodes: int = 30,
        num_edges: int = 90,
        *,
        num_features: int = 6,
        isolated: int = 0,
        directed: bool = False,
        weighted: bool = False,
        seed: int = 0,
    ) -> Graph:
        generator = torch.Generator().manual_seed(seed)
        return Graph.from_edges(
            torch.randint(num_nodes - isolated, (2, num_edges), generator=generator),
            num_nodes=num_nodes,
            x=torch.randn(num_nodes, num_features, generator=generator) if num_features else None,
            y=torch.randint(3, (num_nodes,), generator=generator),
            weight=torch.rand(num_edges, generator=generator) + 0.5 if weighted else None,
            directed=directed,
        )

    return make
