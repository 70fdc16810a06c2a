"""The loss of several groups as one: each group draws for itself, all are normalised together.

The groups of a process run side by side in threads, because a batch norm in the middle of a layer needs the sums of all
groups before any of them can go on. There they meet; the sums of all processes are added, and everybody goes on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bandana.devices import torch_threads
from bandana.method import Batch, Clock, Method
from bandana.scale.batches import group_clock
from bandana.scale.distributed import World

SECONDS_TO_COME_HOME = 10.0
"""That an interrupt waits for the thread of a group. One that other processes keep waiting never comes."""


class Meeting:
    """Where the groups of one process add up tensors, with each other and with the other processes."""

    def __init__(self, world: World, num_groups: int) -> None:
        self.barrier = Barrier(num_groups)
        self._world = world
        self._brought: list[Tensor] = [torch.empty(0)] * num_groups
        self._total = torch.empty(0)

    def sum(self, place: int, tensor: Tensor) -> Tensor:
        """The sum of what all groups bring. The first one adds up in order, so that the result never varies."""
        self._brought[place] = tensor
        self.barrier.wait()
        if place == 0:
            self._total = self._world.sum(torch.stack(self._brought).sum(0))
        self.barrier.wait()
        return self._total


class Seat(NamedTuple):
    """A group's place in a meeting."""

    meeting: Meeting
    place: int


_seat: ContextVar[Seat | None] = ContextVar("seat", default=None)


class JointBatchNorm(nn.BatchNorm1d):
    """Batch norm over the nodes of all groups of a step; outside of a meeting, ordinary batch norm."""

    def forward(self, x: Tensor) -> Tensor:
        seat = _seat.get()
        if seat is None or not self.training:
            return super().forward(x)
        meeting, place = seat
        sums = meeting.sum(place, torch.cat([x.sum(0), x.new_tensor([x.shape[0]])]))
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = x - mean  # the squares of centred values lose no digits, as E[x²] - E[x]² would
        variance = meeting.sum(place, centred.square().sum(0)) / count
        if place == 0:
            self._remember(mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
        return centred * ((variance + self.eps).rsqrt() * self.weight) + self.bias

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked += 1
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance, self.momentum)


def join_norms(module: nn.Module) -> list[JointBatchNorm]:
    """Turn every batch norm below `module` into a joint one with the same weights; return them in order."""
    for owner in list(module.modules()):
        for name, child in owner.named_children():
            if type(child) is nn.BatchNorm1d:
                new = JointBatchNorm(child.num_features, child.eps, child.momentum)
                new.weight, new.bias = child.weight, child.bias
                for buffer, value in child.named_buffers():
                    setattr(new, buffer, value)
                setattr(owner, name, new.train(child.training))
    return [child for child in module.modules() if isinstance(child, JointBatchNorm)]


class JointLoss(nn.Module):
    """The mean over all links of a step, of which this process computes its own groups' share."""

    def __init__(self, method: Method, world: World) -> None:
        super().__init__()
        self.method = method
        self._world = world
        self._meets = bool(join_norms(method))

    def forward(self, batches: Sequence[Batch], clock: Clock, first: int) -> Tensor:
        """The part of the loss that this process has to answer for.

        Averaged over the processes, these parts are the loss: that is how gradients are exchanged.

        Args:
            batches: This process's groups.
            clock: Of the step.
            first: Place of the first of them among all groups of the step.
        """
        links = [batch.links.numel() for batch in batches]
        counts = torch.tensor(links, dtype=torch.float64, device=self._world.device)
        shares = counts * (self._world.size / self._world.sum(counts.sum()).clamp(min=1))

        def run(place: int) -> Tensor:
            batch = batches[place]
            return self.method.loss(batch, group_clock(clock, first + place))

        losses = torch.stack(self._run_all(run, len(batches)))
        return torch.dot(shares.to(losses.dtype), losses)

    def _run_all(self, run: Callable[[int], Tensor], count: int) -> list[Tensor]:
        if not self._meets or (count == 1 and self._world.size == 1):
            return [run(place) for place in range(count)]
        meeting = Meeting(self._world, count)
        if count == 1:
            with _seated(Seat(meeting, 0)):
                return [run(0)]
        return _side_by_side(run, meeting, count)


@contextmanager
def _seated(seat: Seat) -> Iterator[None]:
    before = _seat.set(seat)
    try:
        yield
    finally:
        _seat.reset(before)


def _side_by_side(run: Callable[[int], Tensor], meeting: Meeting, count: int) -> list[Tensor]:
    """Run every place in a thread of its own; the first that fails sends all others home."""
    results: list[Any] = [None] * count
    problems: list[BaseException] = []
    stream = torch.cuda.current_stream() if torch.cuda.is_available() else None

    def work(place: int) -> None:
        try:
            with _seated(Seat(meeting, place)), torch.cuda.stream(stream):
                results[place] = run(place)
        except BrokenBarrierError:
            pass
        except BaseException as problem:
            problems.append(problem)
            meeting.barrier.abort()

    # New threads for every step: autograd numbers the work of each thread, and these numbers set the order of sums.
    threads = [Thread(target=work, args=(place,), daemon=True) for place in range(count)]
    with torch_threads(max(torch.get_num_threads() // count, 1)):
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C: a thread inside of torch would abort a Python that ends
            meeting.barrier.abort()
            for thread in filter(Thread.is_alive, threads):
                thread.join(SECONDS_TO_COME_HOME)
            raise
    if problems:
        raise problems[0]
    return results
