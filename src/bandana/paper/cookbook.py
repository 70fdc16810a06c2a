"""Recipes: a method's settings for a data set and task, each value with its source, as TOML under ``recipes/``.

Beside the book of a method there may be others, such as ``bandana-tuned.toml``: their cells come on top of it.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from bandana.config import nest, patch, read_toml
from bandana.errors import UserError, did_you_mean
from bandana.experiment import Experiment, Task
from bandana.registry import get_method

UNNAMED = "own graph"
"""In place of a data set: what a recipe has for graphs of no particular name."""
RECIPES = Path(str(files("bandana.paper") / "recipes"))


class Recipe(NamedTuple):
    """Dotted options with their values, and where each value comes from."""

    values: dict[str, Any]
    sources: dict[str, str]


def recipe(
    method: str, dataset: str, task: Task, changes: Mapping[str, Any] | None = None, *, book: str | None = None
) -> Experiment:
    """The experiment that the method's recipe describes, with `changes` (dotted options) on top.

    Args:
        method: Name in the registry.
        dataset: Name of a data set.
        task: What to do with it.
        changes: Dotted options that have the last word.
        book: Another book to take the cell from, see `load_recipe`.

    Raises:
        UserError: An unknown method, task, book, option or value.
    """
    default = Experiment(method=method, dataset=dataset, task="node", model=get_method(method).Config())
    values = load_recipe(method, dataset, task, book).values | {"task": task}
    return patch(patch(default, nest(values)), nest(changes or {}))


def load_recipe(method: str, dataset: str, task: str, book: str | None = None) -> Recipe:
    """The recipe for one cell; a data set without one of its own gets the task's defaults.

    Args:
        method: Name in the registry.
        dataset: Name of a data set.
        task: node or link.
        book: A book whose cell comes on top: ``tuned``, or a file such as the ``recipe.toml`` of ``bandana tune``.

    Raises:
        UserError: The method has no recipe for this task, or the book no such cell.
    """
    table = _shipped_book(method)
    tasks = table.keys() - {"sources"}
    if task not in tasks:
        raise UserError(f"--task: {method} has no recipe for {task!r}. {did_you_mean(task, tasks)}")
    general, own = (_sourced(table, task, cell, f"{method}.toml") for cell in ("defaults", dataset))
    entries = {**general, **own, **({} if book is None else _cell_of(method, dataset, task, book))}
    return Recipe(
        {option: value for option, (value, _) in entries.items()},
        {option: source for option, (_, source) in entries.items()},
    )


def has_cell(method: str, dataset: str, task: str, book: str) -> bool:
    """Whether a book that comes with the package has settings for this data set and task."""
    return dataset in read_toml(RECIPES / f"{method}-{book}.toml").get(task, {})


@cache
def _shipped_book(method: str) -> Mapping[str, Any]:
    """The book that comes with the package; tables of many cells ask for it again and again."""
    return read_toml(RECIPES / f"{method}.toml")


def _cell_of(method: str, dataset: str, task: str, book: str) -> dict[str, tuple[Any, str]]:
    path = Path(book) if book.endswith(".toml") else RECIPES / f"{method}-{book}.toml"
    if path.parent == RECIPES and not path.exists():
        raise UserError(f"--recipe: {method} has no book {book!r}. Make a cell with bandana tune, and give its file.")
    table = read_toml(path)
    found = _sourced(table, task, dataset, book)
    if not found:
        cells = [f"{name} {of}" for of in ("node", "link") for name in table.get(of, {})]
        raise UserError(
            f"--recipe {book}: has no {task} recipe for {dataset}, only for: {', '.join(cells) or 'nothing'}. "
            f"Make one with: bandana tune {method} {dataset} --task {task}"
        )
    return found


def _sourced(table: Mapping[str, Any], task: str, cell: str, place: str) -> dict[str, tuple[Any, str]]:
    """The options of a cell, each with its value and the sentence that its source stands for."""
    try:
        entries = table.get(task, {}).get(cell, {}).items()
        return {option: (value, table["sources"][source]) for option, (value, source) in entries}
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise UserError(
            f"{place}: [{task}.{cell}] must have lines of the form option = [value, source], each source named under "
            f"[sources] ({problem!r})."
        ) from None
