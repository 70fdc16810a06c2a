"""Ctrl-C while groups run side by side: their threads are home before the interrupt goes on, so Python can end."""

import os
import signal
import threading
import time

import pytest
import torch

from bandana.scale.distributed import World
from bandana.scale.joint import Meeting, _side_by_side


def test_an_interrupt_waits_for_the_threads_of_the_groups() -> None:
    def run(place: int) -> torch.Tensor:
        if place == 1:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        return torch.zeros(())

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        _side_by_side(run, Meeting(World(0, 1, torch.device("cpu")), 2), 2)
    assert threading.active_count() == before
