"""What `deviating.py` tries: one training for each guess at why a cell lies apart from its published figure.

Also which of them a table lacks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bandana.experiment import Experiment, Task
from bandana.paper.cookbook import recipe

ENDLESS = 10**9
KEYS = ("label", "method", "dataset", "task", "overrides", "seed")
"""Columns that tell one run from another."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One training and what is looked at on its way."""

    label: str
    method: str
    dataset: str
    task: Task = "link"
    changes: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    stop: int = ENDLESS
    """Epoch to end at, on the way of the whole schedule."""
    every: int = 10
    """Links: epochs between two looks."""
    looks: tuple[int, ...] = ()
    """Nodes: epochs at which embeddings are kept and probed, beside the last or best one."""
    studies: tuple[str, ...] = ("own",)
    """Nodes: which probes, on which splits; names of `deviating.STUDIES`. Earlier epochs have the first one alone."""
    one_way: bool = False
    """Messages pass from the lower to the higher node number only, as in the released runs of T-BGRL."""
    cost: float = 10.0
    """Seconds expected, twelve at a time on an H200."""
    late: bool = False
    """Of less worth: begun after all others."""

    @property
    def overrides(self) -> str:
        """What differs from the recipe."""
        extra = [f"stop={self.stop}"] if self.stop < ENDLESS else []
        extra += ["one_way"] if self.one_way else []
        return " ".join([*(f"{key}={value}" for key, value in self.changes.items()), *extra]).replace(",", ";")

    @property
    def columns(self) -> dict[str, str]:
        """What tells this run from others, as the tables have it."""
        return {name: str(getattr(self, name)) for name in KEYS}

    @property
    def experiment(self) -> Experiment:
        """The recipe with the changes, in the precision of the rows in question."""
        wide = self.method in ("grace", "gca") and self.dataset not in ("cora", "citeseer")
        always = {"protocol": "clean", "training.precision": "bf16" if wide else "tf32"}
        return recipe(self.method, self.dataset, self.task, always | dict(self.changes))

    @property
    def epochs(self) -> int:
        """Of the training, if nothing cuts it off."""
        return min(self.stop, self.experiment.training.epochs)


def name_of(run: Mapping[str, Any]) -> str:
    """What a run is called; all its rows have the same name."""
    return "{label} | {method} {dataset} {task} {seed} | {overrides}".format_map(run)


def missing(wanted: Iterable[Piece], rows: Iterable[Mapping[str, Any]], least: float = 1 / 3) -> list[Piece]:
    """The pieces without rows, with none but failures, or cut off before that share of their epochs."""
    known: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        known[name_of(row)].append(row)

    def lacks(piece: Piece) -> bool:
        own = known[name_of(piece.columns)]
        # Nodes: where nothing was cut off, patience has ended the training, as it should.
        whole = piece.task == "node" and all(row["choice"] != "cut off" for row in own)
        return reach(own) < (1 if whole else least * piece.epochs)

    return [piece for piece in wanted if lacks(piece)]


def reach(rows: Iterable[Mapping[str, Any]]) -> int:
    """How many epochs a run has come; 0 without rows or after a failure."""
    return max((int(row.get("epochs") or 0) for row in rows), default=0)


def pieces() -> Iterator[Piece]:
    """Everything that is tried."""
    yield from _masked_features()
    yield from _masked_links()
    yield from _bootstrapped()
    yield from _contrasted()
    yield from _nodes()
    yield from _batches()
    for dataset, epochs, cost in (
        ("cora", 1000, 14),
        ("citeseer", 1000, 14),
        ("pubmed", 1000, 25),
        ("physics", 600, 70),
    ):
        changes, late = {"training.epochs": epochs}, dataset == "physics"
        yield Piece(label="epochs", method="cca_ssg", dataset=dataset, changes=changes, cost=cost, late=late)


def _masked_features() -> Iterator[Piece]:
    """GraphMAE and GraphMAE2, links: patience, rate, features, width, layers."""
    for method, dataset, label, cost in (
        *(("graphmae2", "physics", "patience", 235), ("graphmae", "physics", "patience", 180)),
        *(("graphmae2", "computers", "sigmoid+patience", 160), ("graphmae2", "cora", "patience", 45)),
        ("graphmae", "photo", "patience", 100),
    ):
        yield Piece(label=label, method=method, dataset=dataset, cost=cost)
    yield Piece(label="base", method="graphmae2", dataset="cs", seed=1, cost=180, late=True)
    for method, dataset, stop, cost in (
        *(("graphmae2", "physics", 500, 105), ("graphmae2", "cs", 500, 60)),
        *(("graphmae", "photo", 1500, 100), ("graphmae2", "cora", 2000, 45)),
    ):
        for label, changes, longer in (
            ("rate", {"training.lr": 0.0002 if dataset == "cora" else 0.001}, 1),
            ("features", {"features": "raw" if dataset == "cora" else "row_normalised"}, 1),
            ("width", {"model.encoder.heads": 4, "model.encoder.head_width": 32}, 2),
        ):
            run = {"label": label, "method": method, "dataset": dataset}
            yield Piece(**run, changes=changes, stop=stop * longer, cost=cost)
    for method, dataset, stop, cost in (
        *(("graphmae", "photo", ENDLESS, 60), ("graphmae2", "cs", 500, 35)),
        ("graphmae2", "physics", 500, 65),
    ):
        changes = {"model.encoder.num_layers": 1}
        yield Piece(label="one layer", method=method, dataset=dataset, changes=changes, stop=stop, cost=cost)


