"""`GraphEmbedder`: fit and transform in the manner of scikit-learn, and the pure function `learn` behind it."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from bandana.data.features import Scaling
from bandana.data.own_alignment import are_numbers
from bandana.data.splits import EdgeSplit, split_edges
from bandana.devices import resolve_device
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.own.automatic import Plan, build, plan
from bandana.own.card import first_figures
from bandana.own.frames import framed
from bandana.own.random_state import seed_of
from bandana.own.readout import monitor, settle
from bandana.own.trained import TrainedModel, learns_single_nodes, nodes_fingerprint
from bandana.training.trainer import OnEpoch, TrainingState, pretrain

if TYPE_CHECKING:
    from bandana.data.own_features import Missing
    from bandana.data.tables import OwnGraph

    Array = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Learned:
    """What a training leaves behind.

    Attributes:
        made: The plan as it was carried out, with what the validation links decided and why.
        model: The trained method with all that it needs.
        embedding: ``[nodes, width]`` of the whole graph, on the CPU.
        history: One row per look at the validation links.
        split: The held-out links, with the features as the user gave them; None where none were held out.
        held_out_embedding: ``[nodes, width]`` taken without the held-out links, the only one that may be judged by
            them; None like the split.
        state: How training went.
    """

    made: Plan
    model: TrainedModel
    embedding: Tensor
    history: list[dict[str, float]]
    split: EdgeSplit | None
    held_out_embedding: Tensor | None
    state: TrainingState


def learn(
    graph: Graph,
    made: Plan,
    *,
    seed: int = 0,
    device: str = "auto",
    times: Tensor | None = None,
    feature_names: tuple[str, ...] = (),
    checkpoint: Path | None = None,
    on_epoch: OnEpoch = lambda state: None,
) -> Learned:
    """Train as planned, choosing the weights by held-out links, then embed the whole graph with them.

    Args:
        graph: What to embed.
        made: How, from `bandana.own.automatic`.
        seed: Decides split, initial weights and training.
        device: ``auto``, ``cpu`` or ``cuda``.
        times: ``[edges]`` when each edge appeared, in the structure's order; where the plan holds out the latest.
        feature_names: Columns of the features, to be kept with the model.
        checkpoint: File to go on from if it exists, and to save to whenever the validation links are looked at.
        on_epoch: Called after every epoch, for progress bars.
    """
    if made.latest and times is None:
        raise ValueError("learn: a plan that holds out the latest links needs their times")
    where = resolve_device(device)
    spec = GraphSpec.of(graph)
    model = TrainedModel(
        name=made.method,
        config=made.model,
        spec=spec,
        method=build(made, spec, seed=seed).to(where),
        features=made.features,
        scaling=Scaling.of(graph.x) if made.features == "standardised" else None,
        feature_names=feature_names,
        nodes=nodes_fingerprint(graph) if learns_single_nodes(made.method, made.model, graph) else None,
    )
    split = None
    if made.held_out:
        when = times if made.latest else None
        split = split_edges(graph, made.held_out, made.held_out, seed=seed, times=when)
    train = model.prepare(graph if split is None else split.train).to(where)
    watch = None if split is None else monitor(made, model.method, train, split.valid.to(where))
    state = pretrain(
        model.method, train, made.training, seed=seed, monitor=watch, checkpoint=checkpoint, on_epoch=on_epoch
    )
    if split is not None:
        made = settle(made, model.method, train, split.valid.to(where))
        model = replace(model, config=made.model)
    blind = None if split is None else model.embed(split.test_graph.to(where)).cpu()
    return Learned(
        made=made,
        model=replace(model, facts=first_figures(graph, split, blind)),
        embedding=model.embed(graph.to(where)).cpu(),
        history=state.history,
        split=split,
        held_out_embedding=blind,
        state=state,
    )


class GraphEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Vectors for the nodes of a graph.

    It has scikit-learn's manners (`get_params`, `set_params`, `clone`, `Pipeline`, `random_state`, `set_output`) with
    one difference: what it fits is a graph, not a table. A pandas frame that it is told to make has the nodes as index.

    Attributes:
        embedding_: ``[nodes, width]`` float32 array.
        node_ids_: The id of each row; of a NetworkX graph, the nodes themselves.
        n_features_in_: Features per node.
        history_: One row per look at the held-out links: epoch, loss, seconds, monitor.
        plan_: What was chosen, and why (`plan_.reasons`).
        graph_: The graph that was fitted.
        split_, held_out_embedding_: What quality may be measured on; None for a graph too small to hold out links.
        model_: What `bandana.model_folder.save` keeps.
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        dimensions: int | None = None,
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        directed: bool | None = None,
        missing: "Missing" = "refuse",
        device: str = "auto",
        random_state: "int | np.random.RandomState | None" = 0,
    ) -> None:
        """Remember the options; nothing is checked before `fit`.

        Args:
            method: One of ``bandana methods``, or ``auto``.
            dimensions: Width of the embedding; None lets the graph decide.
            epochs: Passes over the links; None lets the graph decide.
            settings: Dotted options that have the last word, such as ``{"training.lr": 0.01}``.
            directed: Whether edges go one way only; None finds out where the input tells.
            missing: Whether a missing feature in a table is an error (``refuse``), or becomes the column's mean or a
                category of its own (``impute``).
            device: ``auto``, ``cpu`` or ``cuda``.
            random_state: Decides everything random; None, or a numpy ``RandomState``, draws anew at each `fit`.
        """
        self.method = method
        self.dimensions = dimensions
        self.epochs = epochs
        self.settings = settings
        self.directed = directed
        self.missing = missing
        self.device = device
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, features: Any = None, on_epoch: OnEpoch = lambda state: None
    ) -> "GraphEmbedder":
        """Learn from a graph: a path, a table of edges, NetworkX, SciPy, PyG, an edge index or a `Graph`.

        Where a table of edges has a column named time, timestamp, date or datetime, the latest links are held out.

        Args:
            X: The graph.
            y: Not used; it is here for pipelines.
            features: Of the nodes, where the graph does not bring them; see `bandana.data.convert.as_graph`.
            on_epoch: Called after every epoch, for progress bars.

        Raises:
            UserError: The graph cannot be read, or an option does not fit.
        """
        from bandana.data.convert import DOUBTS

        seed, own = seed_of(self.random_state), self._as_graph(X, features)
        graph = own.graph
        for doubt in filter(DOUBTS.__contains__, own.notes):
            warnings.warn(f"GraphEmbedder: {doubt}", stacklevel=2)
        made = plan(
            graph,
            timed=own.timed,
            method=None if self.method == "auto" else self.method,
            dimensions=self.dimensions,
            epochs=self.epochs,
            changes=self.settings,
        )
        learned = learn(
            graph,
            made,
            seed=seed,
            device=self.device,
            times=own.times,
            feature_names=own.feature_names,
            on_epoch=on_epoch,
        )
        self.graph_, self.plan_, self.model_, self.history_ = graph, learned.made, learned.model, learned.history
        self.split_, self.held_out_embedding_ = learned.split, learned.held_out_embedding
        self.embedding_: Array = learned.embedding.numpy()
        self.node_ids_ = own.nodes
        self.n_features_in_ = graph.num_features
        return self

    def transform(self, X: Any, *, features: Any = None) -> "Array":
        """``[nodes, width]`` vectors for the nodes of a graph, which may be a new one with the same features.

        Args:
            X: The graph, as in `fit`.
            features: Of its nodes, as in `fit`; columns of a table may come in any order, further ones are left out.

        Raises:
            UserError: The graph has other features, or the model knows only the nodes it was fitted on.
        """
        model = self._fitted()
        own = self._as_graph(X, features, () if are_numbers(model.feature_names) else model.feature_names)
        embedding = model.embed(own.graph.to(resolve_device(self.device)))
        return framed(self, embedding.cpu().numpy(), own.nodes)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> "Array":
        """The vectors of the graph that is fitted."""
        self.fit(X, y, **fit_params)
        return framed(self, self.embedding_, self.node_ids_)

    @classmethod
    def from_pretrained(cls, name: str | Path, *, revision: str | None = None, device: str = "auto") -> "GraphEmbedder":
        """An embedder that can `transform`, from a model folder or a repository of the model hub.

        Args:
            name: A folder that ``bandana embed`` or `save_pretrained` wrote, or a repository such as ``me/my-graph``;
                the latter needs huggingface-hub (the extra ``hub``). Nothing in it is executed.
            revision: Branch, tag or commit of the repository.
            device: ``auto``, ``cpu`` or ``cuda``.

        Raises:
            UserError: There is no such model, or it is not one that can be trusted.
        """
        from bandana.own.hub import load_pretrained

        model = load_pretrained(name, revision)
        embedder = cls(model.name, device=device)
        embedder.model_, embedder.n_features_in_ = model, model.spec.num_features
        return embedder

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model and a card with its figures.

        Raises:
            UserError: The folder cannot be written to.
        """
        from bandana import model_folder
        from bandana.own.card import model_card

        model_folder.save(Path(folder), self._fitted(), model_card(self._fitted()))

    def push_to_hub(self, name: str, *, private: bool = True) -> str:
        """Write the model and its card to the model hub, which needs huggingface-hub (the extra ``hub``).

        Args:
            name: A repository such as ``me/my-graph``; it is made if there is none.
            private: Whether a new repository is hidden from others.

        Returns:
            The address of what was written.

        Raises:
            UserError: It could not be written.
        """
        from bandana.own.hub import push_to_hub

        return push_to_hub(self._fitted(), name, private=private)

    def get_feature_names_out(self, input_features: Any = None) -> "np.ndarray[Any, Any]":
        """One name per column of the embedding."""
        return np.array([f"graphembedder{i}" for i in range(self._fitted().width)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _fitted(self) -> TrainedModel:
        if not hasattr(self, "model_"):
            raise NotFittedError("GraphEmbedder: call fit first.")
        return self.model_

    def _as_graph(self, anything: Any, features: Any, wanted: tuple[str, ...] = ()) -> "OwnGraph":
        from bandana.data.convert import as_graph

        return as_graph(anything, directed=self.directed, features=features, missing=self.missing, wanted=wanted)
