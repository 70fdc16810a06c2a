"""Finds methods by name. A method registers itself in its own file; there is no list to keep."""

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

from bandana.errors import UserError, did_you_mean
from bandana.method import Method

_METHODS: dict[str, type[Method]] = {}
_M = TypeVar("_M", bound=type[Method])


def register(name: str) -> Callable[[_M], _M]:
    """Make the decorated `Method` available as `name` on the command line and in recipes."""

    def decorate(cls: _M) -> _M:
        if name in _METHODS and _METHODS[name] is not cls:
            raise ValueError(
                f"two methods are registered as {name!r}: {_METHODS[name].__qualname__}, {cls.__qualname__}"
            )
        _METHODS[name] = cls
        return cls

    return decorate


def all_methods() -> dict[str, type[Method]]:
    """Every method of the package by name, in alphabetical order."""
    package = import_module("bandana.methods")
    for module in pkgutil.iter_modules(package.__path__, prefix="bandana.methods."):
        import_module(module.name)
    return dict(sorted(_METHODS.items()))


def get_method(name: str) -> type[Method]:
    """The method called `name`.

    Raises:
        UserError: There is none.
    """
    methods = all_methods()
    if name not in methods:
        raise UserError(f"There is no method {name!r}. {did_you_mean(str(name), methods)}")
    return methods[name]
