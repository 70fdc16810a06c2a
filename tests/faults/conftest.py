"""What the tests of faults leave out."""

from collections.abc import Iterator

import pytest

from bandana.own import automatic
from bandana.own.calibration import Estimate
from bandana.reporting import own_report


@pytest.fixture(autouse=True, scope="module")
def neither_estimate_nor_map() -> Iterator[None]:
    """Both take longer than these trainings, and are tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
        patch.setattr(own_report, "_tsne", lambda z, seed: z[:, :2].numpy())
        yield
