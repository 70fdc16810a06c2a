"""Choosing for somebody who has only a graph: method, size and schedule, with the reasons, and what it will cost.

A plan depends on the graph's shape alone, never on the speed of the machine: the same graph and seed give the same
embedding everywhere. Only the estimate is measured here and now.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from bandana.config import fit, nest, patch, to_table
from bandana.data.features import Preprocessing, preprocess
from bandana.data.splits import count_pairs
from bandana.devices import resolve_device
from bandana.engine.streams import initial_weights
from bandana.errors import UserError
from bandana.evaluation.wording import how_many
from bandana.graph import Features, Graph, SparseFeatures
from bandana.method import GraphSpec, Method
from bandana.methods.bandana import BandanaConfig
from bandana.own.calibration import Estimate, estimate
from bandana.own.sizes import SIZES, Size
from bandana.paper.cookbook import UNNAMED, recipe
from bandana.parts.encoders import EncoderConfig
from bandana.parts.floor import Floor
from bandana.registry import get_method
from bandana.training.trainer import TrainingConfig

DEFAULT_METHOD = "bandana"
HELD_OUT = 0.05
"""Share of the links held out to choose the weights by, and again to report how well links are predicted."""
FEWEST_LINKS_TO_SPLIT = 40
FEWEST_LINKS_TO_READ_BY = 100
"""Validation links below which luck would choose the readout."""
EVALUATIONS = 20
WIDE_DENSE_FEATURES = 64


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides an embedding, except the graph and the seed.

    Attributes:
        method: Name in the registry.
        model: The method's configuration.
        training: How long and how fast to learn.
        features: What is done to the features first.
        held_out: Share of the links held out for validation, and as many again for the report; 0 holds out none.
        latest: Whether the latest links are held out, rather than any.
        readout_open: Whether validation links choose between all layers and the last; else `model.readout` stands.
        reasons: Why it is so, in sentences for the user.
    """

    method: str
    model: Any
    training: TrainingConfig
    features: Preprocessing = "raw"
    held_out: float = HELD_OUT
    latest: bool = False
    readout_open: bool = False
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Choice(Plan):
    """A plan and what it will cost on this machine."""

    estimate: Estimate = field(default_factory=lambda: Estimate(seconds=math.nan, bytes=0))


def choose(
    graph: Graph,
    *,
    method: str | None = None,
    device: str = "auto",
    dimensions: int | None = None,
    epochs: int | None = None,
    changes: Mapping[str, Any] | None = None,
    timed: bool = False,
) -> Choice:
    """A plan for the graph, and an estimate from training a small stand-in of it for a moment.

    Args:
        graph: What is to be embedded.
        method: A method's name; None lets the graph decide.
        device: ``auto``, ``cpu`` or ``cuda``.
        dimensions: Width of the embedding; None lets the graph decide.
        epochs: Passes over the links; None lets the graph decide.
        changes: Dotted options that have the last word, such as ``{"training.lr": 0.01}``.
        timed: Whether it is known when each edge appeared, so that the latest can be held out.

    Raises:
        UserError: The graph has no links or all of them, or an option does not exist or does not fit.
    """
    made = plan(graph, method=method, dimensions=dimensions, epochs=epochs, changes=changes, timed=timed)
    seen = preprocess(graph, made.features).to(resolve_device(device))
    cost = estimate(seen, lambda spec: build(made, spec, seed=0), made.training)
    return Choice(**{part.name: getattr(made, part.name) for part in fields(made)}, estimate=cost)


