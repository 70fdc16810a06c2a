"""The figures of the paper: what they count, against naive loops; and what they say of made-up results."""

import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from bandana.config import to_table
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.paper.artifact import Artifact, Picture, Piece, Result, Scope
from bandana.paper.cookbook import recipe
from bandana.paper.figures import (
    depth,
    depth_last_layer,
    embedding_size,
    entropy,
    karate,
    manifold,
    masking,
    temperature,
)
from bandana.paper.pieces import config_name
from bandana.paper.work import kind_of
from bandana.parts.attention import GATConfig, GATEncoder
from bandana.parts.masks import MaskConfig

GraphFactory = Callable[..., Graph]
CURVES = (depth, depth_last_layer, temperature, embedding_size)
MODULES = (*CURVES, masking, entropy, manifold, karate)
SVG = "{http://www.w3.org/2000/svg}"


def perform(piece: Piece) -> dict[str, Any]:
    values = kind_of(piece.work).function(piece.arguments, torch.device("cpu"), None)
    loaded: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    return loaded


def picture(artifact: Artifact, results: list[tuple[Piece, Result]]) -> Picture:
    """The one exhibit of a figure, checked for what every picture must be."""
    (shown,) = artifact.show(results)
    assert isinstance(shown, Picture)
    root = ElementTree.fromstring(shown.svg)
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == shown.title
    assert all(name.startswith(f"{artifact.name}-") for element in root.iter() if (name := element.get("id")))
    assert all(len(row) == len(shown.columns) for row in shown.rows)
    assert shown.notes[0].startswith("The paper: ")
    return shown


def made_up(artifact: Artifact, micro_f1: Callable[[Mapping[str, Any]], float], scope: Scope) -> Picture:
    pieces = artifact.pieces(scope)
    return picture(
        artifact,
        [
            (
                piece,
                Result(
                    {"metrics": {"micro_f1": micro_f1(piece.arguments["experiment"]) + 0.01 * piece.arguments["seed"]}}
                ),
            )
            for piece in pieces
        ],
    )


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.ARTIFACT.name)
def test_a_figure_without_results_says_so(module: ModuleType) -> None:
    pieces = module.ARTIFACT.pieces(Scope(quick=True))
    shown = picture(module.ARTIFACT, [(piece, Result(None, "not run: data set missing")) for piece in pieces])
    assert not shown.rows
    assert any("not run" in note for note in shown.notes)
    assert not any(note.endswith(": .") for note in shown.notes)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (karate, "discrete; uniform; bandwidths: not run"),
        (masking, "second largest component; largest component: not run"),
        (entropy, "GCN, MaskGAE; GAT, MaskGAE; bandwidths, Bandana: not run"),
        (
            manifold,
            "MaskGAE-edge on Swiss Roll; Bandana on Swiss Roll; untrained encoder on Swiss Roll; ",
        ),
    ],
)
def test_a_reason_is_told_once_for_all_seeds(module: ModuleType, names: str) -> None:
    results = [(piece, Result(None, "not run yet; to run it: x")) for piece in module.ARTIFACT.pieces(Scope(seeds=3))]
    (note,) = (note for note in picture(module.ARTIFACT, results).notes if "not run yet" in note)
    assert note.startswith(names)
    assert note.endswith(": not run yet; to run it: x.")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.ARTIFACT.name)
def test_pieces_are_plain_and_the_coarse_ones_need_no_download(module: ModuleType) -> None:
    for scope in (Scope(seeds=1, datasets=("cora", "swiss_roll")), Scope(quick=True)):
        pieces = module.ARTIFACT.pieces(scope)
        plain = [json.dumps([piece.work, piece.arguments], default=list, allow_nan=False) for piece in pieces]
        assert len(set(plain)) == len(plain) > 0
    tables = [piece.arguments.get("experiment", piece.arguments) for piece in module.ARTIFACT.pieces(Scope(quick=True))]
    assert {table["dataset"] for table in tables} <= {"digits", "karate", "swiss_roll", "two_moon"}


