"""What every method says about itself, and that each of its options does something."""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from tomllib import loads
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor

from bandana.config import patch, to_table, to_toml
from bandana.graph import Graph
from bandana.method import Method
from bandana.training.trainer import TrainingConfig, pretrain

Path = tuple[str, ...]


def test_configuration_has_defaults_and_is_frozen(cls: type[Method]) -> None:
    config = cls.Config()
    assert config == cls.Config()
    for table in [config, *(getattr(config, f.name) for f in fields(config) if is_dataclass(getattr(config, f.name)))]:
        for field in fields(table):
            with pytest.raises(FrozenInstanceError):
                setattr(table, field.name, None)


def test_configuration_survives_the_way_to_a_file_and_back(cls: type[Method]) -> None:
    for config in [cls.Config(), *(changed for _, changed in neighbours(cls.Config()))]:
        assert patch(cls.Config(), loads(to_toml(to_table(config)))) == config


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_no_number_may_be_nan_or_infinite(cls: type[Method], wrong: float) -> None:
    """NaN passes every rule that is written as ``x < 0``."""
    accepted = [option for option, build in fractions(cls.Config()) if survives(build, wrong)]
    assert not accepted


def fractions(config: Any, place: str = "") -> Iterator[tuple[str, Callable[[float], Any]]]:
    """Every option that takes a fraction, with a function that builds the whole configuration with another."""
    for field in fields(config):
        value, hint = getattr(config, field.name), get_type_hints(type(config))[field.name]
        for option, change in fractions(value, f"{place}{field.name}.") if is_dataclass(value) else ():
            yield option, lambda new, name=field.name, change=change: replace(config, **{name: change(new)})
        if hint is float or (get_origin(hint) in (Union, UnionType) and float in get_args(hint)):
            yield place + field.name, lambda new, name=field.name: replace(config, **{name: new})
        if isinstance(value, tuple) and any(isinstance(item, float) for item in value):
            first = f"{place}{field.name}[0]"
            yield first, lambda new, name=field.name, rest=value[1:]: replace(config, **{name: (new, *rest)})


def survives(build: Callable[[float], Any], value: float) -> bool:
    try:
        build(value)
    except ValueError:
        return False
    return True


def test_options_are_explained(cls: type[Method]) -> None:
    assert cls.Config.__doc__
    assert not cls.Config.__doc__.startswith(f"{cls.Config.__name__}("), "that is the text dataclass writes by itself"


def test_facts_are_filled_in(cls: type[Method]) -> None:
    facts = cls.facts
    assert facts.family.strip()
    assert facts.cost.startswith("O(")
    assert 1950 < facts.year < 2100
    assert str(facts.year) in facts.paper
    assert facts.tasks
    assert set(facts.tasks) <= {"node", "link"}


def test_docstrings_tell_the_idea_the_paper_and_the_deviations(cls: type[Method]) -> None:
    text = sys.modules[cls.__module__].__doc__ or ""
    for part in ("Idea.", "Equations", "Paper: ", "Deviations: "):
        assert part in text, part
    first_author = cls.facts.paper.split()[0].strip(",")
    assert first_author in text
    assert str(cls.facts.year) in text
    assert cls.__doc__
    assert cls.__doc__ != Method.__doc__


def test_every_option_does_something(
    cls: type[Method], build: Callable[..., Method], random_graph: Callable[..., Graph]
) -> None:
    """Change one option, alone or next to one other: shapes, losses or embeddings must follow."""
    graph = random_graph(20, 60)
    known: dict[Any, list[Tensor]] = {}

    def outcome(config: Any) -> list[Tensor]:
        if config not in known:
            method = build(cls, graph, config=config)
            schedule = TrainingConfig(epochs=2, lr=0.01, evaluate_every=1)
            losses = [row["loss"] for row in pretrain(method, graph, schedule, seed=0).history]
            with torch.no_grad():
                known[config] = [torch.tensor(losses), method.embed(graph), *method.parameters()]
        return known[config]

    def matters(path: Path) -> bool:
        default = cls.Config()
        others = [(other, changed) for other, changed in neighbours(default) if other != path]
        others.sort(key=lambda other: other[0][:-1] != path[:-1])  # the one that awakens it is mostly of its own table
        bases = [default, *(changed for _, changed in others)]
        pairs = ((base, changed) for base in bases for where, changed in neighbours(base) if where == path)
        return any(differ(outcome(base), outcome(changed)) for base, changed in pairs)

    dead = [".".join(path) for path in dict.fromkeys(path for path, _ in neighbours(cls.Config())) if not matters(path)]
    assert not dead
    assert {path for path, _ in neighbours(cls.Config())} == set(leaves(cls.Config()))


def differ(first: list[Tensor], second: list[Tensor]) -> bool:
    return len(first) != len(second) or not all(a.equal(b) for a, b in zip(first, second, strict=True))


def leaves(config: Any, path: Path = ()) -> Iterator[Path]:
    for field in fields(config):
        value = getattr(config, field.name)
        yield from leaves(value, (*path, field.name)) if is_dataclass(value) else [(*path, field.name)]


def neighbours(config: Any) -> Iterator[tuple[Path, Any]]:
    """Every configuration that differs in one option and that the configuration's own rules allow."""
    hints = get_type_hints(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            changes = ((path, inner) for path, inner in neighbours(value))
        else:
            changes = (((), other) for other in other_values(value, hints[field.name]))
        for path, other in changes:
            try:
                yield (field.name, *path), replace(config, **{field.name: other})
            except ValueError:
                continue


def other_values(value: Any, hint: Any) -> list[Any]:
    if get_origin(hint) in (Union, UnionType) and type(None) in get_args(hint):
        (hint,) = (member for member in get_args(hint) if member is not type(None))
        value = {int: 0, float: 0.0}.get(hint, value)
    if get_origin(hint) is Literal:
        return [choice for choice in get_args(hint) if choice != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value / 2, value + 0.5]
    if isinstance(value, tuple):
        return [(1,), (2,), (0.5,), tuple(item / 2 for item in value)]
    if isinstance(value, str):
        return [f"{value}x"]
    return [1, 0.5, "x"]