def plan(
    graph: Graph,
    *,
    method: str | None = None,
    dimensions: int | None = None,
    epochs: int | None = None,
    changes: Mapping[str, Any] | None = None,
    timed: bool = False,
) -> Plan:
    """What `choose` chooses, without the estimate."""
    method = fit(method, str | None, "method")
    dimensions, epochs = fit(dimensions, int | None, "dimensions"), fit(epochs, int | None, "epochs")
    links = graph.links.numel()
    if links == 0:
        raise UserError("The graph has no links between different nodes, so there is nothing to learn from; check it.")
    if method is None and count_pairs(graph) == links:
        raise UserError(
            f"The graph is complete: each of its {graph.num_nodes} nodes is linked to all others, so there are no "
            f"missing links to learn from; leave out weak links, or name a method that needs none, such as grace."
        )
    name = method or DEFAULT_METHOD
    size = next(size for size in SIZES if links <= size.up_to_links)
    made = _for_bandana(graph, size, dimensions) if name == "bandana" else _from_recipe(graph, name, size)
    if issubclass(get_method(name), Floor):
        made = replace(made, training=replace(made.training, epochs=1))
    if dimensions is not None:
        made = replace(made, model=with_dimensions(name, made.model, dimensions))
    if epochs is not None:
        schedule = {"epochs": epochs, "warmup_epochs": min(made.training.warmup_epochs, epochs // 10)}
        made = replace(made, training=patch(made.training, schedule))
    made = _apply(replace(made, training=_watched(made.training)), changes or {})
    held_out = HELD_OUT if _can_hold_out(graph) else 0.0
    if isinstance(made.model, BandanaConfig):
        asked = dimensions is not None or "readout" in nest(changes or {}).get("model", {})
        is_open = not asked and made.model.encoder.num_layers > 1 and links * held_out >= FEWEST_LINKS_TO_READ_BY
        made = replace(made, readout_open=is_open, reasons=(*made.reasons, _why_readout(made.model, is_open)))
    why_method = () if method else ("bandana: serves links and labels alike, so it is taken when nothing is asked for",)
    steps = how_many(_steps_per_epoch(graph, made.training.edge_batch_size), "step")
    length = f"{how_many(made.training.epochs, 'epoch')} of {steps}, for a graph of {how_many(links, 'link')}"
    latest = timed and held_out > 0
    reasons = (*why_method, *made.reasons, length, _why_held_out(held_out, latest))
    return replace(made, held_out=held_out, latest=latest, reasons=reasons)


def _why_held_out(share: float, latest: bool) -> str:
    if not share:
        return "too few links, or too few pairs without one: none is held out, and the last weights are kept"
    if latest:
        return (
            f"the latest {share:.0%} of the links measure the vectors and the {share:.0%} before them choose the best "
            f"weights, so that figures tell how well later links are predicted; the embedding itself is taken on the "
            f"whole graph"
        )
    return (
        f"{share:.0%} of the links choose the best weights and {share:.0%} measure them; the embedding itself is taken "
        f"on the whole graph"
    )


def _why_readout(model: BandanaConfig, is_open: bool) -> str:
    depth, width = model.encoder.num_layers, model.encoder.width
    layers = f"{how_many(depth, 'layer')} of {width}"
    if is_open:
        return f"{layers}: validation links will tell whether all of them become the vectors, or the last alone"
    if model.readout == "last":
        return f"{layers}, the last alone: {how_many(width, 'number')} per node"
    return f"{layers}, side by side: {how_many(depth * width, 'number')} per node"


def build(made: Plan, spec: GraphSpec, *, seed: int) -> Method:
    """A freshly initialised method; the seed decides its weights and nothing else in the process."""
    with initial_weights(seed):
        return get_method(made.method)(made.model, spec)


def _for_bandana(graph: Graph, size: Size, dimensions: int | None) -> Plan:
    dropout, features, why = _feature_treatment(graph, size)
    encoder = EncoderConfig(num_layers=size.layers, width=size.width, dropout=dropout)
    training = TrainingConfig(
        lr=size.lr,
        schedule="cosine",
        weight_decay=size.weight_decay,
        edge_batch_size=_batch(graph, size),
        epochs=_epochs(graph, size),
    )
    # A width that is asked for leaves nothing to choose afterwards. On large graphs the last layer is the safe guess.
    last = dimensions is not None and size.layers > 2
    return Plan(
        method="bandana",
        model=BandanaConfig(encoder=encoder, decoder_width=size.decoder_width, readout="last" if last else "concat"),
        training=training,
        features=features,
        reasons=(why,),
    )


def _from_recipe(graph: Graph, name: str, size: Size) -> Plan:
    """The general part of the method's recipe, with as many steps as the graph's size allows."""
    try:
        general = recipe(name, UNNAMED, "link")
    except UserError:
        general = recipe(name, UNNAMED, "node")
    training, batched = general.training, general.training.edge_batch_size > 0
    batch = _batch(graph, size) if batched else 0
    epochs = min(training.epochs, math.ceil(size.steps / _steps_per_epoch(graph, batch)))
    warmup = min(training.warmup_epochs, epochs // 10)
    return Plan(
        method=name,
        model=general.model,
        training=replace(training, edge_batch_size=batch, epochs=epochs, warmup_epochs=warmup),
        features="raw" if not graph.has_features else general.features,
        reasons=(f"{name}: as asked, with the settings that its recipe has for all data sets",),
    )


def _feature_treatment(graph: Graph, size: Size) -> tuple[float, Preprocessing, str]:
    """Dropout and preprocessing for Bandana, and why."""
    x: Features = graph.x
    if not graph.has_features:
        return 0.5, "raw", "no features: each node learns a vector of its own, so only these nodes can be embedded"
    if isinstance(x, SparseFeatures):
        why = f"{graph.num_features:,} mostly empty features are taken as they are, with strong dropout"
        return size.sparse_dropout, "raw", why
    if bool(((x == 0) | (x == 1)).all()):
        return 0.5, "raw", f"{how_many(graph.num_features, 'feature')} of zeros and ones, taken as they are"
    dropout = 0.5 if graph.num_features >= WIDE_DENSE_FEATURES else 0.2
    return dropout, "standardised", f"{how_many(graph.num_features, 'numeric feature')}, brought to one scale"


def _steps_per_epoch(graph: Graph, edge_batch_size: int) -> int:
    return math.ceil(graph.num_edges / edge_batch_size) if edge_batch_size else 1


def _batch(graph: Graph, size: Size) -> int:
    """Directed edges per step, as the trainer counts them."""
    return size.batch_links * (1 if graph.directed else 2)


def _epochs(graph: Graph, size: Size) -> int:
    return math.ceil(size.steps / _steps_per_epoch(graph, _batch(graph, size)))


def _watched(training: TrainingConfig) -> TrainingConfig:
    """Look about twenty times, and stop after half of the looks brought nothing: at least half of the time is used."""
    every = max(training.epochs // EVALUATIONS, 1)
    return replace(training, evaluate_every=every, patience_evaluations=max(training.epochs // every // 2, 1))


def _can_hold_out(graph: Graph) -> bool:
    links = graph.links.numel()
    return links >= FEWEST_LINKS_TO_SPLIT and count_pairs(graph) - links >= links * HELD_OUT * 2


def with_dimensions(name: str, model: Any, dimensions: int) -> Any:
    """The configuration with an embedding of another width.

    Raises:
        UserError: The method cannot have it.
    """
    if dimensions < 1:
        raise UserError(f"dimensions: must be at least 1, got {dimensions}.")
    table = to_table(model)
    encoder = table.get("encoder")
    nested = encoder if isinstance(encoder, dict) else {}
    layers = nested.get("num_layers", table.get("num_layers", 1))
    whole = {"readout": "last"} if "readout" in table else {}
    if "heads" in nested:
        if dimensions % nested["heads"]:
            raise UserError(f"dimensions: must be a multiple of {name}'s {nested['heads']} heads, got {dimensions}.")
        return patch(model, {"encoder": {"head_width": dimensions // nested["heads"]}})
    if "widths" in nested:
        return patch(model, {"encoder": {"widths": [*nested["widths"][:-1], dimensions]}})
    if "width" in nested:
        if table.get("readout") == "concat" and dimensions % layers == 0:
            return patch(model, {"encoder": {"width": dimensions // layers}})
        return patch(model, {"encoder": {"width": dimensions}, **whole})
    if "contrast" in table:
        return patch(model, {"contrast": {"width": dimensions}})
    if "out_width" in table:
        return patch(model, {"out_width": dimensions, **whole})
    if "width" in table:
        return patch(model, {"width": dimensions, **whole})
    raise UserError(f"dimensions: {name} has as many as the graph has features; leave the option out.")


def _apply(made: Plan, changes: Mapping[str, Any]) -> Plan:
    """The plan with dotted options changed, of the model, the training and the features."""
    table = nest(changes)
    if not_ours := sorted(table.keys() - {"model", "training", "features"}):
        raise UserError(f"{not_ours[0]}: there is no such option. Choose from: features, model.…, training.…")
    return patch(made, table)
