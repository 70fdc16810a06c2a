"""Strict configuration: frozen dataclasses patched by plain tables, with the dotted path in every complaint.

Loading always means patching a default *instance*, never building a class from scratch, so that a method's own
defaults for a shared part survive. Unknown keys and wrong types are refused.
"""

import json
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import accumulate
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from bandana.errors import UserError, did_you_mean

T = TypeVar("T")


def patch(default: T, changes: Mapping[str, Any], path: str = "") -> T:
    """A copy of `default` with `changes` applied, field by field and into nested configurations.

    Raises:
        UserError: A key does not exist, or a value does not fit the field's type or the configuration's own rules.
    """
    hints = get_type_hints(type(default))
    names = {field.name for field in fields(default)}  # type: ignore[arg-type]
    new: dict[str, Any] = {}
    for key, value in changes.items():
        here = f"{path}{key}"
        if key not in names:
            raise UserError(f"{here}: there is no such option. {did_you_mean(str(key), names)}")
        current = getattr(default, key)
        if is_dataclass(current) and isinstance(value, Mapping):
            new[key] = patch(current, value, f"{here}.")
        elif is_dataclass(current) and not isinstance(value, type(current)):
            raise UserError(f"{here}: must be {_spoken(type(current))}, got {value!r}.")
        else:
            new[key] = fit(value, hints[key], here)
    try:
        return replace(default, **new)  # type: ignore[type-var]
    except ValueError as broken_rule:
        raise UserError(f"{path}{broken_rule}") from None


def to_table(config: Any) -> dict[str, Any]:
    """The configuration as nested plain values, ready for `write_toml`.

    Fields that are None are left out, and so are parts that have no others.
    """
    table: dict[str, Any] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        inner = to_table(value) if is_dataclass(value) else value
        if inner is not None and (inner != {} or not fields(value)):
            table[field.name] = inner
    return table


def nest(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """Turn ``{"a.b": 1}`` into ``{"a": {"b": 1}}``.

    Raises:
        UserError: A name is given a value and is also part of a longer name, or these are no names and values at all.
    """
    if not isinstance(dotted, Mapping) or not all(isinstance(name, str) for name in dotted):
        raise UserError(f'Options: must be a table of dotted names, such as {{"training.lr": 0.01}}, got {dotted!r}.')
    table: dict[str, Any] = {}
    for path, value in dotted.items():
        *parents, leaf = path.split(".")
        inner = table
        for parent, whole in zip(parents, accumulate(parents, "{}.{}".format), strict=True):
            if whole in dotted:
                raise UserError(f"{whole}: is set as a whole and in part, by {path!r}; keep one of the two.")
            inner = inner.setdefault(parent, {})
        inner[leaf] = value
    return table


def parse_assignment(text: str) -> tuple[str, Any]:
    """Read one ``--set key=value``; the value is TOML, and a bare word is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set {text!r}: write key=value, for example --set training.epochs=200.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except ValueError:  # TOML that is none, or a number with more digits than Python reads
        return key.strip(), value.strip()


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a missing or broken one is the user's to mend."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; correct the path.") from None
    except (OSError, ValueError) as problem:
        raise UserError(f"{path}: cannot be read as TOML ({problem}).") from None


def to_toml(table: Mapping[str, Any], prefix: str = "") -> str:
    """Write nested plain values as TOML: scalars first, then one section per nested table."""
    lines = [f"{key} = {_literal(value)}" for key, value in table.items() if not isinstance(value, Mapping)]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{prefix}{key}]", to_toml(value, f"{prefix}{key}.")]
    return "\n".join(lines).strip("\n") + ("\n" if not prefix else "")


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # A JSON string is a TOML string, except that TOML wants DEL escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)


def fit(value: Any, hint: Any, path: str) -> Any:
    """`value` if it fits the annotation, with harmless conversions: numpy's numbers, int to float, list to tuple.

    Raises:
        UserError: It does not fit.
    """
    origin, choices = get_origin(hint), get_args(hint)
    if getattr(value, "shape", None) == ():
        value = value.item()  # a number of numpy, as scikit-learn's searches draw them
    if origin is Literal:
        if any(isinstance(value, type(choice)) and value == choice for choice in choices):
            return value
        names = [str(choice) for choice in choices]
        raise UserError(f"{path}: {value!r} is not a choice. {did_you_mean(str(value), names)}")
    if origin in (Union, UnionType):
        for choice in choices:
            try:
                return fit(value, choice, path)
            except UserError:
                continue
        raise UserError(f"{path}: must be {_spoken(hint)}, got {value!r}.")
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{path}: must be a list, got {value!r}.")
        if len(choices) == 2 and choices[1] is Ellipsis:
            return tuple(fit(item, choices[0], f"{path}[{i}]") for i, item in enumerate(value))
        if len(value) != len(choices):
            raise UserError(f"{path}: must be a list of {len(choices)} values, got {value!r}.")
        return tuple(
            fit(item, choice, f"{path}[{i}]") for i, (item, choice) in enumerate(zip(value, choices, strict=True))
        )
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return _as_float(value, path)
    if hint is not Any and (not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)):
        raise UserError(f"{path}: must be {_spoken(hint)}, got {value!r}.")
    return value


def _as_float(value: int, path: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"{path}: must be a number up to {sys.float_info.max:.1e}, got a larger one.") from None


def _spoken(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_spoken(choice) for choice in get_args(hint))
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return "a list"
    if is_dataclass(hint):
        return "a table of options"
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "nothing"}.get(
        hint, str(hint)
    )
