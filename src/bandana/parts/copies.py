"""Several copies of a method that learn at the same time, each by itself, and whose embeddings stand side by side.

Copies begin at different weights and draw different masks and negatives, so each finds something else. One that is
alone learns exactly what the first of several does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor, nn

from bandana.engine.streams import generator_seed
from bandana.graph import Graph
from bandana.method import Batch, Clock, Generators, Method


class Copies(Method):
    """Copies of one method, built by whoever has its settings."""

    def __init__(self, copies: Sequence[Method]) -> None:
        super().__init__()
        self.copies = nn.ModuleList(copies)
        self._each = list(copies)  # the same, with their type
        self.replayable = all(copy.replayable for copy in copies)

    def prepare(self, graph: Graph) -> None:
        for copy in self._each:
            copy.prepare(graph)

    def loss(self, batch: Batch, clock: Clock) -> Tensor:
        return torch.stack([copy.loss(batch, own) for copy, own in self._timed(batch, clock)]).sum()

    def turns(self, batch: Batch, clock: Clock) -> Iterator[tuple[str, Tensor]]:
        """One copy after the other, so that only one holds memory, and a norm that is clipped is its own."""
        for copy, own in self._timed(batch, clock):
            yield from copy.turns(batch, own)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        groups = [copy.parameter_groups() for copy in self._each]
        return {name: [parameter for own in groups for parameter in own[name]] for name in groups[0]}

    def rate_of(self, group: str) -> float:
        return self._each[0].rate_of(group)

    def after_step(self, clock: Clock) -> None:
        for copy in self._each:
            copy.after_step(clock)

    def embed(self, graph: Graph) -> Tensor:
        return torch.cat([copy.embed(graph) for copy in self._each], dim=1)

    def score_edges(self, graph: Graph, pairs: Tensor) -> Tensor | None:
        """The mean of the copies' logits."""
        scores = [copy.score_edges(graph, pairs) for copy in self._each]
        known = [score for score in scores if score is not None]
        return torch.stack(known).mean(0) if known else None

    def has_decoder(self) -> bool:
        return self._each[0].has_decoder()

    def diagnostics(self) -> dict[str, float]:
        told = [copy.diagnostics() for copy in self._each]
        return {name: fmean(own[name] for own in told) for name in told[0]}

    def _timed(self, batch: Batch, clock: Clock) -> Iterator[tuple[Method, Clock]]:
        """Each copy with a clock: other seeds for noise that is counted, the same generators in turn for the rest."""
        device = batch.graph.device
        shared = Generators(clock.generator(device), clock.epoch_generator(device))
        for place, copy in enumerate(self._each):
            seed = clock.seed if place == 0 else generator_seed(clock.seed, place)
            yield copy, replace(clock, seed=seed, generators=shared)
