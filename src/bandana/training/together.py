"""Carries out trainings, one after the other or several side by side."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic

import torch

from bandana.training.steps import Request, Result, StepTaker, Training, own_stream


@dataclass
class _Job(Generic[Result]):
    place: int
    training: Training[Result]
    request: Request


def carry_out(trainings: Iterable[Training[Result]], device: torch.device, jobs: int = 1) -> list[Result]:
    """Run trainings to their ends and return their results in order.

    A small graph leaves a GPU nearly idle. With several `jobs`, steps of different trainings are taken side by side: a
    step of each running one, then the next of each. Where one ends, the next begins.

    Args:
        trainings: Not begun yet; each is begun when there is room for it.
        device: Where they run.
        jobs: Trainings that run at the same time.
    """
    results: dict[int, Result] = {}
    waiting = enumerate(trainings)
    taker = StepTaker()

    def begin() -> Iterator[_Job[Result]]:
        for place, training in waiting:
            try:
                yield _Job(place, training, next(training))
            except StopIteration as end:
                results[place] = end.value

    with own_stream(device):
        beginning = begin()
        running = list(islice(beginning, jobs))
        while running:
            losses = taker.take([job.request for job in running])
            for job, loss in zip(list(running), losses, strict=True):
                try:
                    job.request = job.training.send(loss)
                except StopIteration as end:
                    results[job.place] = end.value
                    running.remove(job)
                    running.extend(islice(beginning, 1))
    return [results[place] for place in sorted(results)]
