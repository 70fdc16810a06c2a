"""Features of a new table in the columns that a model reads."""

import re
from collections.abc import Sequence

import torch

from bandana.engine.structure import build_structure
from bandana.errors import UserError
from bandana.graph import Features, SparseFeatures

_PLACE = re.compile(r"\[\d+\]$")


def columns_of(feature_names: Sequence[str]) -> frozenset[str]:
    """The columns of a table that features may have come from: ``city`` of ``city=Oslo``, ``v`` of ``v[3]``."""
    bare = {name for full in feature_names for name in (full, full.partition("=")[0], full.removesuffix(" missing"))}
    return frozenset(bare | {_PLACE.sub("", name) for name in bare})


def are_numbers(feature_names: Sequence[str]) -> bool:
    """Whether features are called by their places only, as those of an array are, so that there is nothing to match."""
    return tuple(feature_names) == tuple(map(str, range(len(feature_names))))


def places_of(names: Sequence[str], wanted: Sequence[str], place: str, *, by_entry: bool) -> list[int]:
    """The column that each feature has in the model. A category that nobody among the new has is not missing.

    Args:
        names: The features that were found.
        wanted: Those of the model, in order.
        place: What they were read from.
        by_entry: Whether what is not found is zero, as in a table with a row for each entry.

    Raises:
        UserError: The model does not know a feature, or lacks one.
    """
    known = {name: at for at, name in enumerate(wanted)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(
            f"{place}: the model has not seen the feature {unknown[0]!r} in training; correct it, or embed everything "
            f"anew to learn it."
        )
    categorical = {name.partition("=")[0] for name in names if "=" in name}
    present = set(names)
    for name in wanted:
        column = name.partition("=")[0].removesuffix(" missing")
        if not by_entry and name not in present and column not in categorical:
            raise UserError(f"{place}: has no feature {name!r}, which the model reads; add the column.")
    return [known[name] for name in names]


def spread(x: Features, places: Sequence[int], width: int) -> Features:
    """``[rows, width]`` with the columns of `x` at their places and zeros elsewhere, sparse where `x` is."""
    there = torch.tensor(places, dtype=torch.long)
    if isinstance(x, SparseFeatures):
        structure, order = build_structure(x.structure.row, there[x.structure.col], x.shape[0], width)
        return SparseFeatures(structure, x.values[order])
    matrix = x.new_zeros(x.shape[0], width)
    matrix[:, there] = x
    return matrix
