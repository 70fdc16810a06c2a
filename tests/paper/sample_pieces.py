"""Pieces of work on small data, and a plan for some of them."""

from pathlib import Path
from typing import Any

from bandana.config import to_table
from bandana.paper.artifact import Artifact, Piece, Scope
from bandana.paper.cache import Cache
from bandana.paper.cookbook import recipe
from bandana.paper.pieces import training
from bandana.paper.reproduce import Plan


def counted(name: str = "karate") -> Piece:
    return Piece("statistics", {"dataset": name})


def masked(seed: int) -> Piece:
    return Piece("mask-ratio", {"experiment": to_table(recipe("bandana", "karate", "node")), "seed": seed})


def trained(method: str = "bandana", dataset: str = "karate", seed: int = 0, **changes: Any) -> Piece:
    return training(recipe(method, dataset, "node", changes), seed)


def plan(tmp_path: Path, *pieces: Piece, **more: Any) -> Plan:
    artifact = Artifact(name="mine", kind="table", title="Mine", pieces=lambda scope: pieces, show=lambda results: [])
    return Plan(
        artifacts=[artifact], scope=Scope(), cache=Cache(tmp_path / "cache", "cpu", None), out=tmp_path / "out", **more
    )
