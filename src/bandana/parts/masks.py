"""Masks on edges: how much of each message may pass. All of them keep the same share of the messages on average."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from bandana.engine.bandwidth import (
    boltzmann_gibbs,
    gaussian_noise,
    segment_logsumexp,
    segment_softmax,
    uniform_noise,
)
from bandana.engine.propagate import EdgeWeights, gcn_weights
from bandana.engine.structure import Structure
from bandana.graph import Graph
from bandana.method import Clock

COLDEST = 1e-30
"""Lowest temperature: below, noise over temperature is infinite in single precision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskConfig:
    """The distribution of bandwidths."""

    distribution: Literal["boltzmann_gibbs", "bernoulli", "uniform", "truncated_gaussian", "none"] = "boltzmann_gibbs"
    temperature: float | tuple[float, ...] = 1.0
    """Of the Boltzmann-Gibbs distribution; one number, or one per layer."""
    per_layer: bool = True
    """Draw a new mask for every layer; false uses one mask for all layers of a step."""
    self_loop: Literal["outside", "inside"] = "outside"
    """Whether a node's own message takes part in the softmax (Boltzmann-Gibbs only) or passes with weight 1."""

    def __post_init__(self) -> None:
        temperatures = self.temperature if isinstance(self.temperature, tuple) else (self.temperature,)
        if not temperatures or not all(COLDEST <= temperature < math.inf for temperature in temperatures):
            raise ValueError(f"temperature: must be a number from {COLDEST} on, got {self.temperature}")
        if isinstance(self.temperature, tuple) and not self.per_layer:
            raise ValueError(f"temperature: one mask for all layers has one temperature, got {list(temperatures)}")
        if self.self_loop == "inside" and self.distribution != "boltzmann_gibbs":
            raise ValueError(f"self_loop: 'inside' needs the boltzmann_gibbs distribution, got {self.distribution!r}")

    def temperature_of(self, layer: int) -> float:
        return self.temperature[layer] if isinstance(self.temperature, tuple) else self.temperature


class Mask(NamedTuple):
    """One layer's mask: ``bandwidths [edges]``, and the GCN weights of the messages that pass through them."""

    bandwidths: Tensor
    messages: EdgeWeights


def draw_masks(config: MaskConfig, graph: Graph, clock: Clock, num_layers: int) -> list[Mask]:
    """The masks of one step, one per layer; the same one for all of them unless ``config.per_layer``."""
    if config.per_layer:
        return [_draw(config, graph, clock, layer) for layer in range(num_layers)]
    return [_draw(config, graph, clock, 0)] * num_layers


def _draw(config: MaskConfig, graph: Graph, clock: Clock, layer: int) -> Mask:
    cut = graph.origin is not None and graph.origin.outside is not None
    if config.distribution == "boltzmann_gibbs" and config.self_loop == "outside" and graph.weight is None and not cut:
        temperature, keys = config.temperature_of(layer), graph.noise_keys
        where = {"seed": clock.seed, "step": clock.counter, "layer": layer}
        return Mask(*boltzmann_gibbs(graph.structure, keys, temperature, **where))  # type: ignore[arg-type]
    mask = draw_mask(config, graph, clock, layer)
    values = mask.values if graph.weight is None else mask.values * graph.weight
    return Mask(mask.values, gcn_weights(graph.structure, values, mask.loop))


def draw_mask(config: MaskConfig, graph: Graph, clock: Clock, layer: int) -> EdgeWeights:
    """Draw the bandwidth of every edge for one layer of one step.

    Every distribution has the mean bandwidth of the Boltzmann-Gibbs one: its shares sum to one over the in-neighbours
    of each node that has any, so the mean is the number of such nodes over the number of edges.

    Returns:
        ``values [edges]`` in [0, 1] (up to ``2 · mean`` for the two other continuous ones), and the self-loops.
    """
    structure = graph.structure
    ones = torch.ones(graph.num_nodes, device=graph.device)
    if config.distribution == "none":
        return EdgeWeights(torch.ones(graph.num_edges, device=graph.device), ones)
    if config.distribution == "boltzmann_gibbs":
        return _shares(config, graph, clock, layer)
    mean = mean_bandwidth(structure)
    draw = uniform_noise(graph.noise_keys, seed=clock.seed, step=clock.counter, layer=layer)
    if config.distribution == "bernoulli":
        return EdgeWeights((draw <= mean).to(ones.dtype), ones)
    if config.distribution == "uniform":
        return EdgeWeights(draw.mul_(2 * mean), ones)
    return EdgeWeights(_truncated_gaussian(draw, mean), ones)


def _shares(config: MaskConfig, graph: Graph, clock: Clock, layer: int) -> EdgeWeights:
    """Boltzmann-Gibbs shares of the edges and, where they take part, of the self-loops."""
    temperature, keys = config.temperature_of(layer), graph.noise_keys

    def logits(keys: Tensor) -> Tensor:
        return gaussian_noise(keys, seed=clock.seed, step=clock.counter, layer=layer).div_(temperature)

    own = logits(graph.loop_keys) if config.self_loop == "inside" else None
    outside = None if graph.origin is None else graph.origin.outside
    if outside is None and own is None:
        where = {"seed": clock.seed, "step": clock.counter, "layer": layer}
        shares, _ = boltzmann_gibbs(graph.structure, keys, temperature, **where)  # type: ignore[arg-type]
        return EdgeWeights(shares, torch.ones(graph.num_nodes, device=graph.device))
    if outside is None:
        return EdgeWeights(*segment_softmax(graph.structure, logits(keys), own))
    # All edges from outside count as one more entry of the row: softmax knows only the sum of their exponentials.
    beside = segment_logsumexp(outside.rowptr, logits(outside.keys))
    both = beside if own is None else torch.logaddexp(beside, own)
    shares, rest = segment_softmax(graph.structure, logits(keys), both)
    return EdgeWeights(shares, torch.ones_like(rest) if own is None else rest * (own - both).exp())


def mean_bandwidth(structure: Structure) -> Tensor:
    """Scalar mean of Boltzmann-Gibbs bandwidths over all edges: 1 minus the mask ratio."""
    return (structure.row_sizes > 0).sum().double() / max(structure.num_entries, 1)


def _truncated_gaussian(draw: Tensor, mean: Tensor) -> Tensor:
    """Normal with standard deviation 1 around `mean`, cut to [0, 2·mean], by inversion of its distribution."""
    half = torch.erf(mean / 2**0.5) / 2
    inside: Tensor = torch.special.ndtri(0.5 + half * (2 * draw - 1)) + mean
    return torch.minimum(inside.clamp_(min=0), 2 * mean)
