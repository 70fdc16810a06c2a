"""Model folders: what goes in comes out bit for bit, loading executes nothing, and everything else is refused."""

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bandana import model_folder
from bandana.data.features import Scaling
from bandana.errors import UserError
from bandana.graph import Graph
from bandana.method import GraphSpec
from bandana.own.card import model_card
from bandana.own.trained import TrainedModel, learns_single_nodes, nodes_fingerprint, weight_shapes
from bandana.registry import all_methods

METHODS = all_methods()


def model_of(name: str, graph: Graph, *, scaled: bool = False) -> TrainedModel:
    torch.manual_seed(0)
    config, spec = METHODS[name].Config(), GraphSpec.of(graph)
    method = METHODS[name](config, spec)
    method.prepare(graph)
    return TrainedModel(
        name=name,
        config=config,
        spec=spec,
        method=method,
        features="standardised" if scaled else "raw",
        scaling=Scaling.of(graph.x) if scaled else None,
        feature_names=("größe", "b"),
        nodes=nodes_fingerprint(graph) if learns_single_nodes(name, config, graph) else None,
        facts={"auc": 0.9},
    )


@pytest.fixture
def folder(tmp_path: Path, random_graph) -> Path:
    model_folder.save(tmp_path / "model", model_of("bandana", random_graph(), scaled=True))
    return tmp_path / "model"


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("num_features", [0, 6])
def test_every_method_comes_back_bit_for_bit(tmp_path: Path, random_graph, name: str, num_features: int) -> None:
    graph = random_graph(num_features=num_features)
    saved = model_of(name, graph)
    model_folder.save(tmp_path, saved)
    loaded = model_folder.load(tmp_path)
    assert loaded.embed(graph).equal(saved.embed(graph))
    for part in ("name", "config", "spec", "features", "feature_names", "nodes", "facts"):
        assert getattr(loaded, part) == getattr(saved, part)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "weights.safetensors"]


def test_a_card_stands_beside_the_model_and_tells_its_figures(tmp_path: Path, random_graph) -> None:
    model = model_of("bandana", random_graph())
    facts = {"nodes": 1234, "held-out links": {"auc": 0.87654}}
    model_folder.save(tmp_path, model, model_card(replace(model, facts=facts)))
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: bandana\n")
    assert "- nodes: 1,234" in card
    assert "- held-out links: AUC 0.877" in card
    assert "`größe`, `b`" in card
    assert "that it has never seen, from 6 features" in card
    assert "can embed only these" in model_card(model_of("bandana", random_graph(num_features=0)))
    assert model_folder.load(tmp_path).embed(random_graph()).equal(model.embed(random_graph()))


def test_the_scale_of_the_features_is_kept(folder: Path, random_graph) -> None:
    graph = random_graph()
    expected = (graph.x - graph.x.mean(0)) / graph.x.std(0, correction=0)
    torch.testing.assert_close(model_folder.load(folder).prepare(graph).x, expected)


@pytest.mark.parametrize("name", ["notes.txt", "README.md"])
def test_a_model_is_not_mixed_with_what_is_somebodys_own(tmp_path: Path, random_graph, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match=f"{name}: is no part of a model; choose an empty folder"):
        model_folder.save(tmp_path, model_of("bandana", random_graph()), "card")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_what_lies_beside_a_model_is_named_and_not_its_card(folder: Path, random_graph) -> None:
    (folder / "README.md").write_text("card")
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"notes\.txt: is no part of a model"):
        model_folder.save(folder, model_of("bandana", random_graph()), "card")


def test_a_constant_column_becomes_zero() -> None:
    x = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    assert Scaling.of(x).apply(torch.tensor([[3.0, 7.0]])).equal(torch.tensor([[1.0, 0.0]]))


@pytest.mark.parametrize("rows", range(1, 60, 7))
def test_what_is_constant_but_for_rounding_becomes_zero(rows: int) -> None:
    scaling = Scaling.of(torch.full((rows, 1), 0.1))
    assert scaling.apply(torch.tensor([[0.2], [0.1]])).equal(torch.zeros(2, 1))


def test_shapes_are_known_without_building(random_graph) -> None:
    spec = GraphSpec(num_nodes=10**12, num_features=10**6)
    config = METHODS["gae_tuned"].Config()
    assert weight_shapes("gae_tuned", config, spec)["nodes"] == (10**12, config.node_embedding)


def change(key: str, value: object) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "model.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))

    return apply


def encoder(**settings: int) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        config = json.loads((folder / "model.json").read_text())["config"]
        change("config", config | {"encoder": config["encoder"] | settings})(folder)

    return apply


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def truncate_weights(folder: Path) -> None:
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-5])


def other_numbers(folder: Path) -> None:
    path = folder / "weights.safetensors"
    save_file({name: tensor + 1 for name, tensor in load_file(path).items()}, path)