def made_up_values(piece: Piece) -> dict[str, Any]:
    """Values such as this kind of work gives for very little data."""
    entropies = {"node": [0, 1], **{name: [0.1, 0.2] for name in entropy.MEASURES}}
    shape = {**dict.fromkeys(manifold.MEASURES, 0.5), "places": [[0, 1], [1, 0]], "labels": [0, 1]}
    club = {"edges": [[0, 1], [1, 0]], "labels": list(range(4)) * 8 + [0, 0], "bandwidths": [0.5, 0.5]}
    groups = {"mates": dict.fromkeys(karate.GROUPS, 0.5), "cut_off": 1.0}
    maps = {"similar": [[0], [1]], "places": [[node % 6, node // 6] for node in range(34)]}
    parts = {f"{what}, {mask}": 1.0 for what in ("parts", "largest") for mask in ("discrete", "bandwidth")}
    wide = {"parts, wide bandwidth": 1.0, "largest, wide bandwidth": 1.0, "nodes": 2, "links": 1, "ratio": 0.5}
    return {
        "experiment": {"metrics": {"micro_f1": 0.8}},
        "ego-entropy": entropies,
        "manifold": {**shape, "truth": shape["places"]},
        "karate-masking": {**club, **groups, **maps},
        "component-masking": {**parts, **wide, "edges": [[0, 1], [1, 0]], "kept": [1, 1], "bandwidths": [0.5, 0.5]},
    }[piece.work]


def dots(edge_index: Any, num_nodes: int) -> Any:
    return np.array([[node % 6, node // 6] for node in range(num_nodes)], dtype=float)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.ARTIFACT.name)
def test_every_number_names_the_configurations_behind_it(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for drawn in (karate, masking):
        monkeypatch.setattr(drawn, "layout", dots)
    pieces = module.ARTIFACT.pieces(Scope(quick=True))
    results = [(piece, Result(made_up_values(piece), origin=f"configs/{config_name(piece)}")) for piece in pieces]
    shown = picture(module.ARTIFACT, results)
    assert shown.columns[-1] == "origins"
    named = {row[-1] for row in shown.rows}
    assert named <= {result.origin for _, result in results}
    assert len(named) == (1 if module is masking else len(pieces))


def test_the_component_is_named_after_the_data_that_are_shown() -> None:
    for scope, name in ((Scope(), "Cora"), (Scope(quick=True), "the Karate Club")):
        results = [(piece, Result(None, "not run yet")) for piece in masking.ARTIFACT.pieces(scope)]
        assert f"of {name} under" in picture(masking.ARTIFACT, results).title
    assert "Cora" not in masking.ARTIFACT.title


def test_the_paper_s_grids_are_asked_for() -> None:
    tables = [piece.arguments["experiment"] for piece in depth.ARTIFACT.pieces(Scope(seeds=2, datasets=("cora",)))]
    assert len(tables) == 2 * 4 * 8
    asked = [piece.arguments["experiment"] for piece in temperature.ARTIFACT.pieces(Scope(seeds=1, datasets=("cora",)))]
    assert [table["model"]["mask"]["temperature"] for table in asked] == list(temperature.TEMPERATURES)
    assert {
        piece.arguments["experiment"]["model"]["readout"]
        for piece in depth_last_layer.ARTIFACT.pieces(Scope(quick=True))
    } == {"last"}


def test_depth_tells_a_dive_from_a_level_line() -> None:
    def falling(experiment: Mapping[str, Any]) -> float:
        if experiment["method"].startswith("maskgae"):
            return 0.80 if experiment["model"]["num_layers"] < 5 else 0.60
        return 0.82

    shown = made_up(depth.ARTIFACT, falling, Scope(seeds=2, datasets=("cora",)))
    (cora,) = (note for note in shown.notes if note.startswith("Cora"))
    assert "Bandana is best at 1 and loses 0.0 points" in cora
    assert "MaskGAE-edge is best at 1 and loses 20.0 points on average over the deep ones, 20.0 at 8, a dive" in cora
    assert "Bandana is 22.0 points above the better MaskGAE" in cora
    assert shown.rows[2][:3] == ("cora", "bandana", 3)
    assert shown.rows[2][3:6] == pytest.approx((82.5, 0.5 * 2**0.5, 2))


def test_temperature_compares_the_ends_with_the_middle() -> None:
    def peaked(experiment: Mapping[str, Any]) -> float:
        tau = experiment["model"]["mask"]["temperature"]
        return 0.84 if tau == 0.5 else 0.79 if tau < 0.01 else 0.80 if tau <= 1 else 0.81

    shown = made_up(temperature.ARTIFACT, peaked, Scope(seeds=3, datasets=("cora", "pubmed")))
    middle = (8 * 80 + 84) / 9
    assert "best at τ = 0.5 with 85.00 ± 1.00 %" in shown.notes[1]
    assert f"{79 - middle:+.2f} points at τ = 1e-06 and {81 - middle:+.2f} points at τ = 5" in shown.notes[1]
    assert "Both ends lie at least 0.5 points below the middle on 0 of 2 data sets." in shown.notes


@pytest.mark.parametrize(("seeds", "said"), [(1, "a single seed"), (2, "2 seeds")])
def test_no_temperature_is_called_best_after_one_or_two_trainings(seeds: int, said: str) -> None:
    shown = made_up(temperature.ARTIFACT, lambda _: 0.8, Scope(seeds=seeds, datasets=("cora",)))
    assert shown.notes[1].startswith(f"Cora: {said}; against the mean")


@pytest.mark.parametrize(("fall", "count"), [(0.0003, 0), (0.0049, 0), (0.0051, 2)])
def test_ends_that_lie_a_hair_below_the_middle_are_not_counted(fall: float, count: int) -> None:
    def level(experiment: Mapping[str, Any]) -> float:
        return 0.8 if temperature.MIDDLE[0] <= experiment["model"]["mask"]["temperature"] <= 1 else 0.8 - fall

    shown = made_up(temperature.ARTIFACT, level, Scope(seeds=1, datasets=("cora", "pubmed")))
    assert f"Both ends lie at least 0.5 points below the middle on {count} of 2 data sets." in shown.notes


def test_points_are_compared_over_the_seeds_that_all_have() -> None:
    def figure(piece: Piece) -> Result:
        table, seed = piece.arguments["experiment"], piece.arguments["seed"]
        recipes_own = table["model"]["mask"]["temperature"] == 0.4  # has seeds that no other has, and they are better
        if seed > 1 and not recipes_own:
            return Result(None)
        return Result({"metrics": {"micro_f1": 0.8 + 0.01 * seed}})

    pieces = temperature.pieces(Scope(seeds=5, datasets=("computers",)))
    shown = picture(temperature.ARTIFACT, [(piece, figure(piece)) for piece in pieces])
    assert len(shown.rows) == len(temperature.TEMPERATURES)
    assert all(row[2:5] == (pytest.approx(80.5), pytest.approx(0.5**0.5), 2) for row in shown.rows)
    assert "Computers: over the 2 seeds that all points have; some have 5." in shown.notes


def test_points_without_a_common_seed_have_their_own() -> None:
    pieces = temperature.pieces(Scope(seeds=2, datasets=("computers",)))
    split = [
        (piece, Result({"metrics": {"micro_f1": 0.8 + 0.1 * seed}}))
        for place, piece in enumerate(pieces)
        if (seed := piece.arguments["seed"]) == place % len(temperature.TEMPERATURES) % 2
    ]
    shown = picture(temperature.ARTIFACT, split)
    assert {round(row[2]) for row in shown.rows} == {80, 90}
    assert {row[4] for row in shown.rows} == {1}


def test_sizes_name_the_best_pair_and_the_widest() -> None:
    def narrow(experiment: Mapping[str, Any]) -> float:
        return 0.9 - experiment["model"]["encoder"]["width"] / 10_000 - experiment["model"]["decoder_width"] / 100_000

    shown = made_up(embedding_size.ARTIFACT, narrow, Scope(seeds=1, datasets=("pubmed",)))
    assert shown.notes[1] == (
        "PubMed: best with 32 and 32, 89.65 %; the paper's best, 64 and 32, -0.32 points; "
        "the widest, 512 and 256, -5.02 points."
    )


# A component under masks


def test_components_and_parts(hand_graph: GraphFactory) -> None:
    graph = hand_graph()
    largest, alone = masking.component(graph, 0), masking.component(graph, 1)
    assert (largest.num_nodes, largest.links.numel()) == (4, 4)
    assert (alone.num_nodes, alone.num_edges) == (1, 0)
    tail = torch.tensor([{int(a), int(b)} == {2, 3} for a, b in graph.edge_index.t()])
    assert masking.parts(graph, ~tail) == (3, 3 / 5)
    assert masking.parts(graph, torch.zeros(8, dtype=torch.bool)) == (5, 1 / 5)


def test_both_masks_let_the_same_share_pass() -> None:
    (piece,) = masking.ARTIFACT.pieces(Scope(quick=True))
    values = perform(piece)
    kept, bandwidths = np.array(values["kept"]), np.array(values["bandwidths"])
    assert bandwidths.mean() == pytest.approx(1 - values["ratio"], rel=1e-5)
    assert kept.mean() == pytest.approx(1 - values["ratio"], abs=1 / values["links"])
    assert values["parts, bandwidth"] == 1 < values["parts, discrete"]
    pairs = {(a, b): keep for a, b, keep in zip(*values["edges"], kept, strict=True)}
    assert all(keep == pairs[b, a] for (a, b), keep in pairs.items())
    shown = picture(masking.ARTIFACT, [(piece, Result(values))])
    assert len(shown.rows) == 2 * values["links"]
    assert shown.svg == picture(masking.ARTIFACT, [(piece, Result(values))]).svg


# Entropies


def test_entropies_against_loops(random_graph: GraphFactory) -> None:
    graph = random_graph(isolated=2)
    weights = torch.rand(graph.num_edges)
    entropies = entropy.ego_entropies(graph.structure, weights)
    parts = entropy.shares(graph.structure, weights)
    for node in range(graph.num_nodes):
        mine = [float(w) for w, receiver in zip(weights, graph.structure.row, strict=True) if receiver == node]
        assert float(entropies[node]) == pytest.approx(-sum(w * np.log(w) for w in mine), abs=1e-5)
        assert float(parts[graph.structure.row == node].sum()) == pytest.approx(1 if mine else 0)


def test_attention_weights_are_those_the_layer_mixes_with(random_graph: GraphFactory) -> None:
    graph = random_graph()
    encoder = GATEncoder(
        GATConfig(num_layers=2, heads=2, head_width=3, feature_dropout=0, attention_dropout=0), 6
    ).eval()
    with torch.no_grad():
        weights = entropy.attention_weights(encoder, graph)
        layer = encoder.layers[0]
        h = layer.project(graph.x, None).unflatten(1, (2, 3))  # type: ignore[operator]
        mixed = layer.mix(h.flatten(1), graph.structure, None, None).unflatten(1, (2, 3))  # type: ignore[operator]
    assert len(weights) == 4
    for head in range(2):
        for node in range(graph.num_nodes):
            mine = graph.structure.row == node
            own = 1 - weights[head][mine].sum()
            expected = weights[head][mine] @ h[graph.structure.col[mine], head] + own * h[node, head]
            assert torch.allclose(mixed[node, head], expected, atol=1e-5)


def test_attention_trains_under_maskgae(random_graph: GraphFactory) -> None:
    graph = random_graph(60, 240)
    experiment = recipe("maskgae_edge", "karate", "node", {"training.epochs": 3})
    first, again = (entropy.train_attention(experiment, graph, 0) for _ in range(2))
    start = entropy.AttentiveMaskGAE(first.config, GraphSpec.of(graph))
    assert not any(name.startswith("encoder") for name, _ in first.named_parameters())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.attention.layers[0].weight, start.attention.layers[0].weight)  # type: ignore[arg-type]


def test_entropy_names_the_lowest_median() -> None:
    pieces = entropy.ARTIFACT.pieces(Scope(quick=True))
    done = {
        kind: {
            "node": [0, 1, 2],
            "entropy": [low, low + 0.1, low + 0.3],
            "entropy_of_shares": [low, low + 0.1, low + 0.3],
            "entropy_of_equal_shares": [1.0, 1.1, 1.2],
        }
        for kind, low in (("gcn", 0.5), ("gat", 0.2), ("bandana", 0.3))
    }
    shown = picture(entropy.ARTIFACT, [(piece, Result(done[piece.arguments["weights"]])) for piece in pieces])
    assert len(shown.rows) == 9
    assert (
        "The lowest median belongs to GAT, MaskGAE as the paper writes it, and to GAT, MaskGAE as shares."
        in shown.notes
    )


# Manifolds and the karate club


def test_distances_along_a_path_correlate_fully() -> None:
    path = Graph.from_edges(torch.stack([torch.arange(29), torch.arange(1, 30)]), num_nodes=30)
    line = torch.arange(30.0).unsqueeze(1)
    assert manifold.distance_correlation(path, line, 0) == pytest.approx(1)
    assert abs(manifold.distance_correlation(path, torch.randn(30, 2), 0)) < 0.6


def test_manifold_piece_keeps_the_labels_of_those_it_shows() -> None:
    experiment = recipe("bandana", "swiss_roll", "link", {"training.epochs": 2})
    piece = Piece("manifold", {"experiment": to_table(experiment), "seed": 0, "shown": 60})
    values = perform(piece)
    assert len(values["places"]) == len(values["truth"]) == len(values["labels"]) == 60
    assert all(-1 <= values[name] <= 1 for name in manifold.MEASURES)
    shown = picture(manifold.ARTIFACT, [(piece, Result(values))])
    assert shown.rows[0][:3] == ("swiss_roll", "bandana", 0)


def test_the_legend_of_the_club_gives_no_group_a_colour_and_says_what_colours_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(karate, "layout", dots)
    marks = karate._group_marks()
    assert [mark.get_label() for mark in marks] == ["others", *karate.GROUPS]
    assert {mark.get_markerfacecolor() for mark in marks} == {"white"}
    assert len({mark.get_marker() for mark in marks}) == 4
    pieces = karate.ARTIFACT.pieces(Scope(quick=True))
    drawn = picture(karate.ARTIFACT, [(piece, Result(made_up_values(piece))) for piece in pieces]).svg
    assert "colour: class of a node" in drawn
    assert "form: its group" in drawn


def test_mates_and_similar_pairs_against_loops() -> None:
    z = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    group = (1, 4, 7)
    cosine = torch.nn.functional.cosine_similarity(z.unsqueeze(0), z.unsqueeze(1), dim=2)
    hits = 0
    for node in group:
        others = sorted((j for j in range(9) if j != node), key=lambda j: -float(cosine[node, j]))
        hits += sum(j in group for j in others[:2])
    assert karate.mates(z, group) == pytest.approx(hits / 6)
    pairs = sorted(((i, j) for i in range(9) for j in range(i)), key=lambda pair: -float(cosine[pair]))
    found = {frozenset(pair) for pair in karate.most_similar(z, 5).t().tolist()}
    assert found == {frozenset(pair) for pair in pairs[:5]}


def test_only_discrete_masks_cut_nodes_off(hand_graph: GraphFactory) -> None:
    graph = hand_graph()
    assert karate.cut_off(graph, MaskConfig(), 0) == 1  # node 4 has no neighbour to begin with
    degrees, kept = (2, 2, 3, 1), 4 / 8
    expected = 1 + sum((1 - kept) ** degree for degree in degrees)
    assert karate.cut_off(graph, MaskConfig(distribution="bernoulli"), 0) == pytest.approx(expected, abs=0.25)


def shortened(piece: Piece) -> Piece:
    table = piece.arguments["experiment"]
    short = {**table, "training": {**table["training"], "epochs": 5}}
    return Piece(piece.work, {**piece.arguments, "experiment": short})


@pytest.mark.slow
def test_karate_under_three_masks() -> None:
    pieces = list(map(shortened, karate.ARTIFACT.pieces(Scope(quick=True))))
    shown = picture(karate.ARTIFACT, [(piece, Result(perform(piece))) for piece in pieces])
    assert [row[0] for row in shown.rows] == list(karate.MASKS)
    assert any("That bandwidths hold them together best is" in note for note in shown.notes)
