"""Recipes: a method's settings for a data set and task, each value with its source, as TOML under ``recipes/``."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from bandana.config import nest, patch, read_toml
from bandana.errors import UserError, did_you_mean
from bandana.experiment import Experiment, Task
from bandana.registry import get_method


class Recipe(NamedTuple):
    """Dotted options with their values, and where each value comes from."""

    values: dict[str, Any]
    sources: dict[str, str]


def recipe(method: str, dataset: str, task: Task, changes: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment that the method's recipe describes, with `changes` (dotted options) on top.

    Raises:
        UserError: An unknown method, task, option or value.
    """
    default = Experiment(method=method, dataset=dataset, task="node", model=get_method(method).Config())
    values = load_recipe(method, dataset, task).values | {"task": task}
    return patch(patch(default, nest(values)), nest(changes or {}))


def load_recipe(method: str, dataset: str, task: str) -> Recipe:
    """The recipe for one cell; a data set without one of its own gets the task's defaults.

    Raises:
        UserError: The method has no recipe for this task.
    """
    book = read_toml(Path(str(files("bandana.paper") / "recipes" / f"{method}.toml")))
    tasks = book.keys() - {"sources"}
    if task not in tasks:
        raise UserError(f"--task: {method} has no recipe for {task!r}. {did_you_mean(task, tasks)}")
    entries = {**book[task]["defaults"], **book[task].get(dataset, {})}
    values = {option: value for option, (value, _) in entries.items()}
    return Recipe(values, {option: book["sources"][source] for option, (_, source) in entries.items()})
