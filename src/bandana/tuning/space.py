"""What a search may vary: dotted options with their ranges, as TOML under ``paper/spaces`` or from the user.

A file has a section ``[every]`` and one for each purpose, whose entries come on top of it. An entry is one of::

    "model.encoder.num_layers" = { int = [1, 4] }
    "model.encoder.dropout" = { float = [0.0, 0.8] }
    "training.lr" = { log = [1e-4, 3e-2] }
    "model.encoder.width" = { choice = [64, 128, 256] }
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bandana.config import read_toml
from bandana.data.datasets import find_dataset
from bandana.errors import UserError, did_you_mean

Purpose: TypeAlias = Literal["node", "link", "own"]
"""Classifying nodes, predicting links, or somebody's own graph, where the size of the vectors is not to be touched."""
SECTIONS = ("every", "node", "link", "own")
KINDS = ("int", "float", "log", "choice")
MAY_VARY: Mapping[Purpose, tuple[str, ...]] = {
    "node": ("model", "copies", "training", "features", "monitor", "readout", "probe"),
    "link": ("model", "copies", "training", "features", "readout"),
    "own": ("model", "training", "features"),
}
"""Anything else, such as the split, would change what the trials are compared by."""
SIGNIFICANT_DIGITS = 3
SKIP = "readout.skip"


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers from `low` to `high`, both included: whole ones, or fractions, even on a logarithmic scale."""

    low: float
    high: float
    whole: bool = False
    log: bool = False

    def holds(self, value: Any) -> bool:
        number = isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high

    def nearest(self, value: float) -> float:
        """The value, or the end that it lies beyond: no weight decay is about as good as the least."""
        return min(max(value, self.low), self.high)

    def rounded(self, value: float) -> float:
        """A fraction with as many digits as matter, so that a recipe can be read; whole numbers stay."""
        return value if self.whole else self.nearest(float(f"{value:.{SIGNIFICANT_DIGITS}g}"))

    def ends(self) -> tuple[float, float]:
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class OneOf:
    """Some values, in no order."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        return self.place(value) is not None

    def place(self, value: Any) -> int | None:
        """Where the value stands; a list and a tuple of the same things are the same."""
        plain = _plain(value)
        return next((place for place, known in enumerate(self.values) if _plain(known) == plain), None)


Dimension: TypeAlias = Interval | OneOf
Space: TypeAlias = dict[str, Dimension]


def default_space(method: str, purpose: Purpose) -> Space:
    """The space that comes with the package for a method.

    Raises:
        UserError: There is none, as for a method that learns nothing.
    """
    books = {path: read_toml(path) for path in sorted(Path(str(files("bandana.paper") / "spaces")).glob("*.toml"))}
    for path, table in books.items():
        if method in table["methods"]:
            return parse_space({key: value for key, value in table.items() if key != "methods"}, purpose, path.name)
    known = {name for table in books.values() for name in table["methods"]}
    otherwise = "leave out --tune" if purpose == "own" else "give a space with --space"
    raise UserError(f"{method}: has nothing to tune. {did_you_mean(method, known)} Or {otherwise}.")


def space_for(method: str, dataset: str, task: Literal["node", "link"]) -> Space:
    """The space that comes with the package, without options that a data set has nothing for.

    Raises:
        UserError: There is none, or no such data set.
    """
    info, space = find_dataset(dataset), default_space(method, task)
    nothing_but_nodes = info.features == info.nodes
    return without(space, [SKIP, f"{SKIP}_smoothing"]) if nothing_but_nodes else space


def read_space(path: Path, purpose: Purpose) -> Space:
    """A space from a file of the user's.

    Raises:
        UserError: The file is not there, or an entry is not as it must be.
    """
    return parse_space(read_toml(path), purpose, str(path))


def parse_space(table: Mapping[str, Any], purpose: Purpose, place: str) -> Space:
    """The sections that matter for a purpose, checked entry by entry."""
    for section, entries in table.items():
        if section not in SECTIONS:
            raise UserError(f"{place}: [{section}] is no section of a search space. {did_you_mean(section, SECTIONS)}")
        if not isinstance(entries, Mapping):
            raise UserError(f"{place}: {section} must be a section of options, got {entries!r}.")
    space: Space = {}
    for section in ("every", purpose):
        for option, entry in _flat(table.get(section, {})):
            space[option] = _dimension(entry, f"{place}: {option}")
    for option in space:
        if option.partition(".")[0] not in MAY_VARY[purpose]:
            allowed = ", ".join(MAY_VARY[purpose])
            raise UserError(f"{place}: {option} would change what trials are compared by; search only in: {allowed}.")
    if not space:
        raise UserError(f"{place}: has no option to search for this task; add some under [every] or [{purpose}].")
    return space


def without(space: Space, fixed: Collection[str]) -> Space:
    """The space without options that are set by hand: what somebody decided is not searched.

    Raises:
        UserError: Nothing is left.
    """
    left = {option: dimension for option, dimension in space.items() if option not in fixed}
    if not left:
        raise UserError(f"Every option that would be searched is set by hand ({', '.join(fixed)}); set fewer.")
    return left


def spoken(dimension: Dimension) -> dict[str, Any]:
    """The entry that describes a dimension, for records."""
    if isinstance(dimension, OneOf):
        return {"choice": list(dimension.values)}
    kind = "log" if dimension.log else "int" if dimension.whole else "float"
    return {kind: [dimension.low, dimension.high]}


def _flat(entries: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Dotted options and their entries, whether the dots are quoted in the file or not."""
    for key, entry in entries.items():
        if not isinstance(entry, Mapping) or not entry or set(entry) & set(KINDS):
            yield f"{path}{key}", entry
        else:
            yield from _flat(entry, f"{path}{key}.")


def _dimension(entry: Any, place: str) -> Dimension:
    if not isinstance(entry, Mapping) or len(entry) != 1 or not set(entry) <= set(KINDS):
        raise UserError(f"{place}: write {{ KIND = [...] }} with one of {', '.join(KINDS)}, got {entry!r}.")
    ((kind, values),) = entry.items()
    if not _fits(kind, values):
        raise UserError(f"{place}: {kind} needs {_needs(kind)}, got {values!r}.")
    if kind == "choice":
        return OneOf(tuple(values))
    low, high = values if kind == "int" else map(float, values)
    return Interval(low, high, whole=kind == "int", log=kind == "log")


def _fits(kind: str, values: Any) -> bool:
    if not isinstance(values, list) or len(values) < 2:
        return False
    if kind == "choice":
        return True
    numbers = int if kind == "int" else int | float
    if len(values) > 2 or not all(isinstance(end, numbers) and not isinstance(end, bool) for end in values):
        return False
    low, high = values
    return all(map(math.isfinite, values)) and low < high and (kind != "log" or low > 0)


def _needs(kind: str) -> str:
    return {
        "int": "two whole numbers, the smaller first",
        "float": "two numbers, the smaller first",
        "log": "two positive numbers, the smaller first",
        "choice": "a list of two values or more",
    }[kind]


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
