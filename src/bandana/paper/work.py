"""Kinds of work by name: plain functions from a piece's arguments to plain values, each registered where it is written.

A piece travels to another process, and into a file, as the name of its kind and its arguments. So nothing else may
decide what comes out: not the time of day, not a global, not an open file.
"""

import ast
import hashlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import getsourcefile
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import torch

import bandana
from bandana.devices import resolve_device
from bandana.errors import UserError, did_you_mean
from bandana.paper.artifact import Piece

Function: TypeAlias = Callable[[Mapping[str, Any], torch.device, Path | None], dict[str, Any]]
"""From a piece's arguments, a device and the folder with raw data to values as JSON has them."""

SOURCE = Path(bandana.__file__).parent
ROOMS_THAT_MATTER = (
    *("engine", "parts", "methods", "training", "evaluation", "data"),
    *("experiment.py", "graph.py", "method.py"),
)
"""Sources that may change any result. Those of ``bandana.paper`` may change only the kinds of work that import them."""


class Kind(NamedTuple):
    """A kind of work: what does it, and whether its values are about the device, such as times."""

    function: Function
    about_device: bool


_KINDS: dict[str, Kind] = {}


def work(name: str, *, about_device: bool = False) -> Callable[[Function], Function]:
    """Make the decorated function do the pieces whose kind is `name`.

    Args:
        name: Of the kind.
        about_device: The values say something about the device, so those of another device do not count as done.
    """

    def decorate(function: Function) -> Function:
        if name in _KINDS and _KINDS[name].function.__qualname__ != function.__qualname__:
            raise ValueError(f"two kinds of work are called {name!r}")
        _KINDS[name] = Kind(function, about_device)
        return function

    return decorate


def kind_of(name: str) -> Kind:
    """The kind of work called `name`.

    Raises:
        UserError: There is none.
    """
    modules()
    if name not in _KINDS:
        raise UserError(f"There is no kind of work {name!r}. {did_you_mean(name, _KINDS)}")
    return _KINDS[name]


@cache
def modules() -> tuple[ModuleType, ...]:
    """The modules of all tables, figures and checks, and of the work they share."""
    import_module("bandana.paper.pieces")
    found: list[ModuleType] = []
    for room in ("tables", "figures", "theory"):
        package = import_module(f"bandana.paper.{room}")
        found += [import_module(entry.name) for entry in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    return tuple(found)


def perform(piece: Piece, device: str, data_root: Path | None, threads: int | None) -> dict[str, Any]:
    """Do a piece; what a process that serves nothing else is asked for.

    Args:
        piece: What to do.
        device: ``auto``, ``cpu`` or ``cuda``.
        data_root: Where raw data lie.
        threads: Of torch; None leaves it alone.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    where = resolve_device(device)
    try:
        return kind_of(piece.work).function(piece.arguments, where, data_root)
    finally:
        if where.type == "cuda":
            torch.cuda.empty_cache()  # other processes share the device


@cache
def code_version(kind: str) -> str:
    """Changes with the package's version, and with every statement that may change what this kind of work gives."""
    files = [path for room in ROOMS_THAT_MATTER for path in _python_files(SOURCE / room)]
    own = Path(str(getsourcefile(kind_of(kind).function)))
    statements = [_statements(path) for path in [*files, *_with_imports(own)]]
    return hashlib.sha256("\n".join([bandana.__version__, *statements]).encode()).hexdigest()


def _with_imports(own: Path) -> list[Path]:
    """A file, and all files of ``bandana.paper`` that it imports, directly or by way of others of them."""
    found: set[Path] = set()
    left = [own]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _imports(path)
    return sorted(found)


def _imports(path: Path) -> list[Path]:
    """The files of ``bandana.paper`` that a file imports modules or names from."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    ours = [SOURCE.parent.joinpath(*name.split(".")) for name in names if name.startswith("bandana.paper.")]
    files = [file for place in ours for file in (place.with_suffix(".py"), place / "__init__.py")]
    return [file for file in files if file.is_file()]


def _python_files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


@cache
def _statements(path: Path) -> str:
    """A file without its comments and docstrings, which compute nothing."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return hashlib.sha256(_spelled(tree).encode()).hexdigest()


def _spelled(part: Any) -> str:
    """A syntax tree as text, the same for every version of Python: newer ones have more fields, which stay empty."""
    if isinstance(part, list):
        return f"[{', '.join(map(_spelled, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = [f"{name}={_spelled(value)}" for name, value in ast.iter_fields(part) if value is not None and value != []]
    return f"{type(part).__name__}({', '.join(fields)})"


def _is_text(line: Any) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
