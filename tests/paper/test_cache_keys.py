"""Keys of what was computed before: equal for equal work, and other with settings, data, code and device."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sample_pieces import counted, trained

from bandana.data.datasets import Dataset, load
from bandana.graph import SparseFeatures
from bandana.paper import cache as caching
from bandana.paper import cookbook, work
from bandana.paper.artifact import Piece, Scope
from bandana.paper.cache import Cache
from bandana.paper.catalogue import artifacts
from bandana.paper.cookbook import Recipe, load_recipe
from bandana.paper.work import _statements, code_version


def test_a_key_is_that_of_the_content_and_not_of_the_way_it_is_written(tmp_path: Path) -> None:
    cache = Cache(tmp_path, "cpu", None)
    key = cache.key(Piece("heuristics", {"dataset": "karate", "seed": 0}))
    assert key == cache.key(Piece("heuristics", {"seed": 0, "dataset": "karate"}))
    assert cache.key(Piece("heuristics", {"dataset": "karate", "seed": 1})) != key
    assert cache.key(Piece("statistics", {"dataset": "karate", "seed": 0})) != key
    assert cache.key(Piece("heuristics", {"dataset": "digits", "seed": 0})) != key
    sent = json.loads(json.dumps(trained().arguments, default=list))
    assert cache.key(Piece("experiment", sent)) == cache.key(trained())


def test_a_key_changes_with_data_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, piece = Cache(tmp_path, "cpu", None), counted()
    before = cache.key(piece)
    monkeypatch.setattr(caching, "content_of", lambda dataset, root: "other edges")
    with_other_data = cache.key(piece)
    monkeypatch.undo()
    monkeypatch.setattr(caching, "code_version", lambda kind: "other statements")
    assert len({before, with_other_data, cache.key(piece)}) == 3


def test_only_what_is_about_the_device_depends_on_it(tmp_path: Path) -> None:
    cpu, gpu = Cache(tmp_path, "cpu", None), Cache(tmp_path, "cuda", None)
    assert cpu.key(counted()) == gpu.key(counted())
    timed = Piece("growth", {"component": "total", "variable": "n", "base": [1, 1, 1, 1], "doublings": 2})
    assert cpu.key(timed) != gpu.key(timed)


def test_comments_and_docstrings_are_no_statements(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.py" for name in "abc"]
    files[0].write_text('"""One."""\ndef f(x):\n    """Two."""\n    return x  # three\n')
    files[1].write_text("def f( x ):\n    return x\n")
    files[2].write_text("def f(x):\n    return -x\n")
    same, also_same, other = map(_statements, files)
    assert same == also_same != other


def test_fields_that_a_newer_python_leaves_empty_are_no_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{name}.py" for name in "ab"]
    for file in files:
        file.write_text("def f(x):\n    return None, 0, x\n")
    older = _statements(files[0])
    monkeypatch.setattr(ast.FunctionDef, "_fields", (*ast.FunctionDef._fields, "defined_later"))
    monkeypatch.setattr(ast.FunctionDef, "defined_later", [], raising=False)
    assert _statements(files[1]) == older


@pytest.mark.parametrize("name", ["mask-ratios", "entropy", "karate", "manifold"])
def test_a_key_changes_with_the_recipe(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, pieces = Cache(tmp_path, "cpu", None), artifacts()[name].pieces
    before = list(map(cache.key, pieces(Scope(quick=True))))

    def other(method: str, dataset: str, task: str, book: str | None = None) -> Recipe:
        found = load_recipe(method, dataset, task, book)
        return Recipe({**found.values, "training.lr": 0.123}, found.sources)

    monkeypatch.setattr(cookbook, "load_recipe", other)
    after = list(map(cache.key, pieces(Scope(quick=True))))
    same = [one == another for one, another in zip(before, after, strict=True)]
    assert sum(same) == (name == "entropy")  # weights of a GCN are degrees: no recipe is behind them


@pytest.mark.parametrize(
    ("kind", "module"),
    [("growth", "meters"), ("pretraining-cost", "meters"), ("check-score", "denoising"), ("manifold", "names")],
)
def test_a_key_changes_with_what_the_work_imports(kind: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version = code_version.__wrapped__
    before, statements = version(kind), _statements
    assert version(kind) == before
    monkeypatch.setattr(work, "_statements", lambda path: "other" if path.stem == module else statements(path))
    assert version(kind) != before
    monkeypatch.setattr(work, "_statements", lambda path: "other" if path.stem == "write_out" else statements(path))
    assert version(kind) == before


def test_imports_are_followed_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "SOURCE", tmp_path / "bandana")
    sources = {
        "a.py": "from bandana.paper.b import f\nimport bandana.paper.tables.c\nimport torch",
        "b.py": "def f():\n    from bandana.paper import a, d",
        "tables/__init__.py": "",
        "tables/c.py": "from bandana.engine import x",
        "d/__init__.py": "",
        "e.py": "",
    }
    for name, text in sources.items():
        path = tmp_path / "bandana" / "paper" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = work._with_imports(tmp_path / "bandana" / "paper" / "a.py")
    names = {path.relative_to(tmp_path / "bandana" / "paper").as_posix() for path in found}
    assert names == {"a.py", "b.py", "tables/c.py", "d/__init__.py"}


def test_a_sparse_feature_that_moves_to_another_node_changes_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do columns without any entry go unseen."""
    data = load("karate")

    def content(x: torch.Tensor) -> str:
        features = SparseFeatures.of(x)
        monkeypatch.setattr(caching, "load", lambda name, root: Dataset("karate", replace(data.graph, x=features)))
        return caching.content_of.__wrapped__("karate", None)

    x = torch.zeros(34, 9)
    x[0, 1] = x[1, 2] = 1.0
    moved = x.clone()
    moved[1, 1], moved[0, 1] = 1.0, 0.0
    assert SparseFeatures.of(moved).structure.col.equal(SparseFeatures.of(x).structure.col)
    wider = torch.cat([x, torch.zeros(34, 1)], dim=1)
    assert len({content(x), content(moved), content(wider)}) == 3
    assert content(x) == content(x.clone())
