"""Complexity (Table 7): how time and memory of each component grow, against the orders that the paper gives.

One quantity at a time is doubled on random graphs, and a power is fitted to what is measured. An order is an upper
bound: growth below it bears it out, and growth clearly above it does not.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.paper.artifact import Artifact, Cell, Piece, Result, Scope, Score, Sheet, State
from bandana.paper.grid import Results, absence_notes, state_of
from bandana.paper.meters import measure
from bandana.paper.published import printed
from bandana.paper.sentences import sentence
from bandana.paper.work import work
from bandana.parts.encoders import EncoderConfig
from bandana.parts.masks import MaskConfig, draw_masks

COMPONENTS = ("bandwidth masking", "encoding", "decoding", "bandwidth prediction", "total")
VARIABLES = ("n", "|E|", "d", "K")
DOUBLINGS, QUICK_DOUBLINGS = 4, 3
SPREAD = "Beside a power stands the standard error of its fit."
MEANINGS = {
    "same": "grows within the paper's order",
    "higher": "grows faster than the paper's order",
    "not tested": "the measured sizes scatter too much for a power to be told",
}
MEASURED = {
    "seconds": "the quickest of five calls",
    "mb": "the highest memory of tensors in a call, above what was there before,",
}
SLACK = 0.15
"""Above the order by so much is still within it: a power fitted to a few sizes is no better than that."""

UNSURE = 0.25
"""A standard error above this says that the machine was busy, or the sizes too small."""


class Size(NamedTuple):
    """Nodes, directed edges, width and layers; the names are those of the paper's orders."""

    n: int
    E: int
    d: int
    K: int


BASE, QUICK_BASE = Size(10_000, 200_000, 64, 2), Size(1_000, 10_000, 16, 1)