def extra_tensor(folder: Path) -> None:
    path = folder / "weights.safetensors"
    save_file(load_file(path) | {"method/more": torch.ones(1)}, path)


def lead_outside(folder: Path) -> None:
    (folder / "model.json").rename(folder.parent / "elsewhere.json")
    (folder / "model.json").symlink_to(folder.parent / "elsewhere.json")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "newer format": (change("format_version", 2), "format version 2"),
    "no version": (change("format_version", None), "format version None"),
    "another program's": (change("format", "other"), "does not describe a model of this package"),
    "a list": (write("model.json", b"[1]"), "does not describe a model"),
    "no JSON": (write("model.json", b"{"), "cannot be read as JSON"),
    "not UTF-8": (write("model.json", b"\xff\xfe"), "cannot be read as JSON"),
    "deep nesting": (write("model.json", b"[" * 200_000), "cannot be read as JSON"),
    "unknown method": (change("method", "bandanna"), "Did you mean 'bandana'"),
    "method of a wrong type": (change("method", ["bandana"]), "method is"),
    "unknown option": (change("config", {"wide": 3}), r"model\.json: config\.wide"),
    "wrong option": (change("config", {"decoder_width": "wide"}), r"config\.decoder_width"),
    "huge spec": (change("spec", {"num_nodes": 1, "num_features": 10**9}), "the two files are not of one model"),
    "negative spec": (change("spec", {"num_nodes": 1, "num_features": -3}), r"spec\.num_features: must be a count"),
    "spec beyond 64 bits": (change("spec", {"num_nodes": 10**30, "num_features": 6}), r"spec\.num_nodes: must be a"),
    "spec beyond memory": (change("spec", {"num_nodes": 1, "num_features": 1 << 62}), "no model can be built of these"),
    "endless width": (encoder(width=10**12), "the two files are not of one model"),
    "width beyond 64 bits": (encoder(width=10**30), "no model can be built of these settings"),
    "endless layers": (encoder(num_layers=1000), r"holds [\d,]+ numbers, and model\.json asks for more"),
    "unknown features": (change("features", "log"), "features is 'log'"),
    "scaling without numbers": (change("features", "raw"), "scaling/deviation has the shape"),
    "names of a wrong type": (change("feature_names", 3), "feature_names"),
    "facts of a wrong type": (change("facts", 3), "facts"),
    "nodes of a wrong type": (change("nodes", 3), "nodes"),
    "weights missing": (lambda folder: (folder / "weights.safetensors").unlink(), "weights.safetensors is missing"),
    "description missing": (lambda folder: (folder / "model.json").unlink(), "model.json is missing"),
    "truncated weights": (truncate_weights, "not a readable safetensors file"),
    "empty weights": (write("weights.safetensors", b""), "not a readable safetensors file"),
    "weights are a pickle": (write("weights.safetensors", pickle.dumps({"a": 1})), "pickles, are never opened"),
    "weights of another training": (other_numbers, "is not the file that model.json was written for"),
    "one tensor too many": (extra_tensor, "method/more has the shape"),
    "a pickle beside": (write("model.pkl", pickle.dumps(1)), "pickles, are never opened"),
    "a link that leads outside": (lead_outside, "leads out of the folder; put the file itself there"),
    "a torch file beside": (write("pytorch_model.bin", b"PK"), "does not belong to a model"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_or_foreign_folders_are_refused_in_one_sentence(folder: Path, damage: str) -> None:
    apply, message = DAMAGE[damage]
    apply(folder)
    with pytest.raises(UserError, match=message) as error:
        model_folder.load(folder)
    assert "\n" not in str(error.value)


class Trap:
    """Creates a folder when unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (os.environ["BANDANA_TRAP"],)


def test_loading_executes_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDANA_TRAP", str(tmp_path / "sprung"))
    (folder / "weights.safetensors").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(UserError):
        model_folder.load(folder)
    assert not (tmp_path / "sprung").exists()
    pickle.loads((folder / "weights.safetensors").read_bytes())
    assert (tmp_path / "sprung").exists()


def test_a_description_of_absurd_size_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "LARGEST_DESCRIPTION", 100)
    with pytest.raises(UserError, match="not read"):
        model_folder.load(folder)


def test_a_file_or_nothing_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file", "nowhere"):
        with pytest.raises(UserError, match="no such folder"):
            model_folder.load(tmp_path / place)


def test_half_of_a_new_model_does_not_pass_for_one(folder: Path, random_graph, monkeypatch) -> None:
    def interrupted(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(model_folder, "write_text", interrupted)
    other = model_of("bandana", random_graph(seed=1), scaled=True)
    with pytest.raises(KeyboardInterrupt):
        model_folder.save(folder, other)
    with pytest.raises(UserError, match="is not the file"):
        model_folder.load(folder)
