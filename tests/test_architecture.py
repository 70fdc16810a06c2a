"""The directions in which rooms may know each other, read from the source without running it."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import bandana

SOURCE = Path(bandana.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST_FILE = 300

MAY_IMPORT = {
    "errors": set(),
    "engine": {"engine", "errors"},
    "graph": {"engine", "graph_checks", "errors"},
    "graph_checks": {"errors"},
    "method": {"engine", "graph", "errors"},
    "config": {"errors"},
    "files": {"errors"},
    "registry": {"method", "errors"},
    "parts": {"parts", "engine", "graph", "method", "errors"},
    "methods": {"parts", "engine", "graph", "method", "registry", "errors"},
}
"""The rooms that know only what is listed. A method that imported a sibling would import ``methods``."""

PIPELINE = {"data", "training", "evaluation", "scale"}
ABOVE_THE_PIPELINE = {
    *(
        "methods",
        "registry",
        "experiment",
        "paper",
        "own",
        "model_folder",
        "estimator",
        "use",
        "tuning",
        "workers",
        "seeds",
    ),
    *("demo", "terminal", "cli", "__main__"),
}
COMMAND_LINE = {"cli", "terminal", "demo", "__main__"}
HEAVY = {"torch", "torch_geometric", "sklearn"}


def room(path: Path) -> str:
    """The first part below the package: a folder, or a file without its suffix."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a file's syntax tree, the module first."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported_modules(path: Path) -> Iterator[str]:
    """Absolute names of all modules that a file imports, wherever in the file the statement stands."""
    package = ("bandana", *path.relative_to(SOURCE).parent.parts)
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            origin = ".".join(filter(None, [base, node.module]))
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def imported_rooms(path: Path) -> set[str]:
    """The rooms of ours that a file imports from; ``from bandana import __version__`` is none."""
    ours = (name.split(".") for name in imported_modules(path) if name.startswith("bandana."))
    rooms = {parts[1] for parts in ours}
    return {name for name in rooms if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists()}


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_the_reader_sees_every_kind_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    for folder in ("methods", "data", "cli"):
        (tmp_path / folder).mkdir()
    text = """
import bandana.data.splits as splits
from bandana import cli, __version__
def late():
    from .sibling import thing
    from .. import data
"""
    file = tmp_path / "methods" / "mine.py"
    file.write_text(text)
    assert imported_rooms(file) == {"data", "cli", "methods"}
    harmless = tmp_path / "methods" / "harmless.py"
    harmless.write_text("from bandana import __version__\nimport torch\n")
    assert imported_rooms(harmless) == set()


@pytest.mark.parametrize("path", [path for path in FILES if room(path) in MAY_IMPORT], ids=named)
def test_lower_rooms_know_only_what_they_may(path: Path) -> None:
    assert imported_rooms(path) - MAY_IMPORT[room(path)] == set()


@pytest.mark.parametrize("path", [path for path in FILES if room(path) in PIPELINE], ids=named)
def test_the_pipeline_knows_no_method_and_nobody_who_runs_it(path: Path) -> None:
    assert imported_rooms(path) & ABOVE_THE_PIPELINE == set()


@pytest.mark.parametrize("path", FILES, ids=named)
def test_only_the_command_line_knows_the_command_line(path: Path) -> None:
    packages = {name.split(".")[0] for name in imported_modules(path)}
    assert "typer" not in packages or room(path) == "cli"
    assert not imported_rooms(path) & COMMAND_LINE or room(path) in COMMAND_LINE


@pytest.mark.parametrize("path", FILES, ids=named)
def test_files_are_short_named_for_something_and_never_print(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE
    assert path.stem not in {"utils", "util", "helpers", "misc", "common"}
    calls = [node.func for node in nodes(path) if isinstance(node, ast.Call)]
    assert not any(isinstance(function, ast.Name) and function.id == "print" for function in calls)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    module = nodes(path)[0]
    assert isinstance(module, ast.Module)
    assert ast.get_docstring(module)


HELP = """
import sys
sys.argv = ["bandana", "--help"]
from bandana.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


@pytest.mark.parametrize("program", ["import bandana", HELP], ids=["import bandana", "bandana --help"])
def test_starting_loads_nothing_heavy(program: str) -> None:
    report = "\nimport sys\nsys.stderr.write(' '.join({name.split('.')[0] for name in sys.modules}))\n"
    search = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program + report],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": search},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "bandana" in loaded
    assert not HEAVY & loaded


def test_public_names_can_be_imported() -> None:
    assert all(getattr(bandana, name) is not None for name in bandana.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bandana.nothing