@work("growth", about_device=True)
def grow(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Seconds and megabytes of a component while one quantity is doubled again and again."""
    base, field = Size(*arguments["base"]), str(arguments["variable"]).strip("|")
    values = [getattr(base, field) * 2**step for step in range(int(arguments["doublings"]))]
    sizes = [base._replace(**{field: value}) for value in values]
    costs = [measure(_component(arguments["component"], size, device), device) for size in sizes]
    return {"values": values, "seconds": [cost.seconds for cost in costs], "mb": [cost.peak_mb for cost in costs]}


def pieces(scope: Scope) -> Sequence[Piece]:
    """Every component against every quantity."""
    base, doublings = (QUICK_BASE, QUICK_DOUBLINGS) if scope.quick else (BASE, DOUBLINGS)
    return [
        Piece("growth", {"component": name, "variable": variable, "base": list(base), "doublings": doublings})
        for name in COMPONENTS
        for variable in VARIABLES
    ]


def show(results: Results) -> Sequence[Sheet]:
    """The fitted powers of time and memory beside the largest powers in the orders."""
    return [_sheet(results, "time", "seconds"), _sheet(results, "space", "mb")]


def largest_power(order: str, variable: str) -> int:
    """The highest power of a quantity in a sum of products such as ``K d |E| + K d² n``."""
    powers = {variable: 1, f"{variable}²": 2}
    return max(sum(powers.get(factor, 0) for factor in term.split()) for term in order.split("+"))


def fitted_power(values: Sequence[float], costs: Sequence[float]) -> Score:
    """The slope of log cost on log value, with its standard error."""
    from scipy.stats import linregress

    if len(set(costs)) == 1:
        return Score(0.0, 0.0, len(values))  # scipy knows no error of a level line
    fit = linregress(torch.tensor(values).double().log().tolist(), torch.tensor(costs).double().log().tolist())
    return Score(float(fit.slope), float(fit.stderr), len(values))


def _sheet(results: Results, side: Literal["time", "space"], measured: str) -> Sheet:
    orders = {row: cell.text for (row, column), cell in printed("complexity").items() if column == side}
    cells = [_cell(piece, result, orders[piece.arguments["component"]], measured) for piece, result in results]
    return Sheet(
        title=f"Growth of {side}: fitted powers, beside the largest power in the paper's order",
        rows=tuple(row for row in COMPONENTS if row in {cell.row for cell in cells}),
        columns=tuple(column for column in VARIABLES if column in {cell.column for cell in cells}),
        cells=tuple(cells),
        notes=(SPREAD, *(f"{row}: O({order})." for row, order in orders.items()), *absence_notes(cells)),
        highest_is_best=False,
        marks_best=False,
        counted="sizes",
        meanings=MEANINGS,
    )


def _cell(piece: Piece, result: Result, order: str, measured: str) -> Cell:
    row, column = piece.arguments["component"], piece.arguments["variable"]
    bound = Score(largest_power(order, column), None, 1, last_digit=0)
    facts: dict[str, Any] = {"row": row, "column": column, "published": bound, "published_over": ""}
    if result.values is None:
        failure = result.failure
        return Cell(ours=None, state=state_of(failure), note=sentence(failure), missing=failure, **facts)
    ours = fitted_power(result.values["values"], [max(cost, 1e-9) for cost in result.values[measured]])
    assert ours.sd is not None
    exceeds = ours.mean - 2 * ours.sd > bound.mean + SLACK
    state: State = "higher" if exceeds else "same"
    verdict = f"Grows {'faster than' if exceeds else 'within'} O({order})."
    if ours.sd > UNSURE:
        state, verdict = "not tested", "The measured sizes scatter too much for a power to be told."
    sizes = ", ".join(f"{value:,}" for value in result.values["values"])
    words = f"{MEASURED[measured]} at {column} = {sizes}"
    return Cell(ours=ours, state=state, note=verdict, protocol=words, origins=(result.origin,), **facts)


def _component(name: str, size: Size, device: torch.device) -> Callable[[], object]:
    """A call of one component, forward and backward, on a random graph."""
    graph, clock = _random_graph(size).to(device), Clock(seed=0)
    links = graph.links
    method = cache(lambda: _method(size).to(device))  # in the first call, else the profiler wonders at what was there
    pairs = torch.stack([graph.structure.row[links], graph.structure.col[links]])
    z = [torch.ones(size.n, size.d, device=device, requires_grad=True) for _ in range(size.K)]
    logits = torch.ones(size.K, graph.num_edges, device=device, requires_grad=True)
    masks = draw_masks(MaskConfig(), graph, clock, size.K)
    weight = torch.full((links.numel(),), 1.0 / max(links.numel(), 1), device=device)

    def encode() -> None:
        messages = [mask.messages for mask in masks]
        layers = method().encoder(graph.x, graph.structure, messages, clock.generator(device))
        torch.stack([layer.sum() for layer in layers]).sum().backward()

    def decode() -> None:
        losses = [method().decoder.loss(layer, pairs, weight, clock.generator(device)) for layer in z]
        torch.stack(losses).sum().backward()

    def predict() -> None:
        targets = torch.stack([mask.bandwidths for mask in masks])
        (-(targets * logsigmoid(logits)).mean()).backward()

    components: dict[str, Callable[[], object]] = {
        "bandwidth masking": lambda: draw_masks(MaskConfig(), graph, clock, size.K),
        "encoding": encode,
        "decoding": decode,
        "bandwidth prediction": predict,
        "total": lambda: _step(method(), Batch(graph, links), clock),
    }
    return components[name]


def _step(method: Bandana, batch: Batch, clock: Clock) -> Tensor:
    loss = method.loss(batch, clock)
    loss.backward()
    return loss.detach()


def _method(size: Size) -> Bandana:
    encoder = EncoderConfig(num_layers=size.K, width=size.d, dropout=0.0)
    config = BandanaConfig(encoder=encoder, decoder_width=size.d, decoder_dropout=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Bandana(config, GraphSpec(size.n, size.d))


def _random_graph(size: Size) -> Graph:
    draw = torch.Generator().manual_seed(0)
    edges = torch.randint(size.n, (2, size.E // 2), generator=draw)
    return Graph.from_edges(edges, num_nodes=size.n, x=torch.randn(size.n, size.d, generator=draw))


ARTIFACT = Artifact(
    name="complexity",
    kind="table",
    title="How each component grows",
    printed="Table 7",
    pieces=pieces,
    show=show,
)