def _masked_links() -> Iterator[Piece]:
    """SeeGera and MaskGAE, links: the sigmoid, and the degree loss of MaskGAE's script."""
    yield Piece(label="sigmoid", method="seegera", dataset="cs", stop=900, cost=145)
    for method, cost in (("maskgae_edge", 110), ("maskgae_path", 80)):
        yield Piece(label="sigmoid", method=method, dataset="physics", cost=cost)
        degree = {"model.degree_weight": 0.003}
        yield Piece(label="degree loss", method=method, dataset="physics", changes=degree, cost=cost)


def _bootstrapped() -> Iterator[Piece]:
    """T-BGRL, links: the sigmoid, one direction of each link, and the authors' rule for the end."""
    for dataset, stop, cost in (
        *(("computers", 1200, 140), ("cs", 600, 60), ("cora", 600, 25), ("citeseer", 100, 6)),
        *(("photo", 100, 12), ("pubmed", 100, 12), ("physics", 100, 25)),
    ):
        for one_way in (False, True) if stop > 100 else (True,):
            label, changes = "one way" if one_way else "sigmoid+end", {"training.evaluate_every": 1}
            run = {"label": label, "method": "t_bgrl", "dataset": dataset, "changes": changes}
            yield Piece(**run, stop=stop, every=5, one_way=one_way, cost=cost)


def _contrasted() -> Iterator[Piece]:
    """GRACE and GCA, links: head, unit rows, epochs, features, activation, rate, precision."""
    raw, relu, tf32 = {"features": "raw"}, {"model.contrast.activation": "relu"}, {"training.precision": "tf32"}
    for method in ("gca", "grace"):
        run = {"method": method, "dataset": "cs"}
        yield Piece(label="readout+epochs", **run, stop=1000, cost=75)
        yield Piece(label="features", **run, changes=raw, stop=300, cost=25)
        yield Piece(label="activation", **run, changes=relu, stop=300, cost=25, late=method == "grace")
        yield Piece(label="precision", **run, changes=tf32, stop=400, cost=80)
        yield Piece(label="precision", method=method, dataset="photo", cost=40)
    yield Piece(label="rate", method="gca", dataset="cs", changes={"training.lr": 0.01}, stop=300, cost=25)
    yield Piece(label="readout+epochs", method="gca", dataset="pubmed", stop=700, cost=55)
    yield Piece(label="features", method="gca", dataset="pubmed", changes=raw, stop=400, cost=33)
    yield Piece(label="readout+epochs", method="gca", dataset="computers", cost=115)
    yield Piece(label="features", method="gca", dataset="computers", changes=raw, stop=700, cost=40)
    yield Piece(label="readout+epochs", method="gca", dataset="cora", cost=20)


def _nodes() -> Iterator[Piece]:
    """GRACE, GCA and COSTA, nodes: splits, probes, epochs."""
    studies = ("own", "unit", "gca", "gca unit", "same size", "tenth", "tenth gca")
    for method in ("gca", "grace"):
        run = {"method": method, "task": "node", "studies": studies}
        yield Piece(label="splits+epochs", dataset="pubmed", **run, looks=(200, 500, 1000), cost=180)
        yield Piece(label="splits", dataset="citeseer", **run, looks=(50, 100), cost=40)
    run = {"method": "costa", "dataset": "pubmed", "task": "node", "studies": ("own", "same size", "tenth")}
    yield Piece(label="splits", **run, stop=100, looks=(50, 100), cost=20)


def _batches() -> Iterator[Piece]:
    """S2GAE, nodes: batches, rate, layers, epochs, probes."""
    studies, looks = ("own", "unit", "gca", "half decay"), (10, 20, 40, 80, 160, 240, 320)
    run = {"method": "s2gae", "dataset": "computers", "task": "node", "studies": studies}
    for size, cost in ((0, 40), (81920, 70), (12800, 400)):
        for rate in (0.001, 0.01):
            changes, late = {"training.edge_batch_size": size, "training.lr": rate}, size == 12800 and rate == 0.01
            yield Piece(label="batch", **run, changes=changes, looks=looks, cost=cost, late=late)
    yield Piece(label="epochs", **run, looks=(1, 5, *looks), cost=800, late=True)
    for dataset in ("cora", "citeseer"):
        changes = {"training.edge_batch_size": 0}
        yield Piece(
            label="batch", method="s2gae", dataset=dataset, task="node", changes=changes, looks=looks[:3], cost=14
        )
